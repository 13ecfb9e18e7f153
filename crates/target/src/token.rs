//! Tokens: the purpose of a ring operation, encoded in the 64 bits that the ring returns with its
//! result.

/// Names an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Connections to a listener.
    Accept(usize),
    /// Time to accept connections again.
    Listen(usize),
    /// What a connection receives.
    Receive(usize),
    /// What a connection sends.
    Send(usize),
    /// What a device does for a volume.
    Device {
        /// The reactor's number of the volume.
        volume: usize,
        /// The volume's number of the operation.
        io: u64,
    },
    /// The time for a handshake is over.
    Deadline {
        /// The connection.
        connection: usize,
        /// Which use of that number it was for.
        generation: u32,
    },
}

const KIND_SHIFT: u32 = 60;
const UPPER_SHIFT: u32 = 48;
const LOWER: u64 = (1 << UPPER_SHIFT) - 1;
const UPPER_MAX: u64 = (1 << (KIND_SHIFT - UPPER_SHIFT)) - 1;
/// Volumes that can be told apart.
pub const VOLUMES_MAX: usize = UPPER_MAX as usize + 1;

impl Token {
    /// As 64 bits. Numbers of volumes have 12 bits, of connections 28 beside a generation, all
    /// others 48.
    #[must_use]
    pub const fn pack(self) -> u64 {
        let (kind, upper, lower) = match self {
            Self::Accept(listener) => (0, 0, listener as u64),
            Self::Listen(listener) => (5, 0, listener as u64),
            Self::Receive(connection) => (1, 0, connection as u64),
            Self::Send(connection) => (2, 0, connection as u64),
            Self::Device { volume, io } => (3, volume as u64, io),
            Self::Deadline { connection, generation } => {
                return 4 << KIND_SHIFT
                    | (connection as u64 & 0x0fff_ffff) << 32
                    | generation as u64;
            }
        };
        kind << KIND_SHIFT | (upper & UPPER_MAX) << UPPER_SHIFT | (lower & LOWER)
    }

    /// From its 64 bits; `None` if they are none.
    #[must_use]
    pub const fn unpack(bits: u64) -> Option<Self> {
        let (upper, lower) = (bits >> UPPER_SHIFT & UPPER_MAX, bits & LOWER);
        Some(match bits >> KIND_SHIFT {
            0 => Self::Accept(lower as usize),
            1 => Self::Receive(lower as usize),
            2 => Self::Send(lower as usize),
            3 => Self::Device { volume: upper as usize, io: lower },
            4 => Self::Deadline {
                connection: (bits >> 32 & 0x0fff_ffff) as usize,
                generation: bits as u32,
            },
            5 => Self::Listen(lower as usize),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_bits() {
        let most = LOWER as usize;
        for token in [
            Token::Accept(0),
            Token::Receive(most),
            Token::Send(7),
            Token::Listen(1),
            Token::Device { volume: 4095, io: LOWER },
            Token::Device { volume: 0, io: 0 },
            Token::Deadline { connection: 0x0fff_ffff, generation: u32::MAX },
        ] {
            assert_eq!(Token::unpack(token.pack()), Some(token));
        }
        assert_eq!(Token::unpack(u64::MAX), None);
    }
}
