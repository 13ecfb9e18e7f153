//! What C and Fortran call: `wattio_io.h` says what each call does.
//!
//! A handle may be used by several threads: each call holds its lock, and those that wait for the writer
//! sleep without it. Nothing of Rust's leaves a call: a panic becomes a code.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)]

pub mod damaris;
mod peers;

pub use peers::CPeers;

use crate::block::{AXES_MAX, Type, Value};
use crate::error::{Error, Result};
use crate::open::{self, JobReport, Member, RankReport};
use crate::session::{Ending, Session};
use crate::shared::Shared;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_double, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattio_files::printable_line;

const OK: c_int = 0;
const STEP_FAILED: c_int = 1;
const INPUT: c_int = 2;
const HOST: c_int = 3;
const TIMED_OUT: c_int = 4;
const INTERNAL: c_int = 5;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    static LAST_REPORT: RefCell<CString> = RefCell::default();
}

/// What keeps the memory of blocks where it is.
pub struct Kept(#[allow(dead_code)] Arc<Shared>);

/// A session, as programs hold it.
pub struct Handle {
    state: Mutex<State>,
}

enum State {
    /// A rank of a job with peers.
    Member(Box<Member>),
    /// A rank that has met its writer at a path.
    Alone(Box<Session>, usize, String),
}

// SAFETY: pointers that were put deferred are followed within `wattio_io_end_step`, whose caller has
// promised in `wattio_io.h` that they are valid until then, whichever thread calls it.
unsafe impl Send for State {}

impl State {
    fn session(&mut self) -> Result<&mut Session> {
        match self {
            Self::Alone(session, ..) => Ok(session),
            Self::Member(member) => member
                .session
                .as_mut()
                .ok_or_else(|| Error::Input("this rank only writes (is_writer)".to_owned())),
        }
    }
}

/// Run a call; its code, and the text of what went wrong.
fn call(what: impl FnOnce() -> Result<()>) -> c_int {
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
    let (code, text) = match found {
        Ok(Ok(())) => return OK,
        Ok(Err(error)) => {
            let code = match &error {
                Error::StepFailed(_) => STEP_FAILED,
                Error::Input(_) => INPUT,
                Error::Host(_) => HOST,
                Error::TimedOut(_) => TIMED_OUT,
            };
            (code, error.to_string())
        }
        Err(_) => (INTERNAL, "a fault within wattio_io; please report it".to_owned()),
    };
    let text = CString::new(printable_line(&text)).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
    code
}

/// The handles that are open, as numbers.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn open_handles() -> MutexGuard<'static, Vec<usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_open(handle: *mut Handle) -> Error {
    Error::Input(match handle.is_null() {
        true => "the handle is NULL".to_owned(),
        false => "the handle is not open: its session has been closed".to_owned(),
    })
}

