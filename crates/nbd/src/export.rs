//! What is exported, and the flags and sizes by which a client learns of it.

use crate::wire::{
    PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, UNFRAGMENTED_BYTES_MIN, transmission_flag as flag,
};
use std::sync::Arc;

/// Size constraints of an export (section "Size constraints"). Requests that are not multiples of
/// `min_bytes` are refused, whether or not the client asked for the sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    /// Unit of offsets and lengths: a power of two, 1 to 65,536.
    pub min_bytes: u32,
    /// From here on requests are efficient: a power of two, at least `min_bytes` and 512.
    pub preferred_bytes: u32,
    /// The longest payload of a read or a write: at least `preferred_bytes` and 65,536, at most
    /// 2^32 - 9, because a chunk's offset counts as payload too.
    pub max_payload_bytes: u32,
}

impl Default for BlockSize {
    /// The sizes that a client assumes where none are told: 1, 4,096 and 32 MiB.
    fn default() -> Self {
        Self { min_bytes: 1, preferred_bytes: 4096, max_payload_bytes: 1 << 25 }
    }
}

/// What an export does with `WRITE_ZEROES` that must be faster than writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FastZero {
    /// The flag is not offered; a request that has it is not valid.
    #[default]
    NotOffered,
    /// Offered, and always refused with [`Errno::NotSupported`](crate::Errno::NotSupported): the
    /// client learns at once that zeroes are not fast here.
    AlwaysRefused,
    /// Offered. Whoever carries the command out may still refuse it.
    Served,
}

/// A range of bytes under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// By which clients ask for it; may be empty. At most 4,096 bytes, no NUL.
    pub name: String,
    /// For people; may be empty. At most 4,096 bytes, no NUL.
    pub description: String,
    /// A multiple of the minimum block size, at most 2^63 - 1.
    pub size_bytes: u64,
    /// Its size constraints.
    pub block_size: BlockSize,
    /// Writes, trims and zeroes are refused.
    pub is_read_only: bool,
    /// The medium turns.
    pub is_rotational: bool,
    /// What one connection flushed is safe for all; several connections may be used.
    pub can_multi_conn: bool,
    /// `FLUSH` is served.
    pub can_flush: bool,
    /// Commands may ask to be on stable storage before their reply.
    pub can_fua: bool,
    /// `TRIM` is served.
    pub can_trim: bool,
    /// `WRITE_ZEROES` is served, with and without holes.
    pub can_write_zeroes: bool,
    /// What of `FAST_ZERO`; without `can_write_zeroes` it is not offered.
    pub fast_zero: FastZero,
    /// `CACHE` is served.
    pub can_cache: bool,
    /// The context `base:allocation` is offered.
    pub can_block_status: bool,
}

/// Exports that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("export `{name}`: {what}")]
pub struct ExportError {
    name: String,
    what: String,
}

impl Export {
    /// An export that can be read and written with the default sizes, and no more than that.
    #[must_use]
    pub fn new(name: impl Into<String>, size_bytes: u64) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            size_bytes,
            block_size: BlockSize::default(),
            is_read_only: false,
            is_rotational: false,
            can_multi_conn: false,
            can_flush: false,
            can_fua: false,
            can_trim: false,
            can_write_zeroes: false,
            fast_zero: FastZero::NotOffered,
            can_cache: false,
            can_block_status: false,
        }
    }

    /// The transmission flags. A read-only export offers nothing that writes; reads in one piece
    /// (`SEND_DF`) belong to structured replies.
    #[must_use]
    pub fn transmission_flags(&self, is_structured: bool) -> u16 {
        let writes = !self.is_read_only;
        let zeroes = writes && self.can_write_zeroes;
        let flags = [
            (self.is_read_only, flag::READ_ONLY),
            (self.can_flush, flag::SEND_FLUSH),
            (self.can_fua, flag::SEND_FUA),
            (self.is_rotational, flag::ROTATIONAL),
            (writes && self.can_trim, flag::SEND_TRIM),
            (zeroes, flag::SEND_WRITE_ZEROES),
            (is_structured, flag::SEND_DF),
            (self.can_multi_conn, flag::CAN_MULTI_CONN),
            (self.can_cache, flag::SEND_CACHE),
            (zeroes && self.fast_zero != FastZero::NotOffered, flag::SEND_FAST_ZERO),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        set.fold(flag::HAS_FLAGS, |flags, (_, bit)| flags | bit)
    }

    fn check(&self) -> Result<(), ExportError> {
        let BlockSize { min_bytes, preferred_bytes, max_payload_bytes } = self.block_size;
        let string = |what: &str, text: &str| match (text.len(), text.contains('\0')) {
            (length, _) if length > STRING_BYTES_MAX => {
                Some(format!("a {what} of {length} bytes; at most {STRING_BYTES_MAX} are allowed"))
            }
            (_, true) => Some(format!("a NUL in the {what}")),
            _ => None,
        };
        let what = if let Some(what) = string("name", &self.name) {
            what
        } else if let Some(what) = string("description", &self.description) {
            what
        } else if !min_bytes.is_power_of_two() || min_bytes > 65_536 {
            format!("minimum block size {min_bytes}; a power of two from 1 to 65536 is allowed")
        } else if !preferred_bytes.is_power_of_two() || preferred_bytes < min_bytes.max(512) {
            let least = min_bytes.max(512);
            format!(
                "preferred block size {preferred_bytes}; a power of two from {least} on is allowed"
            )
        } else if max_payload_bytes < preferred_bytes.max(UNFRAGMENTED_BYTES_MIN) {
            let least = preferred_bytes.max(UNFRAGMENTED_BYTES_MIN);
            format!("maximum payload {max_payload_bytes}; at least {least} is allowed")
        } else if max_payload_bytes > PAYLOAD_BYTES_MAX {
            format!("maximum payload {max_payload_bytes}; at most {PAYLOAD_BYTES_MAX} is allowed")
        } else if i64::try_from(self.size_bytes).is_err() {
            format!("{} bytes; at most 2^63 - 1 are allowed", self.size_bytes)
        } else if !self.size_bytes.is_multiple_of(u64::from(min_bytes)) {
            format!("{} bytes are not a multiple of its block size {min_bytes}", self.size_bytes)
        } else {
            return Ok(());
        };
        let name = self.name.chars().take(64).collect();
        Err(ExportError { name, what })
    }
}

