//! HDF5, as far as writers need it: the machine's own library, loaded when the writer starts.
//!
//! It is loaded rather than linked so that a writer can be built without it, and so that a site's own
//! is used. All calls are made by the value `Hdf5`, which is not shared between threads: HDF5 need not
//! be thread-safe. Since version 1.10 its identifiers have 64 bits; older ones are refused.
#![allow(unsafe_code)]

mod calls;
mod objects;

pub use objects::{Attributed, Dataset, File, Virtual};

use calls::{
    DEFAULT, DEFLATE, ErrorRecord, Functions, Id, SCALAR, SELECT_SET, Status, TRUNCATE, UNLIMITED,
    WALK_DOWNWARD,
};
use libloading::Library;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Names under which systems have the library, and those of Debian without MPI.
const NAMES: [&str; 12] = [
    "libhdf5.so",
    "libhdf5_serial.so",
    "libhdf5.so.320",
    "libhdf5.so.310",
    "libhdf5_serial.so.310",
    "libhdf5.so.200",
    "libhdf5.so.103",
    "libhdf5_serial.so.103",
    "libhdf5.so.101",
    "libhdf5_serial.so.101",
    "libhdf5.so.100",
    "libhdf5_serial.so.100",
];

/// What elements are, in memory and in files alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(Id);

/// The types of numbers that are used.
struct Kinds {
    int8: Id,
    int16: Id,
    int32: Id,
    int64: Id,
    uint8: Id,
    uint16: Id,
    uint32: Id,
    uint64: Id,
    float: Id,
    double: Id,
    string: Id,
}

/// An error of HDF5, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hdf5Error(pub String);

impl std::fmt::Display for Hdf5Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a call gives, or why it failed.
pub type Result<T> = std::result::Result<T, Hdf5Error>;

/// The library.
pub struct Hdf5 {
    calls: Functions,
    kinds: Kinds,
    create_class: Id,
    /// Never unloaded: it would have to be closed before, which can fail and even wait for ever after
    /// a file could not be written.
    _library: std::mem::ManuallyDrop<Library>,
    _one_thread: PhantomData<*const ()>,
}

// SAFETY: `Hdf5` may move to another thread as a whole; it is not `Sync`, so calls never meet.
unsafe impl Send for Hdf5 {}

