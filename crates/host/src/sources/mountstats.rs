//! Latency of NFS as this host's kernel sees it as a client, from `/proc/self/mountstats`.
//!
//! It is the time from a READ or WRITE request's start to its end: its wait in the kernel's queue,
//! the network, the server, and retransmissions. It leaves out whatever the page cache answers, and
//! operations on names and attributes. The kernel prints whole milliseconds; within a millisecond
//! the sum is interpolated with the last mean, see `interpolated.rs`.

use super::counted::{Counted, Counters};
use crate::Root;
use serde::Deserialize;
use wattio_governor::SourceError;

const FILE: &str = "/proc/self/mountstats";
/// Lines that each mount has.
const NEEDED: [&str; 3] = ["bytes", "READ", "WRITE"];

/// The table `kind = "mountstats"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where NFS is mounted. Mounts of folders of one export may share their counters: name only
    /// one of them, or each request is counted several times. Allowed: a list of absolute paths,
    /// such as `["/srv/data"]`; no duplicates.
    pub mounts: Vec<String>,
}

/// A line that begins a mount: what is mounted, where, and its type.
fn head(line: &str) -> Option<(&str, &str, &str)> {
    let (what, rest) = line.strip_prefix("device ")?.split_once(" mounted on ")?;
    let (place, rest) = rest.rsplit_once(" with fstype ")?;
    Some((what, place, rest.split(' ').next().unwrap_or_default()))
}

/// As the kernel writes a path.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => text.push_str(&format!("\\{:03o}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

/// Where NFS is mounted, as the kernel writes it, by the text of `/proc/self/mountstats`.
pub fn mounts(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(head).filter(|(_, _, kind)| kind.starts_with("nfs")).map(|head| head.1)
}

/// The counters of NFS at a place; `None` where it is not mounted. Of several mounts at one place the
/// last one is seen.
///
/// # Errors
/// Says what is wrong with the mount's lines.
pub fn parse(text: &str, mount: &str) -> Result<Option<Counters>, String> {
    let place = escaped(mount);
    let (mut found, mut inside) = (None, false);
    let mut missing = NEEDED.to_vec();
    for line in text.lines() {
        if let Some((_, there, kind)) = head(line) {
            inside = there == place;
            if inside {
                found = kind.starts_with("nfs").then(Counters::default);
                missing = NEEDED.to_vec();
            }
            continue;
        }
        let Some(counters) = found.as_mut().filter(|_| inside) else { continue };
        let Some((name, fields)) = line.trim_start().split_once(':') else { continue };
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        let number = |at: usize| {
            let field = fields.get(at).copied().unwrap_or_default();
            field.parse::<u64>().map_err(|_| {
                format!("{FILE}: of {mount}: {name} has {field:?} as number {}", at + 1)
            })
        };
        match name {
            "bytes" => counters.bytes = number(4)?.saturating_add(number(5)?),
            "READ" | "READ_PLUS" | "WRITE" => {
                let (count, spent_ms) = match name {
                    "WRITE" => (&mut counters.writes, &mut counters.writing_ms),
                    _ => (&mut counters.reads, &mut counters.reading_ms),
                };
                *count = count.saturating_add(number(0)?);
                *spent_ms = spent_ms.wrapping_add(number(7)? as u32);
            }
            _ => {}
        }
        missing.retain(|needed| *needed != name);
    }
    match found {
        Some(_) if !missing.is_empty() => {
            Err(format!("{FILE}: {mount} has no counts of {}", missing.join(", ")))
        }
        found => Ok(found),
    }
}

