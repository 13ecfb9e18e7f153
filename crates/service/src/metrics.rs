//! `GET /metrics`: what a program counts, in the text format of Prometheus, and in OpenMetrics for
//! who asks for that.
//!
//! Base units (seconds, joules, watts, hertz, shares). Unknown values are left out, never 0. Values
//! from a model instead of a meter have `estimated` in their name and their help text.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// A metric: its series, one for each set of labels. Without series it is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// Its name, without the endings that formats add (`_total`, `_info`, `_bucket`).
    pub name: &'a str,
    /// What it is, in a sentence.
    pub help: &'a str,
    /// What its values mean.
    pub kind: Kind,
    /// Labels and value of each series.
    pub series: Vec<(Labels<'a>, Value)>,
}

/// Names and values of labels.
pub type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// What the values of a metric mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What is now.
    Gauge,
    /// What only grows until a restart.
    Counter,
    /// What the labels say; the value is 1.
    Info,
    /// How values spread.
    Histogram,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Any other; left out where it is not finite.
    Real(f64),
    /// Upper edges, ascending, with how many values fell below each and above the one before; and
    /// the sum of all values. An edge that is not finite holds the rest.
    Spread(Vec<(f64, u64)>, f64),
}

impl<'a> Family<'a> {
    /// A metric with one series at most and no labels.
    #[must_use]
    pub fn of(name: &'a str, help: &'a str, kind: Kind, value: Option<Value>) -> Self {
        Self { name, help, kind, series: value.map(|value| (vec![], value)).into_iter().collect() }
    }
}

impl Value {
    fn is_known(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Real(value) | Self::Spread(_, value) => value.is_finite(),
        }
    }
}

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4: what every reader knows.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What is asked for by the values of `Accept`: OpenMetrics only where it is named, and not
    /// liked less than the other.
    #[must_use]
    pub fn accepted<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut text, mut open) = (0.0_f64, 0.0_f64);
        for range in accept.into_iter().flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0, None);
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match (media.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => {
                    open = open.max(weight);
                }
                ("text/plain" | "text/*" | "*/*", None | Some("0.0.4")) => text = text.max(weight),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// The type of what [`Format::write`] writes.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The metrics as text.
    #[must_use]
    pub fn write(self, families: &[Family<'_>]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = families.iter().try_for_each(|family| self.family(&mut text, family));
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, family: &Family<'_>) -> fmt::Result {
        let known: Vec<_> = family.series.iter().filter(|(_, value)| value.is_known()).collect();
        if known.is_empty() {
            return Ok(());
        }
        let (kind, ending) = match (family.kind, self) {
            (Kind::Gauge, _) => ("gauge", ""),
            (Kind::Counter, _) => ("counter", "_total"),
            (Kind::Info, Self::OpenMetrics) => ("info", "_info"),
            (Kind::Info, Self::Text) => ("gauge", "_info"),
            (Kind::Histogram, _) => ("histogram", ""),
        };
        // OpenMetrics names the metric here, the other format its series.
        let named = if self == Self::OpenMetrics { "" } else { ending };
        let help = Escaped(family.help, self == Self::OpenMetrics);
        writeln!(text, "# HELP {}{named} {help}", family.name)?;
        writeln!(text, "# TYPE {}{named} {kind}", family.name)?;
        for (labels, value) in known {
            match value {
                Value::Spread(buckets, sum) => spread(text, family.name, labels, buckets, *sum)?,
                Value::Whole(value) => line(text, (family.name, ending), labels, value)?,
                Value::Real(value) => line(text, (family.name, ending), labels, &Real(*value))?,
            }
        }
        Ok(())
    }
}

/// The series of a histogram: what lies below each edge, counted from the start.
fn spread(
    text: &mut String,
    name: &str,
    labels: &Labels<'_>,
    buckets: &[(f64, u64)],
    sum: f64,
) -> fmt::Result {
    let mut below = 0_u64;
    let mut labels = labels.clone();
    for &(edge, count) in buckets.iter().filter(|(edge, _)| edge.is_finite()) {
        below = below.saturating_add(count);
        labels.push(("le", Real(edge).to_string().into()));
        line(text, (name, "_bucket"), &labels, &below)?;
        labels.pop();
    }
    let all = buckets.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count));
    labels.push(("le", "+Inf".into()));
    line(text, (name, "_bucket"), &labels, &all)?;
    labels.pop();
    line(text, (name, "_sum"), &labels, &Real(sum))?;
    line(text, (name, "_count"), &labels, &all)
}

