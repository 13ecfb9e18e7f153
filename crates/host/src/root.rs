//! The root folder of the host's files.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most that is read of one file.
pub(crate) const FILE_BYTES_MAX: usize = 16 << 20;

/// The bytes as text, as far as they are text. `String::from_utf8_lossy` goes through them one by one,
/// and takes longer than anything else that is done with a long page; all that is read in every window
/// is text as a rule.
pub(crate) fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// The folder under which `/sys`, `/proc` and the rest lie: `/` on a host, any folder in a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl Root {
    /// Another folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Where a path such as `/sys/block` lies.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file, as far as it is text, without the line's end.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(
            &mut io::Read::take(fs::File::open(self.path(path))?, FILE_BYTES_MAX as u64),
            &mut bytes,
        )?;
        Ok(as_text(&bytes).trim_end().to_owned())
    }

    /// Writes a value in one call, as sysfs wants it; the file must be there.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(self.path(path))?;
        io::Write::write_all(&mut file, value.as_bytes())
    }

    /// The names in a folder, sorted; none where there is no such folder.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether there is such a file or folder.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether there surely is no such file or folder: if it may not be looked at, both this and
    /// [`Root::exists`] are false.
    #[must_use]
    pub fn lacks(&self, path: &str) -> bool {
        let looked = fs::metadata(self.path(path));
        looked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }
}
