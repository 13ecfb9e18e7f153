//! Variables and blocks: what a rank hands over, where it lies in the global field, and how both are
//! told to the writer.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a name, at most.
const NAME_MAX: usize = 64;
/// Axes, at most: HDF5 has no more.
pub const AXES_MAX: usize = 32;
/// Bytes of an attribute's text, at most.
const TEXT_MAX: usize = 4096;
/// Attributes of a variable, or of a step, at most.
const ATTRIBUTES_MAX: usize = 64;

/// What elements are. The numbers are those of `wattio_io.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Type {
    Int8 = 1,
    Int16 = 2,
    Int32 = 3,
    Int64 = 4,
    Uint8 = 5,
    Uint16 = 6,
    Uint32 = 7,
    Uint64 = 8,
    Float32 = 9,
    Float64 = 10,
}

impl Type {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float32,
        Self::Float64,
    ];

    /// The type of a number in `wattio_io.h`.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|&one| one as i64 == number)
    }

    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// The type as `NumPy` writes it, as manifests do.
    #[must_use]
    pub fn text(self) -> &'static str {
        let little = cfg!(target_endian = "little");
        match self {
            Self::Int8 => "|i1",
            Self::Uint8 => "|u1",
            Self::Int16 => {
                if little {
                    "<i2"
                } else {
                    ">i2"
                }
            }
            Self::Int32 => {
                if little {
                    "<i4"
                } else {
                    ">i4"
                }
            }
            Self::Int64 => {
                if little {
                    "<i8"
                } else {
                    ">i8"
                }
            }
            Self::Uint16 => {
                if little {
                    "<u2"
                } else {
                    ">u2"
                }
            }
            Self::Uint32 => {
                if little {
                    "<u4"
                } else {
                    ">u4"
                }
            }
            Self::Uint64 => {
                if little {
                    "<u8"
                } else {
                    ">u8"
                }
            }
            Self::Float32 => {
                if little {
                    "<f4"
                } else {
                    ">f4"
                }
            }
            Self::Float64 => {
                if little {
                    "<f8"
                } else {
                    ">f8"
                }
            }
        }
    }
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// Attributes, by their names.
pub type Attributes = Vec<(String, Value)>;

/// A variable as one rank declares it; extents in elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What its elements are.
    pub kind: Type,
    /// The extents of this rank's block.
    pub count: Vec<u64>,
    /// The extents of the global field and where the block begins in it, where it has a place there.
    pub place: Option<(Vec<u64>, Vec<u64>)>,
    /// Unit and other attributes.
    pub attributes: Attributes,
}

impl Variable {
    /// A variable of checked facts.
    ///
    /// # Errors
    ///
    /// `Input`: which variable, and what is wrong.
    pub fn new(
        name: &str,
        kind: Type,
        count: &[u64],
        place: Option<(&[u64], &[u64])>,
    ) -> Result<Self> {
        check_name(name).map_err(|told| Error::Input(format!("variable {name:?}: {told}")))?;
        let refuse = |told: String| Err(Error::Input(format!("variable {name}: {told}")));
        if count.len() > AXES_MAX {
            return refuse(format!("{} axes; allowed: up to {AXES_MAX}", count.len()));
        }
        if bytes(kind, count).is_none() {
            return refuse(format!("a block of {count:?} elements is too large"));
        }
        // A single value has no place in a field.
        let place = place.filter(|_| !count.is_empty());
        if let Some((whole, offset)) = place {
            let inside =
                whole.len() == count.len()
                    && offset.len() == count.len()
                    && count.iter().zip(whole).zip(offset).all(|((&size, &all), &at)| {
                        at.checked_add(size).is_some_and(|end| end <= all)
                    });
            if !inside {
                return refuse(format!(
                    "a block of {count:?} at {offset:?} does not lie within {whole:?}"
                ));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            count: count.to_vec(),
            place: place.map(|(whole, offset)| (whole.to_vec(), offset.to_vec())),
            attributes: Vec::new(),
        })
    }

    /// Bytes of its block.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes(self.kind, &self.count).unwrap_or(u64::MAX)
    }
}

fn bytes(kind: Type, count: &[u64]) -> Option<u64> {
    // Empty blocks of large extents have no bytes, and no extent may hide behind a 0.
    let all = count.iter().try_fold(kind.bytes(), |all, &size| all.checked_mul(size.max(1)))?;
    (all < 1 << 60).then_some(if count.contains(&0) { 0 } else { all })
}

