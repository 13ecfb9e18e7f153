//! Opening a ring as cheap as the kernel allows.

use io_uring::{Builder, IoUring};
use std::io;

/// Completions have four times the room, and the kernel's bound is theirs.
const ENTRIES_MAX: u32 = 1 << 14;

/// Adds one set of flags.
type Flags = fn(&mut Builder);

/// What the kernel took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// For people.
    pub name: &'static str,
    /// Whether a send that may not wait is done, or has told how far it came, once the call that
    /// submitted it returns: before Linux 6.1 what a short one sent could be missing.
    pub has_quiet_sends: bool,
    flags: Flags,
}

/// Cheapest first; each kernel takes one of them.
const SETUPS: [Setup; 4] = [
    Setup {
        name: "deferred completions without an index array (Linux 6.6)",
        has_quiet_sends: true,
        flags: |builder| {
            deferred(builder);
            builder.setup_no_sqarray();
        },
    },
    Setup { name: "deferred completions (Linux 6.1)", has_quiet_sends: true, flags: deferred },
    Setup {
        name: "cooperative completions (Linux 5.19)",
        has_quiet_sends: false,
        flags: |builder| {
            builder.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag();
        },
    },
    Setup { name: "no options", has_quiet_sends: false, flags: |_| () },
];

/// Completions are handled inside of the thread's own calls and nowhere else: no interrupt of the
/// thread, and what arrived together is handled together. The flag tells of them without a call.
fn deferred(builder: &mut Builder) {
    builder.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
}

/// A ring of `entries`, and the setup that the kernel took.
pub(crate) fn open(entries: u32) -> io::Result<(IoUring, Setup)> {
    if !(1..=ENTRIES_MAX).contains(&entries) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("io_uring: no ring of {entries} entries, from 1 to {ENTRIES_MAX} are allowed"),
        ));
    }
    for setup in SETUPS {
        let mut builder = IoUring::builder();
        // Completions wait for their thread longer than submissions do.
        builder.dontfork().setup_cqsize(4 * entries.next_power_of_two());
        (setup.flags)(&mut builder);
        match builder.build(entries) {
            // The last of the features that are needed here: polls that stay came with it.
            Ok(ring) if ring.params().is_feature_resource_tagging() => return Ok((ring, setup)),
            Ok(_) => return Err(unusable("this kernel's io_uring is too old, 5.13 is needed")),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(explained(&error, entries)),
        }
    }
    Err(explained(&io::Error::from_raw_os_error(libc::EINVAL), entries))
}

fn unusable(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("io_uring: {why}"))
}

/// One sentence on why there is no ring.
fn explained(error: &io::Error, entries: u32) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            unusable("this kernel has none, or the container's seccomp filter hides it")
        }
        Some(libc::EPERM) => {
            unusable("forbidden here, by kernel.io_uring_disabled or a seccomp filter")
        }
        Some(libc::ENOMEM) => io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "io_uring: no memory for a ring of {entries} entries, or above the limit of locked \
                 memory (ulimit -l)"
            ),
        ),
        _ => {
            io::Error::new(error.kind(), format!("io_uring: a ring of {entries} entries: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_one_sentence_of_its_kind() {
        for (number, kind, word) in [
            (libc::ENOSYS, io::ErrorKind::Unsupported, "has none"),
            (libc::EPERM, io::ErrorKind::Unsupported, "kernel.io_uring_disabled"),
            (libc::ENOMEM, io::ErrorKind::OutOfMemory, "ulimit -l"),
            (libc::EMFILE, io::Error::from_raw_os_error(libc::EMFILE).kind(), "8 entries"),
        ] {
            let error = explained(&io::Error::from_raw_os_error(number), 8);
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
