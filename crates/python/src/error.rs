//! One error for Python: input that cannot be used, as a message.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use std::path::Path;
use wattio_files::plain;

create_exception!(
    wattio._core,
    InputError,
    PyValueError,
    "Input that cannot be used: file, line or key, what was wrong, what is allowed."
);

/// A fault on its way to Python.
#[derive(Debug)]
pub struct Fault(String);

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Names the file, unless the error does already.
    pub fn in_file(path: &Path, error: &impl std::error::Error) -> Self {
        let (path, message) = (path.display().to_string(), error.to_string());
        if message.contains(&path) { Self(message) } else { Self(format!("{path}: {message}")) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        InputError::new_err(plain(fault.0))
    }
}
