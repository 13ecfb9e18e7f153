//! Why dumps were lost, told without repeating it.

use crate::folder;

/// Why dumps were lost: each cause is told once, with the first dump, and how many followed at the end.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<Cause>);

#[derive(Debug)]
struct Cause {
    /// What is the same for all dumps.
    text: String,
    first_step: u64,
    more: u64,
}

impl Causes {
    /// What to tell of a dump that is lost; nothing where others were lost alike.
    pub(super) fn first(&mut self, step: u64, text: &str) -> Option<String> {
        // Paths have the folder's name.
        let common = text.replace(&folder::name(step), "");
        if let Some(known) = self.0.iter_mut().find(|one| one.text == common) {
            known.more += 1;
            return None;
        }
        self.0.push(Cause { text: common, first_step: step, more: 0 });
        Some(format!("dump of step {step}: {text}"))
    }

    /// What to tell at the end.
    pub(super) fn rest(&self) -> Vec<String> {
        let several = self.0.iter().filter(|one| one.more > 0);
        several
            .map(|Cause { first_step, more, .. }| {
                let dumps = if *more == 1 { "dump was" } else { "dumps were" };
                format!("{more} more {dumps} lost for the same reason as that of step {first_step}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose publishing writer had died told of each dump.
    #[test]
    fn a_cause_is_told_once_and_how_often_at_the_end() {
        let mut causes = Causes::default();
        let full = |step: u64| format!("dumps/{}.partial: the disk is full", folder::name(step));
        let told: Vec<Option<String>> =
            (3..6).map(|step| causes.first(step, &full(step))).collect();
        let first = "dump of step 3: dumps/dump-00000003.partial: the disk is full";
        assert_eq!(told, [Some(first.to_owned()), None, None]);
        assert!(causes.first(6, "the writer that publishes dumps has died").is_some());
        assert_eq!(causes.rest(), ["2 more dumps were lost for the same reason as that of step 3"]);
        assert!(causes.first(7, &full(7)).is_none() && causes.rest()[0].starts_with("3 more"));
    }
}
