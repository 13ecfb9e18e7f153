//! How many reactors there may be in each group.

use std::ops::RangeInclusive;
use thiserror::Error;

/// Why reactors cannot be grouped like that.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("is {count}; allowed is {allowed_min} to {allowed_max}")]
pub struct GroupsError {
    /// What is wrong, as configurations call it.
    pub key: &'static str,
    count: usize,
    allowed_min: usize,
    allowed_max: usize,
}

/// Whether the last `volumes` of so many reactors can serve volumes only, and `reactors_min` of each
/// group always stay on.
///
/// # Errors
/// [`GroupsError`] with the key, and what is allowed.
pub fn check_groups(
    reactors: usize,
    volumes: usize,
    reactors_min: usize,
) -> Result<(), GroupsError> {
    let within = |key, count: usize, allowed: RangeInclusive<usize>| {
        let (allowed_min, allowed_max) = (*allowed.start(), *allowed.end());
        let error = GroupsError { key, count, allowed_min, allowed_max };
        if allowed.contains(&count) { Ok(()) } else { Err(error) }
    };
    within("volume_reactors", volumes, 0..=reactors.saturating_sub(1))?;
    let smallest = if volumes > 0 { (reactors - volumes).min(volumes) } else { reactors };
    within("reactors_min", reactors_min, 1..=smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_told_with_what_can() {
        for (reactors, volumes, least, says) in [
            (4, 4, 1, "volume_reactors is 4; allowed is 0 to 3"),
            (1, 1, 1, "volume_reactors is 1; allowed is 0 to 0"),
            (4, 0, 5, "reactors_min is 5; allowed is 1 to 4"),
            (4, 0, 0, "reactors_min is 0; allowed is 1 to 4"),
            (4, 3, 2, "reactors_min is 2; allowed is 1 to 1"),
        ] {
            let error = check_groups(reactors, volumes, least).unwrap_err();
            assert_eq!(format!("{} {error}", error.key), says);
        }
    }
}
