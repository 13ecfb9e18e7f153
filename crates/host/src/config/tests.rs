use super::*;
use proptest::prelude::*;

const SMALLEST: &str = r#"
name = "nas"

[latency]
kind = "diskstats"
devices = ["sda"]

[[group]]
name = "all"
cores = "0-3"
"#;

fn refusal(more: &str) -> String {
    DaemonConfig::from_toml(&format!("{SMALLEST}{more}")).unwrap_err().to_string()
}

#[test]
fn the_smallest_file_is_enough() {
    let config = DaemonConfig::from_toml(SMALLEST).unwrap();
    assert_eq!(config.policy.name, "pacer");
    assert!(config.safety.md_arrays);
    assert!(config.service.listen.0.unwrap().ip().is_loopback());
    assert!(config.knobs.is_empty());
}

/// It was taken, and the daemon that was to start had no socket.
#[test]
fn a_socket_has_a_path_that_the_kernel_takes() {
    let with = |bytes: usize| format!("[service]\nsocket = \"/{}\"", "s".repeat(bytes - 1));
    assert!(DaemonConfig::from_toml(&format!("{SMALLEST}{}", with(107))).is_ok());
    let message = refusal(&with(108));
    let says = "service.socket: has 108 bytes; a socket's path has at most 107";
    assert!(message.contains(says), "{message}");
}

#[test]
fn what_is_wrong_is_named_with_what_would_do() {
    for (more, says) in [
        ("[policy]\nname = \"pacerr\"", "did you mean \"pacer\"?"),
        ("[policy]\nsettings = { plff = 0.1 }", "policy.settings.plff"),
        ("[policy]\ncompare = \"pacerr\"", "policy.compare"),
        ("[policy]\nbounds = [\"p99\"]", "the limit is missing"),
        ("[policy]\nsettings = { plf = 99 }", "allowed is 0.001 to 10"),
        (
            "[policy]\nbounds = [\"mean 20% run\", \"p99 5% run\", \"mean 0.2\"]",
            "policy.bounds: has \"mean 20% run\" twice",
        ),
        (
            "[policy]\nbounds = [\"mean 20% run\"]\nsettings = { plf = 0.1 }",
            "policy.settings.plf: says nothing beside policy.bounds",
        ),
        (
            "[service]\nhost_names = [\"a.b\", \"http://x\"]",
            "service.host_names: \"http://x\" is not",
        ),
        ("[service]\nhost_names = [\"x:80\"]", "service.host_names: \"x:80\" is not"),
        ("[service]\nhost_names = [\"\"]", "service.host_names: \"\" is not"),
        ("[service]\nsocket = \"\"", "service.socket: is empty"),
        ("[service]\nstate = \"\"", "service.state: is empty"),
        (
            "[power]\nmeter = { kind = \"file\", path = \"p\", unit = \"W\" }",
            "power.meter.path: is",
        ),
        ("[power.meter]\nkind = \"file\"\npath = \"/p\"\nunit = \"kW\"", "expected one of `W`"),
        ("[safty]\n", "did you mean `safety`"),
        ("[safety]\nstale_after_windows = 0.5", "safety.stale_after_windows: is 0.5"),
        ("[safety]\ncool_down = \"2 h\"\ncool_down_max = \"1 h\"", "safety.cool_down_max"),
        ("[service]\nlisten = \"everywhere\"", "127.0.0.1:9288"),
        (
            "[service]\nlisten = \"127.0.0.1:999999\"",
            "service.listen: listen = \"127.0.0.1:999999\" is neither an IP address with a port from 0 \
             (any free one) to 65535",
        ),
        ("[[group]]\nname = \"more\"\ncores = \"0-\"", "group[1].cores"),
        ("[[group]]\nname = \"more\"\ncores = \"3-4\"", "3 already belong to another group"),
        ("queue = { url = \"h\", metric = \"m\" }", "group[0].queue.url: \"h\" does not begin"),
        ("queue = { url = \"http://h/\", metric = \"m\", unit = 1 }", "unknown field `unit`"),
        ("kind = \"fast\"", "unknown variant `fast`"),
        (
            "kind = \"efficiency\"\n[[group]]\nname = \"p\"\ncores = \"3-4\"",
            "3 already belong to another group",
        ),
        ("cores_min = 5", "group[0].cores_min: is 5; allowed is 1 to the group's 4"),
        ("[[knob]]\nkind = \"cpu.trubo\"", "cpu.trubo"),
        (
            "[[knob]]\nkind = \"cpu.epp\"\n[[knob]]\nkind = \"cpu.epb\"",
            "cpu.epp, cpu.epb would never act",
        ),
        (
            "[[group]]\nname = \"all\"\ncores = \"4\"",
            "group[1].name: \"all\" is the name of an earlier group",
        ),
        ("[[knob]]\nkind = \"cpu.cpuset\"\n[[knob]]\nkind = \"cpu.cpuset\"", "2 times"),
        (
            "[background]\nkind = \"md\"\ndevices = [\"md0\"]\n[[knob]]\nkind = \"background\"\n\
             md = [\"md0\", \"md1\"]",
            "background.devices: are [\"md0\"], and the knob background slows md = [\"md0\", \
             \"md1\"]",
        ),
        ("[background]\nkind = \"md\"\ndevices = []\nspeed = 1", "speed"),
        ("[[knob]]\nkind = \"cpu.affinity\"", "no [[group]] has the key processes"),
        ("[[knob]]\nkind = \"cpu.cpuset\"", "no [[group]] has the key cgroup"),
        ("processes = { comm = \"\" }", "group[0].processes.comm: is empty"),
        ("processes = { thread = \"systemd-resolved\" }", "kernel keeps 15 bytes"),
        (
            "cgroup = \"/a\"\nprocesses = { comm = \"b\" }\n[[knob]]\nkind = \"cpu.cpuset\"\n\
             [[knob]]\nkind = \"cpu.affinity\"",
            "let one of them",
        ),
    ] {
        let message = refusal(more);
        assert!(message.contains(says), "{more}\n{message}");
    }
    let line = refusal("[service]\nlisten = \"everywhere\"");
    assert!(line.starts_with("line 12"), "{line}");
}

