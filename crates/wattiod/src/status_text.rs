//! The status as text: one line, a page, and the result of shadow mode.

use crate::status::{AlternationStatus, BoundStatus, FollowerStatus, PowerStatus, Status};
use std::fmt::Write;
use wattio_governor::{Basis, Interval};
use wattio_host::shadow::Mode;
use wattio_host::verdict::{Verdict, span};
use wattio_service::log::counted;

/// The status in one line.
#[must_use]
pub fn one_line(status: &Status) -> String {
    status.applications().map(line_of_one).collect::<Vec<_>>().join("; ")
}

fn line_of_one(status: &Status) -> String {
    let mut line = status.application.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    line.push_str(status.state.as_deref().unwrap_or(&status.policy));
    if let Some(forced) = &status.forced {
        let _ = write!(line, " (full speed: {forced})");
    }
    let latency = &status.latency;
    let time = |us: f64| latency_time(us, latency.latency_us_resolution);
    match (latency.latency_us_mean, latency.bound_us) {
        (Some(mean), Some(bound)) => {
            let _ = write!(line, ", {} (bound {})", time(mean), time(bound));
        }
        (Some(mean), None) => {
            // Of percentiles alone, what the first may come to.
            let first = status.bounds.first().and_then(|first| Some((first, first.limit_us?)));
            let on = |(first, us): (&BoundStatus, f64)| {
                format!(" (bound on {} {})", first.statistic, time(us))
            };
            let _ = write!(line, ", {}{}", time(mean), first.map(on).unwrap_or_default());
        }
        (None, _) => line.push_str(", no latency"),
    }
    for group in &status.groups {
        let _ = write!(line, ", {} {}/{}", group.name, group.cores_active, group.cores_total);
    }
    if let (Some(here), Some(full)) =
        (status.power.estimated_w, status.power.estimated_full_speed_w)
    {
        let _ = write!(line, ", estimated {here:.1} of {full:.1} W");
    }
    line
}

/// The whole status, for `wattiod status`.
#[must_use]
pub fn page(status: &Status) -> String {
    let parts = status.applications().enumerate();
    parts.map(|(at, one)| page_of_one(one, at == 0)).collect::<Vec<_>>().join("\n")
}

/// The first one has what is of the daemon, too.
fn page_of_one(status: &Status, is_first: bool) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(status.application.iter().map(|name| ("application", name.clone())));
    let mode = if status.mode == "observe" { "observe (acts on nothing)" } else { &status.mode };
    rows.push(("mode", format!("{mode}, policy {}", status.policy)));
    // Laws such as ondemand have neither.
    rows.extend(status.state.iter().map(|state| ("state", state.clone())));
    if !status.reason.is_empty() {
        rows.push(("reason", status.reason.clone()));
    }
    rows.extend(status.forced.iter().map(|forced| ("full speed", forced.clone())));
    let latency = &status.latency;
    let time = |us: f64| latency_time(us, latency.latency_us_resolution);
    let or_unknown = |value: Option<f64>| value.map_or("unknown".into(), time);
    let mean = or_unknown(latency.latency_us_mean);
    let sample = format!("{mean} ({}, {:.1} s old)", latency.source, latency.sample_age_s);
    rows.push(("latency, mean", sample));
    rows.extend(latency.latency_us_p99.map(|p99| ("latency, p99", time(p99))));
    rows.push(("at full speed", or_unknown(latency.baseline_us)));
    let several = status.bounds.len() > 1;
    let is_estimate = status.mode == "observe";
    for bound in &status.bounds {
        let limit = format!("{} ({})", or_unknown(bound.limit_us), bound.bound);
        let broken = if several {
            format!("; broken in {}", bound.broken(is_estimate))
        } else {
            String::new()
        };
        rows.push(("bound", limit + &broken));
    }
    for group in &status.groups {
        let frequency = group.frequency_hz.map(|hertz| format!(" at {:.2} GHz", hertz / 1e9));
        let text = format!(
            "{} of {}{}, {:.0} % busy",
            group.cores_active,
            counted(group.cores_total.into(), "core"),
            frequency.unwrap_or_default(),
            100.0 * (group.utilisation_clients + group.utilisation_background)
        );
        rows.push(("group", format!("{}: {text}", group.name)));
    }
    rows.extend(status.power.rows());
    if let Some(found) = &status.alternation {
        rows.push(("alternation", alternation(found, &status.power)));
    }
    rows.extend(status.followers.iter().map(|knob| ("knob", follower(knob))));
    let counts = &status.counts;
    rows.push(("windows", counts.windows.to_string()));
    if let [bound] = &status.bounds[..] {
        rows.push(("bound broken", bound.broken(is_estimate)));
    }
    rows.push(("setting changed", counted(counts.setting_changes, "time")));
    let failures = counted(counts.knob_failures, "failure");
    rows.push(("writes", format!("{}, {failures}", counts.knob_writes)));
    if counts.source_errors > 0 {
        rows.push(("sources", counted(counts.source_errors, "failure")));
    }
    let own = &status.own;
    let share = 100.0 * own.cpu_s / status.uptime_s.max(1e-9);
    let mib = own.resident_bytes as f64 / f64::from(1 << 20);
    if is_first {
        rows.push(("own cost", format!("{share:.2} % of a core, {mib:.1} MiB")));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut page, (name, value)| {
        let _ = writeln!(page, "{name:width$}  {value}");
        page
    })
}

