//! libnbd by `nbdsh`, which can also be told to send what it should not.

use crate::clients::prints;
use crate::server::Server;
use crate::tls::{KEY, USER};
use crate::{MIB, everything, sample, whole};
use wattio_nbd::{Export, FastZero, Span, TlsPolicy};

/// What the scripts have in common; `refused` says which error a request brings.
const COMMON: &str = r#"
def connect(export="disk", structured=True, contexts=(), strict=True, flags=None):
    h = nbd.NBD()
    h.set_export_name(export)
    h.set_request_structured_replies(structured)
    for context in contexts:
        h.add_meta_context(context)
    if not strict:
        h.set_strict_mode(0)
    if flags is not None:
        h.set_handshake_flags(flags)
    h.connect_unix(socket)
    return h

def refused(request, *arguments, **named):
    try:
        request(*arguments, **named)
    except nbd.Error as error:
        return error.errno or str(error)
    return None

def expect(found, expected):
    assert found == expected, "%r instead of %r" % (found, expected)
"#;

fn nbdsh(server: &Server, script: &str) {
    let socket = server.socket();
    let script =
        format!("socket = {:?}\n{COMMON}\n{script}\nprint('done')", socket.to_str().unwrap());
    assert_eq!(prints("nbdsh", &["-n", "-c", &script]), "done\n");
}

#[test]
#[ignore = "needs nbdsh"]
fn structured_reads_come_in_chunks_or_in_one() {
    let server = Server::start(vec![everything("disk", MIB, 512)]);
    server.disks[0].write(Span { offset_bytes: 4096, length_bytes: 4096 }, &[7; 4096]);
    nbdsh(
        &server,
        r#"
h = connect()
assert h.get_structured_replies_negotiated()
chunks = []
def chunk(data, offset, status, error):
    chunks.append((len(data), offset, status))
data = h.pread_structured(12288, 0, chunk)
expect(bytes(data), bytes(4096) + b"\7" * 4096 + bytes(4096))
expect(chunks, [(4096, 0, nbd.READ_HOLE), (4096, 4096, nbd.READ_DATA), (4096, 8192, nbd.READ_HOLE)])
chunks.clear()
expect(bytes(h.pread_structured(12288, 0, chunk, nbd.CMD_FLAG_DF)), bytes(data))
expect(chunks, [(12288, 0, nbd.READ_DATA)])
h.shutdown()
"#,
    );
}

#[test]
#[ignore = "needs nbdsh"]
fn simple_replies_and_old_handshakes_serve_as_well() {
    let disk = everything("disk", MIB, 512);
    let server = Server::start(vec![disk, everything("other", 2 * MIB, 1)]);
    // Flags 0: neither fixed newstyle nor no zeroes, so EXPORT_NAME is all there is.
    nbdsh(
        &server,
        r#"
for structured, flags in [(False, None), (True, 0), (True, nbd.HANDSHAKE_FLAG_NO_ZEROES)]:
    h = connect(structured=structured, flags=flags)
    assert not h.get_structured_replies_negotiated()
    expect(h.get_protocol(), "newstyle" if flags is not None else "newstyle-fixed")
    expect(h.get_size(), 1 << 20)
    assert not h.can_df() and not h.can_meta_context("base:allocation")
    h.pwrite(b"\5" * 1024, 512)
    expect(bytes(h.pread(2048, 0)), bytes(512) + b"\5" * 1024 + bytes(512))
    h.zero(1024, 512)
    h.shutdown()
expect(refused(connect, "nothing", flags=0) is not None, True)
expect(refused(connect, "nothing"), "ENOENT")
expect(connect("other", flags=0).get_size(), 2 << 20)
"#,
    );
}

