//! Extents that depend on parameters: `(NX + 1) / size * 2`.

/// Parentheses within each other, at most.
const DEPTH_MAX: usize = 64;
/// Extents, and what they are computed from, go up to this: an `f64` holds all whole numbers up to it.
pub const EXTENT_MAX: f64 = 9.0e15;

/// The value of an expression of whole numbers and parameters, with + - * / % and parentheses.
pub fn evaluate(
    text: &str,
    parameter: &dyn Fn(&str) -> Option<f64>,
) -> std::result::Result<f64, String> {
    Expression { left: text.trim_start(), parameter, depth: 0, is_checked_only: false }.whole()
}

/// What is wrong with an expression whatever the values of its parameters, which programs may still
/// change: how it is written, and names that are no parameters.
pub fn check(text: &str, is_parameter: &dyn Fn(&str) -> bool) -> std::result::Result<(), String> {
    let parameter = |name: &str| is_parameter(name).then_some(0.0);
    let left = text.trim_start();
    Expression { left, parameter: &parameter, depth: 0, is_checked_only: true }.whole().map(|_| ())
}

struct Expression<'a> {
    left: &'a str,
    parameter: &'a dyn Fn(&str) -> Option<f64>,
    depth: usize,
    /// No value counts: it is 0 where there is none.
    is_checked_only: bool,
}

impl Expression<'_> {
    fn whole(mut self) -> std::result::Result<f64, String> {
        let found = self.sum()?;
        if self.left.is_empty() {
            Ok(found)
        } else {
            Err(format!("is not understood at {:?}", self.left))
        }
    }

    fn sum(&mut self) -> std::result::Result<f64, String> {
        let mut found = self.product()?;
        loop {
            if self.takes('+') {
                found = exact(found + self.product()?)?;
            } else if self.takes('-') {
                found = exact(found - self.product()?)?;
            } else {
                return Ok(found);
            }
        }
    }

    fn product(&mut self) -> std::result::Result<f64, String> {
        let mut found = self.atom()?;
        loop {
            if self.takes('*') {
                found = exact(found * self.atom()?)?;
            } else if self.takes('/') {
                let by = self.divisor()?;
                found = (found / by).trunc();
            } else if self.takes('%') {
                let by = self.divisor()?;
                found %= by;
            } else {
                return Ok(found);
            }
        }
    }

    fn divisor(&mut self) -> std::result::Result<f64, String> {
        match self.atom()? {
            0.0 if self.is_checked_only => Ok(1.0),
            0.0 => Err("divides by 0".to_owned()),
            found => Ok(found),
        }
    }

    fn atom(&mut self) -> std::result::Result<f64, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nests parentheses more than {DEPTH_MAX} deep"));
        }
        let found = if self.takes('(') {
            let inner = self.sum()?;
            if !self.takes(')') {
                return Err("is missing a )".to_owned());
            }
            inner
        } else if self.takes('-') {
            -self.atom()?
        } else {
            self.word()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn word(&mut self) -> std::result::Result<f64, String> {
        let part = |letter: char| letter.is_alphanumeric() || "_.".contains(letter);
        let end = self.left.find(|letter| !part(letter)).unwrap_or(self.left.len());
        let (word, rest) = self.left.split_at(end);
        if word.is_empty() {
            return Err(format!("is not understood at {:?}", self.left));
        }
        self.left = rest.trim_start();
        if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            let value = word.parse().map_err(|_| format!("has {word:?}, which is not a number"))?;
            return exact(value).map_err(|told| format!("has {word:?}, which {told}"));
        }
        let value = (self.parameter)(word)
            .ok_or_else(|| format!("has {word:?}, which is not a parameter"))?;
        exact(value).map_err(|told| format!("has {word:?}, which {told}"))
    }

    fn takes(&mut self, sign: char) -> bool {
        match self.left.strip_prefix(sign) {
            Some(rest) => {
                self.left = rest.trim_start();
                true
            }
            None => false,
        }
    }
}

/// A value, unless it may have been rounded.
fn exact(value: f64) -> std::result::Result<f64, String> {
    if value.abs() <= EXTENT_MAX {
        Ok(value)
    } else {
        Err(format!("is {value}; allowed: up to {EXTENT_MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = evaluate(&text, &|_| Some(2.0));
        }

        #[test]
        fn expressions_are_what_they_are_in_c(a in 0i64..1000, b in 1i64..50, c in 0i64..50) {
            let names = |name: &str| match name { "a" => Some(a as f64), "b" => Some(b as f64), _ => None };
            let text = format!("(a + {c}) / b * 2 - a % b");
            prop_assert_eq!(evaluate(&text, &names), Ok(((a + c) / b * 2 - a % b) as f64));
        }
    }

    /// 2^53 + 1 was 2^53, and the difference 0.
    #[test]
    fn nothing_is_computed_from_what_was_rounded() {
        let names = |name: &str| (name == "n").then_some(9007199254740993i64 as f64);
        for text in ["n - 9007199254740992", "9007199254740993 - 1", "3000000000 * 4000000000 / 7"]
        {
            let told = evaluate(text, &names).unwrap_err();
            assert!(told.ends_with("; allowed: up to 9000000000000000"), "{text}: {told}");
        }
    }

    /// A division by what is 0 until the program sets it is none yet.
    #[test]
    fn what_no_value_mends_is_told_without_values() {
        let names = |name: &str| ["n", "m"].contains(&name);
        for text in ["n / m", "4 % (n - m)", "-n", "(n + 1) * 2", "n / (m / n)"] {
            assert_eq!(check(text, &names), Ok(()), "{text}");
        }
        for (text, words) in [
            ("n * (2 + 1", "is missing a )"),
            ("n ** 2", "is not understood at \"* 2\""),
            ("n m", "is not understood at \"m\""),
            ("n + k", "has \"k\", which is not a parameter"),
            ("2n", "has \"2n\", which is not a number"),
        ] {
            assert_eq!(check(text, &names), Err(words.to_owned()), "{text}");
        }
    }
}
