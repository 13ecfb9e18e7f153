//! One error for Python: input that cannot be used, as a message.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, Python};
use std::error::Error;
use std::io;
use std::path::Path;
use wattio_files::plain;

create_exception!(
    wattio._core,
    InputError,
    PyValueError,
    "Input that cannot be used: file, line or key, what was wrong, what is allowed."
);

/// A fault on its way to Python: what is said, and the system's number where it is a disk without room,
/// which is nobody's input.
#[derive(Debug)]
pub struct Fault(String, Option<i32>);

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into(), None)
    }

    /// Names the file, unless the error does already.
    pub fn in_file(path: &Path, error: &(impl Error + 'static)) -> Self {
        let (path, message) = (path.display().to_string(), error.to_string());
        let told = if message.contains(&path) { message } else { format!("{path}: {message}") };
        Self(told, no_room(error))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string(), no_room(&error))
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        let raised = InputError::new_err(plain(fault.0));
        if let Some(number) = fault.1 {
            let said = plain(io::Error::from_raw_os_error(number));
            let cause = PyOSError::new_err((number, said));
            Python::attach(|py| raised.set_cause(py, Some(cause)));
        }
        raised
    }
}

/// The system's number where an error, or what led to it, is a disk or a quota that is used up.
fn no_room(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(found) = next {
        let io = found.downcast_ref::<io::Error>();
        if let Some(io) = io
            && matches!(io.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            return io.raw_os_error();
        }
        next = found.source();
    }
    None
}
