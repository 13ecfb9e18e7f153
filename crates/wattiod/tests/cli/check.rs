//! Configurations that are right, wrong, or not to be trusted.

use super::support::{GOOD, Place, said};
use rustix::process::getuid;
use serde_json::Value;
use std::fs;

#[test]
fn a_right_file_is_right_and_a_wrong_one_is_named_with_the_line_or_the_key() {
    let place = Place::new(GOOD);
    let path = place.text("wattiod.toml");
    let (code, text, _) = said(&["check", &path]);
    assert_eq!((code, text), (0, format!("{path}: ok\n")));
    let (code, text, _) = said(&["check", "--json", &path]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, answer["ok"].as_bool(), answer["name"].as_str()),
        (0, Some(true), Some("nas"))
    );

    for (from, to, says) in [
        ("\"diskstats\"", "\"diskstat\"", "line 5: latency.kind: unknown variant `diskstat`"),
        ("devices", "device", "did you mean `devices`?"),
        ("[[group]]", "[policy]\nsettings = { plf = 99 }\n[[group]]", "policy.settings.plf"),
        ("cores = \"0\"", "", "missing field `cores`"),
        ("[latency]", "[latency", "line 4"),
    ] {
        fs::write(&path, GOOD.replace(from, to)).unwrap();
        let (code, _, complaint) = said(&["check", &path]);
        assert_eq!(code, 2, "{complaint}");
        assert!(complaint.starts_with(&format!("wattiod: {path}: ")), "{complaint}");
        assert!(complaint.contains(says), "{complaint}");
    }
}

/// It was first looked for by `run`.
#[test]
fn a_power_model_that_cannot_be_read_is_told() {
    let place = Place::new(GOOD);
    let path = place.text("wattiod.toml");
    fs::write(&path, format!("{GOOD}[power]\nmodel = \"m.toml\"\n")).unwrap();
    let says = |why: &str| format!("{path}: ok\nbut power.model, m.toml: {why}");
    let (code, text, _) = said(&["check", &path]);
    assert!(code == 0 && text.starts_with(&says("No such file or directory")), "{text}");
    fs::write(place.path("m.toml"), "rest = 5\n").unwrap();
    let (code, text, _) = said(&["check", &path]);
    assert!(code == 0 && text.starts_with(&says("line 1")), "{text}");
}

/// It was told at the first request.
#[test]
fn a_bound_on_a_percentile_that_its_source_does_not_tell_is_told_before_any_request() {
    let place = Place::new(GOOD);
    let path = place.text("wattiod.toml");
    let policy = "[policy]\nbounds = [\"mean 20% run\", \"p99 2 ms window\"]\n[[group]]";
    fs::write(&path, GOOD.replacen("[[group]]", policy, 1)).unwrap();
    let (code, text, _) = said(&["check", &path]);
    assert_eq!(code, 0);
    let told =
        "but the bound \"p99 2 ms window\" cannot be checked: its source reports no percentiles";
    assert!(text.contains(told), "{text}");
}

/// Root took a configuration that everybody may write, with commands in it, and a script likewise.
#[test]
fn root_goes_by_nothing_that_others_may_write() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    if !getuid().is_root() {
        return;
    }
    let place = Place::measured();
    fs::create_dir(place.path("root")).unwrap();
    let config = place.text("wattiod.toml");
    let set = |name: &str, mode| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode, back) in [("wattiod.toml", 0o666, 0o644), ("measure.sh", 0o664, 0o644)] {
        set(name, mode);
        for command in ["run", "observe"] {
            let (code, _, complaint) = said(&["--root", &place.text("root"), command, &config]);
            assert_eq!(code, 2, "{command}: {complaint}");
            let told = complaint.contains(&place.text(name)) && complaint.contains("may write");
            assert!(told && complaint.lines().count() == 1, "{complaint}");
        }
        let (code, _, complaint) = said(&["check", &config]);
        assert_eq!(code, 0, "only looks: {complaint}");
        set(name, back);
    }
    fs::create_dir(place.path("real")).unwrap();
    symlink(place.path("real"), place.path("state")).unwrap();
    std::os::unix::fs::lchown(place.path("state"), Some(65534), None).unwrap();
    let (code, _, complaint) = said(&["--root", &place.text("root"), "run", &config]);
    assert!(code == 2 && complaint.contains("is a link of user 65534"), "{complaint}");
    assert_eq!(fs::read_dir(place.path("real")).unwrap().count(), 0, "nothing was made behind it");
}

/// Opening a FIFO waited for a writer, for ever; of what is not there the kernel's number was told.
#[test]
fn what_is_no_file_is_told_at_once() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let place = Place::new(GOOD);
    mknodat(CWD, place.path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    for (name, says) in [
        ("fifo", "is a pipe (FIFO), not a file\n"),
        ("", "is a folder, not a file\n"),
        (
            "nosuch",
            "No such file or directory; `wattiod init --out FILE` proposes one for this host\n",
        ),
    ] {
        let path = place.text(name);
        let (code, _, complaint) = said(&["check", &path]);
        assert_eq!((code, complaint), (2, format!("wattiod: {path}: {says}")));
    }
}
