//! Memory that processes share, without a name: nothing of it can be left behind.
//!
//! A memfd is handed on as an open file, and is gone when the last process that holds it is. Its size
//! is sealed, so that no process can take memory away that another one has mapped.
#![allow(unsafe_code)]

use crate::client::thread;
use crate::error::{Error, Result, kernel};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes of a word.
pub const WORD: usize = 8;

/// Bytes whose pages are prepared at once.
const SLICE: usize = 4 << 20;

/// From so many bytes on memory is given back beside the program: the kernel takes a millisecond for a
/// few mebibytes.
const LARGE: usize = 1 << 20;

/// A stretch of shared memory.
#[derive(Debug)]
pub struct Shared {
    mapping: ManuallyDrop<Mapping>,
}

/// What is unmapped when it is dropped, and its file closed after that.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: the memory stays mapped as long as the value lives. It is reached as atomic words, or by
// copies through raw pointers, for which it does not matter which thread asks.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Shared {
    /// Reserve memory, filled with zeros; the name is for people only.
    ///
    /// # Errors
    ///
    /// `Host` where there is not so much.
    pub fn create(name: &str, bytes: usize) -> Result<Self> {
        crate::free_memory::check(bytes as u64)?;
        let what = format!("{bytes} B of shared memory for dumps cannot be allocated");
        let file = rustix::fs::memfd_create(
            format!("wattio-io-{name}"),
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )
        .map_err(kernel(&what))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(kernel(&what))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(kernel(&what))?;
        Self::open(file, bytes)
    }

    /// Map what another process has made.
    ///
    /// # Errors
    ///
    /// `Host` where it is smaller, may become so, or cannot be mapped.
    pub fn open(file: OwnedFd, bytes: usize) -> Result<Self> {
        let what = format!("{bytes} B of shared memory cannot be mapped");
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(kernel(&what))?;
        let found = rustix::fs::fstat(&file).map_err(kernel(&what))?.st_size;
        if bytes == 0 || found < 0 || (found as u64) < bytes as u64 {
            return Err(Error::Host(format!("{what}: it has {found} B")));
        }
        if !seals.contains(SealFlags::SHRINK) {
            return Err(Error::Host(format!("{what}: it is not sealed")));
        }
        // SAFETY: a new mapping at a place that the kernel picks; the size has been checked and is
        // sealed, so every byte of it can be reached until it is unmapped.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }
        .map_err(kernel(&what))?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| Error::Host(format!("{what}: it lies at address 0")))?;
        Ok(Self { mapping: ManuallyDrop::new(Mapping { start, bytes, file }) })
    }

    /// Have all pages there: one that is missing later would kill the simulation. Takes a while; whoever
    /// comes before it to a page gets it all the same.
    ///
    /// # Errors
    ///
    /// `Host` where there is no memory for them.
    pub fn reserve(&self) -> Result<()> {
        let what =
            format!("{} B of shared memory for dumps cannot be allocated", self.mapping.bytes);
        rustix::fs::fallocate(
            &self.mapping.file,
            FallocateFlags::empty(),
            0,
            self.mapping.bytes as u64,
        )
        .map_err(kernel(&what))
    }

    /// Have all pages in this process's tables, so that nobody has to wait for them later. Of no
    /// consequence where the kernel cannot.
    pub fn populate(&self) {
        // Bit by bit, so that others of this process who map memory need not wait for all of it.
        for offset in (0..self.mapping.bytes).step_by(SLICE) {
            let bytes = SLICE.min(self.mapping.bytes - offset);
            // SAFETY: within the mapping; no page changes by it.
            let _ = unsafe {
                rustix::mm::madvise(
                    self.mapping.start.as_ptr().add(offset).cast::<c_void>(),
                    bytes,
                    Advice::LinuxPopulateWrite,
                )
            };
        }
    }

    /// The open file, to be handed on.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.mapping.file
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    /// The word at an offset in bytes, which is a multiple of 8.
    ///
    /// # Panics
    ///
    /// Beyond the end.
    #[must_use]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(WORD) && offset + WORD <= self.mapping.bytes,
            "a word at {offset}"
        );
        // SAFETY: it lies within the mapping and is aligned; all processes use these bytes as atomic
        // words only.
        unsafe { AtomicU64::from_ptr(self.mapping.start.as_ptr().add(offset).cast::<u64>()) }
    }

    /// Where bytes lie in this process's memory; `None` beyond the end.
    #[must_use]
    pub fn pointer(&self, offset: u64, bytes: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        if end > self.mapping.bytes as u64 {
            return None;
        }
        // SAFETY: within the mapping, as just seen.
        Some(unsafe { self.mapping.start.add(offset as usize) })
    }

    /// Copy bytes in; whether they fit.
    #[must_use]
    pub fn write(&self, offset: u64, data: &[u8]) -> bool {
        let Some(place) = self.pointer(offset, data.len() as u64) else { return false };
        // SAFETY: within the mapping; `data` is this process's own memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), place.as_ptr(), data.len()) };
        true
    }

    /// Copy bytes out; `None` beyond the end.
    #[must_use]
    pub fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let place = self.pointer(offset, bytes)?;
        let mut found = vec![0; bytes as usize];
        // SAFETY: within the mapping; the target is new memory.
        unsafe {
            std::ptr::copy_nonoverlapping(place.as_ptr(), found.as_mut_ptr(), bytes as usize);
        }
        Some(found)
    }

    /// The bytes of a block that is complete; `None` beyond the end.
    ///
    /// Whoever posted them must not change them until they are given back. A program that does so all
    /// the same gets a wrong checksum or wrong data, in the block that it spoils.
    #[must_use]
    pub fn slice(&self, offset: u64, bytes: u64) -> Option<&[u8]> {
        let place = self.pointer(offset, bytes)?;
        // SAFETY: within the mapping, for as long as `self`; every bit pattern is a byte. What is
        // said above is the contract between the processes; they are of one user and one program.
        Some(unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes as usize) })
    }
}

