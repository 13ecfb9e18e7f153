//! The Grafana dashboard asks for metrics that there are.

use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../../packaging/grafana/wattiod.json");
const GOLDEN: &str = include_str!("golden.prom");

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

/// Names in an expression that look like a metric of the daemon.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .filter(|word| word.starts_with("wattio_") || word.starts_with("process_"))
}

#[test]
fn every_metric_it_asks_for_is_there() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let there: BTreeSet<&str> = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split([' ', '{']).next())
        .collect();
    let mut asked = BTreeSet::new();
    for target in
        panels(&dashboard).iter().filter_map(|panel| panel["targets"].as_array()).flatten()
    {
        let expression = target["expr"].as_str().unwrap();
        assert!(metrics(expression).count() > 0, "{expression}");
        asked.extend(metrics(expression));
    }
    let unknown: Vec<_> = asked.difference(&there).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let left: Vec<_> = there.difference(&asked).collect();
    assert!(left.len() * 3 < there.len(), "most metrics are shown, but not {left:?}");
}

#[test]
fn it_asks_which_source_to_use_and_lays_no_panel_over_another() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let mut taken = BTreeSet::new();
    for panel in panels(&dashboard) {
        let number = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(number("x") + number("w") <= 24, "{panel}");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(taken.insert((x, y)), "{} lies over another", panel["title"]);
            }
        }
        let rows = panel["type"] == "row";
        assert!(rows || panel["datasource"]["uid"] == "${datasource}", "{}", panel["title"]);
    }
}