/// Run a call on a handle.
///
/// # Safety
///
/// No other thread closes the handle meanwhile.
unsafe fn with(handle: *mut Handle, what: impl FnOnce(&mut State) -> Result<()>) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let handle = unsafe { opened(handle)? };
        what(&mut handle.state.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// The handle, if it is one.
///
/// # Safety
///
/// As `with`.
unsafe fn opened<'a>(handle: *mut Handle) -> Result<&'a Handle> {
    if !open_handles().contains(&handle.addr()) {
        return Err(not_open(handle));
    }
    // SAFETY: it is open, and stays so for as long as the call.
    Ok(unsafe { &*handle })
}

/// Run a call on a handle that waits until `what` finds something, or until a moment; other threads use
/// the handle meanwhile.
///
/// # Safety
///
/// As `with`.
unsafe fn waiting(
    handle: *mut Handle,
    until: Option<Instant>,
    late: impl FnOnce() -> Result<()>,
    mut what: impl FnMut(&mut Session) -> Result<bool>,
) -> Result<()> {
    // SAFETY: as the caller says.
    let handle = unsafe { opened(handle)? };
    let mut in_time = true;
    loop {
        let mut state = handle.state.lock().unwrap_or_else(PoisonError::into_inner);
        let session = state.session()?;
        let nap = session.nap();
        if what(session)? {
            return Ok(());
        }
        drop(state);
        if !in_time {
            return late();
        }
        in_time = nap.sleep(until)?;
    }
}

/// Run a call on a handle that may sleep until the writer is further, which counts as blocked; other
/// threads use the handle meanwhile.
///
/// # Safety
///
/// As `with`.
unsafe fn blocking(
    handle: *mut Handle,
    mut what: impl FnMut(&mut Session) -> Result<bool>,
) -> Result<()> {
    let mut asleep: Option<Instant> = None;
    let look = |session: &mut Session| {
        if let Some(since) = asleep.take() {
            session.add_blocked(since.elapsed());
        }
        let found = what(session)?;
        asleep = (!found).then(Instant::now);
        Ok(found)
    };
    // SAFETY: as the caller says.
    unsafe { waiting(handle, None, || Ok(()), look) }
}

/// # Safety
///
/// `at` is null, or a string that ends with NUL.
unsafe fn text<'a>(at: *const c_char, what: &str) -> Result<&'a str> {
    if at.is_null() {
        return Err(Error::Input(format!("{what} is NULL")));
    }
    // SAFETY: as the caller says.
    let found = unsafe { CStr::from_ptr(at) };
    found.to_str().map_err(|_| Error::Input(format!("{what} is not text in UTF-8")))
}

/// # Safety
///
/// As `text`.
unsafe fn path(at: *const c_char, what: &str) -> Result<PathBuf> {
    if at.is_null() {
        return Err(Error::Input(format!("{what} is NULL")));
    }
    // SAFETY: as the caller says.
    let found = unsafe { CStr::from_ptr(at) }.to_bytes();
    if found.is_empty() {
        return Err(Error::Input(format!("{what} is empty")));
    }
    Ok(PathBuf::from(OsStr::from_bytes(found)))
}

/// Extents; none for null.
///
/// # Safety
///
/// `at` is null, or points to so many numbers.
unsafe fn extents(at: *const i64, count: usize, what: &str) -> Result<Option<Vec<u64>>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let found = unsafe { std::slice::from_raw_parts(at, count) };
    let one = |&number: &i64| {
        u64::try_from(number)
            .map_err(|_| Error::Input(format!("{what} {found:?}: an extent is below 0")))
    };
    found.iter().map(one).collect::<Result<_>>().map(Some)
}

/// # Safety
///
/// `at` is null or can be written to.
unsafe fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: as the caller says.
        unsafe { at.write(value) };
    }
}

/// Refuse to look for what there is no place for: a program that gives none has a mistake.
fn place_for<T>(at: *mut T, what: &str) -> Result<()> {
    if at.is_null() { Err(Error::Input(format!("{what} is NULL"))) } else { Ok(()) }
}

/// The folder that this library lies in.
fn own_folder() -> Option<PathBuf> {
    // SAFETY: a structure of plain pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here: *const c_void = (wattio_io_error as *const ()).cast();
    // SAFETY: the address is of this library; the structure is filled.
    let named = unsafe { libc::dladdr(here, &raw mut found) != 0 && !found.dli_fname.is_null() };
    if !named {
        return None;
    }
    // SAFETY: a string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes())).parent().map(Path::to_owned)
}

fn handle(state: State) -> *mut Handle {
    let found = Box::into_raw(Box::new(Handle { state: Mutex::new(state) }));
    open_handles().push(found.expose_provenance());
    found
}

