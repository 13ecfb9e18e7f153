//! The table of keys in `docs/target.md` is true: each key is one, and each default is what counts
//! where the key is left out.

#![allow(clippy::unwrap_used, reason = "a page that cannot be read has failed its test")]

use wattio_target_config::Config;

const GUIDE: &str = include_str!("../../../docs/target.md");
const LEAST: &str = "listen = [\"systemd\"]\n[[export]]\nname = \"a\"\ndevices = [\"/a\"]\n";
const TLS: &str = "certificate = \"/a\"\nkey = \"/b\"\n";

/// Key and default of each row.
fn rows() -> Vec<(&'static str, &'static str)> {
    let table = GUIDE.split_once("<!-- keys -->").unwrap().1;
    let rows = table.lines().skip(3).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    cells.map(|row| (row[0].trim_start_matches("| ").trim_matches('`'), row[2])).collect()
}

#[test]
fn what_the_guide_calls_a_default_is_the_default() {
    let defaults = rows().into_iter().filter_map(|(key, default)| {
        Some((key, default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'))?))
    });
    let mut tried = 0;
    for (key, value) in defaults {
        let (least, text) = match key.rsplit_once('.') {
            None => (LEAST.to_owned(), format!("{key} = {value}\n{LEAST}")),
            Some(("export[]", key)) => (LEAST.to_owned(), format!("{LEAST}{key} = {value}\n")),
            Some((table, key)) => {
                let needed = match table {
                    "tls" => TLS,
                    "frequency" => "cores = \"0\"\n",
                    _ => "",
                };
                let least = format!("{LEAST}[{table}]\n{needed}");
                (least.clone(), format!("{least}{key} = {value}\n"))
            }
        };
        let read = |text: &str| Config::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read(&text), read(&least), "{key}");
        tried += 1;
    }
    assert!(tried >= 11, "{tried}");
}

#[test]
fn the_examples_in_the_guide_are_right() {
    let blocks = GUIDE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let examples: Vec<&str> = blocks.collect();
    assert!(examples.len() >= 2);
    for example in examples {
        Config::from_toml(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}
