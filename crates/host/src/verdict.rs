//! What shadow mode or governing came to, as a program tells it when it ends.

use crate::ledger::PowerStatus;
use crate::shadow::{ComparedStatus, ShadowStatus};
use std::fmt::Write;
use wattio_governor::BoundStatus;

/// From this share of the time on that there was an estimate for, it is one for all of it.
const ESTIMATED_SHARE_OF_ALL: f64 = 0.99;

/// What it is told of.
#[derive(Clone, Copy, Debug)]
pub struct Verdict<'a> {
    /// Whether the law's decisions were shown only.
    pub is_shadow: bool,
    /// The law.
    pub policy: &'a str,
    /// Time since the start.
    pub uptime_s: f64,
    /// Power drawn and saved.
    pub power: &'a PowerStatus,
    /// How each bound was kept.
    pub bounds: &'a [BoundStatus],
    /// Steps that changed the setting.
    pub setting_changes: u64,
    /// Loss of the mean latency in windows with a known bound on it.
    pub loss_mean: Option<f64>,
    /// In shadow mode, how good its model is.
    pub shadow: Option<&'a ShadowStatus>,
    /// In shadow mode, what the other law would have achieved.
    pub compared: Option<&'a ComparedStatus>,
}

impl Verdict<'_> {
    /// The same in sentences, one a line. What shadow mode tells is conditional and an estimate.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.saving();
        let (broke, changed) = match self.is_shadow {
            false => ("broke", "changed"),
            true => ("would have broken", "would have changed"),
        };
        if self.bounds.is_empty() {
            let _ = write!(text, "\npolicy {} has no latency bound", self.policy);
        }
        for bound in self.bounds {
            // Of one on the mean alone nobody asks which.
            let named = if self.bounds.len() > 1 || !bound.is_mean() {
                format!(" {}", bound.bound)
            } else {
                String::new()
            };
            let over =
                bound.requests_over().map(|over| format!(", with {over}")).unwrap_or_default();
            let _ = write!(
                text,
                "\n{broke} the bound{named} in {} of {} with a known bound{over}{}",
                bound.windows_over,
                counted(bound.windows, "window"),
                bound.not_kept()
            );
        }
        let _ = write!(text, "\n{changed} the setting {}", counted(self.setting_changes, "time"));
        for sentence in
            [self.shadow.and_then(ShadowStatus::error), self.compared.map(ComparedStatus::sentence)]
        {
            text.extend(sentence.map(|sentence| format!("\n{sentence}")));
        }
        if let Some(loss) = self.loss_mean {
            let estimate = if self.is_shadow { " (estimate)" } else { "" };
            let _ = write!(
                text,
                "\nmean latency {:+.1} % against full speed in those windows{estimate}",
                loss * 100.0
            );
        }
        text
    }

    fn saving(&self) -> String {
        let would = if self.is_shadow { "would have " } else { "" };
        let (power, span) = (self.power, span(self.uptime_s));
        match (power.estimated_j, power.estimated_full_speed_j) {
            (Some(here), Some(full)) if full > 0.0 => {
                let watched = power.estimated_span_s.unwrap_or(self.uptime_s);
                let saved_w = (full - here) / watched.max(1e-9);
                // Windows do not count in the mean where there was no model yet, or where somebody
                // else changed what was set.
                let is_all = watched >= ESTIMATED_SHARE_OF_ALL * self.uptime_s;
                let of =
                    if is_all { String::new() } else { format!("{} of ", self::span(watched)) };
                format!(
                    "over {of}{span} {would}saved {saved_w:.1} W on average, {:.1} % of {:.1} W \
                     (estimate)",
                    100.0 * (full - here) / full,
                    full / watched.max(1e-9)
                ) + &power
                    .estimated_saved_year
                    .map(|year| format!("\nthat is {year}"))
                    .unwrap_or_default()
            }
            _ => {
                let why = power.no_estimate.as_deref().unwrap_or("no window had one");
                format!("over {span}: no estimate of the saving, because {why}")
            }
        }
    }
}

pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A span of time: `12 s`, `33 min 20 s`, `2 h 2 min`.
#[must_use]
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
