//! Files and block devices that hold volumes: opened for direct I/O, and locked.

use crate::log::detail;
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_getfl, fcntl_setfl, flock,
};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use wattio_pages::{BLOCK, Pages};
use wattio_volume::Disk;

/// How long a process that was killed may hold its files and sockets.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two tries.
pub const RETRY: Duration = Duration::from_millis(10);

/// Why a device cannot be used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The operating system refuses.
    #[error("{}: cannot {what}: {error}", path.display())]
    System {
        /// Which one.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
    /// It is neither a file nor a block device.
    #[error("{}: is neither a file nor a block device", .0.display())]
    Kind(PathBuf),
    /// Another process has it.
    #[error("{}: in use by another process{}", path.display(), if *is_kernel {
        " or mounted"
    } else {
        ""
    })]
    InUse {
        /// Which one.
        path: PathBuf,
        /// Whether it was the kernel that said so, of a block device.
        is_kernel: bool,
    },
    /// It was named before.
    #[error("{}: is the same device as {}", path.display(), other.display())]
    Same {
        /// Which one.
        path: PathBuf,
        /// What it was called before.
        other: PathBuf,
    },
    /// There is something in it.
    #[error("{}: holds {what}; --force overwrites it", path.display())]
    Occupied {
        /// Which one.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// A device cannot grow.
    #[error("{}: has {bytes} bytes, and {needed} are needed", path.display())]
    TooSmall {
        /// Which one.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
}

impl DeviceError {
    /// Whether what was named can be no device of a volume, however often it is tried.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Kind(_) | Self::Same { .. } | Self::Occupied { .. } | Self::TooSmall { .. }
        )
    }

    /// Whether nothing is there: a wrong path, or a device that comes later.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let Self::System { error, .. } = self else { return false };
        matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
        )
    }
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look at it, while others may do so too.
    Look,
    /// To serve it: nobody else may have it.
    Own,
    /// The same, and a file is made if there is none.
    Create,
}

/// An open device. The lock is held as long as this lives, or a copy of its descriptor.
#[derive(Clone, Debug)]
pub struct Device {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
    is_block: bool,
    is_direct: bool,
}

