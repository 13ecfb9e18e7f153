//! What is read from files, and read again once they change: certificates run out, tokens are replaced.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What tells that a file is another one than before: device, inode, size, and when it was changed.
type Stamp = Option<[i64; 5]>;

/// How it is read.
type Read<T, E> = dyn Fn() -> Result<T, E> + Send + Sync;

/// A value that is as new as its files.
pub(crate) struct Reloaded<T, E> {
    files: Arc<[PathBuf]>,
    read: Arc<Read<T, E>>,
    last: Arc<Mutex<(Vec<Stamp>, T)>>,
}

/// By hand: what is read need not be one that can be cloned.
impl<T, E> Clone for Reloaded<T, E> {
    fn clone(&self) -> Self {
        Self { files: self.files.clone(), read: self.read.clone(), last: self.last.clone() }
    }
}

impl<T: Clone, E> Reloaded<T, E> {
    /// Reads it for the first time.
    pub fn new(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let last = (stamps(&files), read()?);
        let (files, last) = (files.into(), Arc::new(Mutex::new(last)));
        Ok(Self { files, read: Arc::new(read), last })
    }

    /// The value by what the files hold now. The error is told once, and comes with what they held
    /// before.
    pub fn current(&self) -> (T, Option<E>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.files);
        let error = if last.0 == now {
            None
        } else {
            last.0 = now;
            (self.read)().map(|value| last.1 = value).err()
        };
        (last.1.clone(), error)
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: Metadata| {
        [file.dev() as i64, file.ino() as i64, file.size() as i64, file.ctime(), file.ctime_nsec()]
    };
    files.iter().map(|path| std::fs::metadata(path).ok().map(stamp)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_once_it_changes_and_kept_where_it_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let file = path.clone();
        let read = move || std::fs::read_to_string(&file).unwrap_or_default().parse::<u32>();
        let fresh = Reloaded::new(vec![path.clone()], read).unwrap();
        assert_eq!(fresh.current(), (1, None));
        std::fs::write(&path, "22").unwrap();
        assert_eq!(fresh.clone().current(), (22, None));
        std::fs::write(&path, "none").unwrap();
        let (value, error) = fresh.current();
        assert!(value == 22 && error.is_some());
        assert_eq!(fresh.current(), (22, None), "told once");
        std::fs::remove_file(&path).unwrap();
        assert!(fresh.current().1.is_some());
        std::fs::write(&path, "3").unwrap();
        assert_eq!(fresh.current(), (3, None));
    }
}
