//! The events of a server under load, as the queue stores them.

use crate::queue::Packed;

/// Event can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request arrives; stale when its epoch has passed.
    Arrival { epoch: u32 },
    /// A client sends its next request.
    Resend,
    /// The load goes into its next phase.
    NextPhase,
    /// A core that was idle begins with a client task.
    CoreAwake { group: u8, job: u32 },
    /// A client task ends.
    CoreDone { group: u8, job: u32 },
    /// A background task ends.
    BackgroundDone { group: u8 },
    /// Time to look whether background work may begin on idle cores.
    BackgroundDue { group: u8 },
    /// A drive ends a request.
    DriveDone { job: u32 },
    /// A write is persistent.
    Persisted { job: u32 },
    /// Gated cores stop drawing power; void when their group's epoch has passed.
    CoresOff { group: u8, epoch: u16 },
    /// Cores are back; void likewise.
    CoresOn { group: u8, epoch: u16 },
    /// The drives' energy is added up.
    SettleDrives,
    /// The caller wants control at this time; void when its epoch has passed.
    Stop { epoch: u32 },
}

impl Packed for Event {
    /// From the lowest bits on: 8 of the kind, 8 of the group, 16 of the group's epoch, and 32 of
    /// the job or of another epoch.
    #[inline]
    fn pack(self) -> u64 {
        let number = |value: u32| u64::from(value) << 32;
        let (kind, rest) = match self {
            Self::Arrival { epoch } => (0, number(epoch)),
            Self::Resend => (1, 0),
            Self::NextPhase => (2, 0),
            Self::CoreDone { group, job } => (3, u64::from(group) << 8 | number(job)),
            Self::BackgroundDone { group } => (4, u64::from(group) << 8),
            Self::BackgroundDue { group } => (5, u64::from(group) << 8),
            Self::DriveDone { job } => (6, number(job)),
            Self::Persisted { job } => (7, number(job)),
            Self::CoresOff { group, epoch } => (8, u64::from(group) << 8 | u64::from(epoch) << 16),
            Self::CoresOn { group, epoch } => (9, u64::from(group) << 8 | u64::from(epoch) << 16),
            Self::SettleDrives => (10, 0),
            Self::CoreAwake { group, job } => (11, u64::from(group) << 8 | number(job)),
            Self::Stop { epoch } => (12, number(epoch)),
        };
        kind | rest
    }

    #[inline]
    fn unpack(packed: u64) -> Self {
        let [kind, group, low, high, ..] = packed.to_le_bytes();
        let (epoch, number) = (u16::from_le_bytes([low, high]), (packed >> 32) as u32);
        match kind {
            0 => Self::Arrival { epoch: number },
            1 => Self::Resend,
            2 => Self::NextPhase,
            3 => Self::CoreDone { group, job: number },
            4 => Self::BackgroundDone { group },
            5 => Self::BackgroundDue { group },
            6 => Self::DriveDone { job: number },
            7 => Self::Persisted { job: number },
            8 => Self::CoresOff { group, epoch },
            9 => Self::CoresOn { group, epoch },
            10 => Self::SettleDrives,
            11 => Self::CoreAwake { group, job: number },
            _ => Self::Stop { epoch: number },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let (group, job, epoch) = (7, 0x89ab_cdef, 0xfedc_ba98);
        for event in [
            Event::Arrival { epoch },
            Event::Resend,
            Event::NextPhase,
            Event::CoreAwake { group, job },
            Event::CoreDone { group, job },
            Event::BackgroundDone { group },
            Event::BackgroundDue { group },
            Event::DriveDone { job },
            Event::Persisted { job },
            Event::CoresOff { group, epoch: 0xcafe },
            Event::CoresOn { group, epoch: 0xbeef },
            Event::SettleDrives,
            Event::Stop { epoch },
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }
}
