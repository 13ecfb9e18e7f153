//! Utilisation of cores from `/proc/stat`.
//!
//! How the kernel's columns are counted, over the active cores of a group:
//!
//! | the kernel's column | here |
//! |---|---|
//! | user, system, irq, softirq | clients |
//! | nice (tasks that were reniced) | background |
//! | idle, iowait | not used; iowait also says that the group waited for drives |
//! | steal (the hypervisor ran others) | neither used nor there: the share is of the rest |
//! | guest, guest_nice | already in user and nice |
//!
//! The kernel counts in ticks of 10 ms, so a window of 50 ms shows a core's use in steps of a
//! fifth. A core that polls an empty queue looks busy to the kernel: for such servers use `exec` or
//! `spdk`. A core that is off reports nothing and is left out of the share.

use super::cores::{Cores, Reading, Ticks};
use crate::Root;
use crate::kept_files::KeptFiles;
use serde::Deserialize;
use wattio_governor::{CpuSource, Cpus, GroupUse, SourceError};
use wattio_units::Seconds;

const FILE: &str = "/proc/stat";
/// A core's line is hardly shorter.
const LINE_BYTES: usize = 24;

/// The table `kind = "proc-stat"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

/// The ticks of each core that is on, from the text of `/proc/stat` or its beginning.
///
/// # Errors
/// Says which line makes no sense.
pub fn parse(text: &str) -> Result<Reading, String> {
    let mut cores = Vec::with_capacity(text.len() / LINE_BYTES);
    let mut rest = text;
    // The cores come first; the line of interrupts after them is long.
    while let Some(line) = rest.strip_prefix("cpu") {
        let end = line.bytes().position(|byte| byte == b'\n').unwrap_or(line.len());
        let (line, after) = line.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        // The first line sums up all cores.
        if !line.starts_with(' ') {
            let wrong = || format!("{FILE}: \"cpu{line}\" is not \"cpu<number> <ticks> ...\"");
            cores.push(core(line.as_bytes()).ok_or_else(wrong)?);
        }
    }
    if cores.is_empty() {
        return Err(format!("{FILE} lists no core"));
    }
    Ok(cores.into_iter().collect())
}

/// A core's number and ticks, from its line after `cpu`.
fn core(line: &[u8]) -> Option<(u32, Ticks)> {
    let mut numbers = Numbers(line);
    let number = numbers.next()?.try_into().ok()?;
    let mut next = || numbers.next();
    let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
    let (iowait, irq, softirq) = (next()?, next()?, next()?);
    let clients = [system, irq, softirq].into_iter().fold(user, u64::saturating_add);
    Some((number, Ticks { clients, background: nice, idle, waiting: iowait }))
}

/// The numbers of a line, up to the first word that is none. There are a thousand of them in each
/// window on a host of 128 cores, and the general ways to split and to parse take some times as long.
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let line = self.0;
        let from = line.iter().position(|byte| *byte != b' ')?;
        let word = line.get(from..)?;
        let end = word.iter().position(|byte| *byte == b' ').unwrap_or(word.len());
        let (word, rest) = word.split_at(end);
        self.0 = rest;
        word.iter().try_fold(0_u64, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            let number = number.checked_mul(10).filter(|_| digit <= 9)?;
            number.checked_add(digit.into())
        })
    }
}

/// Whether what was read of the file ends before the line after those of the cores. The kernel makes
/// the whole text at once; but it need not be copied and looked through.
fn is_of_cores(text: &[u8]) -> bool {
    let line = text.iter().rposition(|byte| *byte == b'\n').and_then(|end| text.get(end + 1..));
    let line = line.unwrap_or(text);
    line.iter().zip(b"cpu").all(|(found, expected)| found == expected)
}

/// The ticks of each core that is on, as the kernel says them now.
///
/// # Errors
/// Says what is wrong with the file.
pub(super) fn read(files: &mut KeptFiles) -> Result<Reading, String> {
    let text = files.read_while(FILE, is_of_cores).map_err(|error| format!("{FILE}: {error}"));
    text.and_then(|text| parse(&text))
}

/// The source.
#[derive(Debug)]
pub struct ProcStat {
    files: KeptFiles,
    cores: Cores,
}

impl ProcStat {
    /// Reads the ticks for the first time.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(_: &Config, root: &Root) -> Result<Self, SourceError> {
        let mut source = Self { files: KeptFiles::new(root), cores: Cores::default() };
        let ticks = source.read()?;
        // No group is asked for yet, so none can be missing.
        let _ = source.cores.uses(ticks, &[]);
        Ok(source)
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        read(&mut self.files).map_err(|message| SourceError::new("proc-stat", message))
    }
}

impl CpuSource for ProcStat {
    fn name(&self) -> &str {
        "proc-stat"
    }

