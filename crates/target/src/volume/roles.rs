//! Devices of a mirror that join or drop out while the volume is in use: reported once, with the
//! reason.

use super::VolumeLane;
use crate::log::{Priority, log};
use wattio_volume::DeviceRole;

impl VolumeLane {
    /// Tells of devices whose role has changed since it was told.
    pub fn tell_roles(&mut self, export: &str) {
        let roles = self.volume.roles();
        if roles == self.roles_told {
            return;
        }
        let failure = self.volume.rebuild_failure();
        for (device, (&before, &now)) in self.roles_told.iter().zip(roles).enumerate() {
            if let Some((priority, what)) = describe(before, now, failure) {
                log(priority, &format!("export `{export}`: device {device} {what}"));
            }
        }
        self.roles_told = roles.to_vec();
    }
}

/// What has become of a device.
fn describe(
    before: DeviceRole,
    now: DeviceRole,
    failure: Option<&str>,
) -> Option<(Priority, String)> {
    use DeviceRole::{InSync, Out, Rebuilding};
    match (before, now) {
        (Rebuilding, InSync) => Some((Priority::Info, "has everything now".to_owned())),
        (Rebuilding, Out) => {
            let why = failure.unwrap_or("it cannot be written");
            Some((Priority::Warning, format!("is no longer filled, and does not count: {why}")))
        }
        (InSync, Out) => {
            let why = "cannot be written, and does not count any more";
            Some((Priority::Warning, why.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceRole::{InSync, Out, Rebuilding};

    #[test]
    fn what_becomes_of_a_device_is_told_with_why() {
        let told = |before, now, failure| describe(before, now, failure).map(|told| told.1);
        let failure = Some("what it is copied from cannot be read");
        assert_eq!(
            told(Rebuilding, Out, failure).as_deref(),
            Some("is no longer filled, and does not count: what it is copied from cannot be read")
        );
        assert_eq!(told(Rebuilding, InSync, None).as_deref(), Some("has everything now"));
        assert!(told(InSync, Out, None).is_some_and(|text| text.contains("cannot be written")));
        assert_eq!(told(Out, Rebuilding, None), None);
    }
}