#[test]
#[ignore = "needs nbdsh"]
fn options_list_and_describe() {
    let server = Server::start(vec![everything("disk", MIB, 4096), Export::new("", 7)]);
    nbdsh(
        &server,
        r#"
h = nbd.NBD()
h.set_opt_mode(True)
h.set_full_info(True)
h.connect_unix(socket)
found = []
expect(h.opt_list(lambda name, description: found.append((name, description)) and 0), 2)
expect(found, [("disk", "the export disk"), ("", "")])
h.opt_info()
expect(h.get_size(), 7)
h.set_export_name("disk")
h.opt_info()
expect((h.get_size(), h.get_canonical_export_name()), (1 << 20, "disk"))
expect(h.get_export_description(), "the export disk")
expect(h.get_block_size(nbd.SIZE_MINIMUM), 4096)
expect(h.get_block_size(nbd.SIZE_MAXIMUM), 1 << 20)
both = ["base:allocation", "x-own:"]
for queries, names in [([], 1), (["base:"], 1), (both, 1), (["x-own:"], 0)]:
    h.clear_meta_contexts()
    for query in queries:
        h.add_meta_context(query)
    expect(h.opt_list_meta_context(lambda name: 0), names)
h.set_export_name("nothing")
expect(refused(h.opt_info), "ENOENT")
expect(refused(h.opt_go), "ENOENT")
h.set_export_name("disk")
h.opt_go()
assert h.can_fast_zero() and h.can_multi_conn()
h.shutdown()
h = nbd.NBD()
h.set_opt_mode(True)
h.connect_unix(socket)
h.opt_abort()
"#,
    );
}

#[test]
#[ignore = "needs nbdsh"]
fn tls_that_is_off_is_declined() {
    let server = Server::start(vec![everything("disk", MIB, 512)]);
    nbdsh(
        &server,
        r#"
h = nbd.NBD()
h.set_export_name("disk")
h.set_tls(nbd.TLS_ALLOW)
h.connect_unix(socket)
expect((h.get_tls_negotiated(), h.get_size()), (False, 1 << 20))
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
expect(refused(h.connect_unix, socket) is not None, True)
"#,
    );
}

#[test]
#[ignore = "needs nbdsh"]
fn tls_that_is_required_is_said_to_be() {
    let server = Server::with(vec![everything("disk", MIB, 512)], TlsPolicy::Required, None);
    nbdsh(
        &server,
        r#"
expect(refused(connect), "ENOTSUP")
expect(refused(connect, flags=0) is not None, True)
"#,
    );
}