const SEVERAL: &str = r#"
name = "host"
policy = { bounds = ["mean 10% run"] }
[[application]]
name = "redis"
latency = { kind = "redis", server = "127.0.0.1:6379" }
[[application.group]]
name = "redis"
cores = "0-1"
[[application]]
name = "disks"
policy = { name = "foresight" }
latency = { kind = "diskstats", devices = ["sda"] }
[[application.group]]
name = "disks"
cores = "2-3"
"#;

#[test]
fn applications_have_their_own_and_what_the_host_has_for_all() {
    let config = DaemonConfig::from_toml(SEVERAL).unwrap();
    let [redis, disks] = config.applications()[..] else { panic!("{config:?}") };
    assert_eq!((redis.name, disks.name), (Some("redis"), Some("disks")));
    assert_eq!((redis.policy, redis.cpu), (&config.policy, &config.cpu));
    assert_eq!((disks.policy.name.as_str(), disks.policy.bounds.len()), ("foresight", 0));
    assert_eq!(config.all_groups().len(), 2);
    let alone = DaemonConfig::from_toml(SMALLEST).unwrap();
    let [alone] = alone.applications()[..] else { panic!("{alone:?}") };
    assert_eq!((alone.name, alone.groups.len()), (None, 1));
}

#[test]
fn what_is_wrong_with_an_application_is_named_with_its_place() {
    for (from, to, says) in [
        ("cores = \"2-3\"", "cores = \"1-3\"", "application[1].group[0].cores: 1 already"),
        ("\"disks\"\ncores", "\"redis\"\ncores", "application[1].group[0].name: \"redis\""),
        ("\"disks\"\npolicy", "\"redis\"\npolicy", "application[1].name: \"redis\" is the"),
        ("\"disks\"\npolicy", "\"a/b\"\npolicy", "application[1].name: must be up to 64"),
        ("foresight", "foresigt", "application[1].policy.name"),
        (
            "name = \"host\"",
            "name = \"host\"\nlatency = { kind = \"diskstats\", devices = [\"a\"] }",
            "latency: cannot stand beside",
        ),
        (
            "[[application.group]]\nname = \"disks\"\ncores = \"2-3\"",
            "",
            "application[1].group: is missing",
        ),
        (
            "latency = { kind = \"diskstats\"",
            "latncy = { kind = \"diskstats\"",
            "did you mean `latency`",
        ),
    ] {
        let wrong = SEVERAL.replacen(from, to, 1);
        assert_ne!(wrong, SEVERAL, "{from}");
        let message = DaemonConfig::from_toml(&wrong).unwrap_err().to_string();
        assert!(message.contains(says), "{to}\n{message}");
    }
    let paced = SEVERAL
        .replace("latency =", "background = { kind = \"md\", devices = [\"md0\"] }\nlatency =");
    let message = DaemonConfig::from_toml(&paced).unwrap_err().to_string();
    assert!(message.contains("background: only one application can have it"), "{message}");
    let message = DaemonConfig::from_toml("name = \"host\"").unwrap_err().to_string();
    assert!(message.contains("latency: is missing: a [latency] table, or an [[app"), "{message}");
}

