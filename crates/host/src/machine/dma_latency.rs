//! `dma-latency:/dev/cpu_dma_latency`: the longest that processors may take to wake; the request
//! holds as long as the file is open.
//!
//! The value is a number of microseconds, or `released` if this process requests nothing. The
//! kernel uses the smallest of all requests, and drops a process's request when it ends, so there
//! is nothing to restore after a crash. Source: `Documentation/power/pm_qos_interface.rst`.

use super::error::AccessError;
use crate::Root;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt};
use wattio_governor::Address;

/// Where the kernel takes it.
pub const DEVICE: &str = "/dev/cpu_dma_latency";
/// Nothing is asked for.
pub const RELEASED: &str = "released";

/// Where the knob writes.
#[must_use]
pub fn address() -> Address {
    Address::new("dma-latency", DEVICE)
}

/// What this process asks for.
#[derive(Debug, Default)]
pub(super) struct Held(Option<(File, i32)>);

impl Held {
    pub fn read(&self, root: &Root, path: &str) -> Result<String, AccessError> {
        check(root, path)?;
        let value = self.0.as_ref().map(|(_, microseconds)| microseconds.to_string());
        Ok(value.unwrap_or_else(|| RELEASED.to_owned()))
    }

    pub fn write(&mut self, root: &Root, path: &str, value: &str) -> Result<(), AccessError> {
        check(root, path)?;
        if value == RELEASED {
            self.0 = None;
            return Ok(());
        }
        let number = value.parse::<i32>().ok().filter(|number| *number >= 0);
        let microseconds = number.ok_or_else(|| {
            AccessError::refused(format!("does not take {value:?}: microseconds, or {RELEASED:?}"))
        })?;
        let failed = |error| AccessError::of_system(&error, &format!("does not take {value:?}"));
        // It is opened anew, as a plain file of a test would grow; the old request holds meanwhile.
        let opened = OpenOptions::new().read(true).write(true).open(root.path(path));
        let mut file = opened.map_err(failed)?;
        file.write_all(&microseconds.to_ne_bytes()).map_err(failed)?;
        confirm(&file, microseconds)?;
        self.0 = Some((file, microseconds));
        Ok(())
    }
}

/// What is in force is the least of what all processes ask for: no more than what this one does.
fn confirm(file: &File, microseconds: i32) -> Result<(), AccessError> {
    let is_device = file.metadata().is_ok_and(|is| is.file_type().is_char_device());
    let mut bytes = [0; 4];
    if !is_device || file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(());
    }
    let found = i32::from_ne_bytes(bytes);
    if found <= microseconds {
        return Ok(());
    }
    Err(AccessError::refused(format!("{microseconds} was written, but {found} is in force")))
}

fn check(root: &Root, path: &str) -> Result<(), AccessError> {
    if path != DEVICE {
        return Err(AccessError::refused(format!("is not {DEVICE}")));
    }
    if root.exists(path) { Ok(()) } else { Err(AccessError::Gone) }
}

/// What a person can do: nothing is left of a process that ended.
pub(super) fn restore_command() -> String {
    format!("fuser -v {DEVICE}  # the kernel lets go when the process that holds it ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_as_long_as_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut held = Held::default();
        assert_eq!(held.read(&root, DEVICE), Err(AccessError::Gone));
        std::fs::create_dir_all(root.path("/dev")).unwrap();
        std::fs::write(root.path(DEVICE), "").unwrap();
        assert_eq!(held.read(&root, DEVICE).as_deref(), Ok(RELEASED));
        for value in ["20", "0", "5"] {
            held.write(&root, DEVICE, value).unwrap();
            assert_eq!(held.read(&root, DEVICE).as_deref(), Ok(value));
            let bytes = std::fs::read(root.path(DEVICE)).unwrap();
            assert_eq!(
                bytes,
                value.parse::<i32>().unwrap().to_ne_bytes(),
                "as the kernel takes it"
            );
        }
        assert!(held.write(&root, DEVICE, "-1").is_err());
        assert!(held.write(&root, DEVICE, "deep").is_err());
        assert!(held.write(&root, "/dev/mem", "20").is_err());
        assert_eq!(held.read(&root, DEVICE).as_deref(), Ok("5"), "a refusal changes nothing");
        held.write(&root, DEVICE, RELEASED).unwrap();
        assert!(held.0.is_none());
    }
}
