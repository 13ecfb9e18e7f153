//! HDF5, as far as writers need it: the machine's own library, loaded when the writer starts.
//!
//! It is loaded rather than linked so that a writer can be built without it, and so that a site's own
//! is used. All calls are made by the value `Hdf5`, which is not shared between threads: HDF5 need not
//! be thread-safe. Since version 1.10 its identifiers have 64 bits; older ones are refused.
#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

type Id = i64;
type Status = c_int;
type Walk = unsafe extern "C" fn(c_uint, *const ErrorRecord, *mut c_void) -> Status;

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

// From H5public.h, H5Ipublic.h and others: values that have not changed since 1.10.
const DEFAULT: Id = 0;
const TRUNCATE: c_uint = 2;
const ALL: Id = 0;
const ALLOCATE_EARLY: c_int = 1;
const FILL_NEVER: c_int = 1;
const SELECT_SET: c_int = 0;
const SCALAR: c_int = 0;
const UTF8: c_int = 1;
const VARIABLE: usize = usize::MAX;
const DEFLATE: c_int = 1;
const WALK_DOWNWARD: c_int = 1;
const UNLIMITED: c_int = -1;
const NO_ADDRESS: u64 = u64::MAX;

/// `H5E_error2_t`.
#[repr(C)]
struct ErrorRecord {
    class: Id,
    major: Id,
    minor: Id,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    description: *const c_char,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl Functions {
            /// # Safety
            ///
            /// The library is HDF5 from 1.10 on, and stays loaded as long as the value lives.
            unsafe fn find(library: &Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self { $(
                    // SAFETY: the signature is that of HDF5's header.
                    $name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },
                )* })
            }
        }
    };
}

functions! {
    H5open: fn() -> Status;
    H5set_free_list_limits: fn(c_int, c_int, c_int, c_int, c_int, c_int) -> Status;
    H5get_libversion: fn(*mut c_uint, *mut c_uint, *mut c_uint) -> Status;
    H5Eset_auto2: fn(Id, *const c_void, *const c_void) -> Status;
    H5Eclear2: fn(Id) -> Status;
    H5Ewalk2: fn(Id, c_int, Walk, *mut c_void) -> Status;
    H5Zfilter_avail: fn(c_int) -> c_int;
    H5Pcreate: fn(Id) -> Id;
    H5Pclose: fn(Id) -> Status;
    H5Pset_alloc_time: fn(Id, c_int) -> Status;
    H5Pset_fill_time: fn(Id, c_int) -> Status;
    H5Pset_fill_value: fn(Id, Id, *const c_void) -> Status;
    H5Pset_chunk: fn(Id, c_int, *const u64) -> Status;
    H5Pset_deflate: fn(Id, c_uint) -> Status;
    H5Pset_virtual: fn(Id, Id, *const c_char, *const c_char, Id) -> Status;
    H5Fcreate: fn(*const c_char, c_uint, Id, Id) -> Id;
    H5Fclose: fn(Id) -> Status;
    H5Gcreate2: fn(Id, *const c_char, Id, Id, Id) -> Id;
    H5Gclose: fn(Id) -> Status;
    H5Screate: fn(c_int) -> Id;
    H5Screate_simple: fn(c_int, *const u64, *const u64) -> Id;
    H5Sselect_hyperslab: fn(Id, c_int, *const u64, *const u64, *const u64, *const u64) -> Status;
    H5Sclose: fn(Id) -> Status;
    H5Tcopy: fn(Id) -> Id;
    H5Tset_size: fn(Id, usize) -> Status;
    H5Tset_cset: fn(Id, c_int) -> Status;
    H5Tclose: fn(Id) -> Status;
    H5Dcreate2: fn(Id, *const c_char, Id, Id, Id, Id, Id) -> Id;
    H5Dget_offset: fn(Id) -> u64;
    H5Dwrite: fn(Id, Id, Id, Id, Id, *const c_void) -> Status;
    H5Dclose: fn(Id) -> Status;
    H5Acreate2: fn(Id, *const c_char, Id, Id, Id, Id) -> Id;
    H5Awrite: fn(Id, Id, *const c_void) -> Status;
    H5Aclose: fn(Id) -> Status;
}

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

/// An open file.
pub struct File<'a>(Handle<'a>);

/// A dataset of an open file.
pub struct Dataset<'a>(Handle<'a>);

/// A dataset that consists of others, in other files, while they are told.
pub struct Virtual<'a> {
    library: &'a Hdf5,
    properties: Handle<'a>,
    whole: Handle<'a>,
    /// The extents of the part before, which many have in common.
    part: Option<(Vec<u64>, Handle<'a>)>,
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