/// Structured replies and contexts are negotiated inside of TLS, and data go through it.
#[test]
#[ignore = "needs nbdsh and openssl"]
fn tls_starts_and_serves() {
    // The server of this test runs it; where it is missing, this says so.
    prints("openssl", &["version"]);
    for policy in [TlsPolicy::Allowed, TlsPolicy::Required] {
        let server = Server::with(vec![everything("disk", 4 * MIB, 512)], policy, None);
        let keys = server.file("keys");
        std::fs::write(&keys, format!("{USER}:{KEY}\n")).unwrap();
        let user = format!("user, keys = {USER:?}, {keys:?}\n");
        nbdsh(
            &server,
            &(user
                + r#"
h = nbd.NBD()
h.set_export_name("disk")
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_username(user)
h.set_tls_psk_file(keys)
h.connect_unix(socket)
assert h.get_tls_negotiated() and h.get_structured_replies_negotiated()
assert h.can_meta_context("base:allocation")
data = bytes(range(256)) * 4096
h.pwrite(data, 512)
expect(bytes(h.pread(len(data), 512)) == data, True)
expect(refused(h.pread, 512, 4 << 20), "EINVAL")
h.shutdown()
"#),
        );
        assert!(server.disks[0].read(Span { offset_bytes: 512, length_bytes: 4 }) == [0, 1, 2, 3]);
    }
}

#[test]
#[ignore = "needs nbdsh"]
fn block_status_is_told_for_what_was_asked() {
    let server = Server::start(vec![everything("disk", MIB, 512)]);
    server.disks[0].write(Span { offset_bytes: 4096, length_bytes: 8192 }, &[7; 8192]);
    nbdsh(
        &server,
        r#"
h = connect(contexts=["base:allocation", "x-own:nothing"])
assert h.can_meta_context("base:allocation") and not h.can_meta_context("x-own:nothing")
told = []
def status(context, offset, entries, error):
    told.append((context, offset, entries))
h.block_status(1 << 20, 0, status)
hole = nbd.STATE_HOLE | nbd.STATE_ZERO
rest = (1 << 20) - 12288
expect(told.pop(), ("base:allocation", 0, [4096, hole, 8192, 0, rest, hole]))
h.block_status(8192, 2048, status)
expect(told.pop(), ("base:allocation", 2048, [2048, hole, 6144, 0]))
h.block_status(1 << 20, 0, status, nbd.CMD_FLAG_REQ_ONE)
expect(told.pop(), ("base:allocation", 0, [4096, hole]))
h.trim(8192, 4096)
h.block_status(1 << 20, 0, status)
expect(told.pop(), ("base:allocation", 0, [1 << 20, hole]))
none = connect(strict=False)
expect(refused(none.block_status, 512, 0, status), "EINVAL")
"#,
    );
}

/// libnbd does not send such requests unless it is told not to be strict. After each the connection
/// serves on, whether or not a payload was to be dropped.
#[test]
#[ignore = "needs nbdsh"]
fn requests_that_are_not_valid_are_refused_and_the_next_one_is_served() {
    let still = Export { is_read_only: true, ..everything("still", MIB, 512) };
    let bare = Export::new("bare", MIB);
    let slow = Export { fast_zero: FastZero::AlwaysRefused, ..everything("slow", MIB, 512) };
    let disk = everything("disk", 4 * MIB, 512);
    let server = Server::start(vec![disk, still, bare, slow]);
    let mib = 1 << 20;
    let common = format!("MIB = {mib}\n");
    nbdsh(
        &server,
        &(common
            + r#"
for structured in [True, False]:
    h = connect(structured=structured, strict=False, contexts=["base:allocation"])
    long = "EOVERFLOW" if structured else "EINVAL"
    cases = [
        ("EINVAL", h.pread, 511, 0),
        ("EINVAL", h.pread, 512, 1),
        ("EINVAL", h.pread, 512, 4 * MIB),
        ("EINVAL", h.pread, 1024, 4 * MIB - 512),
        ("EINVAL", h.pread, 512, (1 << 63) - 512),
        ("EINVAL", h.pread, 512, 0, 1 << 3),
        ("EINVAL", h.pread, 512, 0, 1 << 9),
        (long, h.pread, MIB + 512, 0),
        ("EINVAL", h.pwrite, bytes(100), 0),
        ("EINVAL", h.pwrite, bytes(512), 7),
        ("EINVAL", h.pwrite, bytes(MIB + 512), 0),
        ("EINVAL", h.pwrite, bytes(512), 0, 1 << 7),
        ("ENOSPC", h.pwrite, bytes(1024), 4 * MIB - 512),
        ("EINVAL", h.trim, 1024, 4 * MIB - 512),
        ("EINVAL", h.trim, 511, 0),
        ("ENOSPC", h.zero, 1024, 4 * MIB - 512),
        ("EINVAL", h.zero, 512, 0, nbd.CMD_FLAG_DF),
        ("EINVAL", h.cache, 512, 4 * MIB),
        ("EINVAL", h.flush, nbd.CMD_FLAG_NO_HOLE),
    ]
    for at, (expected, request, *arguments) in enumerate(cases):
        expect((at, refused(request, *arguments)), (at, expected))
        h.pwrite(bytes([at + 1]) * 512, 0)
        expect(bytes(h.pread(512, 0)), bytes([at + 1]) * 512)
    # FUA is for every command, and these have no payload to bound.
    h.pread(512, 0, nbd.CMD_FLAG_FUA)
    h.flush(nbd.CMD_FLAG_FUA)
    h.zero(4 * MIB, 0, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_FAST_ZERO)
    h.trim(4 * MIB, 0)
    h.cache(4 * MIB, 0)
    h.shutdown()

h = connect("still", strict=False)
assert h.is_read_only()
for request, arguments in [(h.pwrite, (bytes(512), 0)), (h.trim, (512, 0)), (h.zero, (512, 0))]:
    expect(refused(request, *arguments), "EPERM")
expect(bytes(h.pread(512, 0)), bytes(512))

h = connect("bare", strict=False)
assert not (h.can_flush() or h.can_fua() or h.can_trim() or h.can_zero() or h.can_cache())
expect(refused(h.flush), "EINVAL")
for request in [h.trim, h.zero, h.cache]:
    expect(refused(request, 512, 0), "EINVAL")
expect(refused(h.pwrite, b"\1", 0, nbd.CMD_FLAG_FUA), "EINVAL")
h.pwrite(b"\1", 3)
expect(bytes(h.pread(3, 2)), b"\0\1\0")

h = connect("slow")
assert h.can_fast_zero()
expect(refused(h.zero, 512, 0, nbd.CMD_FLAG_FAST_ZERO), "ENOTSUP")
h.zero(512, 0)
"#),
    );
}

/// 33 MiB are more than is read only to be refused: the connection is closed.
#[test]
#[ignore = "needs nbdsh"]
fn a_write_that_is_far_too_long_is_the_end() {
    let server = Server::start(vec![everything("disk", 48 * MIB, 512)]);
    nbdsh(
        &server,
        r#"
h = connect(strict=False)
expect(refused(h.pwrite, bytes(32 << 20), 0), "EINVAL")
h.pwrite(b"\1" * 512, 0)
assert refused(h.pwrite, bytes(33 << 20), 0) is not None
assert h.aio_is_dead() or h.aio_is_closed()
expect(bytes(connect().pread(512, 0)), b"\1" * 512)
"#,
    );
}

#[test]
#[ignore = "needs nbdsh"]
fn two_connections_see_what_was_flushed() {
    let size_bytes = 2 * MIB;
    let server = Server::start(vec![everything("disk", size_bytes, 512)]);
    let expected = sample(size_bytes);
    let file = server.file("sample");
    std::fs::write(&file, &expected).unwrap();
    nbdsh(
        &server,
        &format!(
            "sample = open({file:?}, 'rb').read()\n{}",
            r#"
one, two = connect(), connect()
assert one.can_multi_conn() and one.can_flush()
for at in range(0, len(sample), 1 << 16):
    h = one if at % (1 << 17) else two
    h.pwrite(sample[at:at + (1 << 16)], at, nbd.CMD_FLAG_FUA if at % 3 else 0)
one.flush()
half = len(sample) // 2
expect(bytes(two.pread(half, 0)) + bytes(one.pread(half, half)) == sample, True)
one.shutdown()
expect(bytes(two.pread(512, 0)), sample[:512])
"#
        ),
    );
    assert!(server.disks[0].read(whole(size_bytes)) == expected);
}

/// A read that fails in the middle: with structured replies its error has a place and the
/// connection serves on; simple replies can only be cut off.
#[test]
#[ignore = "needs nbdsh"]
fn a_read_that_breaks_says_where() {
    let exports = vec![everything("disk", MIB, 512)];
    let server = Server::with(exports, TlsPolicy::Off, Some(10_000));
    server.disks[0].write(whole(MIB), &vec![7; 1 << 20]);
    nbdsh(
        &server,
        r#"
h = connect()
told = []
def chunk(data, offset, status, error):
    told.append((len(data), offset, status, error.value))
expect(refused(h.pread_structured, 8192, 8192, chunk), "EIO")
expect(told, [(8192, 8192, nbd.READ_DATA, 0), (0, 10000, nbd.READ_ERROR, 5)])
expect(bytes(h.pread(512, 0)), b"\7" * 512)
expect(refused(h.pread, 512, 9728), "EIO")
expect(bytes(h.pread(512, 10240)), b"\7" * 512)
h = connect(structured=False)
expect(bytes(h.pread(512, 0)), b"\7" * 512)
assert refused(h.pread, 8192, 8192) is not None
assert h.aio_is_dead() or h.aio_is_closed()
"#,
    );
}
