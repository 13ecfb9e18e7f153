//! fio's engine for NBD, which writes, reads back and compares checksums.

use crate::clients::{complains, prints};
use crate::server::Server;
use crate::{MIB, everything, json};
use wattio_nbd::Span;

#[test]
#[ignore = "needs fio with the engine nbd"]
fn fio_reads_back_what_it_wrote() {
    let server = Server::start(vec![everything("disk", 32 * MIB, 512)]);
    let (uri, told) = (format!("--uri={}", server.uri("disk")), server.file("told"));
    let output = format!("--output={told}");
    let load = [
        "--name=verified",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=512-64k",
        "--size=32M",
        "--iodepth=16",
        "--randseed=7",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        &output,
        "--output-format=json",
    ];
    prints("fio", &[&load[..], &["--do_verify=1"]].concat());
    let told = json(&std::fs::read_to_string(&told).unwrap());
    let job = &told["jobs"][0];
    assert_eq!(job["error"], 0);
    assert!(job["write"]["io_bytes"].as_u64().unwrap() >= 32 * MIB, "{job}");
    assert!(job["read"]["io_bytes"].as_u64().unwrap() >= 32 * MIB, "{job}");
    // That it compares: a byte that is changed behind its back is found.
    let span = Span { offset_bytes: 12_345, length_bytes: 1 };
    let byte = server.disks[0].read(span)[0];
    server.disks[0].write(span, &[!byte]);
    let complaint = complains("fio", &[&load[..], &["--verify_only=1"]].concat());
    assert!(complaint.contains("verify"), "{complaint}");
}
