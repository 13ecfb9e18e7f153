mod kills;

use super::*;
use proptest::prelude::*;

fn masks(text: &str) -> Masks {
    text.parse().unwrap()
}

#[test]
fn masks_are_read_and_written() {
    for text in ["0-3", "0-3;1240@5680=0", "0;7@1=1-2;8@1=3"] {
        assert_eq!(masks(text).to_string(), text);
    }
    for bad in ["", "0;", "0;1=2", "0;1@2=", "x", "0;1@x=2", "0;1@2=9-1"] {
        assert!(bad.parse::<Masks>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_thread_that_came_or_went_does_not_make_a_difference() {
    assert!(same("0-1", "0-1;5@9=1"), "pinned itself within what is allowed");
    assert!(!same("0", "0;5@9=1"), "runs where the process may not");
    assert!(!same("0-1;5@9=0", "0-1;5@9=1"));
    assert!(same("0-1;5@9=0", "1,0;6@9=0"));
    assert!(!same("0", "0-1"));
}

#[test]
fn the_kernels_answers_become_the_command_that_mends() {
    assert_eq!(restore_command("12@5", "0-3;14@6=0"), "taskset -apc 0-3 12; taskset -pc 0 14");
    assert_eq!(restore_command("12/14@6", "0-3"), "taskset -pc 0-3 14");
}

#[test]
fn another_process_of_the_same_number_is_not_touched() {
    let me = std::process::id();
    assert_eq!(read(&Root::default(), &format!("{me}@1")), Err(AccessError::Gone));
    assert_eq!(write(&Root::default(), &format!("{me}@1"), "0"), Err(AccessError::Gone));
}

#[test]
fn a_folder_that_is_shaped_like_a_host_has_no_processes() {
    let folder = tempfile::tempdir().unwrap();
    let answer = write(&Root::new(folder.path()), "1@1", "0");
    assert!(matches!(answer, Err(AccessError::Refused(..))));
}

#[test]
fn masks_that_became_the_default_are_not_named() {
    let narrow = masks("0-3;1@1=2;2@1=0-1").map(|_| Cpus::from_iter([0]));
    assert_eq!(narrow.to_string(), "0");
}

proptest! {
    #[test]
    fn no_text_panics(one: String, other in "[0-9,;@=-]{0,40}") {
        let _ = (same(&one, &other), restore_command(&other, &one), other.parse::<Masks>(), parse_place(&one));
    }

    #[test]
    fn what_is_written_is_read_again(
        default in proptest::collection::btree_set(0u32..99, 1..9),
        threads in proptest::collection::btree_map(
            (1u32..99, 0u64..99), proptest::collection::btree_set(0u32..99, 1..9), 0..5),
    ) {
        let threads = threads.into_iter().map(|(id, mask)| (id, mask.into_iter().collect()));
        let masks = Masks { default: default.into_iter().collect(), threads: threads.collect() };
        prop_assert_eq!(masks.to_string().parse::<Masks>().unwrap(), masks);
    }
}