#[test]
fn kinds_of_cores_may_share_a_list() {
    let more = "kind = 'efficiency'\n[[group]]\nname = 'p'\ncores = '0-3'\nkind = 'performance'";
    let config = DaemonConfig::from_toml(&format!("{SMALLEST}{more}")).unwrap();
    assert_eq!(config.groups.len(), 2);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z\\[\\]=\"0-9 .\n]{0,200}") {
        let _ = DaemonConfig::from_toml(&text);
        let _ = DaemonConfig::from_toml(&format!("{SMALLEST}{text}"));
    }
}

/// Both passed the check, and failed at the start.
#[test]
fn a_source_that_names_nothing_or_no_place_is_refused() {
    let of = |latency: &str| {
        let text = SMALLEST.replace("kind = \"diskstats\"\ndevices = [\"sda\"]", latency);
        DaemonConfig::from_toml(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    for (latency, says) in [
        (
            "kind = 'mountstats'\nmounts = []",
            "latency.mounts: names none; allowed: such as [\"/srv/data\"]",
        ),
        (
            "kind = 'mountstats'\nmounts = ['/srv', 'srv']",
            "latency.mounts: \"srv\" is not an absolute path",
        ),
        ("kind = 'diskstats'\ndevices = []", "latency.devices: names none"),
        ("kind = 'tracepoint'\ndevices = []", "latency.devices: names none"),
        (
            "kind = 'ceph'\nsockets = ['osd.asok']",
            "latency.sockets: \"osd.asok\" is not an absolute",
        ),
        ("kind = 'exec'\ncommand = []\nuser = 'a'", "latency.command: names none"),
        ("kind = 'exec'\ncommand = ['a']\nuser = 'a'", "latency.command: \"a\" is not an absolute"),
        (
            "kind = 'log'\npath = 'a.log'\nafter = 'rt='",
            "latency.path: \"a.log\" is not an absolute",
        ),
        (
            "kind = 'redis'\nserver = '127.0.0.1:999999'",
            "latency.server: \"127.0.0.1:999999\" is neither an address with a port from 1 to 65535",
        ),
        (
            "kind = 'log'\npath = '/a.log'\nafter = ' '",
            "latency.after: is empty: say what stands right before the latency",
        ),
        ("kind = 'redis'\nserver = 'a:0'", "latency.server: \"a:0\" is neither"),
        ("kind = 'redis'\nserver = ':1'", "latency.server: \":1\" is neither"),
        ("kind = 'redis'\nuser = 'a'", "latency.user: needs password_file"),
        (
            "kind = 'prometheus'\nurl = 'http://a:999999/'\nmetric = 'm'",
            "latency.url: \"http://a:999999/\" has a port that is not a number from 1 to 65535",
        ),
        ("kind = 'prometheus'\nurl = 'http://a/'\nmetric = ''", "latency.metric: \"\" is not"),
        (
            "kind = 'prometheus'\nurl = 'http://a/'\nmetric = 'm_sum'",
            "latency.metric: leave _sum out",
        ),
    ] {
        let message = of(latency).unwrap_err();
        assert!(message.starts_with(says), "{message}");
    }
    for right in [
        "kind = 'redis'\nserver = '[::1]:65535'",
        "kind = 'redis'\nserver = '/run/redis.sock'",
        "kind = 'mountstats'\nmounts = ['/srv']",
        "kind = 'exec'\ncommand = ['/a', 'b']\nuser = 'a'",
        "kind = 'redis'",
        "kind = 'log'\npath = '/a.log'\nafter = 'rt='",
    ] {
        assert_eq!(of(right), Ok(()), "{right}");
    }
}

#[test]
fn a_source_of_utilisation_is_checked_without_the_host() {
    let of = |cpu: &str| {
        let text = format!("{SMALLEST}\n[cpu]\n{cpu}\n");
        DaemonConfig::from_toml(&text).map(|_| ()).map_err(|error| error.to_string())
    };
    for (cpu, says) in [
        ("kind = 'exec'\ncommand = []\nuser = 'a'", "cpu.command: names none; allowed: such as"),
        ("kind = 'exec'\ncommand = ['a']\nuser = 'a'", "cpu.command: \"a\" is not an absolute"),
        ("kind = 'spdk'\nsocket = 'spdk.sock'", "cpu.socket: \"spdk.sock\" is not an absolute"),
        ("kind = 'spdk'\ninterval = '-1 s'", "cpu.interval: is -1"),
        ("kind = 'spdk'\ntimeout = '0 s'", "cpu.timeout: is 0"),
    ] {
        let message = of(cpu).unwrap_err();
        assert!(message.starts_with(says), "{message}");
    }
    for right in ["kind = 'spdk'", "kind = 'exec'\ncommand = ['/a', 'b']\nuser = 'a'"] {
        assert_eq!(of(right), Ok(()), "{right}");
    }
}

/// A table of `docs/wattiod-keys.md`.
struct KeyTable {
    title: String,
    /// The key and the default of each row.
    rows: Vec<(String, String)>,
}

fn key_tables() -> Vec<KeyTable> {
    let page = include_str!("../../../../docs/wattiod-keys.md");
    let (page, _) = page.split_once("\n## Lines of").unwrap();
    let table = |section: &str| {
        let (title, text) = section.split_once('\n')?;
        let row = |line: &str| {
            let cells: Vec<_> = line.split(" | ").collect();
            (cells[0].trim_end_matches('`').to_owned(), cells[2].to_owned())
        };
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")).map(row).collect();
        let title = title.trim_start_matches('#').replace('`', "").trim().to_owned();
        Some(KeyTable { title, rows })
    };
    page.split("\n##").filter_map(table).skip(1).collect()
}

/// What makes a table of the page whole: its required keys.
const REQUIRED: [(&str, &str); 25] = [
    ("The file", "name = 'a'"),
    ("[latency], kind = \"diskstats\"", "devices = ['sda']"),
    ("[latency], kind = \"mountstats\"", "mounts = ['/srv']"),
    ("[latency], kind = \"prometheus\"", "url = 'http://h/'\nmetric = 'm'"),
    ("[latency], kind = \"ceph\"", "sockets = ['/a']"),
    ("[latency], kind = \"tracepoint\"", "devices = ['sda']"),
    ("[latency], kind = \"exec\"", "command = ['/a']\nuser = 'root'"),
    ("[latency], kind = \"log\"", "path = '/a'\nafter = 'rt='"),
    ("[latency], kind = \"fio-log\"", "path = '/a'"),
    ("[cpu], kind = \"exec\"", "command = ['/a']\nuser = 'root'"),
    ("[background], kind = \"md\"", "devices = ['md0']"),
    ("[[group]]", "name = 'b'\ncores = '4-7'\nqueue.url = 'http://h/'\nqueue.metric = 'm'"),
    (
        "[[application]]",
        "name = 'b'\nlatency = { kind = 'redis' }\ngroup = [{ name = 'c', cores = '0' }]",
    ),
    ("[[knob]], kind = \"cpu.online\"", "accept_hotplug = true"),
    ("[[knob]], kind = \"cpu.latency\"", "at_full_speed = '0 s'"),
    ("[[knob]], kind = \"uncore.frequency\"", "maximum = '1 GHz'"),
    ("[[knob]], kind = \"power.cap\"", "limit = '90 W'"),
    ("[[knob]], kind = \"nvme.power\"", "devices = ['nvme0']"),
    ("[[knob]], kind = \"disk.runtime\"", "devices = ['sdb']"),
    ("[[knob]], kind = \"sata.alpm\"", "devices = ['host0']"),
    ("[power.meter], kind = \"file\"", "path = '/a'\nunit = 'W'"),
    ("[power.meter], kind = \"prometheus\"", "url = 'http://h/'\nmetric = 'm'\nunit = 'W'"),
    ("[power.meter], kind = \"exec\"", "command = ['/a']\nuser = 'root'"),
    (
        "[[knob]], kind = \"background\"",
        "commands = [{ name = 'a', pause = ['/a'], resume = ['/b'], user = 'root' }]",
    ),
    ("[service]", "tls.certificate = '/a'\ntls.key = '/b'"),
];

/// Keys of which the code takes the default that the page tells only where it uses them.
const LATER: [&str; 2] = ["latency", "wake"];

/// A file that is whole but for one table of the page.
fn whole_with(title: &str, keys: &str) -> Result<DaemonConfig, String> {
    let (name, kind) = title.split_once(", ").unwrap_or((title, ""));
    let text = match name {
        "The file" => SMALLEST.replace("name = \"nas\"", keys),
        "[latency]" => SMALLEST
            .replace("kind = \"diskstats\"\ndevices = [\"sda\"]", &format!("{kind}\n{keys}")),
        "[[application]]" => format!("name = 'a'\n{name}\n{keys}"),
        _ => format!("{SMALLEST}{name}\n{kind}\n{keys}"),
    };
    toml::from_str(&text).map_err(|error| error.to_string())
}

/// Each table of the page, its required keys, and the file that these make.
fn whole_tables() -> Vec<(KeyTable, &'static str, DaemonConfig)> {
    let whole = |table: KeyTable| {
        let required = REQUIRED.iter().find(|(title, _)| *title == table.title);
        let required = required.map_or("", |(_, keys)| keys);
        match whole_with(&table.title, required) {
            Ok(file) => Some((table, required, file)),
            // The head of a table that has kinds.
            Err(message) if table.rows.is_empty() && message.contains("`kind`") => None,
            Err(message) => unreachable!("{}: {message}", table.title),
        }
    };
    key_tables().into_iter().filter_map(whole).collect()
}

#[test]
fn the_page_of_keys_has_every_key() {
    let mut seen = 0;
    for (KeyTable { title, rows }, base, _) in whole_tables() {
        let said = whole_with(&title, &format!("{base}\nsurprise = 1")).unwrap_err();
        assert!(said.contains("unknown field `surprise`"), "{title}: {said}");
        // Serde lists the keys that there are. Those of the file are mostly tables.
        let (_, listed) = said.split_once("expected ").unwrap_or_default();
        for key in listed.split('`').skip(1).step_by(2).filter(|_| title != "The file") {
            let here = |(told, _): &(String, String)| told.split(['.', '[']).next() == Some(key);
            assert!(rows.iter().any(here), "{title}: {key}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn the_page_of_keys_has_the_defaults_of_the_code() {
    let mut compared = 0;
    for (KeyTable { title, rows }, base, plain) in whole_tables() {
        for (key, default) in rows.iter().filter(|(key, _)| !key.contains("[]")) {
            let value = default.strip_prefix('`').and_then(|text| text.split('`').next());
            if default.starts_with("required") {
                let rest: Vec<_> = base.lines().filter(|line| !line.starts_with(key)).collect();
                assert!(rest.len() < base.lines().count(), "{title}: {key} is not required");
                let without = whole_with(&title, &rest.join("\n"));
                let is_right = without.is_ok_and(|it| it.check().is_ok() || plain.check().is_err());
                assert!(!is_right, "{title}: {key} is not required");
            } else if let Some(value) = value.filter(|_| !LATER.contains(&&**key)) {
                let told = whole_with(&title, &format!("{base}\n{key} = {value}"));
                assert_eq!(told.as_ref(), Ok(&plain), "{title}: {key} = {value}");
                compared += 1;
            }
        }
    }
    assert!(compared > 40, "{compared}");
}

/// `check` accepted what `run` refuses on every host.
#[test]
fn a_knob_with_a_value_that_no_host_takes_is_refused() {
    for (knob, says) in [
        (
            "kind = 'cpu.latency'\nat_full_speed = '2 s'",
            "cpu.latency: at_full_speed = 2 s is not between 0 s and 1 s",
        ),
        ("kind = 'cpu.idle'", "cpu.idle: has neither saving nor at_full_speed"),
        ("kind = 'cpu.idle'\nsaving = '1 us'\nat_full_speed = '2 us'", "cpu.idle: saving = 1 us"),
        ("kind = 'cpu.online'\naccept_hotplug = false", "cpu.online: takes cores"),
        (
            "kind = 'background'\npace_while_saving = 2",
            "background: pace_while_saving = 2: allowed",
        ),
        ("kind = 'disk.runtime'\ndevices = []", "disk.runtime: devices names none"),
        (
            "kind = 'disk.runtime'\ndevices = ['sdb']\nafter = '-1 s'",
            "disk.runtime: after = -1 s is",
        ),
        ("kind = 'disk.runtime'\ndevices = ['sdb']\nwake = '3 min'", "disk.runtime: wake = "),
        ("kind = 'nvme.power'\ndevices = []", "nvme.power: devices names none"),
        (
            "kind = 'nvme.power'\ndevices = ['nvme0']\nlatency = '1 h'",
            "nvme.power: latency = 1 h is not between",
        ),
        (
            "kind = 'nvme.power'\ndevices = ['nvme0']\nlatency = '1 s'\npower_state = 1",
            "nvme.power: has both latency and power_state",
        ),
        (
            "kind = 'nvme.power'\ndevices = ['nvme0']\npower_state = 1\nprogram = 'nvme'",
            "nvme.power: program = \"nvme\" must be an absolute path",
        ),
        ("kind = 'sata.alpm'\ndevices = []", "sata.alpm: devices names none"),
        ("kind = 'sata.alpm'\ndevices = ['host0']\npolicy = 'max'", "sata.alpm: policy \"max\""),
        (
            "kind = 'sata.alpm'\ndevices = ['host0']\npolicy = 'min_power'",
            "sata.alpm: policy \"min",
        ),
    ] {
        let text = format!("{SMALLEST}\n[[knob]]\nkind = 'cpu.frequency'\n[[knob]]\n{knob}\n");
        let message = DaemonConfig::from_toml(&text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("knob[1]: {says}")), "{message}");
    }
}

/// "is 7200; allowed is 0 to 3600" of a key that was written as "2 h".
#[test]
fn what_is_allowed_of_a_time_is_told_with_its_unit() {
    for (safety, says) in [
        ("dwell = '2 h'", "safety.dwell: is 2 h; allowed is 0 s to 1 h"),
        ("span = '0 s'", "safety.span: is 0 s; allowed is 1 s to 1 d"),
        ("cool_down_max = '1 min'", "safety.cool_down_max: is 1 min; allowed is 10 min to 7 d"),
        (
            "check = [{ file = 'health', healthy = 'ok' }]",
            "safety.check[0].file: \"health\" is not an absolute path",
        ),
    ] {
        let text = format!("{SMALLEST}\n[safety]\n{safety}\n");
        let message = DaemonConfig::from_toml(&text).unwrap_err().to_string();
        assert_eq!(message, says);
    }
}
