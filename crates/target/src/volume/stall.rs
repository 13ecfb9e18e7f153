//! Clients that wait for space: reported once, with what they wait for.

use super::VolumeLane;
use super::background::Left;
use crate::log::{Priority, counted, log, of_export};
use crate::status::VolumeStatus;
use std::time::{Duration, Instant};

/// Who waits for longer is told of.
const STALL: Duration = Duration::from_secs(1);

impl VolumeLane {
    /// Tells of clients that wait for space, and when they do not any more; when to look again.
    pub fn watch(&mut self, export: &str, now: Instant) -> Left {
        match (self.volume.starved(), self.stalled_since) {
            (Some(span), None) if span >= STALL => {
                self.stalled_since = Some(now - span);
                let status =
                    VolumeStatus::of(export, &self.volume, &self.opening, self.in_flight());
                log(Priority::Warning, &describe(&status));
            }
            (Some(span), None) => return Left::At(now + (STALL - span)),
            (None, Some(since)) => {
                self.stalled_since = None;
                let span_s = now.duration_since(since).as_secs_f64();
                log(
                    Priority::Info,
                    &format!("{}: clients waited {span_s:.1} s", of_export(export)),
                );
            }
            _ => {}
        }
        Left::Nothing
    }
}

/// What is known of why clients wait.
fn describe(volume: &VolumeStatus) -> String {
    let oldest = volume.device_oldest.as_ref().zip(volume.device_oldest_s);
    let devices = oldest.map_or("the devices are at nothing".to_owned(), |(what, span_s)| {
        format!("the devices have been at a {what} for {span_s:.1} s")
    });
    format!(
        "{}: clients wait for a free segment: {} of {} are free, {} empty until a checkpoint, {}; \
         {devices}; {} under way",
        of_export(&volume.export),
        volume.free_segments,
        volume.segments,
        volume.empty_segments,
        match &volume.checkpoint_stage {
            Some(stage) => format!("which is {stage}"),
            None => "of which none is under way".to_owned(),
        },
        counted(volume.records_under_way as u64, "record"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_what_for() {
        let volume = VolumeStatus {
            export: "disk".into(),
            segments: 29,
            free_segments: 3,
            empty_segments: 2,
            checkpoint_stage: Some("flushing the map".into()),
            device_oldest: Some("flush".into()),
            device_oldest_s: Some(9.84),
            records_under_way: 1,
            ..VolumeStatus::default()
        };
        assert_eq!(
            describe(&volume),
            "export `disk`: clients wait for a free segment: 3 of 29 are free, 2 empty until a \
             checkpoint, which is flushing the map; the devices have been at a flush for 9.8 s; \
             1 record under way"
        );
        let idle = VolumeStatus { checkpoint_stage: None, device_oldest: None, ..volume };
        assert!(describe(&idle).contains("of which none is under way; the devices are at nothing"));
    }
}
