use super::*;
use proptest::prelude::*;

const FILE: &str = r#"<?xml version="1.0"?>
<simulation name="life" language="c" xmlns="http://example.org/model">
  <architecture>
    <domains count="1"/><dedicated cores="2" nodes="0"/><buffer name="b" size="1048576"/>
  </architecture>
  <data>
    <parameter name="W" type="int" value="96"/>
    <parameter name="size" type="int" value="1"/>
    <parameter name="title" type="string" value="a title"/>
    <layout name="cells" type="double" dimensions="W/size, (W+1)*2" global="W,194"/>
    <layout name="one" type="int" dimensions="1"/>
    <group name="wind"><group name="at"><variable name="u" layout="cells" unit="m/s"/></group></group>
    <variable name="n" layout="one" enabled="false"/>
  </data>
  <storage><store name="s" type="HDF5"><option key="FilesPath"> out/ </option></store></storage>
</simulation>"#;

#[test]
fn a_file_says_who_writes_and_what() {
    let mut found = Description::parse(FILE).unwrap();
    let (config, nodes) = found.config().unwrap();
    assert_eq!((config.approach_text().as_str(), nodes), ("dc:2", None));
    assert_eq!((config.buffer, config.output), (Bytes(1048576.0), PathBuf::from("out/")));
    found.parameter("size").unwrap().value = Number::Whole(5);
    let shape = found.shape("wind/at/u").unwrap();
    assert_eq!((shape.count, shape.whole), (vec![19, 194], Some(vec![96, 194])));
    assert_eq!(shape.attributes, [("units".to_owned(), Value::Text("m/s".to_owned()))]);
    assert!(shape.enabled && !found.shape("n").unwrap().enabled);
}

#[test]
fn what_names_a_store_is_written_and_nothing_else_then() {
    let stored = FILE.replace("<variable name=\"u\"", "<variable name=\"u\" store=\"s\"");
    let found = Description::parse(&stored).unwrap();
    assert!(found.shape("wind/at/u").unwrap().stored && !found.shape("n").unwrap().stored);
    assert_eq!(found.config().unwrap().0.output, PathBuf::from("out/"));
    // No variable names one: all are.
    let found = Description::parse(&FILE.replace("name=\"n\"", "name=\"n\" store=\"#\"")).unwrap();
    assert!(found.shape("wind/at/u").unwrap().stored && found.shape("n").unwrap().stored);
    // A group speaks for what stands in it, unless that says otherwise.
    let group = FILE.replace("<group name=\"wind\">", "<group name=\"wind\" store=\"s\">");
    let found = Description::parse(&group).unwrap();
    assert!(found.shape("wind/at/u").unwrap().stored && !found.shape("n").unwrap().stored);
    let off = group.replace("<group name=\"at\">", "<group name=\"at\" enabled=\"false\">");
    assert!(!Description::parse(&off).unwrap().shape("wind/at/u").unwrap().enabled);
    let none = stored.replace("store=\"s\"", "store=\"t\"");
    let told = Description::parse(&none).unwrap_err().to_string();
    assert_eq!(told, "<variable name=\"wind/at/u\">: there is no store \"t\"");
    // Two stores: the folder is that of the one which is used.
    let two = stored.replace(
        "<storage>",
        "<storage><store name=\"t\" type=\"HDF5\">\
        <option key=\"FilesPath\">other</option></store>",
    );
    let output =
        |text: &str| Description::parse(text).map(|found| found.config().unwrap().0.output);
    assert_eq!(output(&two).unwrap(), PathBuf::from("out/"));
    let both = two.replace("name=\"n\"", "name=\"n\" store=\"t\"");
    let told = output(&both).unwrap_err().to_string();
    assert!(told.contains("a FilesPath other than that of \"t\""), "{told}");
}

#[test]
fn extents_of_fortran_are_turned_round() {
    for language in ["fortran", "Fortran"] {
        let text = FILE.replace("language=\"c\"", &format!("language=\"{language}\""));
        let found = Description::parse(&text).unwrap();
        assert_eq!(found.shape("wind/at/u").unwrap().count, [194, 96]);
    }
}

/// Python took one from anywhere in a file, this library none but below the root: what `wattio check` let
/// pass, a program refused.
#[test]
fn the_architecture_is_the_root_or_right_below_it() {
    let alone = r#"<architecture><dedicated cores="2" nodes="0"/></architecture>"#;
    let (config, _) = Description::parse(alone).unwrap().config().unwrap();
    assert_eq!(config.approach_text(), "dc:2");
    let deeper = format!("<simulation><data>{alone}</data></simulation>");
    assert!(Description::parse(&deeper).unwrap_err().to_string().contains("has no <architecture>"));
}

