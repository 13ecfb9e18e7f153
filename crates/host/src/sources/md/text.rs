//! Parsing of an array's files.

/// What an array is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, or it is frozen.
    Rests,
    /// A new disk is being filled.
    Recovers,
    /// Work that can be slowed: resync, check, repair, reshape.
    Works,
}

/// What the text of `sync_action` says.
///
/// # Errors
/// Names the word that the kernel does not use.
pub fn action(text: &str) -> Result<Action, String> {
    match text.trim() {
        "idle" | "frozen" => Ok(Action::Rests),
        "recover" => Ok(Action::Recovers),
        "resync" | "check" | "repair" | "reshape" => Ok(Action::Works),
        other => Err(format!(
            "{:?} is not one of idle, frozen, recover, resync, check, repair, reshape",
            short(other)
        )),
    }
}

/// Sectors done and to be done in the text of `sync_completed`, such as `12345 / 67890`; `None` if
/// no pass runs (`none`) or it waits for another array's (`delayed`).
///
/// # Errors
/// Shows the text that makes no sense.
pub fn completed(text: &str) -> Result<Option<(u64, u64)>, String> {
    let text = text.trim();
    if matches!(text, "none" | "delayed") {
        return Ok(None);
    }
    let parts = text.split_once('/');
    let numbers = parts
        .and_then(|(done, all)| Some((done.trim().parse().ok()?, all.trim().parse::<u64>().ok()?)));
    match numbers {
        Some((done, all)) if done <= all => Ok(Some((done, all))),
        _ => Err(format!("{:?} is not \"done / all\" in sectors, none or delayed", short(text))),
    }
}

/// KiB/s in the text of `sync_speed` or `sync_speed_max`, such as `200000 (system)`; `None` if no
/// pass runs.
///
/// # Errors
/// Shows the text that makes no sense.
pub fn speed(text: &str) -> Result<Option<f64>, String> {
    let word = text.split_whitespace().next().unwrap_or_default();
    if word == "none" {
        return Ok(None);
    }
    let number = word.parse::<u64>().map(|kib_per_s| Some(kib_per_s as f64));
    number.map_err(|_| format!("{:?} is neither a number of KiB/s nor none", short(text)))
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(action("resync\n"), Ok(Action::Works));
        assert_eq!(action("idle"), Ok(Action::Rests));
        assert_eq!(action("recover"), Ok(Action::Recovers));
        assert_eq!(completed("12345 / 67890\n"), Ok(Some((12345, 67890))));
        assert_eq!(completed("none"), Ok(None));
        assert_eq!(completed("delayed\n"), Ok(None));
        assert_eq!(speed("200000 (system)\n"), Ok(Some(200_000.0)));
        assert_eq!(speed("1000 (local)"), Ok(Some(1000.0)));
        assert_eq!(speed("none"), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_shown() {
        for text in ["", "1 / ", "9 / 8", "-1 / 8", "1 2", "18446744073709551616 / 3"] {
            assert!(completed(text).unwrap_err().contains("done / all"), "{text}");
        }
        assert!(speed("fast").unwrap_err().contains("fast"));
        assert!(action("rests").unwrap_err().contains("not one of idle"));
        assert!(action(&"x".repeat(1_000_000)).unwrap_err().len() < 300);
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, near in "[0-9]{0,22} ?/? ?[0-9a-z ()]{0,22}") {
            for text in [text, near] {
                let _ = (action(&text), speed(&text));
                if let Ok(Some((done, all))) = completed(&text) {
                    prop_assert!(done <= all);
                }
            }
        }
    }
}