impl Device {
    /// Opens and locks a device.
    ///
    /// # Errors
    /// When it is in use, of the wrong kind, or the operating system refuses.
    pub fn open(path: &Path, access: Access) -> Result<Self, DeviceError> {
        let found = std::fs::metadata(path).ok().map(|found| found.file_type());
        let is_block = found.is_some_and(|kind| kind.is_block_device());
        if found.is_some_and(|kind| !kind.is_file() && !kind.is_block_device()) {
            return Err(DeviceError::Kind(path.to_owned()));
        }
        let mut flags = OFlags::CLOEXEC;
        if is_block && access != Access::Look {
            flags |= OFlags::EXCL;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Look);
        options.create(access == Access::Create && !is_block).mode(0o600);
        options.custom_flags(flags.bits() as i32);
        let mut file = options.open(path).map_err(|error| match error.raw_os_error() {
            Some(number) if is_block && number == Errno::BUSY.raw_os_error() => {
                DeviceError::InUse { path: path.to_owned(), is_kernel: true }
            }
            _ => system(path, "open it")(error),
        })?;
        lock(path, &file, access)?;
        // Only now: on some file systems the flag fails when it is set, on others at the first use.
        let is_direct =
            fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT)).is_ok();
        let bytes = file.seek(SeekFrom::End(0)).map_err(system(path, "tell its size"))?;
        detail(|| {
            let how = match access {
                Access::Look => "to look at it",
                Access::Own | Access::Create => "to write to it",
            };
            let cache = if is_direct { "by direct I/O" } else { "through the kernel's cache" };
            format!("opened {} {how}, {cache}: {bytes} bytes", path.display())
        });
        let path = path.to_owned();
        Ok(Self { file: Arc::new(file), path, bytes, is_block, is_direct })
    }

    /// Opens and locks a device, and waits a while if it is in use: a process that was killed lets
    /// go of its files only when the kernel has ended what it had under way.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_within(
        path: &Path,
        access: Access,
        patience: Duration,
    ) -> Result<Self, DeviceError> {
        let until = Instant::now() + patience;
        loop {
            match Self::open(path, access) {
                Err(DeviceError::InUse { .. }) if Instant::now() < until => {
                    std::thread::sleep(RETRY);
                }
                opened => return opened,
            }
        }
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is a block device.
    #[must_use]
    pub const fn is_block(&self) -> bool {
        self.is_block
    }

    /// Whether the kernel's cache is passed by.
    #[must_use]
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Gives a file `bytes`, with space on the disk for all of them; a block device has to have
    /// them.
    ///
    /// # Errors
    /// When there is no space.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), DeviceError> {
        if self.is_block {
            if self.bytes < bytes {
                let (path, has) = (self.path.clone(), self.bytes);
                return Err(DeviceError::TooSmall { path, bytes: has, needed: bytes });
            }
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => {}
            // Such a file system may run out of space later; the volume then stops writing.
            Err(Errno::OPNOTSUPP) => {
                self.file.set_len(bytes).map_err(system(&self.path, "set its size"))?;
            }
            Err(error) => return Err(system(&self.path, "reserve its space")(error.into())),
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }

    /// Makes a file as small again as it was before [`Self::reserve`].
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn give_back(&mut self, bytes: u64) -> Result<(), DeviceError> {
        if !self.is_block {
            self.file.set_len(bytes).map_err(system(&self.path, "set its size"))?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// A descriptor of it, for a ring.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }
}

/// Which device a path leads to, whatever it is called; `None` if nothing is there.
pub(crate) fn identity(path: &Path) -> Option<(bool, u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some(match found.file_type().is_block_device() {
        true => (true, found.rdev(), 0),
        false => (false, found.dev(), found.ino()),
    })
}

/// Refuses one device under two names: a lock would find it in use by another process, and the volume
/// that it holds would be a copy of itself.
pub(crate) fn refuse_same(paths: &[PathBuf]) -> Result<(), DeviceError> {
    for (at, path) in paths.iter().enumerate() {
        let Some(found) = identity(path) else { continue };
        if let Some(other) = paths[..at].iter().find(|other| identity(other) == Some(found)) {
            return Err(DeviceError::Same { path: path.clone(), other: other.clone() });
        }
    }
    Ok(())
}

fn lock(path: &Path, file: &File, access: Access) -> Result<(), DeviceError> {
    let operation = match access {
        Access::Look => FlockOperation::NonBlockingLockShared,
        Access::Own | Access::Create => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(file, operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            Err(DeviceError::InUse { path: path.to_owned(), is_kernel: false })
        }
        Err(error) => Err(system(path, "lock it")(error.into())),
    }
}

fn system(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |error| DeviceError::System { path, what, error }
}

impl Disk for Device {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn name(&self) -> Option<String> {
        Some(self.path.display().to_string())
    }

    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()> {
        // So that a file too small for a superblock is one without, and so is one that ends within a
        // block: sizes are checked after that.
        if offset >= self.bytes / BLOCK as u64 * BLOCK as u64 {
            pages.as_bytes_mut().fill(0);
            return Ok(());
        }
        self.file.read_exact_at(pages.as_bytes_mut(), offset)
    }

    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()> {
        self.file.write_all_at(pages.as_bytes(), offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Whether the first mebibyte, where superblocks and partition tables lie, is all zeros.
///
/// # Errors
/// When it cannot be read.
pub fn is_blank(device: &mut Device) -> io::Result<bool> {
    let blocks = (device.bytes().min(1 << 20) as usize) / BLOCK;
    let mut pages = Pages::zeroed(blocks);
    device.read_at(0, &mut pages)?;
    Ok(pages.as_bytes().iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_use_is_refused_until_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let missing = Device::open(&path, Access::Own).unwrap_err().to_string();
        assert!(missing.contains("cannot open it"), "{missing}");
        let first = Device::open(&path, Access::Create).unwrap();
        for access in [Access::Look, Access::Own] {
            let refused = Device::open(&path, access).unwrap_err().to_string();
            assert!(refused.ends_with("disk: in use by another process"), "{refused}");
        }
        // The ring's descriptor keeps the lock too.
        let descriptor = first.descriptor().unwrap();
        drop(first);
        assert!(Device::open(&path, Access::Own).is_err());
        drop(descriptor);
        Device::open(&path, Access::Own).unwrap();
        let refused = Device::open(folder.path(), Access::Look).unwrap_err().to_string();
        assert!(refused.contains("neither a file nor a block device"), "{refused}");
    }

    #[test]
    fn what_is_written_is_read_and_space_is_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let mut device = Device::open(&folder.path().join("disk"), Access::Create).unwrap();
        assert_eq!(device.bytes(), 0);
        assert!(is_blank(&mut device).unwrap());
        device.reserve(1 << 20).unwrap();
        assert!(is_blank(&mut device).unwrap());
        let pages = Pages::from_slice(&[7; 5000]);
        device.write_at(8192, &pages).unwrap();
        device.flush().unwrap();
        let mut read = Pages::zeroed(2);
        device.read_at(8192, &mut read).unwrap();
        assert_eq!(read, pages);
        assert!(!is_blank(&mut device).unwrap());
        assert!(device.read_at((1 << 20) - 4096, &mut read).is_err(), "across the end");
        device.read_at(1 << 20, &mut read).unwrap();
        assert_eq!(read, Pages::zeroed(2), "beyond the end");
    }

    /// `wattio-target check` of one said "failed to fill whole buffer", with exit code 1.
    #[test]
    fn a_file_that_ends_within_a_block_holds_no_volume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("garbage");
        for bytes in [0, 1, 100, 4095, 4097, 10_000] {
            std::fs::write(&path, vec![b'x'; bytes]).unwrap();
            let mut device = Device::open(&path, Access::Look).unwrap();
            let found = wattio_volume::read_superblock(&mut device, 0).unwrap_err();
            assert!(matches!(found, wattio_volume::OpenError::NoVolume(_)), "{bytes}: {found}");
        }
    }
}