/// End the session of a handle, which is none any more.
///
/// # Safety
///
/// No other thread uses the handle meanwhile.
unsafe fn end(handle: *mut Handle) -> Result<(JobReport, Result<()>)> {
    {
        let mut open = open_handles();
        let at = open.iter().position(|&one| one == handle.addr());
        open.remove(at.ok_or_else(|| not_open(handle))?);
    }
    // SAFETY: it was open, so that it is a handle's own memory, which is taken back once.
    let state = unsafe { Box::from_raw(handle) }.state;
    Ok(match state.into_inner().unwrap_or_else(PoisonError::into_inner) {
        State::Member(mut member) => member.close(),
        State::Alone(mut session, rank, approach) => {
            let end = session.close();
            let own = RankReport { rank, compute: Some(session.report()), writer: None };
            (JobReport { approach, ranks: vec![own] }, end)
        }
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_open(
    config: *const c_char,
    meeting: *const c_char,
    rank: i64,
    ranks: i64,
    io: *mut *mut Handle,
) -> c_int {
    call(|| {
        // SAFETY: as `wattio_io.h` asks, here and in all calls below.
        place_for(io, "io")?;
        unsafe { put(io, std::ptr::null_mut()) };
        let config = unsafe { path(config, "config")? };
        let meeting = unsafe { path(meeting, "path")? };
        let (rank, ranks) = open::rank_of(rank, ranks)?;
        let beside = own_folder();
        let (session, approach) =
            open::open_path(&config, &meeting, rank, ranks, beside.as_deref())?;
        unsafe { put(io, handle(State::Alone(Box::new(session), rank, approach))) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_open_peers(
    peers: *const CPeers,
    config: *const c_char,
    io: *mut *mut Handle,
) -> c_int {
    call(|| {
        place_for(io, "io")?;
        unsafe { put(io, std::ptr::null_mut()) };
        // Before any rank waits for another one: what is wrong with them is so on all.
        let peers = unsafe { CPeers::given(peers) }?;
        // Rank 0's counts, and all wait to hear of it; on others it may be NULL.
        let config = unsafe { path(config, "config") };
        let member = Member::open(Arc::new(peers), config, own_folder().as_deref())?;
        unsafe { put(io, handle(State::Member(Box::new(member)))) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_is_writer(io: *mut Handle, yes: *mut c_int) -> c_int {
    unsafe {
        with(io, |state| {
            place_for(yes, "yes")?;
            put(yes, c_int::from(matches!(state, State::Member(member) if member.is_writer())));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_variable(
    io: *mut Handle,
    name: *const c_char,
    kind: i64,
    axes: i64,
    count: *const i64,
    global_shape: *const i64,
    offset: *const i64,
    variable: *mut i64,
) -> c_int {
    unsafe {
        with(io, |state| {
            let name = text(name, "name")?;
            let refuse = |told: &str| Error::Input(format!("variable {name}: {told}"));
            let kind = Type::of(kind).ok_or_else(|| {
                refuse(&format!("type {kind} is not one of WATTIO_IO_INT8 to WATTIO_IO_FLOAT64"))
            })?;
            // Before anything is read: a number that nobody has set reaches beyond the arrays.
            let axes = usize::try_from(axes).ok().filter(|&axes| axes <= AXES_MAX).ok_or_else(|| {
                refuse(&format!(
                    "{axes} axes; allowed: 0 to {AXES_MAX}, as many in count, global_shape and offset"
                ))
            })?;
            let count = extents(count, axes, "count")?;
            let count = match count {
                None if axes > 0 => return Err(refuse("count is NULL")),
                found => found.unwrap_or_default(),
            };
            let whole = extents(global_shape, axes, "global_shape")?;
            let offset = extents(offset, axes, "offset")?;
            let place = match (&whole, &offset) {
                (Some(whole), Some(offset)) => Some((&whole[..], &offset[..])),
                (None, None) => None,
                _ => return Err(refuse("global_shape and offset go together")),
            };
            if variable.is_null() {
                return Err(refuse("the place for its number is NULL"));
            }
            let found = state.session()?.declare(name, kind, &count, place)?;
            put(variable, found as i64);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_attribute_text(
    io: *mut Handle,
    variable: i64,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    unsafe {
        with(io, |state| {
            let (name, value) = (text(name, "name")?, text(value, "value")?);
            let value = Value::Text(value.to_owned());
            state.session()?.attribute(target(variable)?, name, value)
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_attribute_number(
    io: *mut Handle,
    variable: i64,
    name: *const c_char,
    value: c_double,
) -> c_int {
    unsafe {
        with(io, |state| {
            let name = text(name, "name")?;
            state.session()?.attribute(target(variable)?, name, Value::Number(value))
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_begin_step(io: *mut Handle, step: i64) -> c_int {
    unsafe {
        with(io, |state| {
            let step = number_of(step)?;
            state.session()?.begin_step(step)
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_number_step(io: *mut Handle, step: i64) -> c_int {
    unsafe {
        with(io, |state| {
            let step = number_of(step)?;
            state.session()?.number_step(step)
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_allocate(
    io: *mut Handle,
    variable: i64,
    data: *mut *mut c_void,
) -> c_int {
    call(|| {
        place_for(data, "data")?;
        unsafe { put(data, std::ptr::null_mut()) };
        let allocated = |session: &mut Session| {
            let found = session.allocate(which(variable)?)?;
            unsafe { put(data, found.unwrap_or_default().cast()) };
            Ok(found.is_some())
        };
        unsafe { blocking(io, allocated) }
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_commit(io: *mut Handle, variable: i64) -> c_int {
    unsafe { with(io, |state| state.session()?.commit(which(variable)?)) }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_put(
    io: *mut Handle,
    variable: i64,
    data: *const c_void,
    mode: c_int,
) -> c_int {
    call(|| {
        let deferred = match mode {
            0 => false,
            1 => true,
            _ => {
                return Err(Error::Input(format!(
                    "mode {mode}; allowed: WATTIO_IO_SYNC, WATTIO_IO_DEFERRED"
                )));
            }
        };
        unsafe { blocking(io, |session| session.put(which(variable)?, data.cast(), deferred)) }
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_end_step(io: *mut Handle) -> c_int {
    let mut ending = Ending::default();
    call(|| unsafe { blocking(io, |session| session.end_step(&mut ending)) })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_flush(io: *mut Handle) -> c_int {
    let mut steps = None;
    let flushed = |session: &mut Session| {
        // Not those that other threads hand over meanwhile.
        let steps = *steps.get_or_insert_with(|| session.handed_over());
        session.is_flushed(steps)
    };
    call(|| unsafe { waiting(io, None, || Ok(()), flushed) })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_is_durable(
    io: *mut Handle,
    step: i64,
    yes: *mut c_int,
) -> c_int {
    unsafe {
        with(io, |state| {
            place_for(yes, "yes")?;
            put(yes, 0);
            let found = state.session()?.is_durable(number_of(step)?)?;
            put(yes, c_int::from(found));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_wait_durable(
    io: *mut Handle,
    step: i64,
    seconds: c_double,
) -> c_int {
    // What is below 0, or more than a clock can tell, is no limit.
    let limit = Duration::try_from_secs_f64(seconds);
    if seconds.is_nan() {
        return call(|| Err(Error::Input("seconds is not a number".to_owned())));
    }
    let until = limit.ok().and_then(|limit| Instant::now().checked_add(limit));
    let late = || Err(Error::TimedOut(format!("step {step}: is not durable yet")));
    let durable = |session: &mut Session| session.is_durable(number_of(step)?);
    call(|| unsafe { waiting(io, until, late, durable) })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_keep_memory(io: *mut Handle, kept: *mut *mut Kept) -> c_int {
    unsafe {
        with(io, |state| {
            // Nobody could free it.
            place_for(kept, "kept")?;
            put(kept, std::ptr::null_mut());
            let found = state.session()?.memory();
            put(kept, found.map_or(std::ptr::null_mut(), |one| Box::into_raw(Box::new(Kept(one)))));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_free_memory(kept: *mut Kept) {
    if !kept.is_null() {
        // SAFETY: of `wattio_io_keep_memory`, and given back once, as `wattio_io.h` asks.
        drop(unsafe { Box::from_raw(kept) });
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_close(
    io: *mut *mut Handle,
    report: *mut c_char,
    bytes: usize,
    needed: *mut usize,
) -> c_int {
    call(|| {
        let at = unsafe { io.as_mut() };
        let at = at.ok_or_else(|| Error::Input("io is NULL".to_owned()))?;
        // SAFETY: as `wattio_io.h` asks.
        let (found, end) = unsafe { end(std::mem::replace(at, std::ptr::null_mut())) }?;
        let text = serde_json::to_string(&found).unwrap_or_default();
        unsafe { put(needed, text.len() + 1) };
        if !report.is_null() && bytes > 0 {
            let length = text.len().min(bytes - 1);
            // SAFETY: there is room for so many bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), report.cast(), length);
                report.add(length).write(0);
            }
        }
        let whole = CString::new(text).unwrap_or_default();
        LAST_REPORT.with(|last| *last.borrow_mut() = whole);
        end
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_close_all() -> c_int {
    call(|| {
        let mut first = Ok(());
        loop {
            // Ranks end them in the same order.
            let Some(handle) = open_handles().first().copied() else { return first };
            let handle = std::ptr::with_exposed_provenance_mut::<Handle>(handle);
            // SAFETY: as `wattio_io.h` asks.
            let ended = unsafe { end(handle) }.and_then(|(_, end)| end);
            first = first.and(ended);
        }
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_fail(code: c_int, told: *const c_char) -> c_int {
    call(|| {
        let told = unsafe { text(told, "told")? }.to_owned();
        Err(if code == INPUT { Error::Input(told) } else { Error::Host(told) })
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub extern "C" fn wattio_io_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub extern "C" fn wattio_io_report() -> *const c_char {
    LAST_REPORT.with(|last| last.borrow().as_ptr())
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub extern "C" fn wattio_io_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn which(variable: i64) -> Result<usize> {
    usize::try_from(variable)
        .map_err(|_| Error::Input(format!("variable number {variable}: numbers begin at 0")))
}

/// A variable, or the step that has begun.
fn target(variable: i64) -> Result<Option<usize>> {
    if variable == -1 { Ok(None) } else { which(variable).map(Some) }
}

fn number_of(step: i64) -> Result<u64> {
    u64::try_from(step).map_err(|_| Error::Input(format!("step {step}: steps begin at 0 and rise")))
}

#[cfg(test)]
mod tests;
