//! One metric from a page in the text format of Prometheus or OpenMetrics.
//!
//! One pass over the page; lines of other metrics are skipped after their first bytes. The stated
//! types are ignored: servers call their buckets counters or gauges.

use crate::sources::differences::Totals;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The largest count that a number of the format holds exactly.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;
/// The most bucket lines that are kept.
const BUCKETS_MAX: usize = 100_000;
/// The most names that a message lists.
const NAMES_MAX: usize = 8;
/// Parts of the names of metrics of power or energy.
const POWER_WORDS: [&str; 4] = ["watt", "joule", "power", "energy"];

/// Which series are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// The metric without `_bucket`, `_sum` and `_count`.
    pub metric: String,
    /// Labels that a series must have with these values.
    pub labels: BTreeMap<String, String>,
    /// Microseconds per unit of the metric.
    pub unit_us: f64,
}

/// The part of a metric that a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Bucket,
    Sum,
    Count,
    /// The metric's name alone: buckets with some servers, quantiles with others.
    Bare,
}

/// One bucket line: which series, upper edge in the metric's unit, requests up to it.
type Bucket = (u64, f64, u64);

#[derive(Default)]
struct Found {
    sum: Option<f64>,
    count: Option<u64>,
    buckets: Vec<Bucket>,
    /// The earliest time that a line of a wanted series gives for its value.
    told_at: Option<f64>,
    /// Whether the metric is on the page, whatever its labels.
    seen: bool,
}

/// The totals of all wanted series together.
///
/// # Errors
/// Says what is wrong with which line, or what the page has instead of the metric.
pub fn read(page: &str, selector: &Selector) -> Result<Totals, String> {
    read_timed(page, selector).map(|(totals, _)| totals)
}

/// The same, and the earliest time that the page gives for one of these values, in its own unit: only
/// a page of values that were measured before gives any.
///
/// # Errors
/// As [`read`].
pub fn read_timed(page: &str, selector: &Selector) -> Result<(Totals, Option<f64>), String> {
    let mut found = Found::default();
    for line in page.lines() {
        if let Some((part, rest)) = part_of(line, &selector.metric) {
            found.seen = true;
            found.take(part, rest, selector).map_err(|message| format!("{message}: {line:?}"))?;
        }
    }
    let totals = found.totals(selector);
    let totals = totals.ok_or_else(|| what_is_there(page, selector, found.seen))?;
    Ok((totals, found.told_at))
}

/// The sum of the values of all series of a metric, by its whole name, that have these labels.
///
/// # Errors
/// Says what is wrong with which line, or what the page has instead of the metric.
pub fn value(page: &str, metric: &str, labels: &BTreeMap<String, String>) -> Result<f64, String> {
    let (mut sum, mut seen) = (None, false);
    for line in page.lines() {
        let rest = line.strip_prefix(metric).filter(|rest| begins_series(rest));
        let Some(rest) = rest else { continue };
        seen = true;
        let value = value_of(rest, labels).map_err(|message| format!("{message}: {line:?}"))?;
        if let Some(value) = value {
            sum = Some(sum.unwrap_or(0.0) + value);
        }
    }
    let missing = || match seen {
        true => {
            let named = |line: &'_ str| line.strip_prefix(metric).is_some_and(begins_series);
            no_such_labels(metric, labels, page.lines().filter(|line| named(line)))
        }
        false => {
            let named = names(page).map(|(name, _)| name);
            let power = |name: &&str| POWER_WORDS.iter().any(|word| name.contains(word));
            no_metric(metric, named.filter(power).collect(), "that tells power or energy")
        }
    };
    sum.ok_or_else(missing)
}

/// The value of a line, from its labels on, if it has the wanted ones.
fn value_of(rest: &str, wanted: &BTreeMap<String, String>) -> Result<Option<f64>, String> {
    let (mut rest, mut matched) = (rest.trim_start(), 0);
    if let Some(labels) = rest.strip_prefix('{') {
        let mut labels = Labels(labels);
        while let Some((name, value)) = labels.next()? {
            matched += usize::from(wanted.get(name).is_some_and(|want| *want == value));
        }
        rest = labels.0;
    }
    if matched != wanted.len() {
        return Ok(None);
    }
    let value = rest.split_ascii_whitespace().next().unwrap_or_default();
    number(value).map(Some).ok_or_else(|| "the value is not a number".to_owned())
}