impl Hdf5 {
    /// Load the library at a path, or the machine's own.
    ///
    /// # Errors
    ///
    /// Where there is none that can be used: what was tried.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let names: Vec<PathBuf> = match path {
            Some(path) => vec![path.to_owned()],
            None => NAMES.iter().map(PathBuf::from).collect(),
        };
        let mut told = String::new();
        for name in &names {
            // SAFETY: loading HDF5 runs its initialisers, which only prepare its own state. What is
            // named by the user is trusted as the program itself is.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::with(library, &name.display().to_string()),
                Err(error) => told = cause(&error),
            }
        }
        Err(Hdf5Error(match path {
            Some(_) => format!("hdf5: cannot be loaded: {told}"),
            None => "no HDF5 library was found: install it (Debian 12: libhdf5-103-1, Debian 13: \
                     libhdf5-310), or name it by hdf5 = \"/path/to/libhdf5.so\""
                .to_owned(),
        }))
    }

    fn with(library: Library, name: &str) -> Result<Self> {
        let unusable =
            |why: &str| Hdf5Error(format!("{name}: is not HDF5 of 1.10 or later: {why}"));
        // SAFETY: see `Functions`; the library stays loaded.
        let calls =
            unsafe { Functions::find(&library) }.map_err(|error| unusable(&cause(&error)))?;
        // SAFETY: of HDF5, which checks its own arguments; as in all calls below.
        if unsafe { (calls.H5open)() } < 0 {
            return Err(unusable("it does not start"));
        }
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: three numbers to be filled.
        unsafe { (calls.H5get_libversion)(&raw mut major, &raw mut minor, &raw mut release) };
        if (major, minor) < (1, 10) {
            return Err(unusable(&format!("it is {major}.{minor}.{release}")));
        }
        // HDF5 copies the parts of a virtual dataset several times, and spends much on keeping the memory
        // that it has free below a mebibyte; what it keeps now is what the largest one has taken.
        let most = UNLIMITED;
        // SAFETY: six limits, each of the memory of one kind that is free.
        unsafe { (calls.H5set_free_list_limits)(most, most, most, most, most, most) };
        // SAFETY: no function is called for errors from now on.
        unsafe { (calls.H5Eset_auto2)(DEFAULT, std::ptr::null(), std::ptr::null()) };
        let variable = |name: &str| -> Result<Id> {
            // SAFETY: these are variables of type `hid_t`, set by `H5open`.
            let found = unsafe { library.get::<*const Id>(format!("{name}\0").as_bytes()) };
            found.map(|at| unsafe { **at }).map_err(|error| unusable(&cause(&error)))
        };
        let kinds = Kinds {
            int8: variable("H5T_NATIVE_INT8_g")?,
            int16: variable("H5T_NATIVE_INT16_g")?,
            int32: variable("H5T_NATIVE_INT32_g")?,
            int64: variable("H5T_NATIVE_INT64_g")?,
            uint8: variable("H5T_NATIVE_UINT8_g")?,
            uint16: variable("H5T_NATIVE_UINT16_g")?,
            uint32: variable("H5T_NATIVE_UINT32_g")?,
            uint64: variable("H5T_NATIVE_UINT64_g")?,
            float: variable("H5T_NATIVE_FLOAT_g")?,
            double: variable("H5T_NATIVE_DOUBLE_g")?,
            string: variable("H5T_C_S1_g")?,
        };
        let create_class = variable("H5P_CLS_DATASET_CREATE_ID_g")?;
        let library = std::mem::ManuallyDrop::new(library);
        Ok(Self { calls, kinds, create_class, _library: library, _one_thread: PhantomData })
    }

    /// Whether data can be compressed.
    #[must_use]
    pub fn can_deflate(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.calls.H5Zfilter_avail)(DEFLATE) > 0 }
    }

    /// The type of elements.
    #[must_use]
    pub fn kind(&self, kind: wattio_io::block::Type) -> Kind {
        use wattio_io::block::Type;
        Kind(match kind {
            Type::Int8 => self.kinds.int8,
            Type::Int16 => self.kinds.int16,
            Type::Int32 => self.kinds.int32,
            Type::Int64 => self.kinds.int64,
            Type::Uint8 => self.kinds.uint8,
            Type::Uint16 => self.kinds.uint16,
            Type::Uint32 => self.kinds.uint32,
            Type::Uint64 => self.kinds.uint64,
            Type::Float32 => self.kinds.float,
            Type::Float64 => self.kinds.double,
        })
    }

    /// Make a file.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn create(&self, path: &Path) -> Result<File<'_>> {
        let name = c_string(&path.to_string_lossy())?;
        // SAFETY: as above; the string lives.
        let id = unsafe { (self.calls.H5Fcreate)(name.as_ptr(), TRUNCATE, DEFAULT, DEFAULT) };
        Ok(File(Handle::new(self, id, self.calls.H5Fclose)?))
    }

    /// A dataset that consists of others, of which none is told yet.
    ///
    /// # Errors
    ///
    /// HDF5's.
    pub fn virtual_(&self, kind: Kind, extents: &[u64]) -> Result<Virtual<'_>> {
        let properties = self.properties()?;
        if kind.0 == self.kinds.float || kind.0 == self.kinds.double {
            let nothing = f64::NAN;
            // SAFETY: as above; a number of the type that is told.
            self.check(unsafe {
                (self.calls.H5Pset_fill_value)(
                    properties.id,
                    self.kinds.double,
                    std::ptr::from_ref(&nothing).cast(),
                )
            })?;
        }
        Ok(Virtual { library: self, properties, whole: self.space(Some(extents))?, part: None })
    }

    fn properties(&self) -> Result<Handle<'_>> {
        // SAFETY: as above.
        let id = unsafe { (self.calls.H5Pcreate)(self.create_class) };
        Handle::new(self, id, self.calls.H5Pclose)
    }

    /// What went wrong in the call before: the last cause, in HDF5's words.
    fn error(&self) -> Hdf5Error {
        unsafe extern "C" fn take(
            _: c_uint,
            record: *const ErrorRecord,
            told: *mut c_void,
        ) -> Status {
            // SAFETY: HDF5 passes a record that is valid during the call, and what we gave it.
            unsafe {
                if !record.is_null() && !(*record).description.is_null() {
                    let text = CStr::from_ptr((*record).description).to_string_lossy();
                    *told.cast::<String>() = text.into_owned();
                }
            }
            0
        }
        let mut told = String::new();
        // SAFETY: the callback is called during this call only, with `told`.
        unsafe {
            (self.calls.H5Ewalk2)(
                DEFAULT,
                WALK_DOWNWARD,
                take,
                std::ptr::from_mut(&mut told).cast(),
            );
            (self.calls.H5Eclear2)(DEFAULT);
        }
        Hdf5Error(if told.is_empty() { "HDF5 does not tell why".to_owned() } else { told })
    }

    fn check(&self, status: Status) -> Result<()> {
        if status < 0 { Err(self.error()) } else { Ok(()) }
    }

    fn space(&self, extents: Option<&[u64]>) -> Result<Handle<'_>> {
        // SAFETY: as above; a scalar has no extents, and others have as many as are told.
        let id = unsafe {
            match extents {
                None | Some([]) => (self.calls.H5Screate)(SCALAR),
                Some(extents) => (self.calls.H5Screate_simple)(
                    extents.len() as c_int,
                    extents.as_ptr(),
                    std::ptr::null(),
                ),
            }
        };
        Handle::new(self, id, self.calls.H5Sclose)
    }

    /// What elements of a space are those of a block.
    fn select(&self, space: &Handle<'_>, offset: &[u64], count: &[u64]) -> Result<()> {
        if count.is_empty() {
            return Ok(());
        }
        // SAFETY: as above; all have the same number of extents.
        self.check(unsafe {
            (self.calls.H5Sselect_hyperslab)(
                space.id,
                SELECT_SET,
                offset.as_ptr(),
                std::ptr::null(),
                count.as_ptr(),
                std::ptr::null(),
            )
        })
    }
}

/// Something of HDF5's that is to be closed.
struct Handle<'a> {
    library: &'a Hdf5,
    id: Id,
    close: unsafe extern "C" fn(Id) -> Status,
}

impl<'a> Handle<'a> {
    fn new(library: &'a Hdf5, id: Id, close: unsafe extern "C" fn(Id) -> Status) -> Result<Self> {
        if id < 0 { Err(library.error()) } else { Ok(Self { library, id, close }) }
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle's own, closed once.
        unsafe { (self.close)(self.id) };
    }
}

/// What the loader says.
fn cause(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Hdf5Error(format!("{text:?} holds NUL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hdf5_is_refused() {
        let told = Hdf5::load(Some(Path::new("/nonexistent.so"))).err().unwrap().0;
        assert!(told.contains("/nonexistent.so"), "{told}");
        let told = Hdf5::load(Some(Path::new("libc.so.6"))).err().unwrap().0;
        assert!(told.contains("libc.so.6: is not HDF5"), "{told}");
    }
}