/// Reads the counters for the first time.
///
/// # Errors
/// When NFS is not mounted at a place, or a place is named twice.
pub fn open(config: &Config, root: &Root) -> Result<Counted, SourceError> {
    let name = format!("mountstats {}", config.mounts.join(" "));
    let refused = |message: String| SourceError::new(&name, message);
    let text = root.read(FILE).map_err(|error| refused(format!("{FILE}: {error}")))?;
    let there = || match mounts(&text).collect::<Vec<_>>() {
        none if none.is_empty() => "NFS is mounted nowhere here".to_owned(),
        some => format!("NFS is mounted at {}", some.join(", ")),
    };
    if config.mounts.is_empty() {
        return Err(refused(format!("mounts is empty; {}", there())));
    }
    for (at, place) in config.mounts.iter().enumerate() {
        if parse(&text, place).map_err(refused)?.is_none() {
            return Err(refused(format!("no NFS at {place:?}; {}", there())));
        }
        if config.mounts[..at].contains(place) {
            return Err(refused(format!("{place:?} is named twice; name it once")));
        }
    }
    Counted::open(name, root, FILE, parse, &config.mounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattio_governor::LatencySource;
    use wattio_units::Seconds;

    /// Lines of a kernel 6.1 that had NFS 4.2 mounted, after a file of 4 MiB was written and read.
    const KERNELS: &str = "\
device proc mounted on /proc with fstype proc
device 10.77.0.1:/wattio mounted on /srv/my\\040data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,soft,proto=tcp,sec=sys
\tage:\t2
\tevents:\t11 34 2 1 2 4 61 1024 0 17 0 1 4 0 4 1 0 4 0 0 0 0 0 0 0 0 0\x20
\tbytes:\t8388608 4194304 0 0 4194304 4194304 1024 1024\x20
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 2 0 0 88 88 0 95 0 4 10 5
\tper-op statistics
\t        NULL: 1 1 0 44 24 32 12 60 0
\t        READ: 17 17 0 3128 4196072 69 222 316 0
\t       WRITE: 4 4 0 4195120 896 294 95 393 0
\t      COMMIT: 1 1 0 168 104 1 9 12 0
\t   READ_PLUS: 0 0 0 0 0 0 0 0 0

device tmpfs mounted on /run with fstype tmpfs
";
    const PLACE: &str = "/srv/my data";

    fn root(text: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        std::fs::write(folder.path().join("proc/self/mountstats"), text).unwrap();
        let root = Root::new(folder.path());
        (folder, root)
    }

    fn open(root: &Root, mounts: &[&str]) -> Result<Counted, String> {
        let config = Config { mounts: mounts.iter().map(|&mount| mount.to_owned()).collect() };
        super::open(&config, root).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_kernel_says_is_read() {
        let counters = parse(KERNELS, PLACE).unwrap().unwrap();
        let told = Counters { reads: 17, writes: 4, bytes: 8 << 20, ..Counters::default() };
        assert_eq!(counters, Counters { reading_ms: 316, writing_ms: 393, ..told });
        assert_eq!(parse(KERNELS, "/run"), Ok(None), "another file system");
        assert_eq!(parse(KERNELS, "/srv"), Ok(None));
        assert_eq!(mounts(KERNELS).collect::<Vec<_>>(), ["/srv/my\\040data"]);
    }

    #[test]
    fn of_what_is_mounted_above_each_other_the_last_is_seen() {
        let newer = KERNELS.replace("READ: 17 17", "READ: 3 3");
        let both = format!("{KERNELS}{newer}");
        assert_eq!(parse(&both, PLACE).unwrap().unwrap().reads, 3);
        let hidden =
            format!("{KERNELS}device none mounted on /srv/my\\040data with fstype tmpfs\n");
        assert_eq!(parse(&hidden, PLACE), Ok(None));
    }

    #[test]
    fn a_window_is_what_grew_and_a_new_mount_is_told() {
        let (folder, root) = root(KERNELS);
        let file = folder.path().join("proc/self/mountstats");
        let mut source = open(&root, &[PLACE]).unwrap();
        let grown = KERNELS
            .replace("READ: 17 17 0 3128 4196072 69 222 316", "READ: 57 57 0 0 0 0 0 516")
            .replace("4194304 4194304 1024", "4358144 4194304 1024");
        std::fs::write(&file, &grown).unwrap();
        let window = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((window.requests, window.read_share), (40, Some(1.0)));
        assert_eq!(window.bytes_mean, Some(4096.0));
        // 200 ms for 40 requests, to the whole milliseconds that the kernel tells.
        let mean_us = window.latency_us_mean.unwrap();
        assert!((mean_us - 5_000.0).abs() <= 50.0, "{mean_us}");
        assert_eq!((window.in_flight, window.arrived, window.histogram), (None, None, None));
        std::fs::write(&file, KERNELS).unwrap();
        let message = source.sample(Seconds(2.0)).unwrap_err().to_string();
        assert!(message.contains("counters went back"), "{message}");
        std::fs::write(&file, &grown).unwrap();
        let window = source.sample(Seconds(3.0)).unwrap().unwrap();
        assert!((window.latency_us_mean.unwrap() - 5_000.0).abs() <= 100.0, "{window:?}");
        std::fs::write(&file, "").unwrap();
        let message = source.sample(Seconds(4.0)).unwrap_err().to_string();
        assert!(message.contains("/srv/my data is gone"), "{message}");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_there_is() {
        let (_folder, here) = root(KERNELS);
        for (mounts, says) in [
            (&[][..], "mounts is empty; NFS is mounted at /srv/my"),
            (&["/mnt"][..], "no NFS at \"/mnt\"; NFS is mounted at /srv/my"),
            (&["/run"][..], "no NFS at \"/run\""),
            (&[PLACE, PLACE][..], "named twice"),
        ] {
            let message = open(&here, mounts).unwrap_err();
            assert!(message.contains(says), "{message}");
        }
        let (_folder, bare) = root("device proc mounted on /proc with fstype proc\n");
        let message = open(&bare, &["/mnt"]).unwrap_err();
        assert!(message.contains("NFS is mounted nowhere here"), "{message}");
        let torn = KERNELS.replace("READ: 17", "READ: x");
        assert!(parse(&torn, PLACE).unwrap_err().contains("READ has \"x\" as number 1"));
        let (short, _) = KERNELS.split_once("\t       WRITE").unwrap();
        assert!(parse(short, PLACE).unwrap_err().ends_with("has no counts of WRITE"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"\PC{0,200}") {
            let _ = parse(&text, PLACE);
        }

        #[test]
        fn a_cut_or_damaged_text_is_said_or_read(cut in 0..KERNELS.len(), byte in "[ -~\n\t]") {
            if let Some((head, rest)) = KERNELS.split_at_checked(cut) {
                let _ = parse(head, PLACE);
                let damaged: String = head.chars().chain(byte.chars()).chain(rest.chars().skip(1)).collect();
                let _ = parse(&damaged, PLACE);
            }
        }

        #[test]
        fn any_place_is_found_as_the_kernel_writes_it(place in r"/[ -~\t]{0,30}") {
            let text = KERNELS.replace("/srv/my\\040data", &escaped(&place));
            prop_assert!(parse(&text, &place).unwrap().is_some());
        }
    }
}
