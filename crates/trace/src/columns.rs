//! Which columns of a text file hold what, and in what units: the language of `--columns`.

use std::str::FromStr;

use crate::{Kind, TraceError};

/// No line that is read has more columns.
const COLUMN_MAX: usize = 4095;
/// What a description looks like, for messages.
pub(crate) const EXAMPLE: &str = "time=0:us,op=2,lba=3:sectors,size=4:bytes";

/// A description of the columns of a trace, such as `time=0:us,op=2,lba=3:sectors,size=4:bytes`.
///
/// A column is a number from 0, or its name in the first line of the file. After a colon follows
///
/// - of `time` the unit: `ns`, `us`, `ms`, `s` (all with decimals) or `filetime` (ticks of 100 ns);
/// - of `lba` (where the request begins) and `size` the unit: `bytes`, `sectors` (512 bytes),
///   `KiB` or `4k` (blocks of 4096 bytes);
/// - of `op`, where the usual words are not used, those of a read and a write: `op=2:get/put`.
///   Further words are of requests that are left out, `*` being any: `op=2:R/W/T/*`. Capitals and
///   small letters are the same.
///
/// `device` is optional: a number, or major and minor number as `device=6+7`. Without it all
/// requests are of device 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    pub(crate) time: (Place, Clock),
    pub(crate) op: (Place, Words),
    pub(crate) lba: (Place, Unit),
    pub(crate) size: (Place, Unit),
    pub(crate) device: Vec<Place>,
}

/// Where a column stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its number from 0.
    At(usize),
    /// Its name in the header line.
    Named(String),
}

/// Unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Whole numbers of so many nanoseconds.
    Whole(u64),
    /// Decimal numbers; so many digits after the point are down to the nanosecond.
    Decimal(u32),
}

/// Unit of an offset or a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub bytes: u64,
    /// As in "8 sectors".
    pub name: &'static str,
}

pub(crate) const BYTES: Unit = Unit { bytes: 1, name: "bytes" };
pub(crate) const SECTORS: Unit = Unit { bytes: 512, name: "sectors" };
const KIB: Unit = Unit { bytes: 1024, name: "KiB" };
const BLOCKS: Unit = Unit { bytes: 4096, name: "blocks of 4k" };

/// Words for reads, for writes, and for what is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    read: Vec<String>,
    write: Vec<String>,
    left_out: Vec<String>,
    /// The message when none of them matches.
    allowed: String,
}

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Data(Kind),
    LeftOut,
}

impl Words {
    /// The default.
    fn usual() -> Self {
        let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
        Self {
            read: words(&["R", "Read", "RD", "0"]),
            write: words(&["W", "Write", "WR", "1"]),
            left_out: Vec::new(),
            allowed:
                "R, Read, 0 (read), W, Write or 1 (write) is needed, or say op=COLUMN:READ/WRITE \
                      with the words of this file"
                    .to_owned(),
        }
    }

    /// `read/write` and then the words that are left out.
    fn given(text: &str) -> Option<Self> {
        let mut words = text.split('/').map(str::to_owned);
        let (read, write) = (words.next()?, words.next()?);
        if read.is_empty() || write.is_empty() || read.eq_ignore_ascii_case(&write) {
            return None;
        }
        let plain = |word: &str, letter: char| word.to_ascii_lowercase().starts_with(letter);
        let allowed = if plain(&read, 'r') && plain(&write, 'w') {
            format!("{read} or {write} is needed")
        } else {
            format!("{read} (read) or {write} (write) is needed")
        };
        Some(Self { read: vec![read], write: vec![write], left_out: words.collect(), allowed })
    }

    #[inline]
    pub fn meaning(&self, field: &[u8]) -> Result<Meaning, &str> {
        let is = |word: &String| field.eq_ignore_ascii_case(word.as_bytes());
        if self.read.iter().any(is) {
            Ok(Meaning::Data(Kind::Read))
        } else if self.write.iter().any(is) {
            Ok(Meaning::Data(Kind::Write))
        } else if self.left_out.iter().any(|word| word == "*" || is(word)) {
            Ok(Meaning::LeftOut)
        } else {
            Err(&self.allowed)
        }
    }
}

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        parse(text).map_err(|problem| {
            TraceError::Setting(format!("columns: {problem}; an example: {EXAMPLE}"))
        })
    }
}

fn parse(text: &str) -> Result<Columns, String> {
    let (mut time, mut op, mut lba, mut size, mut device) = (None, None, None, None, None);
    for part in text.split(',') {
        let part = part.trim();
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("{part:?} is not key=column"))?;
        let (key, value) = (key.trim(), value.trim());
        let (place, rest) = match value.split_once(':') {
            Some((place, rest)) => (place.trim(), Some(rest.trim())),
            None => (value, None),
        };
        let twice = match key {
            "time" => time.replace((place_of(key, place)?, clock(rest)?)).is_some(),
            "op" => op.replace((place_of(key, place)?, words(rest)?)).is_some(),
            "lba" => lba.replace((place_of(key, place)?, unit(key, rest)?)).is_some(),
            "size" => size.replace((place_of(key, place)?, unit(key, rest)?)).is_some(),
            "device" => device.replace(devices(place, rest)?).is_some(),
            _ => {
                return Err(format!("{key:?} is not known; there are time, op, lba, size, device"));
            }
        };
        if twice {
            return Err(format!("{key} is given twice"));
        }
    }
    let missing = |key: &str| format!("{key} is missing");
    Ok(Columns {
        time: time.ok_or_else(|| missing("time"))?,
        op: op.ok_or_else(|| missing("op"))?,
        lba: lba.ok_or_else(|| missing("lba"))?,
        size: size.ok_or_else(|| missing("size"))?,
        device: device.unwrap_or_default(),
    })
}