/// Whether a name is one.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let first = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let other = |byte: &u8| first(byte) || b".+-".contains(byte);
    let fits = name.len() <= NAME_MAX
        && name.as_bytes().first().is_some_and(first)
        && name.as_bytes().iter().all(other);
    if fits {
        return Ok(());
    }
    Err(format!(
        "a name has 1 to {NAME_MAX} letters, digits and _ . + -, and starts with a letter, a digit \
         or _"
    ))
}

/// Add an attribute, or change the one of that name.
///
/// # Errors
///
/// `Input`: what is wrong with its name or its text, or that there are too many.
pub fn set_attribute(attributes: &mut Attributes, name: &str, value: Value) -> Result<()> {
    let refuse = |told: String| Err(Error::Input(format!("attribute {name:?}: {told}")));
    if let Err(told) = check_name(name) {
        return refuse(told);
    }
    if RESERVED.contains(&name) {
        return refuse(format!(
            "is set by libraries, as are {}; choose another",
            RESERVED.join(", ")
        ));
    }
    match &value {
        Value::Text(text) if text.len() > TEXT_MAX || text.contains('\0') => {
            return refuse(format!(
                "its text has {} B; allowed: {TEXT_MAX}, without NUL",
                text.len()
            ));
        }
        Value::Number(number) if !number.is_finite() => {
            return refuse(format!("{number} is not a number"));
        }
        _ => {}
    }
    if let Some(found) = attributes.iter_mut().find(|one| one.0 == name) {
        found.1 = value;
    } else if attributes.len() == ATTRIBUTES_MAX {
        return refuse(format!("there are {ATTRIBUTES_MAX} already"));
    } else {
        attributes.push((name.to_owned(), value));
    }
    Ok(())
}

/// Attributes that files have anyway.
const RESERVED: [&str; 13] = [
    "global_shape",
    "offset",
    "crc32",
    "step",
    "process",
    "job",
    "wattio_hpcio",
    // Of HDF5 and NetCDF.
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_NCProperties",
];

/// A block that a writer finds: a variable, and where its data lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The variable.
    pub variable: Variable,
    /// Where its data lie in the client's memory, in bytes.
    pub data: u64,
}

/// A variable in bytes, but for where its data lie: the same for every step.
#[must_use]
pub fn encode(variable: &Variable) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, &variable.name);
    out.push(variable.kind as u8);
    out.push(variable.count.len() as u8);
    out.push(u8::from(variable.place.is_some()));
    put_numbers(&mut out, &variable.count);
    if let Some((whole, offset)) = &variable.place {
        put_numbers(&mut out, whole);
        put_numbers(&mut out, offset);
    }
    put_attributes(&mut out, &variable.attributes);
    out
}

/// What a variable takes in bytes beside its attributes, at most: its name and extents.
pub const BARE_MAX: u64 = 1024;

/// Attributes in bytes.
pub fn put_attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    out.push(attributes.len() as u8);
    for (name, value) in attributes {
        put_text(out, name);
        match value {
            Value::Number(number) => {
                out.push(0);
                out.extend(number.to_le_bytes());
            }
            Value::Text(text) => {
                out.push(1);
                put_text(out, text);
            }
        }
    }
}