/// The exports of a server, checked, shared by its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exports(Arc<[Export]>);

impl Exports {
    /// Checks sizes and names.
    ///
    /// # Errors
    /// Names the first export that breaks a rule of its fields, or has the name of another.
    pub fn new(exports: Vec<Export>) -> Result<Self, ExportError> {
        for (at, export) in exports.iter().enumerate() {
            export.check()?;
            if exports[..at].iter().any(|earlier| earlier.name == export.name) {
                let what = "another export has this name".to_owned();
                return Err(ExportError { name: export.name.clone(), what });
            }
        }
        Ok(Self(exports.into()))
    }

    /// All, in the order in which they were given.
    #[must_use]
    pub fn as_slice(&self) -> &[Export] {
        &self.0
    }

    /// The place of an export by the name that a client sent. The empty name stands for the
    /// default: the export that is named so, or the only one.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let found = self.0.iter().position(|export| export.name.as_bytes() == name);
        found.or_else(|| (name.is_empty() && self.0.len() == 1).then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockSize, Export, Exports, FastZero};

    fn all() -> Export {
        Export {
            can_multi_conn: true,
            can_flush: true,
            can_fua: true,
            can_trim: true,
            can_write_zeroes: true,
            fast_zero: FastZero::Served,
            can_cache: true,
            is_rotational: true,
            can_block_status: true,
            ..Export::new("all", 4096)
        }
    }

    #[test]
    fn flags_are_the_bits_of_the_specification() {
        assert_eq!(Export::new("", 0).transmission_flags(false), 0b1);
        assert_eq!(all().transmission_flags(false), 0b1101_0111_1101 & !(1 << 7));
        assert_eq!(all().transmission_flags(true), 0b1101_1111_1101);
        let read_only = Export { is_read_only: true, ..all() };
        assert_eq!(read_only.transmission_flags(true), 0b0101_1001_1111);
        let no_zeroes = Export { can_write_zeroes: false, ..all() };
        assert_eq!(no_zeroes.transmission_flags(true), 0b0101_1011_1101);
        let refused = Export { fast_zero: FastZero::AlwaysRefused, ..all() };
        assert_eq!(refused.transmission_flags(true), all().transmission_flags(true));
    }

    #[test]
    fn what_the_specification_forbids_is_told_by_name() {
        let sizes = |min_bytes, preferred_bytes, max_payload_bytes| Export {
            block_size: BlockSize { min_bytes, preferred_bytes, max_payload_bytes },
            ..Export::new("disk", 1 << 20)
        };
        let cases = [
            (sizes(0, 4096, 1 << 20), "minimum block size 0; a power of two from 1 to 65536"),
            (sizes(3, 4096, 1 << 20), "minimum block size 3"),
            (sizes(1 << 17, 1 << 17, 1 << 20), "minimum block size 131072"),
            (sizes(1, 256, 1 << 20), "preferred block size 256; a power of two from 512 on"),
            (sizes(4096, 512, 1 << 20), "preferred block size 512; a power of two from 4096 on"),
            (sizes(1, 4096, 65_535), "maximum payload 65535; at least 65536"),
            (sizes(1, 1 << 20, 1 << 19), "maximum payload 524288; at least 1048576"),
            (sizes(1, 4096, u32::MAX), "maximum payload 4294967295; at most 4294967287"),
            (
                Export { size_bytes: 4095, ..sizes(512, 4096, 1 << 20) },
                "not a multiple of its block",
            ),
            (Export::new("disk", 1 << 63), "9223372036854775808 bytes; at most 2^63 - 1"),
            (Export::new("di\0sk", 1), "a NUL in the name"),
            (Export { description: "x".repeat(4097), ..Export::new("disk", 1) }, "4097 bytes"),
        ];
        for (export, expected) in cases {
            let message = Exports::new(vec![export]).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}\n{expected}");
        }
        let twice = vec![Export::new("a", 1), Export::new("b", 1), Export::new("a", 2)];
        let message = Exports::new(twice).unwrap_err().to_string();
        assert_eq!(message, "export `a`: another export has this name");
    }

    #[test]
    fn the_empty_name_is_the_default_where_there_is_one() {
        let named = |names: &[&str]| {
            Exports::new(names.iter().map(|&name| Export::new(name, 1)).collect()).unwrap()
        };
        assert_eq!(named(&["a"]).find(b""), Some(0));
        assert_eq!(named(&["a", "b"]).find(b""), None);
        assert_eq!(named(&["a", ""]).find(b""), Some(1));
        assert_eq!(named(&["a", "b"]).find(b"b"), Some(1));
        assert_eq!(named(&["a"]).find(b"b"), None);
        assert_eq!(named(&[]).find(b""), None);
    }
}
