//! Real clients (libnbd, QEMU, fio, nbd-client) against this crate behind a small server in memory:
//! `cargo test -p wattio-nbd --test conformance_clients -- --ignored`. A client that is missing is
//! a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod clients;
mod disk;
mod fio;
mod libnbd;
mod server;
mod tls;

use clients::{complains, prints};
use serde_json::Value;
use server::Server;
use wattio_nbd::{BlockSize, Export, FastZero, Span, TlsPolicy};

const MIB: u64 = 1 << 20;

/// An export that offers everything, in blocks of `min_bytes`.
fn everything(name: &str, size_bytes: u64, min_bytes: u32) -> Export {
    Export {
        description: format!("the export {name}"),
        block_size: BlockSize { min_bytes, preferred_bytes: 4096, max_payload_bytes: 1 << 20 },
        can_multi_conn: true,
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        fast_zero: FastZero::Served,
        can_cache: true,
        can_block_status: true,
        ..Export::new(name, size_bytes)
    }
}

/// Bytes that differ from block to block, but for a quarter of zeroes.
fn sample(size_bytes: u64) -> Vec<u8> {
    let byte = |at: u64| {
        let is_hole = (size_bytes / 4..size_bytes / 2).contains(&at);
        if is_hole { 0 } else { (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 }
    };
    (0..size_bytes).map(byte).collect()
}

fn whole(size_bytes: u64) -> Span {
    Span { offset_bytes: 0, length_bytes: u32::try_from(size_bytes).unwrap() }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
#[ignore = "needs nbdinfo"]
fn nbdinfo_tells_what_is_exported() {
    let read_only = Export { is_read_only: true, ..everything("still", 2 * MIB, 512) };
    let server = Server::start(vec![everything("disk", MIB, 4096), read_only]);
    let listed = json(&prints("nbdinfo", &["--json", "--list", &server.uri("")]));
    let listed = listed["exports"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    for (export, size_bytes, min_bytes, writes) in
        [("disk", MIB, 4096, true), ("still", 2 * MIB, 512, false)]
    {
        let told = json(&prints("nbdinfo", &["--json", &server.uri(export)]));
        assert_eq!(told["protocol"], "newstyle-fixed");
        assert_eq!((&told["TLS"], &told["structured"]), (&false.into(), &true.into()));
        let [told] = &told["exports"].as_array().unwrap()[..] else { panic!("{told}") };
        assert!(listed.iter().any(|listed| listed["export-name"] == export));
        assert_eq!(told["export-name"], export);
        assert_eq!(told["description"], format!("the export {export}"));
        assert_eq!(told["export-size"], size_bytes);
        assert_eq!(told["block_size_minimum"], min_bytes);
        assert_eq!(told["block_size_preferred"], 4096);
        assert_eq!(told["block_size_maximum"], 1 << 20);
        assert_eq!(told["contexts"], json(r#"["base:allocation"]"#));
        let always = ["can_cache", "can_df", "can_flush", "can_fua", "can_multi_conn"];
        assert!(always.iter().all(|flag| told[flag] == true), "{told}");
        let writing = ["can_trim", "can_zero", "can_fast_zero"];
        assert!(writing.iter().all(|flag| told[flag] == writes), "{told}");
        assert_eq!(
            (&told["is_read_only"], &told["is_rotational"]),
            (&(!writes).into(), &false.into())
        );
    }
    let complaint = complains("nbdinfo", &[&server.uri("nothing")]);
    assert!(complaint.contains("No such file or directory for export: nothing"), "{complaint}");
}

#[test]
#[ignore = "needs nbdinfo"]
fn nbdinfo_maps_what_is_allocated() {
    let server = Server::start(vec![everything("disk", MIB, 512)]);
    server.disks[0].write(Span { offset_bytes: 8192, length_bytes: 4096 }, &[7; 4096]);
    server.disks[0].write(Span { offset_bytes: 65_536, length_bytes: 8192 }, &[7; 8192]);
    let told = json(&prints("nbdinfo", &["--json", "--map", &server.uri("disk")]));
    let told: Vec<_> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|extent| {
            let field = |name: &str| extent[name].as_u64().unwrap();
            (field("offset"), field("length"), field("type"))
        })
        .collect();
    let rest = (73_728, MIB - 73_728, 3);
    let expected = [(0, 8192, 3), (8192, 4096, 0), (12_288, 53_248, 3), (65_536, 8192, 0), rest];
    assert_eq!(told, expected);
}

#[test]
#[ignore = "needs nbdinfo"]
fn a_server_that_requires_tls_turns_others_away() {
    let server = Server::with(vec![everything("disk", MIB, 512)], TlsPolicy::Required, None);
    let complaint = complains("qemu-img", &["info", &server.uri("disk")]);
    assert!(complaint.contains("requires TLS"), "{complaint}");
    complains("nbdinfo", &[&server.uri("disk")]);
}

/// The reference implementation's client; one that lists exports needs no kernel module.
#[test]
#[ignore = "needs nbd-client"]
fn nbd_client_lists_exports() {
    let server = Server::start(vec![everything("disk", MIB, 512), Export::new("plain", MIB)]);
    let told = prints("nbd-client", &["-l", "-u", server.socket().to_str().unwrap()]);
    assert!(told.ends_with("\ndisk: the export disk\nplain\n"), "{told:?}");
}

#[test]
#[ignore = "needs nbdcopy"]
fn nbdcopy_copies_both_ways() {
    let size_bytes = 24 * MIB;
    let server = Server::start(vec![
        everything("one", size_bytes, 512),
        everything("two", size_bytes, 4096),
    ]);
    let (from, to) = (server.file("from"), server.file("to"));
    let sample = sample(size_bytes);
    std::fs::write(&from, &sample).unwrap();
    prints("nbdcopy", &[&from, &server.uri("one")]);
    assert!(server.disks[0].read(whole(size_bytes)) == sample);
    prints("nbdcopy", &["--connections=3", &server.uri("one"), &server.uri("two")]);
    assert!(server.disks[1].read(whole(size_bytes)) == sample);
    prints("nbdcopy", &["--synchronous", "--flush", &server.uri("two"), &to]);
    assert!(std::fs::read(&to).unwrap() == sample);
}

#[test]
#[ignore = "needs qemu-img"]
fn qemu_img_converts_and_compares() {
    let size_bytes = 16 * MIB;
    let server =
        Server::start(vec![everything("disk", size_bytes, 4096), Export::new("plain", size_bytes)]);
    let (raw, qcow2) = (server.file("raw"), server.file("qcow2"));
    let sample = sample(size_bytes);
    std::fs::write(&raw, &sample).unwrap();
    for (at, export) in ["disk", "plain"].into_iter().enumerate() {
        let uri = server.uri(export);
        let told = json(&prints("qemu-img", &["info", "--output=json", &uri]));
        assert_eq!(told["virtual-size"], size_bytes);
        prints("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &raw, &uri]);
        assert!(server.disks[at].read(whole(size_bytes)) == sample);
        let same = prints("qemu-img", &["compare", "-f", "raw", "-F", "raw", &raw, &uri]);
        assert!(same.contains("identical"), "{same}");
        prints("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &qcow2]);
        prints("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow2, &uri]);
    }
    let map =
        json(&prints("qemu-img", &["map", "--output=json", "-f", "raw", &server.uri("disk")]));
    let data: Vec<_> = map.as_array().unwrap().iter().map(|part| part["data"] == true).collect();
    assert_eq!(data, [true, false, true]);
    server.disks[0].write(Span { offset_bytes: 4096, length_bytes: 1 }, &[!sample[4096]]);
    let arguments = ["compare", "-f", "raw", "-F", "raw", &raw, &server.uri("disk")];
    assert_eq!(clients::run("qemu-img", &arguments).status.code(), Some(1));
}

#[test]
#[ignore = "needs qemu-io"]
fn qemu_io_writes_zeroes_and_discards() {
    let server = Server::start(vec![everything("disk", MIB, 4096)]);
    // QEMU makes writes that are not aligned into reads and writes of whole blocks.
    let commands = [
        "write -P 170 0 1M",
        "write -f -P 85 8192 4096",
        "aio_write -P 119 131072 65536",
        "aio_flush",
        "write -P 51 513 100",
        "write -z 16384 4096",
        "write -z -u 20480 4096",
        "discard 24576 8192",
        "flush",
        "read -P 170 0 513",
        "read -P 51 513 100",
        "read -P 85 8192 4096",
        "read -P 0 16384 16384",
        "read -P 119 131072 65536",
        "read -P 170 196608 851968",
    ];
    let uri = server.uri("disk");
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let told = prints("qemu-io", &arguments);
    assert!(!told.contains("failed") && !told.contains("error"), "{told}");
    let extents = server.disks[0].extents(Span { offset_bytes: 16_384, length_bytes: 16_384 });
    // Zeroes keep their blocks unless they may be unmapped.
    let holes: Vec<_> = extents.iter().map(|extent| extent.is_hole).collect();
    assert_eq!(holes, [false, true, true, true]);
}