#[test]
fn what_is_wrong_is_named() {
    for (from, to, words) in [
        ("<architecture>", "<architectures>", "is not XML"),
        ("dedicated cores", "dedicate cores", "has no <dedicated>"),
        ("cores=\"2\"", "cores=\"two\"", "is not a whole number"),
        ("cores=\"2\"", "cores=\"9999\"", "writers = 9999"),
        ("layout=\"cells\"", "layout=\"cell\"", "there is no layout \"cell\""),
        ("type=\"double\"", "type=\"quad\"", "<layout type=\"quad\">"),
        ("global=\"W,194\"", "global=\"W\"", "as many in global"),
        // It was a layout of fewer axes.
        ("W/size, (W+1)*2", "W/size,, 2", "dimensions=\"W/size,, 2\">: nothing stands before or"),
        ("W/size, (W+1)*2", " ", "<layout name=\"cells\">: needs dimensions"),
        ("(W+1)*2", "(W+1*2", "is missing a )"),
        ("(W+1)*2", "W/0", "divides by 0"),
        ("type=\"double\" d", "type=\"double\" ghosts=\"1,2\" d", "\"before:after\""),
        ("type=\"double\" d", "type=\"double\" ghosts=\"90:7,0:0\" d", "larger than its block"),
        ("(W+1)*2", "V", "\"V\", which is not a parameter"),
        ("(W+1)*2", "0-W", "is -96"),
        ("(W+1)*2", "W W", "not understood"),
        ("value=\"96\"", "value=\"9x\"", "<parameter name=\"W\" value=\"9x\">: is not a number"),
        ("value=\"96\"", "value=\"9.5\"", "value=\"9.5\">: is not a whole number"),
        ("value=\"96\"", "value=\"inf\"", "value=\"inf\">: is not a whole number"),
        ("value=\"96\"", "value=\"3000000000\"", ">: allowed: -2147483648 to 2147483647"),
        ("\"int\" value=\"96\"", "\"float\" value=\"1e39\"", "allowed for a float: -3.4"),
        ("\"int\" value=\"96\"", "\"char\" value=\"128\"", ">: allowed: -128 to 127"),
        (
            "\"int\" value=\"96\"",
            "\"long\" value=\"9223372036854775808\"",
            ">: allowed: -9223372036854775808 to 9223372036854775807",
        ),
        ("\"int\" value=\"96\"", "\"long\" value=\"9007199254740993\"", "has \"W\", which is 9"),
        ("value=\"96\"", "value=\"\"", "<parameter name=\"W\" value=\"\">: is not a number"),
        (
            "dimensions=\"W/size, (W+1)*2\"",
            "ghosts=\"1:1,1:4611686018427387\" dimensions=\"4611686018427387,4611686018427388\"",
            "elements is too large",
        ),
        ("name=\"size\"", "name=\"W\"", "<parameter name=\"W\">: is defined twice"),
        ("name=\"title\"", "name=\"W\"", "<parameter name=\"W\">: is defined twice"),
        ("name=\"one\"", "name=\"cells\"", "<layout name=\"cells\">: is defined twice"),
        (
            "<variable name=\"n\"",
            "<variable name=\"n\" layout=\"one\"/><variable name=\"n\"",
            "\"n\">: is defined twice",
        ),
        (
            "type=\"double\" d",
            "type=\"string\" d",
            "its layout \"cells\" is text, which cannot be written",
        ),
        ("<?xml version=\"1.0\"?>", "<!DOCTYPE a [<!ENTITY b \"c\">]>", "is not XML"),
    ] {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE, "{from}");
        let told = Description::parse(&text).and_then(|found| {
            found.config()?;
            found.shape("wind/at/u")
        });
        let told = told.unwrap_err().to_string();
        assert!(told.contains(words), "{to}: {told}");
    }
    let found = Description::parse(FILE).unwrap();
    assert!(found.shape("u").unwrap_err().to_string().contains("there are: n, wind/at/u"));
}

/// A program learnt of it at each variable that it wrote, and `wattio check` said that all was well.
#[test]
fn extents_that_no_parameter_mends_are_refused_at_once() {
    for (to, words) in [
        ("(W+1*2", "variable \"wind/at/u\": extent \"(W+1*2\" is missing a )"),
        ("W**2", "extent \"W**2\" is not understood at \"*2\""),
        ("title", "extent \"title\" has \"title\", which is not a parameter"),
    ] {
        let told = Description::parse(&FILE.replace("(W+1)*2", to)).unwrap_err().to_string();
        assert!(told.contains(words), "{to}: {told}");
    }
    // A program may set both before it writes.
    for to in ["194/(W-96)", "0-W"] {
        assert!(Description::parse(&FILE.replace("(W+1)*2", to)).is_ok(), "{to}");
    }
}