/// The result of shadow mode, or of governing.
#[must_use]
pub fn verdict(status: &Status) -> String {
    let one = |one: &Status| match &one.application {
        Some(name) => format!("{name}: {}", verdict_of_one(one)),
        None => verdict_of_one(one),
    };
    status.applications().map(one).collect::<Vec<_>>().join("\n")
}

fn verdict_of_one(status: &Status) -> String {
    // What was measured stands before what a model says.
    let measured = status.alternation.as_ref().map_or(String::new(), |found| {
        format!("by alternation: {}\n", alternation(found, &status.power))
    });
    let told = Verdict {
        is_shadow: status.mode == Mode::Observe.name(),
        policy: &status.policy,
        uptime_s: status.uptime_s,
        power: &status.power,
        bounds: &status.bounds,
        setting_changes: status.counts.setting_changes,
        loss_mean: status.counts.loss_mean,
        shadow: status.shadow.as_ref(),
        compared: status.compared.as_ref(),
    };
    measured + &told.text()
}

/// What alternation has found, in a sentence.
fn alternation(found: &AlternationStatus, power: &PowerStatus) -> String {
    let pairs = counted(found.pairs, "pair");
    let Some(saved) = found.power_w_saved else {
        let why = match (found.pairs, found.power_w_full_speed) {
            (2.., None) => "power is not known: name a meter or a power model",
            _ => "an interval takes two",
        };
        let pair_s = found.stretch_s_governed + found.stretch_s_full_speed;
        return match found.latency_change {
            Some(latency) => {
                format!("{}{} ({pairs}; {why})", latency_words(latency), requests_words(found))
            }
            None => format!("{pairs} of {} so far; {why}", span(pair_s)),
        };
    };
    let by = match (found.power_is_estimate, &power.meter) {
        (true, _) => "estimate by the power model",
        (false, Some(meter)) => meter,
        (false, None) => "the meter",
    };
    let share = found.power_w_full_speed.filter(|full_w| *full_w > 0.0);
    let of = share.map_or(String::new(), |full_w| {
        format!(", {:.1} % of {full_w:.1} W", 100.0 * saved.mean / full_w)
    });
    let mut text = if saved.is_significant() {
        let does = if saved.mean > 0.0 { "saves" } else { "costs" };
        format!("{does} {:.1} W +- {:.1} W{of}", saved.mean.abs(), saved.half_width)
    } else {
        let (mean, half) = (saved.mean, saved.half_width);
        format!("no saving can be told from chance yet ({mean:.1} W +- {half:.1} W{of})")
    };
    if let Some(latency) = found.latency_change {
        let _ = write!(text, ", {}", latency_words(latency));
    }
    text.push_str(&requests_words(found));
    let _ = write!(text, " (95 % intervals, {pairs}; power: {by})");
    text
}

