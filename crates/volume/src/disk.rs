//! A device while the volume is made or opened, when nothing else is to be done meanwhile.

use std::io;
use wattio_pages::Pages;

/// A device that is read and written in whole blocks, one thing at a time.
pub trait Disk {
    /// Its size.
    fn bytes(&self) -> u64;

    /// Fills `pages` from `offset`, in bytes.
    ///
    /// # Errors
    /// When not all of it could be read.
    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()>;

    /// Writes `pages` to `offset`, in bytes.
    ///
    /// # Errors
    /// When not all of it could be written.
    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// When that is not certain.
    fn flush(&mut self) -> io::Result<()>;
}
