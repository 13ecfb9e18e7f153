//! Files that are read in every window, kept open.
//!
//! Opening a file of the kernel takes several times as long as reading it. The kernel generates the
//! text again for each read from the start, so an open file always shows the current state.

use crate::root::{FILE_BYTES_MAX, Root, as_text};
use rustix::fs::fstatfs;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};

/// The most files that are kept open; further ones are opened for each read.
const FILES_MAX: usize = 512;
/// A file of sysfs has at most a page.
const BYTES_MIN: usize = 4 << 10;

// Types of file systems, of the kernel's `magic.h`.
const PROC: i64 = 0x9fa0;
const SYSFS: i64 = 0x6265_6572;
const CGROUP: i64 = 0x0027_e0eb;
const CGROUP2: i64 = 0x6367_7270;
const TMPFS: i64 = 0x0102_1994;

/// The kind of file system a file lies in, which says whether it may be kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// sysfs and control groups: a value comes whole in one read.
    Values,
    /// `/proc`: a long text may come in pieces.
    Texts,
    /// A file system in memory, which may hold a fake host: another file may take the name.
    Memory,
    /// Any other: it may be served by a program, or show its content as of when it was opened.
    Other,
}

impl System {
    /// Of an open file.
    pub fn of(file: &File) -> Self {
        // The type is of another width on other machines.
        #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
        match fstatfs(file).map(|system| system.f_type as i64) {
            Ok(SYSFS | CGROUP | CGROUP2) => Self::Values,
            Ok(PROC) => Self::Texts,
            Ok(TMPFS) => Self::Memory,
            _ => Self::Other,
        }
    }
}

/// Files under a root by their path.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    root: Root,
    open: HashMap<String, (File, System)>,
    bytes: Vec<u8>,
}

impl KeptFiles {
    /// None is open yet.
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone(), open: HashMap::new(), bytes: vec![0; BYTES_MIN] }
    }

    /// Where the files are.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// As [`Root::read`]: the text of a file without the line's end.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read(&mut self, path: &str) -> io::Result<Cow<'_, str>> {
        self.read_while(path, |_| true)
    }

    /// The beginning of a text: it is read piece by piece, as long as those so far call for `more`.
    /// Whatever else was in the last piece is there too.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read_while(
        &mut self,
        path: &str,
        more: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Cow<'_, str>> {
        let count = match self.read_kept(path, &more) {
            Some(count) => count,
            None => self.read_anew(path, &more)?,
        };
        Ok(match as_text(self.bytes.get(..count).unwrap_or_default()) {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim_end()),
            Cow::Owned(text) => Cow::Owned(text.trim_end().to_owned()),
        })
    }

    /// Reads an open file; `None` if there is none, or it is no longer the one of
    /// that name: its
    /// device went, and may be there again.
    fn read_kept(&mut self, path: &str, more: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (file, system) = self.open.get(path)?;
        let stands = *system != System::Memory || file.metadata().is_ok_and(|is| is.nlink() > 0);
        let read = || read_file(file, *system, &mut self.bytes, more).ok();
        let count = stands.then(read).flatten();
        if count.is_none() {
            self.open.remove(path);
        }
        count
    }

    fn read_anew(&mut self, path: &str, more: impl Fn(&[u8]) -> bool) -> io::Result<usize> {
        let file = File::open(self.root.path(path))?;
        let system = System::of(&file);
        let count = read_file(&file, system, &mut self.bytes, more)?;
        if system != System::Other && self.open.len() < FILES_MAX {
            self.open.insert(path.to_owned(), (file, system));
        }
        Ok(count)
    }
}

/// Reads a file from its start as long as there is and is to be more; how many bytes of `into` it
/// filled.
fn read_file(
    file: &File,
    system: System,
    into: &mut Vec<u8>,
    more: impl Fn(&[u8]) -> bool,
) -> io::Result<usize> {
    let mut count = 0;
    loop {
        if count == into.len() {
            if count >= FILE_BYTES_MAX {
                return Ok(count);
            }
            into.resize((2 * count).clamp(BYTES_MIN, FILE_BYTES_MAX), 0);
        }
        let room = into.get_mut(count..).unwrap_or_default();
        let asked = room.len();
        match file.read_at(room, count as u64) {
            Ok(0) => return Ok(count),
            Ok(read) => {
                count += read;
                let whole = matches!(system, System::Values | System::Memory) && read < asked;
                if whole || !more(into.get(..count).unwrap_or_default()) {
                    return Ok(count);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_the_kernel_stay_open_and_say_what_is_so_now() {
        let root = Root::default();
        let mut files = KeptFiles::new(&root);
        let (uptime, size) = ("/proc/uptime", "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let first = files.read(uptime).unwrap().into_owned();
        while files.read(uptime).unwrap() == first {}
        assert!(files.open.contains_key(uptime));
        if let Ok(text) = root.read(size) {
            assert_eq!(files.read(size).unwrap(), text);
            assert_eq!(files.read(size).unwrap(), text);
            assert!(files.open.contains_key(size));
        }
    }

    /// A text of `/proc` comes in pieces of some kilobytes, the first of which is shorter than what
    /// was asked for.
    #[test]
    fn a_long_text_of_proc_comes_whole() {
        let mut files = KeptFiles::new(&Root::default());
        for path in ["/proc/stat", "/proc/cpuinfo", "/proc/kallsyms", "/proc/diskstats"] {
            let Ok(text) = Root::default().read(path) else { continue };
            for _ in 0..2 {
                assert_eq!(
                    files.read(path).unwrap().lines().count(),
                    text.lines().count(),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_took_the_name_is_read() {
        for folder in ["/dev/shm", "/var/tmp", "/tmp"] {
            let Ok(folder) = tempfile::tempdir_in(folder) else { continue };
            let root = Root::new(folder.path());
            let mut files = KeptFiles::new(&root);
            for text in ["5\n", "70", "", "123456", "8"] {
                fs::write(folder.path().join("new"), text).unwrap();
                fs::rename(folder.path().join("new"), folder.path().join("file")).unwrap();
                assert_eq!(files.read("/file").unwrap(), text.trim_end());
                fs::write(folder.path().join("file"), "in place\n").unwrap();
                assert_eq!(files.read("/file").unwrap(), "in place");
            }
            fs::remove_file(folder.path().join("file")).unwrap();
            assert_eq!(files.read("/file").unwrap_err().kind(), ErrorKind::NotFound);
            let long = "a line of text\n".repeat(10_000);
            fs::write(folder.path().join("file"), &long).unwrap();
            assert_eq!(files.read("/file").unwrap(), long.trim_end());
            fs::write(folder.path().join("file"), b"\xff1\n").unwrap();
            assert_eq!(files.read("/file").unwrap(), root.read("/file").unwrap());
        }
    }

    #[test]
    fn no_more_than_so_many_stay_open() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut files = KeptFiles::new(&Root::new(folder.path()));
        for number in 0..=FILES_MAX {
            fs::write(folder.path().join(number.to_string()), number.to_string()).unwrap();
            assert_eq!(files.read(&format!("/{number}")).unwrap(), number.to_string());
        }
        assert!(files.open.len() <= FILES_MAX);
    }
}
