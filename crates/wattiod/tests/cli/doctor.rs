//! What the doctor finds.

use super::support::{GOOD, Place, said};
use serde_json::Value;

#[test]
fn the_doctor_says_what_there_is_as_json_too() {
    let place = Place::measured();
    let (code, text, complaint) = said(&["doctor", &place.text("wattiod.toml"), "--json"]);
    assert_eq!(code, 0, "{text}{complaint}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let has = |what: &str| findings.iter().any(|finding| finding["what"] == what);
    for what in ["processors", "knob cpu.cpuset", "[[group]]", "[latency]", "[cpu]"] {
        assert!(has(what), "{what}: {text}");
    }
    assert!(findings.iter().all(|finding| finding["ok"].is_boolean()));
}

#[test]
fn the_doctor_finds_that_a_configuration_asks_for_too_much() {
    let place = Place::new(&GOOD.replace("sda", "no-such-device"));
    let (code, text, _) = said(&["doctor", &place.text("wattiod.toml")]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no  [latency]") && text.contains("no-such-device"), "{text}");
    let named = format!("ok  configuration: {}", place.text("wattiod.toml"));
    assert!(text.lines().any(|line| line == named), "{text}");
}
