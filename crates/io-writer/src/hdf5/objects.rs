//! Files, their datasets and attributes.

use super::calls::{ALL, ALLOCATE_EARLY, DEFAULT, FILL_NEVER, Id, NO_ADDRESS, UTF8, VARIABLE};
use super::{Handle, Hdf5, Hdf5Error, Kind, Result, c_string};
use std::ffi::{CStr, c_int, c_void};

/// An open file.
pub struct File<'a>(pub(super) Handle<'a>);

/// A dataset of an open file.
pub struct Dataset<'a>(Handle<'a>);

/// A dataset that consists of others, in other files, while they are told.
pub struct Virtual<'a> {
    pub(super) library: &'a Hdf5,
    pub(super) properties: Handle<'a>,
    pub(super) whole: Handle<'a>,
    /// The extents of the part before, which many have in common.
    pub(super) part: Option<(Vec<u64>, Handle<'a>)>,
}

impl Virtual<'_> {
    /// A part of it: the file, beside the one that has the virtual dataset, the dataset in it, where it
    /// begins in the whole, and its extents.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn add(&mut self, file: &CStr, dataset: &str, offset: &[u64], count: &[u64]) -> Result<()> {
        let dataset = c_string(dataset)?;
        if self.part.as_ref().is_none_or(|(extents, _)| extents != count) {
            self.part = Some((count.to_vec(), self.library.space(Some(count))?));
        }
        let Some((_, part)) = &self.part else { return Ok(()) };
        self.library.select(&self.whole, offset, count)?;
        // SAFETY: as above.
        self.library.check(unsafe {
            (self.library.calls.H5Pset_virtual)(
                self.properties.id,
                self.whole.id,
                file.as_ptr(),
                dataset.as_ptr(),
                part.id,
            )
        })
    }
}

impl File<'_> {
    /// Make a group.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn group(&self, name: &str) -> Result<()> {
        let (library, name) = (self.0.library, c_string(name)?);
        // SAFETY: as above.
        let id = unsafe {
            (library.calls.H5Gcreate2)(self.0.id, name.as_ptr(), DEFAULT, DEFAULT, DEFAULT)
        };
        Handle::new(library, id, library.calls.H5Gclose).map(|_| ())
    }

    /// Make a dataset whose place in the file is fixed at once, and not written to.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn plain(&self, name: &str, kind: Kind, extents: &[u64]) -> Result<Dataset<'_>> {
        let library = self.0.library;
        let properties = library.properties()?;
        // SAFETY: as above.
        unsafe {
            library.check((library.calls.H5Pset_alloc_time)(properties.id, ALLOCATE_EARLY))?;
            library.check((library.calls.H5Pset_fill_time)(properties.id, FILL_NEVER))?;
        }
        self.dataset(name, kind, &library.space(Some(extents))?, &properties)
    }

    /// Make a dataset in chunks that are compressed.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn deflated(
        &self,
        name: &str,
        kind: Kind,
        extents: &[u64],
        chunk: &[u64],
        level: u8,
    ) -> Result<Dataset<'_>> {
        let library = self.0.library;
        let properties = library.properties()?;
        // SAFETY: as above; a chunk has as many extents as the dataset.
        unsafe {
            library.check((library.calls.H5Pset_chunk)(
                properties.id,
                chunk.len() as c_int,
                chunk.as_ptr(),
            ))?;
            library.check((library.calls.H5Pset_deflate)(properties.id, level.into()))?;
        }
        self.dataset(name, kind, &library.space(Some(extents))?, &properties)
    }

    /// Make a dataset of the parts that have been told.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn made_of(
        &self,
        name: &str,
        kind: Kind,
        extents: &[u64],
        parts: &Virtual<'_>,
    ) -> Result<Dataset<'_>> {
        self.dataset(name, kind, &self.0.library.space(Some(extents))?, &parts.properties)
    }

    /// Close the file: only then all of it is written.
    ///
    /// # Errors
    ///
    /// HDF5's. The file is no use then; what HDF5 holds of it stays.
    pub fn close(self) -> Result<()> {
        let (library, id) = (self.0.library, self.0.id);
        std::mem::forget(self.0);
        // SAFETY: closed once, since it was forgotten.
        library.check(unsafe { (library.calls.H5Fclose)(id) })
    }

    fn dataset(
        &self,
        name: &str,
        kind: Kind,
        space: &Handle<'_>,
        properties: &Handle<'_>,
    ) -> Result<Dataset<'_>> {
        let (library, name) = (self.0.library, c_string(name)?);
        // SAFETY: as above.
        let id = unsafe {
            (library.calls.H5Dcreate2)(
                self.0.id,
                name.as_ptr(),
                kind.0,
                space.id,
                DEFAULT,
                properties.id,
                DEFAULT,
            )
        };
        Handle::new(library, id, library.calls.H5Dclose).map(Dataset)
    }
}

