//! A growing log, read line by line from where the last read ended.

use crate::Root;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

/// The most that is read at once; the rest waits for the next time.
const READ_BYTES_MAX: u64 = 4 << 20;
/// The longest line.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A log that others write. It may be renamed and begun anew, or emptied (logrotate's `create` and
/// `copytruncate`).
#[derive(Debug)]
pub(super) struct Followed {
    root: Root,
    path: String,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    /// How far it was read, in whole lines.
    read_bytes: u64,
}

fn identity(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

impl Followed {
    /// Begins at the end of the log as it is now; at the beginning of one that comes later.
    pub(super) fn at_its_end(root: &Root, path: &str) -> Self {
        let mut new = Self { root: root.clone(), path: path.to_owned(), open: None };
        let place = new.reopen().and_then(|open| {
            let length = open.file.metadata()?.len();
            Ok(Open { read_bytes: length, ..open })
        });
        new.open = place.ok();
        new
    }

    /// The whole lines since the last time.
    ///
    /// # Errors
    /// Says what is wrong with the file. After an error reading goes on, where there is something.
    pub(super) fn news(&mut self) -> Result<String, String> {
        let bytes = match self.read() {
            Ok(bytes) => bytes,
            Err(error) => {
                // The rest of one that was removed was read.
                self.open = None;
                return Err(format!("{}: {error}", self.path));
            }
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.reopen()?,
        };
        let (bytes, open) = open.read()?;
        if !bytes.is_empty() {
            self.open = Some(open);
            return Ok(bytes);
        }
        // All of this one was read: is it still the one of that name?
        let there = std::fs::metadata(self.root.path(&self.path));
        let replaced = match &there {
            Ok(there) => identity(there) != open.identity,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !replaced {
            self.open = Some(open);
            return Ok(bytes);
        }
        let (bytes, open) = self.reopen()?.read()?;
        self.open = Some(open);
        Ok(bytes)
    }

    fn reopen(&self) -> std::io::Result<Open> {
        let file = wattio_files::open(&self.root.path(&self.path))?;
        let data = file.metadata()?;
        Ok(Open { identity: identity(&data), file, read_bytes: 0 })
    }
}

impl Open {
    /// What is new, in whole lines.
    fn read(mut self) -> std::io::Result<(Vec<u8>, Self)> {
        if self.file.metadata()?.len() < self.read_bytes {
            self.read_bytes = 0;
        }
        self.file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut bytes = Vec::new();
        (&self.file).take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && bytes.len() > LINE_BYTES_MAX {
            let message = format!("has a line of more than {LINE_BYTES_MAX} bytes");
            return Err(std::io::Error::other(message));
        }
        bytes.truncate(whole);
        self.read_bytes += whole as u64;
        Ok((bytes, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{OpenOptions, remove_file, rename, write};
    use std::io::Write;

    struct Log(tempfile::TempDir);

    impl Log {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn followed(&self) -> Followed {
            Followed::at_its_end(&Root::new(self.0.path()), "/log")
        }

        fn place(&self, name: &str) -> std::path::PathBuf {
            self.0.path().join(name)
        }

        fn append(&self, name: &str, text: &str) {
            let mut file =
                OpenOptions::new().append(true).create(true).open(self.place(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    #[test]
    fn only_whole_lines_that_are_new_are_told() {
        let log = Log::new();
        log.append("log", "old\n");
        let mut followed = log.followed();
        assert_eq!(followed.news().unwrap(), "");
        log.append("log", "one\ntw");
        assert_eq!(followed.news().unwrap(), "one\n");
        log.append("log", "o\n");
        assert_eq!(followed.news().unwrap(), "two\n");
    }

    #[test]
    fn one_that_comes_later_is_read_from_its_beginning() {
        let log = Log::new();
        let mut followed = log.followed();
        assert!(followed.news().unwrap_err().contains("/log: "));
        log.append("log", "one\n");
        assert_eq!(followed.news().unwrap(), "one\n");
    }

    #[test]
    fn no_line_is_lost_where_it_is_renamed_and_begun_anew() {
        let log = Log::new();
        log.append("log", "old\n");
        let mut followed = log.followed();
        rename(log.place("log"), log.place("log.1")).unwrap();
        log.append("log.1", "last\n");
        assert_eq!(followed.news().unwrap(), "last\n");
        assert!(followed.news().is_err(), "the new one is not there yet");
        log.append("log", "first\n");
        assert_eq!(followed.news().unwrap(), "first\n");
    }

    #[test]
    fn one_that_was_emptied_is_read_from_its_beginning() {
        let log = Log::new();
        log.append("log", "a long line\n");
        let mut followed = log.followed();
        write(log.place("log"), "new\n").unwrap();
        assert_eq!(followed.news().unwrap(), "new\n");
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let log = Log::new();
        std::fs::create_dir(log.place("log")).unwrap();
        let mut followed = log.followed();
        assert!(followed.news().unwrap_err().contains("not a file"));
        std::fs::remove_dir(log.place("log")).unwrap();
        write(log.place("log"), vec![b'x'; LINE_BYTES_MAX + 1]).unwrap();
        assert!(followed.news().unwrap_err().contains("more than 65536 bytes"));
        remove_file(log.place("log")).unwrap();
    }
}