/// A knob that follows the law, and what its place among them rests on.
fn follower(knob: &FollowerStatus) -> String {
    let used = match &knob.left_out {
        Some(why) => format!("not used: {why}"),
        None => "used".to_owned(),
    };
    let rests_on = match (knob.basis, knob.power_w_saved, knob.latency_us_added) {
        (Basis::Measured, Some(saved), Some(added)) => format!(
            "saves {:.1} W +- {:.1} W for {:.0} us +- {:.0} us, measured over {}",
            saved.mean,
            saved.half_width,
            added.mean,
            added.half_width,
            counted(knob.pairs, "pair")
        ),
        _ => format!("as configured, {} so far", counted(knob.pairs, "pair")),
    };
    format!("{}: {used}; {rests_on}", knob.name)
}

fn latency_words(change: Interval) -> String {
    format!("mean latency {:+.1} % +- {:.1} %", 100.0 * change.mean, 100.0 * change.half_width)
}

/// What became of the load: who serves less draws less.
fn requests_words(found: &AlternationStatus) -> String {
    let Some(change) = found.requests_per_s_change else { return String::new() };
    let (mean, half) = (100.0 * change.mean, 100.0 * change.half_width);
    let fewer = if change.is_significant() && mean < 0.0 {
        ": less was served, and part of the saving may be that"
    } else {
        ""
    };
    format!(", requests per second {mean:+.1} % +- {half:.1} %{fewer}")
}

