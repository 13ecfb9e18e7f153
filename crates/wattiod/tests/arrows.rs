//! The crates use each other as the table "Rooms and arrows" of ARCHITECTURE.md says, no more and no
//! less.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// What crates use in their tests only.
const IN_TESTS: [(&str, &[&str]); 4] = [
    ("control", &["plant", "sim", "trace"]),
    ("fluid", &["control", "sim"]),
    ("governor", &["control", "plant", "sim"]),
    ("sim", &["control"]),
];

/// The rows of the table's crates.
fn allowed(page: &str) -> Arrows {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `crates/"));
    let row = |row: &str| {
        let (name, rest) = row.split_once('`').expect("a name in backticks");
        let uses = rest.trim_end_matches(['|', ' ']).rsplit('|').next().expect("three columns");
        let uses = match uses.trim() {
            "nothing" => BTreeSet::new(),
            list => list.split(", ").map(str::to_owned).collect(),
        };
        (name.to_owned(), uses)
    };
    rows.map(row).collect()
}

/// The arrows between the crates of the workspace as cargo sees them, by folder: those of the
/// crates themselves (what they are built with included), and those of their tests.
fn found(root: &Path) -> (Arrows, Arrows) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (mut uses, mut in_tests) = (Arrows::new(), Arrows::new());
    for package in metadata["packages"].as_array().expect("packages") {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let from = folder(Path::new(manifest).parent().expect("a folder"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let Some(path) = dependency["path"].as_str() else { continue };
            let arrows = if dependency["kind"] == "dev" { &mut in_tests } else { &mut uses };
            arrows.entry(from.clone()).or_default().insert(folder(Path::new(path)));
        }
        uses.entry(from).or_default();
    }
    (uses, in_tests)
}

fn folder(path: &Path) -> String {
    path.file_name().expect("a crate's folder").to_string_lossy().into_owned()
}

#[test]
fn crates_use_each_other_as_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let allowed = allowed(&page);
    let (uses, in_tests) = found(&root);
    assert_eq!(uses, allowed, "crates with what they use, and rooms of ARCHITECTURE.md");
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let expected: Arrows =
        IN_TESTS.iter().map(|&(from, to)| (from.to_owned(), owned(to))).collect();
    assert_eq!(in_tests, expected, "arrows of tests, and those that are listed here");
}