/// The part of the metric that a line holds, and the line from its labels on.
fn part_of<'a>(line: &'a str, metric: &str) -> Option<(Part, &'a str)> {
    let rest = line.strip_prefix(metric)?;
    [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count), ("", Part::Bare)]
        .into_iter()
        .filter_map(|(suffix, part)| Some((part, rest.strip_prefix(suffix)?)))
        .find(|(_, rest)| begins_series(rest))
}

/// Whether this, behind a name, shows that the name is whole.
fn begins_series(rest: &str) -> bool {
    rest.starts_with(['{', ' ', '\t'])
}

impl Found {
    fn take(&mut self, part: Part, rest: &str, selector: &Selector) -> Result<(), String> {
        let mut rest = rest.trim_start();
        let (mut series, mut edge, mut matched) = (0u64, None, 0);
        if let Some(labels) = rest.strip_prefix('{') {
            let mut labels = Labels(labels);
            while let Some((name, value)) = labels.next()? {
                if name == "le" {
                    edge = Some(number(&value).ok_or("the edge \"le\" is not a number")?);
                } else {
                    series = series.wrapping_add(hash(name, &value));
                }
                matched +=
                    usize::from(selector.labels.get(name).is_some_and(|want| *want == value));
            }
            rest = labels.0;
        }
        if matched != selector.labels.len() {
            return Ok(());
        }
        let mut words = rest.split_ascii_whitespace();
        let value = words.next().unwrap_or_default();
        // In its place OpenMetrics may have an example, behind a #.
        if let Some(at) = words.next().and_then(number).filter(|at| at.is_finite()) {
            self.told_at = Some(self.told_at.map_or(at, |before| before.min(at)));
        }
        let value = || number(value).ok_or("the value is not a number");
        match (part, edge) {
            (Part::Bucket | Part::Bare, Some(edge)) => {
                if edge.is_nan() {
                    return Err("the edge \"le\" is not a number".to_owned());
                }
                if self.buckets.len() == BUCKETS_MAX {
                    return Err(format!("more than {BUCKETS_MAX} buckets; choose by labels"));
                }
                self.buckets.push((series, edge, count(value()?)?));
            }
            (Part::Sum, None) => {
                let sum = value()?;
                if !sum.is_finite() || sum < 0.0 {
                    return Err("a sum of latencies is finite and not negative".to_owned());
                }
                self.sum = Some(self.sum.unwrap_or(0.0) + sum);
            }
            (Part::Count, None) => {
                let count = count(value()?)?;
                self.count = Some(self.count.unwrap_or(0).saturating_add(count));
            }
            // Quantiles of a summary cover another span of time than a window.
            _ => {}
        }
        Ok(())
    }

    fn totals(&mut self, selector: &Selector) -> Option<Totals> {
        let mut buckets = self.by_edge();
        for bucket in &mut buckets {
            bucket.0 *= selector.unit_us;
        }
        let counted = buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.1));
        if buckets.is_empty() && (self.count.is_none() || self.sum.is_none()) {
            return None;
        }
        Some(Totals {
            requests: self.count.unwrap_or(counted),
            latency_us_sum: self.sum.map(|sum| sum * selector.unit_us),
            buckets: (!buckets.is_empty()).then_some(buckets),
            ..Totals::default()
        })
    }

    /// The requests between the edges, summed over the series. A server may leave out a bucket
    /// that has no more requests than the one below.
    fn by_edge(&mut self) -> Vec<(f64, u64)> {
        self.buckets.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut between: Vec<(f64, u64)> = Vec::with_capacity(self.buckets.len());
        let (mut series_before, mut below) = (None, 0);
        for &(series, edge, up_to) in &self.buckets {
            if series_before != Some(series) {
                (series_before, below) = (Some(series), 0);
            }
            between.push((edge, up_to.saturating_sub(below)));
            below = below.max(up_to);
        }
        between.sort_by(|a, b| a.0.total_cmp(&b.0));
        between.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        between
    }
}