fn line(
    text: &mut String,
    (name, ending): (&str, &str),
    labels: &Labels<'_>,
    value: &dyn fmt::Display,
) -> fmt::Result {
    write!(text, "{name}{ending}")?;
    for (at, (key, label)) in labels.iter().enumerate() {
        let before = if at == 0 { "{" } else { "," };
        write!(text, "{before}{key}=\"{}\"", Escaped(label, true))?;
    }
    writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" })
}

/// A number that shows that it need not be whole, without an exponent.
struct Real(f64);

impl fmt::Display for Real {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = if self.0.fract() == 0.0 { ".0" } else { "" };
        write!(to, "{}{point}", self.0)
    }
}

/// A text in which line ends and backslashes, and if asked for quotes, are escaped.
struct Escaped<'a>(&'a str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => to.write_str("\\n"),
            '\\' => to.write_str("\\\\"),
            '"' if self.1 => to.write_str("\\\""),
            _ => to.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `promtool check metrics` and readers that do not ask for OpenMetrics were given it.
    #[test]
    fn openmetrics_is_for_who_asks_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8",
            "text/html, application/openmetrics-text;q=0.2",
            "text/plain, application/openmetrics-text",
            prometheus,
        ] {
            assert_eq!(Format::accepted([accept]), Format::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain;version=0.0.4",
            "application/json",
            "application/openmetrics-text;version=2.0.0, */*",
            "application/openmetrics-text;q=0, text/plain;q=0.1",
            "application/openmetrics-text;q=0.5, text/plain",
            "application/openmetrics-text;q=much",
        ] {
            assert_eq!(Format::accepted([accept]), Format::Text, "{accept}");
        }
        assert_eq!(Format::accepted([]), Format::Text);
        let both = ["text/plain;q=0.5", "application/openmetrics-text"];
        assert_eq!(Format::accepted(both), Format::OpenMetrics);
    }

    #[test]
    fn both_formats_name_and_type_every_kind() {
        let spread = Value::Spread(vec![(0.001, 2), (0.01, 3), (f64::INFINITY, 1)], 0.5);
        let version = vec![("version", Cow::from("1 \"a\"\\\n"))];
        let families = [
            Family::of("x", "How \"much\".", Kind::Gauge, Some(Value::Real(2.0))),
            Family::of("n", "How many.", Kind::Counter, Some(Value::Whole(7))),
            Family { series: vec![(version, Value::Whole(1))], ..info() },
            Family::of("s_seconds", "How long.", Kind::Histogram, Some(spread)),
            Family::of("unknown", "Nothing.", Kind::Gauge, None),
            Family::of("none", "No number.", Kind::Gauge, Some(Value::Real(f64::NAN))),
        ];
        let open = r#"# HELP x How \"much\".
# TYPE x gauge
x 2.0
# HELP n How many.
# TYPE n counter
n_total 7
# HELP p What.
# TYPE p info
p_info{version="1 \"a\"\\\n"} 1
# HELP s_seconds How long.
# TYPE s_seconds histogram
s_seconds_bucket{le="0.001"} 2
s_seconds_bucket{le="0.01"} 5
s_seconds_bucket{le="+Inf"} 6
s_seconds_sum 0.5
s_seconds_count 6
# EOF
"#;
        assert_eq!(Format::OpenMetrics.write(&families), open);
        let text = open
            .replace("# HELP x How \\\"much\\\".", "# HELP x How \"much\".")
            .replace("P n ", "P n_total ")
            .replace("E n ", "E n_total ")
            .replace("P p ", "P p_info ")
            .replace("E p info", "E p_info gauge")
            .replace("# EOF\n", "");
        assert_eq!(Format::Text.write(&families), text);
    }

    fn info() -> Family<'static> {
        Family::of("p", "What.", Kind::Info, None)
    }

    proptest! {
        #[test]
        fn no_header_panics(accept in r"\PC{0,80}") {
            let _ = Format::accepted([accept.as_str()]);
        }

        #[test]
        fn no_label_breaks_its_line(label in any::<String>()) {
            let series = vec![(vec![("name", Cow::from(label))], Value::Whole(1))];
            for format in [Format::Text, Format::OpenMetrics] {
                let text = format.write(&[Family { series: series.clone(), ..info() }]);
                prop_assert_eq!(text.split('\n').filter(|line| line.starts_with("p_info")).count(), 1);
                let lines = text.split('\n').count() - usize::from(format == Format::OpenMetrics);
                prop_assert_eq!(lines, 4, "{}", text);
            }
        }
    }
}