#[test]
fn what_a_file_says_reaches_no_terminal_raw() {
    let evil = "&#10;\u{9b}31m";
    for (from, to) in [
        ("cores=\"2\"", format!("cores=\"{evil}\"")),
        ("type=\"double\"", format!("type=\"{evil}\"")),
        ("name=\"cells\" type", format!("name=\"{evil}\" global=\"1,2,3\" type")),
        ("name=\"u\" layout=\"cells\"", format!("name=\"{evil}\" layout=\"cell\"")),
        ("<variable name=\"n\" layout", format!("<variable name=\"n\" store=\"{evil}\" layout")),
        ("value=\"96\"", format!("value=\"{evil}\"")),
        ("<data>", "<data\u{9b}>".to_owned()),
        ("<data>", "<data \u{9b}>".to_owned()),
    ] {
        let text = FILE.replace(from, &to);
        assert_ne!(text, FILE, "{from}");
        let told = Description::parse(&text).unwrap_err().to_string();
        assert!(!told.contains(char::is_control), "{from}: {told:?}");
    }
    let named = FILE.replace("name=\"size\"", &format!("name=\"{evil}\""));
    let named = named.replace("name=\"n\"", &format!("name=\"{evil}\"")).replace("W/size", "W");
    let mut found = Description::parse(&named).unwrap();
    for told in [found.parameter("x").unwrap_err(), found.shape("x").unwrap_err()] {
        assert!(!told.to_string().contains(char::is_control), "{told:?}");
    }
}

/// They were kept as `double`: of a `long` beyond 2^53 a program got back another one, and of an `int` of ten
/// digits the largest.
#[test]
fn parameters_have_all_values_of_their_type() {
    for (kind, text, value) in [
        ("long", "9007199254740993", Number::Whole(9_007_199_254_740_993)),
        ("long", "-9223372036854775808", Number::Whole(i64::MIN)),
        ("int", " -2147483648 ", Number::Whole(i32::MIN.into())),
        ("int", "1e6", Number::Whole(1_000_000)),
        ("short", "-7.0", Number::Whole(-7)),
        ("double", "0.5", Number::Real(0.5)),
        ("double", "inf", Number::Real(f64::INFINITY)),
        ("float", "3", Number::Real(3.0)),
    ] {
        let text = FILE.replace("\"int\" value=\"96\"", &format!("\"{kind}\" value=\"{text}\""));
        let mut found = Description::parse(&text).unwrap();
        assert_eq!(found.parameter("W").unwrap().value, value, "{kind}");
    }
}

/// A file was refused for a layout that nobody used, and text was left out of parameters.
#[test]
fn text_can_be_described_and_is_refused_where_it_is_written() {
    let text =
        FILE.replace("<layout name=\"one\" type=\"int\"", "<layout name=\"one\" type=\"string\"");
    let mut found = Description::parse(&text).unwrap();
    assert!(found.shape("wind/at/u").is_ok() && !found.shape("n").unwrap().enabled);
    assert_eq!(found.text("title"), Some(&mut "a title".to_owned()));
    assert_eq!(found.text("W"), None);
    let used = text.replace(" enabled=\"false\"", "");
    assert!(Description::parse(&used).unwrap().shape("n").is_err());
    // One of the same name in another group is another one.
    let other = FILE.replace("<variable name=\"n\"", "<variable name=\"u\"");
    assert!(Description::parse(&other).unwrap().shape("u").is_ok());
}

proptest! {
    /// Against the plain statement: which elements of a block are its own, one by one.
    #[test]
    fn ghost_zones_are_left_out(
        axes in prop::collection::vec((0u64..3, 0u64..4, 0u64..3), 1..4)
    ) {
        let shape = Shape {
            kind: Type::Int8,
            count: axes.iter().map(|&(before, own, after)| before + own + after).collect(),
            ghosts: axes.iter().map(|&(before, _, after)| (before, after)).collect(),
            whole: None,
            attributes: Attributes::new(),
            enabled: true,
            stored: true,
        };
        let mut expected = Vec::new();
        for at in 0..shape.count.iter().product::<u64>() {
            let mut left = at;
            let own = shape.count.iter().zip(&shape.ghosts).rev().all(|(&all, &(before, after))| {
                let index = left % all;
                left /= all;
                (before..all - after).contains(&index)
            });
            if own {
                expected.push(at);
            }
        }
        let (starts, length) = shape.rows();
        let found: Vec<u64> = starts.iter().flat_map(|&one| one..one + length).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", at in 0usize..1000, cut in 0usize..100) {
        let _ = Description::parse(&text);
        // And a file in which something is missing.
        let start = at.min(FILE.len());
        let damaged = format!("{}{}", &FILE[..start], &FILE[(start + cut).min(FILE.len())..]);
        if let Ok(found) = Description::parse(&damaged) {
            let _ = (found.config(), found.shape("wind/at/u"));
        }
    }
}
