//! What `wattio_damaris.c` calls: descriptions for Damaris, and blocks as they say.

use super::{Handle, blocking, call, path, put, text};
use crate::block::Type;
use crate::damaris::{Description, Number, Shape};
use crate::error::{Error, Result};
use crate::session::Session;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};

/// A description for Damaris, as `wattio_damaris.c` holds it.
pub struct Damaris {
    description: Description,
    positions: HashMap<String, Vec<i64>>,
    /// Memory of blocks that are written nowhere, in words; a program fills it all the same.
    unwritten: HashMap<String, Vec<u64>>,
}

/// Run a call on a description.
///
/// # Safety
///
/// The description is null, or one that `wattio_io_damaris_read` has given and that has not been freed.
unsafe fn with_description(
    damaris: *mut Damaris,
    what: impl FnOnce(&mut Damaris) -> Result<()>,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let damaris = unsafe { damaris.as_mut() };
        what(damaris.ok_or_else(|| Error::Input("damaris_initialize comes first".to_owned()))?)
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_read(
    file: *const c_char,
    damaris: *mut *mut Damaris,
) -> c_int {
    call(|| {
        unsafe { put(damaris, std::ptr::null_mut()) };
        let file = unsafe { path(file, "file")? };
        let description = Description::read(&file)?;
        description
            .config()
            .map_err(|error| Error::Input(format!("{}: {error}", file.display())))?;
        let found =
            Box::new(Damaris { description, positions: HashMap::new(), unwritten: HashMap::new() });
        unsafe { put(damaris, Box::into_raw(found)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_free(damaris: *mut Damaris) {
    if !damaris.is_null() {
        // SAFETY: the description's own memory, taken back once, as `wattio_io.h` asks.
        drop(unsafe { Box::from_raw(damaris) });
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_defines(
    damaris: *mut Damaris,
    name: *const c_char,
    parameter: c_int,
) -> c_int {
    unsafe {
        with_description(damaris, |damaris| {
            let name = text(name, "name")?;
            match parameter {
                0 => damaris.description.check_variable(name),
                _ if damaris.description.text(name).is_some() => Ok(()),
                _ => damaris.description.parameter(name).map(|_| ()),
            }
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_parameter(
    damaris: *mut Damaris,
    name: *const c_char,
    buffer: *mut c_void,
    bytes: usize,
    set: c_int,
) -> c_int {
    unsafe {
        with_description(damaris, |damaris| {
            let name = text(name, "name")?;
            if let Some(found) = damaris.description.text(name) {
                return text_parameter(name, found, buffer.cast(), bytes, set != 0);
            }
            let found = damaris.description.parameter(name)?;
            let size = found.kind.bytes() as usize;
            if buffer.is_null() || bytes < size {
                return Err(Error::Input(format!(
                    "parameter {name:?}: has {size} B, but {bytes} B were given"
                )));
            }
            // SAFETY: the caller gives so many bytes, and the type's are no more.
            if set == 0 {
                let value = to_bytes(found.kind, found.value);
                std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), size);
            } else {
                let mut value = [0; 8];
                std::ptr::copy_nonoverlapping(buffer.cast(), value.as_mut_ptr(), size);
                found.value = from_bytes(found.kind, value);
            }
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_position(
    damaris: *mut Damaris,
    name: *const c_char,
    block: i32,
    position: *const i64,
) -> c_int {
    unsafe {
        with_description(damaris, |damaris| {
            let name = text(name, "name")?;
            let axes = damaris.description.shape(name)?.count.len();
            if position.is_null() {
                return Err(Error::Input(format!("variable {name:?}: position is NULL")));
            }
            // SAFETY: as many as the variable has axes, as `wattio_damaris.h` asks.
            let mut position = std::slice::from_raw_parts(position, axes).to_vec();
            damaris.description.reorder(&mut position);
            damaris.positions.insert(block_name(name, block)?, position);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_write(
    damaris: *mut Damaris,
    io: *mut Handle,
    name: *const c_char,
    block: i32,
    data: *const c_void,
) -> c_int {
    unsafe {
        with_block(damaris, io, name, |damaris, session, name, shape| {
            if data.is_null() && !shape.count.contains(&0) {
                return Err(Error::Input(format!("variable {name:?}: data is NULL")));
            }
            if !shape.stored {
                return Ok(true);
            }
            let own = declare(damaris, session, name, block, &shape.inner(), shape)?;
            if !shape.has_ghosts() {
                return session.put(own, data.cast(), false);
            }
            let Some(to) = session.allocate(own)? else { return Ok(false) };
            let (starts, length) = shape.rows();
            let element = shape.kind.bytes();
            let row = (length * element) as usize;
            for (at, start) in starts.into_iter().enumerate() {
                // SAFETY: the program's block has all elements, its ghost zones too; the room has
                // those of its own, row by row.
                std::ptr::copy_nonoverlapping(
                    data.cast::<u8>().add((start * element) as usize),
                    to.add(at * row),
                    row,
                );
            }
            session.commit(own).map(|()| true)
        })
    }
}

#[unsafe(no_mangle)]
#[allow(missing_docs)]
pub unsafe extern "C" fn wattio_io_damaris_allocate(
    damaris: *mut Damaris,
    io: *mut Handle,
    name: *const c_char,
    block: i32,
    data: *mut *mut c_void,
) -> c_int {
    unsafe {
        put(data, std::ptr::null_mut());
        with_block(damaris, io, name, |damaris, session, name, shape| {
            if !shape.stored {
                let memory = damaris.unwritten.entry(block_name(name, block)?).or_default();
                let bytes = |all: u64, one: &u64| all.checked_mul(*one);
                let bytes = shape.count.iter().try_fold(shape.kind.bytes(), bytes);
                let words = bytes.and_then(|bytes| usize::try_from(bytes.div_ceil(8)).ok());
                let more = words.map(|words| (words, words.saturating_sub(memory.len())));
                match more.map(|(words, more)| (words, memory.try_reserve_exact(more))) {
                    Some((words, Ok(()))) => memory.resize(words, 0),
                    _ => return Err(Error::Host(format!("variable {name:?}: no memory for it"))),
                }
                put(data, memory.as_mut_ptr().cast());
                return Ok(true);
            }
            if shape.has_ghosts() {
                return Err(Error::Input(format!(
                    "variable {name:?}: has ghost zones, which cannot be left out of memory that is \
                     filled in place: write it"
                )));
            }
            let own = declare(damaris, session, name, block, &shape.count, shape)?;
            let found = session.allocate(own)?;
            put(data, found.unwrap_or_default().cast());
            Ok(found.is_some())
        })
    }
}

/// Run a call on a description, a session and a variable, until it is true; nothing for one that is not
/// enabled.
///
/// # Safety
///
/// As `with_description`, `with` and `text`.
unsafe fn with_block(
    damaris: *mut Damaris,
    io: *mut Handle,
    name: *const c_char,
    mut what: impl FnMut(&mut Damaris, &mut Session, &str, &Shape) -> Result<bool>,
) -> c_int {
    unsafe {
        with_description(damaris, |damaris| {
            let name = text(name, "name")?;
            let shape = damaris.description.shape(name)?;
            if io.is_null() {
                return Err(Error::Input("damaris_start comes first".to_owned()));
            }
            if !shape.enabled {
                return Ok(());
            }
            // SAFETY: as the caller says.
            blocking(io, |session| what(damaris, session, name, &shape))
        })
    }
}

/// Declare a block of a variable as parameters and positions are now.
fn declare(
    damaris: &Damaris,
    session: &mut Session,
    name: &str,
    block: i32,
    count: &[u64],
    shape: &Shape,
) -> Result<usize> {
    let own = block_name(name, block)?;
    let offset = damaris.positions.get(&own).map(|position| {
        let one = |&at: &i64| {
            u64::try_from(at).map_err(|_| {
                Error::Input(format!("variable {name:?}: position {position:?} is below 0"))
            })
        };
        position.iter().map(one).collect::<Result<Vec<u64>>>()
    });
    let offset = offset.transpose()?;
    let place = shape.whole.as_deref().zip(offset.as_deref());
    let found = session.declare(&own, shape.kind, count, place)?;
    for (key, value) in &shape.attributes {
        session.attribute(Some(found), key, value.clone())?;
    }
    Ok(found)
}

/// A variable's name in files, where groups are no groups.
fn block_name(name: &str, block: i32) -> Result<String> {
    let own = name.replace('/', ".");
    match block {
        0 => Ok(own),
        1.. => Ok(format!("{own}.{block}")),
        _ => Err(Error::Input(format!(
            "variable {name:?}: block {block}: blocks are numbered from 0"
        ))),
    }
}

/// Get or set a parameter that is text, which ends with NUL in the program's memory.
///
/// # Safety
///
/// `buffer` is null, or has so many bytes.
unsafe fn text_parameter(
    name: &str,
    found: &mut String,
    buffer: *mut u8,
    bytes: usize,
    set: bool,
) -> Result<()> {
    let refuse = |told: String| Err(Error::Input(format!("parameter {name:?}: {told}")));
    if buffer.is_null() || bytes == 0 || (!set && bytes <= found.len()) {
        return refuse(format!("has {} B, but {bytes} B were given", found.len() + 1));
    }
    if set {
        // SAFETY: as the caller says.
        let given = unsafe { std::slice::from_raw_parts(buffer, bytes) };
        let given = given.split(|&byte| byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(given) {
            Ok(text) => text.clone_into(found),
            Err(_) => return refuse("is not text in UTF-8".to_owned()),
        }
        return Ok(());
    }
    // SAFETY: there is room for the text and a NUL.
    unsafe {
        std::ptr::copy_nonoverlapping(found.as_ptr(), buffer, found.len());
        buffer.add(found.len()).write(0);
    }
    Ok(())
}

fn to_bytes(kind: Type, value: Number) -> [u8; 8] {
    let mut found = [0; 8];
    let bytes: Vec<u8> = match (kind, value) {
        (Type::Float32, Number::Real(value)) => (value as f32).to_ne_bytes().to_vec(),
        (_, Number::Real(value)) => value.to_ne_bytes().to_vec(),
        (Type::Int8 | Type::Uint8, Number::Whole(value)) => (value as i8).to_ne_bytes().to_vec(),
        (Type::Int16 | Type::Uint16, Number::Whole(value)) => (value as i16).to_ne_bytes().to_vec(),
        (Type::Int32 | Type::Uint32, Number::Whole(value)) => (value as i32).to_ne_bytes().to_vec(),
        (_, Number::Whole(value)) => value.to_ne_bytes().to_vec(),
    };
    found[..bytes.len()].copy_from_slice(&bytes);
    found
}

fn from_bytes(kind: Type, [a, b, c, d, e, f, g, h]: [u8; 8]) -> Number {
    match kind {
        Type::Float32 => Number::Real(f32::from_ne_bytes([a, b, c, d]).into()),
        Type::Float64 => Number::Real(f64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        Type::Int8 | Type::Uint8 => Number::Whole(i8::from_ne_bytes([a]).into()),
        Type::Int16 | Type::Uint16 => Number::Whole(i16::from_ne_bytes([a, b]).into()),
        Type::Int32 | Type::Uint32 => Number::Whole(i32::from_ne_bytes([a, b, c, d]).into()),
        Type::Int64 | Type::Uint64 => Number::Whole(i64::from_ne_bytes([a, b, c, d, e, f, g, h])),
    }
}
