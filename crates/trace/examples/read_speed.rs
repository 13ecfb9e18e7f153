//! Prints how many records a second the readers take: one synthetic trace, in each written format.
//!
//! `cargo run --release -p wattio-trace --example read_speed`

use std::time::Instant;

use wattio_trace::{Format, Kind, Reader, Record, TraceError, write};

const RECORDS: u64 = 4_000_000;

fn main() -> Result<(), TraceError> {
    for format in Format::WRITABLE {
        let mut bytes = Vec::new();
        write(&mut (0..RECORDS).map(|index| Ok(record(index))), format, &mut bytes)?;
        let size_mib = bytes.len() as f64 / f64::from(1 << 20);
        let started = Instant::now();
        let mut count = 0u64;
        for record in Reader::from_bytes(bytes)? {
            count += u64::from(record?.bytes > 0);
        }
        let rate = count as f64 / started.elapsed().as_secs_f64();
        println!("{format:8} {:6.1} M records/s, {size_mib:6.1} MiB", rate / 1e6);
    }
    Ok(())
}

fn record(index: u64) -> Record {
    let scattered = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    Record {
        time_ns: index * 100_000 + scattered % 50_000 / 1000 * 1000,
        offset_bytes: scattered * 4096,
        bytes: 4096 << (scattered % 4),
        device: 0,
        kind: if scattered % 10 < 7 { Kind::Read } else { Kind::Write },
    }
}
