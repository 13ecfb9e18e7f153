//! Conversions between Python and the Rust crates, and nothing else.

/// The native module of wattio.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    /// The version of the native module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
