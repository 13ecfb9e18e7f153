//! A file of the kernel that holds one number, read again and again.

use crate::Root;
use crate::kept_files::System;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// More than any number takes.
const BYTES: usize = 64;

/// The file. It stays open if it lies in sysfs, which generates its text for each read, as opening
/// takes several times as long as reading. Elsewhere another file may have its name by now.
#[derive(Debug)]
pub(super) struct Attribute {
    path: String,
    kept: Option<File>,
}

impl Clone for Attribute {
    fn clone(&self) -> Self {
        Self::new(self.path.clone())
    }
}

impl Attribute {
    pub const fn new(path: String) -> Self {
        Self { path, kept: None }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The number in it.
    ///
    /// # Errors
    /// Says which file, and how to get at it where it may not be read.
    pub fn number(&mut self, root: &Root) -> Result<u64, String> {
        let path = &self.path;
        let mut buffer = [0; BYTES];
        // A file that cannot be read any more (its device is gone) may be back under its name.
        let kept = self.kept.as_ref().and_then(|file| read(file, &mut buffer).ok());
        let count = match kept {
            Some(count) => count,
            None => {
                self.kept = None;
                let opened = File::open(root.path(path));
                let file = opened.map_err(|error| unreadable(path, &error))?;
                let count = read(&file, &mut buffer).map_err(|error| unreadable(path, &error))?;
                self.kept = (System::of(&file) == System::Values).then_some(file);
                count
            }
        };
        let text = String::from_utf8_lossy(&buffer[..count]);
        let text = text.trim_end();
        parse_number(text).ok_or_else(|| format!("{path} says {text:?}, not a number"))
    }
}

/// A number of a file of sysfs.
///
/// # Errors
/// Says which file, and how to get at it where it may not be read.
pub(super) fn number(root: &Root, path: &str) -> Result<u64, String> {
    Attribute::new(path.to_owned()).number(root)
}

/// A number as sysfs writes it.
#[must_use]
pub fn parse_number(text: &str) -> Option<u64> {
    let digits = text.trim();
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, 0) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn unreadable(path: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "{path} may not be read: run as root or with CAP_DAC_READ_SEARCH, or make it readable \
             for a group with a udev rule"
        ),
        _ => wattio_files::plain(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_sysfs_stays_open_and_another_is_opened_anew() {
        let mut real = Attribute::new("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size".into());
        if let Ok(number) = real.number(&Root::default()) {
            assert!(real.kept.is_some());
            assert_eq!(real.number(&Root::default()), Ok(number));
        }
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut attribute = Attribute::new("/energy_uj".into());
        for (text, number) in [("5\n", 5), ("70", 70)] {
            std::fs::write(folder.path().join("new"), text).unwrap();
            std::fs::rename(folder.path().join("new"), folder.path().join("energy_uj")).unwrap();
            assert_eq!(attribute.number(&root), Ok(number));
        }
        assert!(attribute.kept.is_none());
        std::fs::remove_file(folder.path().join("energy_uj")).unwrap();
        assert!(attribute.number(&root).unwrap_err().starts_with("/energy_uj: "));
    }
}
