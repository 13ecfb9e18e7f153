//! Errors as the protocol numbers them.

/// An error value of a reply (section "Error values").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// `NBD_EPERM`: a write to a read-only export.
    NotPermitted = 1,
    /// `NBD_EIO`: the device failed.
    Io = 5,
    /// `NBD_ENOMEM`. A server should not have to send it.
    NoMemory = 12,
    /// `NBD_EINVAL`: a request that is not valid, or not for this export.
    Invalid = 22,
    /// `NBD_ENOSPC`: a write beyond the end, or no space for it.
    NoSpace = 28,
    /// `NBD_EOVERFLOW`: a read longer than is served in one piece.
    Overflow = 75,
    /// `NBD_ENOTSUP`: zeroes asked for with `FAST_ZERO` that would not be fast. For nothing else.
    NotSupported = 95,
    /// `NBD_ESHUTDOWN`: the server is about to go.
    ShuttingDown = 108,
}

impl Errno {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// From an error number of Linux, such as a completion brings (positive, asm-generic/errno.h).
    ///
    /// `EDQUOT` and `EFBIG` become `NBD_ENOSPC`, as the specification asks. `EOVERFLOW` and
    /// `EOPNOTSUPP` of a device become `NBD_EINVAL`: their namesakes are for the two cases above
    /// only. What the protocol has no value for is an I/O error.
    #[must_use]
    pub fn from_linux(number: i32) -> Self {
        match number {
            1 | 13 | 30 => Self::NotPermitted, // EPERM, EACCES, EROFS
            12 => Self::NoMemory,              // ENOMEM
            22 | 75 | 95 => Self::Invalid,     // EINVAL, EOVERFLOW, EOPNOTSUPP
            27 | 28 | 122 => Self::NoSpace,    // EFBIG, ENOSPC, EDQUOT
            108 => Self::ShuttingDown,         // ESHUTDOWN
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    /// Values from the specification's list.
    #[test]
    fn numbers_are_those_of_the_specification() {
        let all = [
            (Errno::NotPermitted, 1),
            (Errno::Io, 5),
            (Errno::NoMemory, 12),
            (Errno::Invalid, 22),
            (Errno::NoSpace, 28),
            (Errno::Overflow, 75),
            (Errno::NotSupported, 95),
            (Errno::ShuttingDown, 108),
        ];
        for (errno, number) in all {
            assert_eq!(errno.number(), number, "{errno:?}");
        }
    }

    #[test]
    fn quotas_and_file_sizes_are_space_and_the_unknown_is_io() {
        for number in [27, 28, 122] {
            assert_eq!(Errno::from_linux(number), Errno::NoSpace, "{number}");
        }
        // EBADF, ENODEV, ETIMEDOUT, nonsense.
        for number in [5, 9, 19, 110, 0, -5, i32::MAX] {
            assert_eq!(Errno::from_linux(number), Errno::Io, "{number}");
        }
        for number in [75, 95] {
            assert_eq!(Errno::from_linux(number), Errno::Invalid, "{number}");
        }
        assert_eq!(Errno::from_linux(30), Errno::NotPermitted);
    }
}
