//! Devices of a mirror that join or drop out while the volume is in use: reported once, with the
//! reason.

use super::VolumeLane;
use crate::log::{Priority, log, of_export};
use wattio_volume::DeviceRole;

impl VolumeLane {
    /// Tells of devices whose role has changed since it was told.
    pub fn tell_roles(&mut self, export: &str) {
        let roles = self.volume.roles();
        if roles == self.roles_told {
            return;
        }
        let failure = self.volume.rebuild_failure();
        let changes = (&self.roles_told[..], roles);
        for (priority, line) in told(export, changes, &self.opening.device_paths, failure) {
            log(priority, &line);
        }
        self.roles_told = roles.to_vec();
    }
}

/// What is told when the roles of an export's devices change, which have these paths.
fn told(
    export: &str,
    (before, now): (&[DeviceRole], &[DeviceRole]),
    paths: &[Option<String>],
    failure: Option<&str>,
) -> Vec<(Priority, String)> {
    let changes = before.iter().zip(now).enumerate();
    let lines = changes.filter_map(|(number, (&before, &now))| {
        let (priority, what) = describe(before, now, failure)?;
        let path = paths.get(number).cloned().flatten();
        let device = path.unwrap_or_else(|| format!("device {number}"));
        Some((priority, format!("{}: {device} {what}", of_export(export))))
    });
    lines.collect()
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
    fn devices_are_called_by_their_paths() {
        let paths = [Some("/dev/sdc".to_owned()), None];
        let told = |before, now| told("a", (&[before; 2], &[now; 2]), &paths, None);
        let why = "cannot be written, and does not count any more";
        let lines: Vec<String> = told(InSync, Out).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [format!("export `a`: /dev/sdc {why}"), format!("export `a`: device 1 {why}")]
        );
    }

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