/// The labels of a line, from behind the opening brace; afterwards what follows the closing one.
struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    fn next(&mut self) -> Result<Option<(&'a str, Cow<'a, str>)>, &'static str> {
        let rest = self.0.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = rest.strip_prefix('}') {
            self.0 = rest;
            return Ok(None);
        }
        let (name, rest) = rest.split_once('=').ok_or("a label has no =")?;
        let rest = rest.trim_start().strip_prefix('"').ok_or("a label's value has no quotes")?;
        // Bytes are enough: quotes and backslashes are never part of another character.
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.ok_or("a label's value has no closing quotes")?;
        let (value, rest) = rest.split_at(end);
        self.0 = rest.strip_prefix('"').unwrap_or(rest);
        Ok(Some((name.trim(), unescape(value))))
    }
}

fn unescape(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match if character == '\\' {
            characters.next().map(|next| (true, next))
        } else {
            Some((false, character))
        } {
            Some((true, 'n')) => plain.push('\n'),
            Some((_, other)) => plain.push(other),
            None => {}
        }
    }
    Cow::Owned(plain)
}

/// `1e3`, `+Inf`, `NaN`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn count(value: f64) -> Result<u64, String> {
    if (0.0..=COUNT_MAX).contains(&value) {
        return Ok(value.round() as u64);
    }
    Err("a count of requests is finite and not negative".to_owned())
}

/// FNV-1a of one label; the sum over a series' labels does not depend on their order.
fn hash(name: &str, value: &str) -> u64 {
    let bytes = name.bytes().chain([b'=']).chain(value.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The names of the metrics on a page that may be latencies: those with a sum and a count, and
/// those with edges.
#[must_use]
pub fn candidates(page: &str) -> BTreeSet<&str> {
    let sums: BTreeSet<&str> =
        names(page).filter_map(|(name, _)| name.strip_suffix("_sum")).collect();
    names(page)
        .filter_map(|(name, labels)| {
            let counted = name.strip_suffix("_count").filter(|name| sums.contains(name));
            let edges =
                labels.contains("le=\"").then(|| name.strip_suffix("_bucket").unwrap_or(name));
            counted.or(edges)
        })
        .collect()
}

/// The name of each line that is not a comment, and what follows it.
fn names(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let end = line.find(['{', ' ', '\t'])?;
        Some(line.split_at(end))
    })
}

fn what_is_there(page: &str, selector: &Selector, seen: bool) -> String {
    let metric = &selector.metric;
    if seen && !selector.labels.is_empty() {
        let lines = page.lines().filter(|line| part_of(line, metric).is_some());
        return no_such_labels(metric, &selector.labels, lines);
    }
    if seen {
        return format!("{metric} has neither buckets nor a sum and a count");
    }
    no_metric(metric, candidates(page), "that tells latencies")
}

/// What the labels of a metric's series are, where none has the wanted ones.
fn no_such_labels<'a>(
    metric: &str,
    wanted: &BTreeMap<String, String>,
    lines: impl Iterator<Item = &'a str>,
) -> String {
    let mut there: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in lines {
        let Some((_, labels)) = line.split_once('{') else { continue };
        let mut labels = Labels(labels);
        while let Ok(Some((name, value))) = labels.next() {
            there.entry(name).or_default().insert(value.into_owned());
        }
    }
    there.remove("le");
    let why = wanted.iter().find_map(|(name, value)| match there.get(name.as_str()) {
        None if there.is_empty() => Some("they have none".to_owned()),
        None => Some(format!("they have {:?}", Vec::from_iter(there.keys().take(NAMES_MAX)))),
        Some(values) if values.contains(value) => None,
        Some(values) => {
            let values = nearest(values.iter().map(String::as_str).collect(), value);
            Some(format!("{name:?} may be {values:?}"))
        }
    });
    let why = why.unwrap_or_else(|| "each is there, but not together".to_owned());
    format!("no series of {metric} has the labels {wanted:?}; {why}")
}

/// The names that are nearest to one, those first.
fn nearest<'a>(mut names: Vec<&'a str>, to: &str) -> Vec<&'a str> {
    let near = |name: &str| strsim::jaro_winkler(name, to);
    names.sort_by(|a, b| near(b).total_cmp(&near(a)));
    names.truncate(NAMES_MAX);
    names
}

fn no_metric(metric: &str, there: BTreeSet<&str>, what: &str) -> String {
    let there = nearest(there.into_iter().collect(), metric);
    match there.as_slice() {
        [] => format!("no metric {metric}, and none {what}; is this the right page?"),
        there => format!("no metric {metric} (yet); there are {}", there.join(", ")),
    }
}

#[cfg(test)]
mod tests;
