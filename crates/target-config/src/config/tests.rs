use super::*;
use proptest::prelude::*;
use wattio_units::Seconds;

const WHOLE: &str = r#"
listen = ["unix:/run/n.sock", "tcp:[::1]:10809", "systemd"]
reactors = 2
idle = "spin 20 us"
reactors_min = 1

[memory]
map = "1 GiB"
cache = "64 MiB"

[scrub]
period = "30 d"

[tls]
certificate = "/etc/c.pem"
key = "/etc/k.pem"

[[export]]
name = "disk"
devices = ["/dev/sdb", "/dev/sdc"]
read_only = true
accept_missing = true

[[export]]
name = ""
devices = ["/srv/disk.vol"]
accept_loss = true
"#;

#[test]
fn a_whole_file_is_read() {
    let config = Config::from_toml(WHOLE).unwrap();
    assert_eq!(config.idle, Idle::Spin(Duration::from_micros(20)));
    assert_eq!(config.listen[0], Address::Unix("/run/n.sock".into()));
    assert_eq!(config.listen[2], Address::Systemd);
    assert_eq!(config.scrub.period, Period(Some(Duration::from_secs(30 * 86_400))));
    let tls = config.tls.unwrap();
    assert!(tls.required && tls.clients.is_none() && tls.key.ends_with("k.pem"));
}

#[test]
fn what_is_wrong_is_named_with_what_would_do() {
    for (from, to, says) in [
        ("reactors = 2", "reactor = 2", "line 3: unknown field `reactor`"),
        ("reactors = 2", "reactor = 2", "did you mean `reactors`?"),
        ("reactors = 2", "reactors = 2\npolicy = { name = \"pacerr\" }", "mean \"pacer\"?"),
        (
            "reactors = 2",
            "reactors = 2\npolicy = { name = \"pacer\", settings = { plff = 0.1 } }",
            "policy.settings.plff",
        ),
        ("reactors = 2", "reactors = 2\nsafety = { dwell = \"2 h\" }", "safety.dwell: is "),
        (
            "reactors = 2",
            "reactors = 2\nsafety = { reactors_off_max = 0 }",
            "safety.reactors_off_max: is 0; allowed is at least 1",
        ),
        (
            "reactors = 2",
            "reactors = 2\nsafety = { model_error_max = 1.5 }",
            "safety.model_error_max: is 1.5; allowed is 0 to 1",
        ),
        ("reactors = 2", "name = \"a b\"", "name: must be up to 64 letters"),
        ("reactors_min = 1", "reactors_min = 3", "reactors_min: is 3; allowed is 1 to 2"),
        ("reactors_min = 1", "volume_reactors = 2", "volume_reactors: is 2; allowed is 0 to 1"),
        (
            "reactors = 2",
            "reactors = 2\nservice = { socket = \"c.sock\" }",
            "service.socket: must be an absolute path",
        ),
        ("reactors = 2", "reactors = 0", "reactors: is 0; allowed is 1 to 64"),
        ("unix:/run/n.sock", "unix:n.sock", "line 2: listen: \"unix:n.sock\" is neither"),
        ("[\"unix:/run/n.sock\"", &*format!("[\"unix:/{}\"", "n".repeat(107)), "it has 108 bytes"),
        (
            "reactors = 2",
            "reactors = 2\nservice = { host_names = [\"http://x\"] }",
            "service.host_names: \"http://x\" is not the name of a host",
        ),
        ("tcp:[::1]:10809", "tcp:localhost", "such as \"tcp:127.0.0.1:10809\""),
        ("\"tcp:[::1]:10809\"", "\"tcp:[::1]:65536\"", "a port from 0 (any free one) to 65535"),
        ("\"systemd\"", "\"unix:/run/n.sock\"", "listen: names an address twice"),
        ("\"systemd\"", "\"systemd:1\"", "line 2: listen: \"systemd:1\" is neither"),
        ("spin 20 us", "spin", "not one of \"block\", \"spin 20 us\" (up to 1 s) and \"poll\""),
        ("spin 20 us", "spin 20 s", "up to 1 s"),
        ("1 GiB", "1", "it has no unit"),
        ("1 GiB", "1 kB", "memory.map: is 1 kB; allowed is 1 MiB to 1 TiB"),
        ("64 MiB", "-1 B", "memory.cache: is -1 B; allowed is 0 B to 1 TiB"),
        ("30 d", "30", "allowed is a time such as \"7 d\", or \"off\""),
        ("30 d", "30 s", "scrub.period: must be from 1 h to 365 d"),
        ("/etc/k.pem", "k.pem", "tls.key: must be an absolute path"),
        ("/dev/sdc", "/dev/sdb", "export[0].devices: /dev/sdb is named twice"),
        ("/srv/disk.vol", "disk.vol", "export[1].devices: disk.vol is not an absolute path"),
        ("name = \"\"", "name = \"disk\"", "export[1].name: \"disk\" is the name of an earlier"),
        ("[\"/srv/disk.vol\"]", "[]", "export[1].devices: are 0; allowed is one, or two"),
        ("read_only", "readonly", "did you mean `read_only`?"),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let message = Config::from_toml(&WHOLE.replace(from, to)).unwrap_err().to_string();
        assert!(message.contains(says), "{to}\n{message}\n{says}");
    }
    let message = Config::from_toml("export = []\nlisten = []").unwrap_err().to_string();
    assert!(message.contains("listen: is empty"), "{message}");
}

#[test]
fn there_are_no_more_volumes_than_can_be_told_apart() {
    let export = |at: usize| format!("[[export]]\nname = \"{at}\"\ndevices = [\"/srv/{at}\"]\n");
    let with = |count| {
        let exports: String = (0..count).map(export).collect();
        Config::from_toml(&format!("listen = [\"unix:/run/n.sock\"]\n{exports}"))
    };
    assert!(with(EXPORTS_MAX).is_ok());
    let message = with(EXPORTS_MAX + 1).unwrap_err().to_string();
    assert!(message.contains("export: are 4097; allowed are up to 4096"), "{message}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z\\[\\]=\"0-9 .:/\n]{0,200}") {
        let _ = Config::from_toml(&text);
        let _ = Config::from_toml(&format!("{WHOLE}{text}"));
    }
}

/// All of it was as it is by default, whatever an operator wanted.
#[test]
fn how_carefully_the_law_acts_can_be_said() {
    let text = format!("{WHOLE}\n[safety]\ndwell = \"2 s\"\nreactors_off_max = 1\n");
    let driver = |text: &str| Config::from_toml(text).unwrap().safety.driver();
    assert_eq!((driver(&text).dwell, driver(&text).cores_off_max), (Seconds(2.0), 1));
    assert_eq!(driver(WHOLE), wattio_law::DriverSettings::default());
}