fn place_of(key: &str, text: &str) -> Result<Place, String> {
    if text.is_empty() {
        return Err(format!("{key} names no column"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Place::Named(text.to_owned()));
    }
    let at = text.parse().ok().filter(|&at| at <= COLUMN_MAX);
    at.map(Place::At).ok_or_else(|| format!("{key}: column {text} is beyond {COLUMN_MAX}"))
}

fn devices(place: &str, rest: Option<&str>) -> Result<Vec<Place>, String> {
    if let Some(rest) = rest {
        return Err(format!("device has no unit, got {rest:?}"));
    }
    let places: Vec<_> =
        place.split('+').map(|each| place_of("device", each.trim())).collect::<Result<_, _>>()?;
    if places.len() > 2 {
        return Err("device has more than two columns, a major and a minor number".to_owned());
    }
    Ok(places)
}

fn clock(unit: Option<&str>) -> Result<Clock, String> {
    Ok(match unit {
        Some("ns") => Clock::Decimal(0),
        Some("us") => Clock::Decimal(3),
        Some("ms") => Clock::Decimal(6),
        Some("s") => Clock::Decimal(9),
        Some("filetime") => Clock::Whole(100),
        _ => return Err(no_unit("time", unit, "ns, us, ms, s and filetime")),
    })
}

fn unit(key: &str, unit: Option<&str>) -> Result<Unit, String> {
    Ok(match unit {
        Some("bytes") => BYTES,
        Some("sectors") => SECTORS,
        Some("KiB") => KIB,
        Some("4k") => BLOCKS,
        _ => return Err(no_unit(key, unit, "bytes, sectors, KiB and 4k")),
    })
}

fn no_unit(key: &str, given: Option<&str>, allowed: &str) -> String {
    match given {
        Some(given) => format!("{key} has the unit {given:?}, which is none of {allowed}"),
        None => format!("{key} has no unit: write one of {allowed} after a colon"),
    }
}

fn words(given: Option<&str>) -> Result<Words, String> {
    match given {
        None => Ok(Words::usual()),
        Some(text) => Words::given(text)
            .ok_or_else(|| format!("op has the words {text:?}; a read's and a write's are needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_description_says_what_is_allowed() {
        for (text, part) in [
            ("", "\"\" is not key=column"),
            ("time=0:us,op=2,lba=3:sectors", "size is missing"),
            ("time=0,op=2,lba=3:sectors,size=4:bytes", "time has no unit: write one of ns, us,"),
            ("time=0:hours,op=2,lba=3:sectors,size=4:bytes", "time has the unit \"hours\""),
            (
                "time=0:us,op=2,lba=3:pages,size=4:bytes",
                "the unit \"pages\", which is none of bytes,",
            ),
            ("time=0:us,op=2:R,lba=3:4k,size=4:KiB", "op has the words \"R\""),
            ("time=0:us,op=2:x/X,lba=3:4k,size=4:KiB", "op has the words \"x/X\""),
            ("time=0:us,time=1:us", "time is given twice"),
            ("time=:us", "time names no column"),
            ("time=99999:us", "column 99999 is beyond 4095"),
            ("when=0:us", "\"when\" is not known; there are time, op, lba, size, device"),
            ("device=1:bytes", "device has no unit"),
            ("device=1+2+3", "more than two columns"),
        ] {
            let message = text.parse::<Columns>().expect_err(text).to_string();
            assert!(message.starts_with("columns: ") && message.contains(part), "{message}");
            assert!(message.ends_with(EXAMPLE), "{message}");
        }
    }

    #[test]
    fn words_mean_what_was_said() {
        let words = Words::given("get/put/stat").expect("two words and one");
        assert_eq!(words.meaning(b"GET"), Ok(Meaning::Data(Kind::Read)));
        assert_eq!(words.meaning(b"put"), Ok(Meaning::Data(Kind::Write)));
        assert_eq!(words.meaning(b"stat"), Ok(Meaning::LeftOut));
        assert_eq!(words.meaning(b""), Err("get (read) or put (write) is needed"));
        assert_eq!(Words::given("R/W/*").expect("any").meaning(b"x"), Ok(Meaning::LeftOut));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", tail in "[a-z0-9=:,/+*]{0,80}") {
            let _ = text.parse::<Columns>();
            let _ = tail.parse::<Columns>();
        }
    }
}
