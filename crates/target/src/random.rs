//! Random numbers by which volumes, and their openings, are told apart.

use crate::device::DeviceError;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Draws bytes.
pub(crate) fn draw<const BYTES: usize>() -> Result<[u8; BYTES], DeviceError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; BYTES];
    File::open(path).and_then(|mut file| file.read_exact(&mut bytes)).map_err(|error| {
        DeviceError::System { path: path.to_path_buf(), what: "read it", error }
    })?;
    Ok(bytes)
}