impl Shared {
    /// The bytes of a block that is to be filled; `None` beyond the end.
    ///
    /// Nobody else may use them meanwhile: blocks that have been given out are one owner's until they
    /// are posted.
    #[must_use]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn slice_mut(&self, offset: u64, bytes: u64) -> Option<&mut [u8]> {
        let place = self.pointer(offset, bytes)?;
        // SAFETY: within the mapping, for as long as `self`. `Slot::block`, the only caller, has the
        // slot for itself; the writer reads blocks only when they have been posted.
        Some(unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), bytes as usize) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the value is gone after this, so that nobody takes it again.
        let mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
        if mapping.bytes >= LARGE {
            // Where there can be no thread, it is dropped here.
            let _ = thread("wattio-io-free").spawn(move || drop(mapping));
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference outlives the value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_see_the_same_bytes() {
        let one = Shared::create("test", 8192).unwrap();
        let other = Shared::open(one.file().try_clone().unwrap(), 8192).unwrap();
        one.word(16).store(7, Ordering::Release);
        assert!(one.write(100, b"abc"));
        assert_eq!(other.word(16).load(Ordering::Acquire), 7);
        assert_eq!(other.read(100, 3).unwrap(), b"abc");
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let memory = Shared::create("test", 4096).unwrap();
        assert!(memory.pointer(4096, 0).is_some() && memory.pointer(4096, 1).is_none());
        assert!(memory.pointer(u64::MAX, 2).is_none() && !memory.write(4095, b"ab"));
    }

    #[test]
    fn what_is_large_is_given_back_beside_the_program() {
        let name = format!("gone-{}", std::process::id());
        let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(&name);
        let memory = Shared::create(&name, 4 * LARGE).unwrap();
        memory.populate();
        assert!(is_mapped());
        drop(memory);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while is_mapped() {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
    }

    #[test]
    fn nobody_can_make_it_smaller() {
        let memory = Shared::create("test", 8192).unwrap();
        assert!(rustix::fs::ftruncate(memory.file(), 0).is_err());
    }

    #[test]
    fn more_than_there_is_is_refused_with_the_figures() {
        let told = Shared::create("test", 1 << 50).unwrap_err().to_string();
        assert!(told.contains("free") && told.contains("buffer smaller"), "{told}");
    }
}