/// A latency; one that the source cannot tell from none is not said to be none.
#[must_use]
pub fn latency_time(us: f64, resolution_us: Option<f64>) -> String {
    match resolution_us.filter(|&resolution_us| resolution_us > 1.0) {
        Some(coarse) if us <= 1.0 => format!("< {}", time(coarse)),
        None if us < 1.0 => "< 1 us".to_owned(),
        _ => time(us),
    }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e4 => format!("{:.1} ms", us / 1e3),
        1e3 => "1 ms".to_owned(),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        // A bound of a tenth above 8 us would be told as 9 us, and so would be what breaks it.
        us if us < 99.95 && us.fract() != 0.0 => format!("{us:.1} us"),
        us => format!("{us:.0} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternation::Condition;
    use crate::status::{Counts, LatencyStatus, ShadowStatus};
    use wattio_host::price::Price;
    use wattio_units::Watts;

    fn status() -> Status {
        Status {
            mode: "observe".into(),
            policy: "pacer".into(),
            state: Some("stable".into()),
            uptime_s: 7325.0,
            bounds: vec![BoundStatus {
                bound: "mean 20% run".into(),
                statistic: "mean".into(),
                limit_us: Some(1360.0),
                windows: 900,
                windows_over: 3,
                requests_over_share: None,
                loss: Some(0.066),
                kept: Some(true),
            }],
            latency: LatencyStatus {
                latency_us_mean: Some(312.4),
                bound_us: Some(1360.0),
                tolerance: Some(0.2),
                bound: Some("mean 20% run".into()),
                ..LatencyStatus::default()
            },
            power: PowerStatus {
                estimated_w: Some(40.0),
                estimated_full_speed_w: Some(50.0),
                estimated_span_s: Some(2000.0),
                estimated_j: Some(80_000.0),
                estimated_full_speed_j: Some(100_000.0),
                estimated_saved_year: Some(Price::default().year(Watts(10.0))),
                ..PowerStatus::default()
            },
            shadow: Some(ShadowStatus {
                fitted: true,
                error_median: Some(0.043),
                error_p90: Some(0.11),
                windows_kept_out: 40,
                ..ShadowStatus::default()
            }),
            counts: Counts {
                windows_bounded: 900,
                violations: 3,
                setting_changes: 41,
                loss_mean: Some(0.066),
                ..Counts::default()
            },
            ..Status::default()
        }
    }

    #[test]
    fn the_verdict_of_shadow_mode_is_conditional_and_an_estimate() {
        let text = verdict(&status());
        for part in [
            "over 33 min 20 s of 2 h 2 min would have saved 10.0 W on average, 20.0 % of 50.0 W (estimate)\n",
            "\nthat is 87.7 kWh, 21.91 EUR and 30.7 kg of CO2 in a year like this, at 0.25 EUR",
            "would have broken the bound in 3 of 900 windows",
            "would have changed the setting 41 times",
            "off by 4.3 %",
            "mean latency +6.6 % against full speed in those windows (estimate)",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    /// It said "state none", and a reason without a word.
    #[test]
    fn a_law_without_states_and_reasons_has_no_lines_for_them() {
        let of = |status: &Status| page(status).lines().map(str::to_owned).collect::<Vec<_>>();
        let has = |lines: &[String], key: &str| lines.iter().any(|line| line.starts_with(key));
        let told = of(&Status { reason: "the load rose".into(), ..status() });
        assert!(has(&told, "state ") && has(&told, "reason "), "{told:?}");
        let told = of(&Status { state: None, reason: String::new(), ..status() });
        assert!(!has(&told, "state") && !has(&told, "reason"), "{told:?}");
    }

    /// Somebody else changed what was set after an hour: from then on there was no estimate, and its
    /// joules were told as if they had been drawn over eight.
    #[test]
    fn the_mean_of_a_run_is_over_the_time_that_has_an_estimate() {
        let power = PowerStatus {
            estimated_span_s: Some(3600.0),
            estimated_j: Some(144_000.0),
            estimated_full_speed_j: Some(180_000.0),
            ..status().power
        };
        let run = Status { mode: "run".into(), shadow: None, power, uptime_s: 7200.0, ..status() };
        let text = verdict(&run);
        let told = "over 1 h 0 min of 2 h 0 min saved 10.0 W on average, 20.0 % of 50.0 W (estimate)\n\
                    that is 87.7 kWh";
        assert!(text.starts_with(told), "{text}");
        // The window that is under way has none yet.
        let text = verdict(&Status { uptime_s: 3605.0, ..run });
        assert!(text.starts_with("over 1 h 0 min saved 10.0 W"), "{text}");
    }

    #[test]
    fn without_an_estimate_it_says_why() {
        let mut status = status();
        status.power = PowerStatus { no_estimate: Some("3 windows".into()), ..Default::default() };
        assert!(verdict(&status).contains("no estimate of the saving, because 3 windows"));
        assert!(page(&status).contains("no estimate"), "{}", page(&status));
    }

    #[test]
    fn measured_power_is_told_from_a_meter_that_says_nothing() {
        let mut status = status();
        status.power.meter = Some("rapl:sum".into());
        status.power.measured_w = Some(61.25);
        assert!(page(&status).contains("measured         61.2 W (rapl:sum)"), "{}", page(&status));
        status.power.measured_w = None;
        assert!(!page(&status).contains("measured"), "no news is no trouble");
        status.power.meter_trouble = Some("rapl:sum: energy_uj: No such device".into());
        let text = page(&status);
        assert!(text.contains("not measured     rapl:sum: energy_uj: No such device"), "{text}");
    }

    fn alternating(pairs: u64, saved: Option<Interval>) -> Status {
        let latency_change = (pairs > 1).then_some(Interval { mean: 0.06, half_width: 0.02 });
        let found = AlternationStatus {
            condition: Condition::Governed,
            stretch_s_governed: 600.0,
            stretch_s_full_speed: 600.0,
            seed: 1,
            pairs,
            pairs_left_out: 0,
            power_w_full_speed: saved.map(|_| 65.0),
            power_w_saved: saved,
            power_is_estimate: false,
            latency_change,
            requests_per_s_change: None,
        };
        let power = PowerStatus { meter: Some("rapl:sum".into()), ..PowerStatus::default() };
        Status { alternation: Some(found), power, ..status() }
    }

    #[test]
    fn what_alternation_found_is_told_with_its_interval() {
        let saved = |half_width| Some(Interval { mean: 9.1, half_width });
        let text = verdict(&Status { mode: "run".into(), ..alternating(12, saved(0.8)) });
        let told = "by alternation: saves 9.1 W +- 0.8 W, 14.0 % of 65.0 W, mean latency +6.0 % +- \
                    2.0 % (95 % intervals, 12 pairs; power: rapl:sum)";
        // Below what the model says of all the time, full speed too, it looked like a second opinion.
        assert!(text.starts_with(&format!("{told}\nover 2 h 2 min")), "{text}");
        assert!(page(&alternating(12, saved(0.8))).contains("saves 9.1 W +- 0.8 W"));
        let text = verdict(&alternating(12, saved(12.0)));
        // Fewer requests take less power, whatever was set.
        assert!(!text.contains("requests per second"), "{text}");
        for (mean, told) in [
            (-0.08, "requests per second -8.0 % +- 1.0 %: less was served, and part of the saving"),
            (-0.008, "requests per second -0.8 % +- 1.0 % (95 % intervals"),
            (0.08, "requests per second +8.0 % +- 1.0 % (95 % intervals"),
        ] {
            let mut status = alternating(12, saved(0.8));
            let change = Some(Interval { mean, half_width: 0.01 });
            status.alternation.as_mut().unwrap().requests_per_s_change = change;
            assert!(verdict(&status).contains(&format!("mean latency +6.0 % +- 2.0 %, {told}")));
            assert!(page(&status).contains(told), "{}", page(&status));
        }
        assert!(text.contains("no saving can be told from chance yet (9.1 W +- 12.0 W"), "{text}");
        let text = verdict(&alternating(1, None));
        assert!(text.contains("1 pair of 20 min 0 s so far; an interval takes two"), "{text}");
        let text = verdict(&alternating(4, None));
        assert!(text.contains("+6.0 % +- 2.0 % (4 pairs; power is not known"), "{text}");
    }

    #[test]
    fn a_knob_s_place_is_told_with_what_it_rests_on() {
        let interval = |mean, half_width| Some(Interval { mean, half_width });
        let measured = FollowerStatus {
            name: "cpu.turbo".into(),
            basis: Basis::Measured,
            pairs: 32,
            power_w_saved: interval(5.0, 0.4),
            latency_us_added: interval(100.0, 6.0),
            left_out: Some("the bound leaves 90 us".into()),
        };
        let new = FollowerStatus { name: "cpu.epp".into(), pairs: 1, ..FollowerStatus::default() };
        let text = page(&Status { followers: vec![measured, new], ..status() });
        let told = "knob             cpu.turbo: not used: the bound leaves 90 us; saves 5.0 W +- 0.4 W \
                    for 100 us +- 6 us, measured over 32 pairs\n";
        assert!(text.contains(told), "{text}");
        assert!(text.contains("cpu.epp: used; as configured, 1 pair so far\n"), "{text}");
    }

    /// A log with whole milliseconds showed "0 us", and "1 us" for the 99th percentile.
    #[test]
    fn what_a_source_cannot_tell_from_none_is_not_none() {
        let mut status = status();
        status.latency.latency_us_mean = Some(0.5);
        status.latency.latency_us_p99 = Some(1.0);
        assert!(one_line(&status).contains(", < 1 us (bound 1.36 ms)"), "{}", one_line(&status));
        status.latency.latency_us_resolution = Some(1e3);
        assert!(one_line(&status).contains(", < 1 ms (bound"), "{}", one_line(&status));
        assert!(page(&status).contains("latency, p99     < 1 ms\n"), "{}", page(&status));
        assert_eq!(latency_time(400.0, Some(1e3)), "400 us", "a mean of zeros and ones");
    }

    /// A mean of 8.4 us, its bound of 8.8 us and one of 9.4 us that breaks it were told as 8, 9 and
    /// 9 us.
    #[test]
    fn short_latencies_can_be_told_apart() {
        assert_eq!([8.4, 8.84, 9.4].map(time), ["8.4 us", "8.8 us", "9.4 us"]);
        assert_eq!([1.0, 10.0, 99.96, 312.4].map(time), ["1 us", "10 us", "100 us", "312 us"]);
    }

    /// What a source failed to answer was told as writes that failed, also in shadow mode.
    #[test]
    fn failures_of_sources_are_no_writes() {
        let mut status = status();
        (status.counts.knob_writes, status.counts.knob_failures) = (6, 1);
        let text = page(&status);
        assert!(text.contains("writes           6, 1 failure\n"), "{text}");
        assert!(!text.contains("\nsources "), "{text}");
        status.counts.source_errors = 2;
        let text = page(&status);
        assert!(
            text.contains("writes           6, 1 failure\nsources          2 failures\n"),
            "{text}"
        );
    }

    /// A share of windows above a bound over the run looked like a broken promise.
    #[test]
    fn windows_above_the_bound_stand_beside_what_all_come_to() {
        let told = "bound broken     3 of 900 windows; over all of them +6.6 % against full speed";
        let text = page(&status());
        assert!(text.contains(&format!("{told} (estimate)\n")), "{text}");
        let text = page(&Status { mode: "run".into(), ..status() });
        assert!(text.contains(&format!("{told}\n")), "{text}");
    }

    /// A bound on the mean had the account and the name of the percentile before it.
    #[test]
    fn of_several_bounds_each_is_told_by_its_name() {
        let tail = BoundStatus {
            bound: "p99 2 ms run".into(),
            statistic: "p99".into(),
            limit_us: Some(2000.0),
            windows_over: 40,
            requests_over_share: Some(0.0134),
            loss: Some(0.31),
            kept: Some(false),
            ..status().bounds[0].clone()
        };
        let both = Status { bounds: vec![tail, status().bounds[0].clone()], ..status() };
        let text = page(&both);
        for told in [
            "bound            2.00 ms (p99 2 ms run); broken in 40 of 900 windows; 1.34 % of their \
             requests above it, over all of them p99 +31.0 % against full speed (estimate); not kept \
             over the run\n",
            "bound            1.36 ms (mean 20% run); broken in 3 of 900 windows; over all of them \
             +6.6 % against full speed (estimate)\n",
        ] {
            assert!(text.contains(told), "{text}");
        }
        assert!(!text.contains("bound broken"), "{text}");
        let text = verdict(&both);
        let told = "\nwould have broken the bound p99 2 ms run in 40 of 900 windows with a known bound, \
                    with 1.34 % of their requests above it; not kept over the run\nwould have broken \
                    the bound mean 20% run in 3 of 900 windows with a known bound\n";
        assert!(text.contains(told), "{text}");
        let mut alone = Status { bounds: both.bounds[..1].to_vec(), ..status() };
        alone.latency.bound_us = None;
        let text = page(&alone);
        assert!(text.contains("\nbound broken     40 of 900 windows; 1.34 % of"), "{text}");
        assert!(one_line(&alone).contains(", 312 us (bound on p99 2.00 ms)"));
    }

    #[test]
    fn a_line_tells_latency_and_bound() {
        let line = one_line(&status());
        assert_eq!(line, "stable, 312 us (bound 1.36 ms), estimated 40.0 of 50.0 W");
    }

    #[test]
    fn of_several_applications_each_is_told_under_its_name() {
        let named = |name: &str| Status { application: Some(name.into()), ..status() };
        let both = Status { others: vec![named("disks")], ..named("redis") };
        let line = one_line(&both);
        assert!(line.starts_with("redis: stable, 312 us"), "{line}");
        assert!(line.contains("W; disks: stable, 312 us"), "{line}");
        let text = page(&both);
        assert!(text.contains("application      redis\n"), "{text}");
        assert!(text.contains("\n\napplication      disks\n"), "{text}");
        assert_eq!(text.matches("own cost").count(), 1, "the daemon's");
        let text = verdict(&both);
        assert!(text.starts_with("redis: over") && text.contains("\ndisks: over"), "{text}");
    }
}