impl Dataset<'_> {
    /// Where its data lie in the file, in bytes; `None` for one without data.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        // SAFETY: as above.
        let found = unsafe { (self.0.library.calls.H5Dget_offset)(self.0.id) };
        (found != NO_ADDRESS).then_some(found)
    }

    /// Write all of it.
    ///
    /// # Errors
    ///
    /// HDF5's; an error where the data have not the size that is told.
    pub fn write(&self, kind: Kind, elements: u64, bytes: u64, data: &[u8]) -> Result<()> {
        if elements.checked_mul(bytes) != Some(data.len() as u64) {
            return Err(Hdf5Error(format!("{} B for {elements} elements of {bytes}", data.len())));
        }
        let library = self.0.library;
        // SAFETY: the data have as many elements as the dataset, as just seen.
        library.check(unsafe {
            (library.calls.H5Dwrite)(self.0.id, kind.0, ALL, ALL, DEFAULT, data.as_ptr().cast())
        })
    }
}

/// What can carry attributes.
pub trait Attributed {
    /// HDF5's number of it, and the library.
    #[doc(hidden)]
    fn target(&self) -> (&Hdf5, i64);

    /// Set numbers; one alone is a scalar.
    ///
    /// # Errors
    ///
    /// HDF5's.
    fn set_integers(&self, name: &str, values: &[i64], scalar: bool) -> Result<()> {
        let (library, _) = self.target();
        let extents = [values.len() as u64];
        let space = library.space((!scalar).then_some(&extents[..]))?;
        if values.is_empty() {
            return Ok(());
        }
        let data = values.as_ptr().cast();
        attribute(self.target(), name, library.kinds.int64, &space, data)
    }

    /// Set a number.
    ///
    /// # Errors
    ///
    /// HDF5's.
    fn set_number(&self, name: &str, value: f64) -> Result<()> {
        let (library, _) = self.target();
        let data = std::ptr::from_ref(&value).cast();
        attribute(self.target(), name, library.kinds.double, &library.space(None)?, data)
    }

    /// Set a text.
    ///
    /// # Errors
    ///
    /// HDF5's.
    fn set_text(&self, name: &str, text: &str) -> Result<()> {
        let (library, _) = self.target();
        // SAFETY: as above; a copy of a type is closed when it is not needed any more.
        let id = unsafe { (library.calls.H5Tcopy)(library.kinds.string) };
        let kind = Handle::new(library, id, library.calls.H5Tclose)?;
        // SAFETY: as above.
        unsafe {
            library.check((library.calls.H5Tset_size)(kind.id, VARIABLE))?;
            library.check((library.calls.H5Tset_cset)(kind.id, UTF8))?;
        }
        let text = c_string(text)?;
        let pointer = text.as_ptr();
        let data = std::ptr::from_ref(&pointer).cast();
        attribute(self.target(), name, kind.id, &library.space(None)?, data)
    }
}

impl Attributed for File<'_> {
    fn target(&self) -> (&Hdf5, i64) {
        (self.0.library, self.0.id)
    }
}

impl Attributed for Dataset<'_> {
    fn target(&self) -> (&Hdf5, i64) {
        (self.0.library, self.0.id)
    }
}

/// Set an attribute; `data` is of the type and the space that are told.
fn attribute(
    (library, target): (&Hdf5, Id),
    name: &str,
    kind: Id,
    space: &Handle<'_>,
    data: *const c_void,
) -> Result<()> {
    let name = c_string(name)?;
    // SAFETY: as above.
    let id = unsafe {
        (library.calls.H5Acreate2)(target, name.as_ptr(), kind, space.id, DEFAULT, DEFAULT)
    };
    let made = Handle::new(library, id, library.calls.H5Aclose)?;
    // SAFETY: the callers of this module give data of that type and space.
    library.check(unsafe { (library.calls.H5Awrite)(made.id, kind, data) })
}