    /// A call within the same tick repeats the last result.
    fn sample(&mut self, _: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let new = self.read()?;
        self.cores.uses(new, active).map_err(|message| SourceError::new("proc-stat", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Host {
        _folder: tempfile::TempDir,
        file: std::path::PathBuf,
        source: ProcStat,
    }

    impl Host {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("proc")).unwrap();
            let file = folder.path().join("proc/stat");
            std::fs::write(&file, text).unwrap();
            let source = ProcStat::open(&Config {}, &Root::new(folder.path())).unwrap();
            Self { _folder: folder, file, source }
        }

        fn sample(&mut self, text: &str, active: &[&str]) -> Result<Vec<GroupUse>, SourceError> {
            std::fs::write(&self.file, text).unwrap();
            let active: Vec<Cpus> = active.iter().map(|cpus| cpus.parse().unwrap()).collect();
            self.source.sample(Seconds(0.0), &active)
        }
    }

    const START: &str = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 100 10 20 500 5 1 2 9 50 5\n\
                         cpu1 100 10 20 500 5 1 2 9 0 0\nintr 5 6\n";

    #[test]
    fn ticks_are_shared_among_clients_background_and_nobody() {
        let mut host = Host::new(START);
        // cpu0: 40 clients (one of each kind more), 10 background, 50 idle, 100 stolen.
        let text = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 110 20 30 540 15 11 12 109 90 9\n\
                    cpu1 100 10 20 600 5 1 2 9 0 0\nintr 5 6\n";
        let uses = host.sample(text, &["0", "1", "0-1"]).unwrap();
        let told = |at: usize| (uses[at].utilisation_clients, uses[at].utilisation_background);
        assert_eq!(told(0), (0.4, 0.1));
        assert_eq!(told(1), (0.0, 0.0));
        assert_eq!(told(2), (0.2, 0.05));
        assert!(uses[0].waited_for_drives && !uses[1].waited_for_drives);
    }

    #[test]
    fn cores_that_are_off_or_just_came_on_are_left_out() {
        let mut host = Host::new("cpu0 0 0 0 0 0 0 0\n");
        let uses = host.sample("cpu0 5 0 0 5 0 0 0\ncpu1 900 0 0 0 0 0 0\n", &["0-7"]).unwrap();
        assert_eq!(uses[0].utilisation_clients, 0.5);
        let text = "cpu0 5 0 0 15 0 0 0\ncpu1 910 0 0 0 0 0 0\n";
        assert_eq!(host.sample(text, &["0-7"]).unwrap()[0].utilisation_clients, 0.5);
        let error = host.sample("cpu0 6 0 0 15 0 0 0\n", &["0", "8"]).unwrap_err().to_string();
        assert!(error.contains("no tick passed on cores 8"), "{error}");
    }

    #[test]
    fn a_call_within_a_tick_repeats_the_last_answer() {
        let mut host = Host::new(START);
        assert!(host.sample(START, &["0"]).is_err());
        let text = START.replace("cpu0 100 10 20 500", "cpu0 101 10 20 501");
        let uses = host.sample(&text, &["0"]).unwrap();
        assert_eq!(uses[0].utilisation_clients, 0.5);
        assert_eq!(host.sample(&text, &["0"]), Ok(uses));
        // Idle time that goes back counts as none.
        let back = START.replace("cpu0 100 10 20 500 5", "cpu0 102 10 20 490 5");
        assert_eq!(host.sample(&back, &["0"]).unwrap()[0].utilisation_clients, 1.0);
    }

    #[test]
    fn odd_lines_are_named() {
        for text in [
            "cpu0 1 2 3",
            "cpu0x 1 2 3 4 5 6 7",
            "cpu4294967296 1 2 3 4 5 6 7",
            "cpu0 1 2 3 4 5 6 -7",
            "cpu0 1 2 3 4 5 6 18446744073709551616",
            "cpux 1 2 3 4 5 6 7",
            "",
            "intr 1",
        ] {
            assert!(parse(text).unwrap_err().contains(FILE), "{text}");
        }
    }

    /// The line of interrupts was copied and looked through in every window: several kilobytes of
    /// zeros on a host of many devices.
    #[test]
    fn what_comes_after_the_cores_is_not_read() {
        for of_cores in ["", "c", "cp", "cpu0 1 2", "cpu0 1 2\n", "cpu0 1 2\ncpu"] {
            assert!(is_of_cores(of_cores.as_bytes()), "{of_cores:?}");
        }
        for beyond in ["cpu0 1 2\ni", "cpu0 1 2\nintr 0 0 0", "cpu0 1 2\nintr 0\nct"] {
            assert!(!is_of_cores(beyond.as_bytes()), "{beyond:?}");
        }
        let mut long = START.replace("intr 5 6\n", "");
        long.extend((0..1000).map(|core| format!("cpu{} 1 2 3 4 5 6 7\n", core + 2)));
        let all = parse(&long).unwrap();
        long.push_str("intr 1");
        long.push_str(&" 0".repeat(100_000));
        let mut host = Host::new(&long);
        assert_eq!(host.source.read(), Ok(all), "all of the cores, in pieces");
        let read = host.source.files.read_while(FILE, is_of_cores).unwrap().len();
        assert!(read < long.len() / 2, "{read} of {} bytes", long.len());
    }

    proptest! {
        #[test]
        fn a_number_is_what_the_standard_library_reads(line in "[ 0-9]{0,50}") {
            let words = line.split_ascii_whitespace();
            let words = words.map_while(|word| word.parse::<u64>().ok());
            prop_assert!(Numbers(line.as_bytes()).eq(words));
        }

        #[test]
        fn no_text_panics(text in "(cpu[0-9]{0,12}( [0-9]{1,21}){0,10}\n?){0,4}.*") {
            let _ = parse(&text);
        }

        #[test]
        fn shares_are_shares(old: [u64; 7], new: [u64; 7]) {
            let line = |ticks: [u64; 7]| format!("cpu0 {}\n", ticks.map(|t| t.to_string()).join(" "));
            let mut host = Host::new(&line(old));
            if let Ok(uses) = host.sample(&line(new), &["0"]) {
                prop_assert!((0.0..=1.0).contains(&uses[0].utilisation_clients));
                prop_assert!((0.0..=1.0).contains(&uses[0].utilisation_background));
            }
        }
    }
}
