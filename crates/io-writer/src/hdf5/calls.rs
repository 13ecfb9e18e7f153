//! The functions and constants of HDF5's headers that are used.

use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub(super) type Id = i64;
pub(super) type Status = c_int;
pub(super) type Walk = unsafe extern "C" fn(c_uint, *const ErrorRecord, *mut c_void) -> Status;

// From H5public.h, H5Ipublic.h and others: values that have not changed since 1.10.
pub(super) const DEFAULT: Id = 0;
pub(super) const TRUNCATE: c_uint = 2;
pub(super) const ALL: Id = 0;
pub(super) const ALLOCATE_EARLY: c_int = 1;
pub(super) const FILL_NEVER: c_int = 1;
pub(super) const SELECT_SET: c_int = 0;
pub(super) const SCALAR: c_int = 0;
pub(super) const UTF8: c_int = 1;
pub(super) const VARIABLE: usize = usize::MAX;
pub(super) const DEFLATE: c_int = 1;
pub(super) const WALK_DOWNWARD: c_int = 1;
pub(super) const UNLIMITED: c_int = -1;
pub(super) const NO_ADDRESS: u64 = u64::MAX;

/// `H5E_error2_t`.
#[repr(C)]
pub(super) struct ErrorRecord {
    class: Id,
    major: Id,
    minor: Id,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    pub(super) description: *const c_char,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case)]
        pub(super) struct Functions { $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl Functions {
            /// # Safety
            ///
            /// The library is HDF5 from 1.10 on, and stays loaded as long as the value lives.
            pub(super) unsafe fn find(library: &Library) -> std::result::Result<Self, libloading::Error> {
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