/// Bytes that `put_attributes` takes for them.
#[must_use]
pub fn attributes_bytes(attributes: &Attributes) -> u64 {
    let text = |text: &String| 2 + text.len();
    let value = |value: &Value| match value {
        Value::Number(_) => 1 + 8,
        Value::Text(found) => 1 + text(found),
    };
    1 + attributes.iter().map(|one| (text(&one.0) + value(&one.1)) as u64).sum::<u64>()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

/// Read a variable as `encode` writes it.
///
/// # Errors
///
/// `Input` where it is none.
pub fn decode_variable(encoded: &[u8]) -> Result<Variable> {
    Reader(encoded).variable().ok_or_else(|| Error::Input("no variable".to_owned()))
}

/// Read attributes as `put_attributes` writes them.
///
/// # Errors
///
/// `Input` where they are none.
pub fn decode_attributes(encoded: &[u8]) -> Result<Attributes> {
    Reader(encoded).attributes().ok_or_else(|| Error::Input("no attributes".to_owned()))
}

/// Read the head of an entry: how many blocks, each with where its data lie; attributes of the step.
///
/// # Errors
///
/// `Input` where it is none: a program that writes where it should not can spoil it.
pub fn decode(head: &[u8]) -> Result<(Vec<Block>, Attributes)> {
    let mut reader = Reader(head);
    let read = |reader: &mut Reader| -> Option<(Vec<Block>, Attributes)> {
        let count = u32::from_le_bytes(reader.array()?);
        let mut blocks = Vec::new();
        for _ in 0..count {
            let data = u64::from_le_bytes(reader.array()?);
            blocks.push(Block { variable: reader.variable()?, data });
        }
        Some((blocks, reader.attributes()?))
    };
    read(&mut reader).ok_or_else(|| {
        Error::Input(
            "the list of blocks in shared memory is damaged: something has written over it"
                .to_owned(),
        )
    })
}

/// Bytes that are read one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (found, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(found)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = u16::from_le_bytes(self.array()?);
        String::from_utf8(self.bytes(length.into())?.to_vec()).ok()
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| Some(u64::from_le_bytes(self.array()?))).collect()
    }

    fn variable(&mut self) -> Option<Variable> {
        let name = self.text()?;
        let [kind, axes, placed] = self.array()?;
        let count = self.numbers(axes.into())?;
        let place = if placed == 0 {
            None
        } else {
            Some((self.numbers(axes.into())?, self.numbers(axes.into())?))
        };
        let given = place.as_ref().map(|(whole, offset)| (whole.as_slice(), offset.as_slice()));
        let mut found = Variable::new(&name, Type::of(kind.into())?, &count, given).ok()?;
        found.attributes = self.attributes()?;
        Some(found)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let [count] = self.array()?;
        let mut found = Vec::new();
        for _ in 0..count {
            let name = self.text()?;
            let value = match self.array()? {
                [0] => Value::Number(f64::from_le_bytes(self.array()?)),
                _ => Value::Text(self.text()?),
            };
            set_attribute(&mut found, &name, value).ok()?;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(blocks: &[Block], attributes: &Attributes) -> Vec<u8> {
        let mut out = (blocks.len() as u32).to_le_bytes().to_vec();
        for block in blocks {
            out.extend(block.data.to_le_bytes());
            out.extend(encode(&block.variable));
        }
        put_attributes(&mut out, attributes);
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let mut variable =
            Variable::new("u", Type::Float64, &[3, 4], Some((&[6, 4], &[3, 0]))).unwrap();
        let unit = Value::Text("m/s".to_owned());
        set_attribute(&mut variable.attributes, "units", unit).unwrap();
        let plain = Variable::new("n", Type::Int8, &[], None).unwrap();
        let blocks = vec![Block { variable, data: 64 }, Block { variable: plain, data: 192 }];
        let attributes = vec![("time".to_owned(), Value::Number(1.5))];
        assert_eq!(decode(&head(&blocks, &attributes)).unwrap(), (blocks, attributes));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let name = "x".repeat(65);
        for (told, words) in [
            (Variable::new("", Type::Int8, &[1], None), "letters"),
            (Variable::new(&name, Type::Int8, &[1], None), "letters"),
            (Variable::new("a/b", Type::Int8, &[1], None), "a/b"),
            (Variable::new("a", Type::Int8, &[1; 33], None), "33 axes"),
            (Variable::new("a", Type::Float64, &[1 << 40, 1 << 40], None), "too large"),
            (Variable::new("a", Type::Int8, &[2], Some((&[4], &[3]))), "does not lie within"),
            (Variable::new("a", Type::Int8, &[2], Some((&[4], &[u64::MAX]))), "within"),
            (Variable::new("a", Type::Int8, &[2], Some((&[4, 4], &[0, 0]))), "within"),
        ] {
            let told = told.unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
        let mut attributes = Vec::new();
        for (name, value) in [
            ("crc32", Value::Number(1.0)),
            ("a", Value::Number(f64::NAN)),
            ("a", Value::Text("\0".to_owned())),
            ("", Value::Number(1.0)),
        ] {
            assert!(set_attribute(&mut attributes, name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn an_empty_block_has_no_bytes() {
        assert_eq!(Variable::new("a", Type::Float64, &[0, 5], None).unwrap().bytes(), 0);
        assert_eq!(Variable::new("a", Type::Float64, &[], None).unwrap().bytes(), 8);
    }

    proptest! {
        #[test]
        fn no_head_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_damaged_head_is_an_error_or_another_head(at in 0usize..64, flip in 1u8..) {
            let variable = Variable::new("u", Type::Float64, &[3], Some((&[6], &[3]))).unwrap();
            let mut bytes = head(&[Block { variable, data: 0 }], &Vec::new());
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let _ = decode(&bytes);
        }
    }
}
