//! A first configuration for this host: what `wattiod init` writes.
//!
//! It looks for a server whose latency can be read ([`known`]), tries each place that may report it
//! and uses the first that answers, or else the time of the host's devices. Everything that it
//! writes was tried: the source has answered, and the knobs open. The result is a starting point:
//! read it, and try it with `observe`.

pub mod known;

use crate::assembly::BadInput;
use crate::doctor::{Finding, block_devices, latency};
use known::{Known, Page, SERVERS, Tells};
use std::collections::{BTreeMap, BTreeSet};
use wattio_governor::Cpus;
use wattio_host::groups::{self, Group};
use wattio_host::machine::Cgroups;
use wattio_host::{DaemonConfig, Root, Topology, power, processes};
use wattio_units::Seconds;

/// How often a source is asked while it is tried.
const PERIOD: Seconds = Seconds(0.5);
/// What is said of diskstats wherever it is proposed.
const DEVICE_TIME: &str = "the time that block devices take. It ends at the block layer: what requests wait \
                           for a core, in the server's own queues or in the network is NOT in it. \
                           Compare what clients see with and without wattiod before you trust the bound";

/// A proposal, and what was found on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The configuration's text; `None` where nothing can be measured.
    pub config: Option<String>,
    /// What was found and what was not.
    pub findings: Vec<Finding>,
}

/// The server that is to be governed.
#[derive(Debug)]
struct Server {
    name: String,
    /// The pattern by which its processes are found: the name that the kernel shows.
    comm: String,
    pids: Vec<u32>,
    tells: Tells,
}

/// The table `latency`, once it has answered.
struct Measured {
    /// What it measures.
    what: String,
    table: String,
    settings: String,
    /// The processes that it measures, where others of their name run that it does not.
    only: Option<Vec<u32>>,
}

/// Where a group's processes are kept on its cores.
struct Placement {
    /// The key of the group.
    key: String,
    /// The knob.
    knob: &'static str,
}

/// Looks at the host and proposes a configuration for `service`, or for the first known server that is
/// running.
///
/// # Errors
/// [`BadInput`] if the service does not run, or no processor is found.
pub fn propose(root: &Root, service: Option<&str>) -> Result<Proposal, BadInput> {
    let topology = Topology::read(root).map_err(BadInput::new)?;
    let mut findings = Vec::new();
    let mut server = choose(root, service, &mut findings)?;
    let Some(measured) = measure(root, server.as_ref(), &mut findings) else {
        return Ok(Proposal { config: None, findings });
    };
    if let (Some(server), Some(only)) = (&mut server, &measured.only) {
        server.pids.clone_from(only);
    }
    let cores = cores(root, server.as_ref(), &topology);
    let name = server.as_ref().map_or("storage", |server| &server.name);
    let kinds = by_kind(&cores, &topology);
    let head = head(name, &measured, &kinds);
    let placement = server.as_ref().filter(|_| kinds.len() == 1);
    let placement = placement.and_then(|server| {
        placement_of(root, &topology, server, &head, measured.only.is_none(), &mut findings)
    });
    if kinds.len() > 1 {
        let text = "several: a group for each. Which of them serves what is the server's affair, so \
                    no knob that places it is proposed";
        findings.push(Finding::new("kinds of cores", true, text));
    }
    let scales = opens(root, &topology, &head, "", "cpu.frequency");
    findings.push(match &scales {
        Ok(()) => Finding::new("knob cpu.frequency", true, "can be turned: proposed"),
        Err(why) => Finding::new("knob cpu.frequency", false, why),
    });
    let config = head
        + placement.as_ref().map_or("", |placement| &placement.key)
        + &knobs(scales.is_ok(), placement.as_ref())
        + &power(root, &mut findings)
        + &control_socket();
    match DaemonConfig::from_toml(&config) {
        Ok(_) => Ok(Proposal { config: Some(config), findings }),
        Err(error) => {
            let text = "no valid configuration can be made from what this host offers";
            Err(BadInput::new(format!("{text}: {error}")))
        }
    }
}

/// The server: the one that is asked for, or the first of the known ones that runs.
fn choose(
    root: &Root,
    service: Option<&str>,
    findings: &mut Vec<Finding>,
) -> Result<Option<Server>, BadInput> {
    const WHAT: &str = "server";
    let mut running: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for pid in processes::pids(root) {
        if let Some(name) = processes::name(root, pid) {
            running.entry(name).or_default().push(pid);
        }
    }
    let runs = |known: &Known| {
        let comm = known.comms.iter().find(|&&comm| running.contains_key(comm))?;
        let pids = running[*comm].clone();
        Some(Server { name: known.name.into(), comm: (*comm).into(), pids, tells: known.tells })
    };
    if let Some(asked) = service {
        let known =
            SERVERS.iter().find(|known| known.name == asked || known.comms.contains(&asked));
        let server = known.and_then(runs).or_else(|| {
            let pids = running.get(asked)?.clone();
            wattio_host::config::check_name(asked).ok()?;
            Some(Server { name: asked.into(), comm: asked.into(), pids, tells: Tells::Devices })
        });
        let there: Vec<_> = SERVERS.iter().filter_map(runs).map(|server| server.name).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return server.map(Some).ok_or_else(|| {
            BadInput::new(format!(
                "--service {asked:?}: no process of that name runs; known servers that are \
                 running: {there}"
            ))
        });
    }
    let mut found = SERVERS.iter().filter_map(runs);
    let first = found.next();
    let others: Vec<_> = found.map(|server| server.name).collect();
    findings.push(match &first {
        None => Finding::new(
            WHAT,
            false,
            "none that is known runs: all cores as one group; name yours with --service, as `ps -e` \
             shows it",
        ),
        Some(server) if others.is_empty() => Finding::new(WHAT, true, &server.name),
        Some(server) => {
            let text = format!("{}; also {}: --service names one, [[application]] takes several", server.name, others.join(", "));
            Finding::new(WHAT, true, text)
        }
    });
    Ok(first)
}

/// The first source that answers; `None` where there is none.
fn measure(root: &Root, server: Option<&Server>, findings: &mut Vec<Finding>) -> Option<Measured> {
    let own = match server.map(|server| (server, server.tells)) {
        Some((server, Tells::Page(page))) => page_of(root, server, &page, findings),
        Some((_, Tells::Table { place, keys, settings, measured })) => {
            answers(root, place, keys, findings).then(|| Measured {
                what: measured.into(),
                table: keys.into(),
                settings: settings.into(),
                only: None,
            })
        }
        Some((server, Tells::Redis { settings, measured })) => {
            redis(root, server, findings).map(|(table, only)| {
                let (what, settings) = (measured.into(), settings.into());
                Measured { what, table, settings, only }
            })
        }
        Some((server, Tells::Example(example))) => {
            let what = format!("latency of {}", server.name);
            let text = format!(
                "its own needs a change of its configuration, see the example {example}; until then the \
                 time of the devices"
            );
            findings.push(Finding::new(&what, false, text));
            None
        }
        Some((server, Tells::Nowhere(instead))) => {
            findings.push(Finding::new(&format!("latency of {}", server.name), false, instead));
            return None;
        }
        Some((_, Tells::Devices)) | None => None,
    };
    own.or_else(|| of_devices(root, findings))
}

/// The first page of a server that answers.
fn page_of(
    root: &Root,
    server: &Server,
    page: &Page,
    findings: &mut Vec<Finding>,
) -> Option<Measured> {
    let mut seen = BTreeSet::new();
    let asked = server.pids.iter().flat_map(|&pid| {
        let (arguments, variables) =
            (processes::arguments(root, pid), processes::variables(root, pid));
        let of_path = move |(path, keys): &(&str, &'static str)| {
            let urls = known::addresses(page, path, &arguments, &variables);
            urls.into_iter().map(|url| (url, *keys)).collect::<Vec<_>>()
        };
        page.paths.iter().flat_map(of_path)
    });
    for (url, keys) in asked {
        let table = format!("kind = \"prometheus\"\nurl = {}\n{keys}", quoted(&url));
        if seen.insert(url.clone()) && answers(root, &url, &table, findings) {
            let (what, settings) = (page.measured.to_owned(), page.settings.to_owned());
            return Some(Measured { what, table, settings, only: None });
        }
    }
    None
}

/// The table of a Redis server's first address that answers, and the processes of that server where
/// there are others.
fn redis(
    root: &Root,
    server: &Server,
    findings: &mut Vec<Finding>,
) -> Option<(String, Option<Vec<u32>>)> {
    let addresses = |&pid: &u32| (pid, known::redis_addresses(&processes::arguments(root, pid)));
    let all: Vec<_> = server.pids.iter().map(addresses).collect();
    let mut seen = BTreeSet::new();
    let (asked, table) = all.iter().find_map(|(pid, addresses)| {
        addresses.iter().filter(|address| seen.insert((*address).clone())).find_map(|address| {
            let table = format!("kind = \"redis\"\nserver = {}\n", quoted(address));
            let told = answers(root, &format!("redis {address}"), &table, findings);
            told.then_some(((*pid, address), table))
        })
    })?;
    let measured = known::of_server(asked, &all);
    let others: Vec<_> = server.pids.iter().filter(|pid| !measured.contains(pid)).collect();
    if others.is_empty() {
        return Some((table, None));
    }
    let others: Vec<_> = others.into_iter().map(u32::to_string).collect();
    let text = format!(
        "{} runs several times: what process {} does is not measured, so it is not placed by its name; \
         [[application]] takes several",
        server.comm,
        others.join(", ")
    );
    findings.push(Finding::new("other servers", false, text));
    Some((table, Some(measured)))
}

/// The devices of the host: whole disks, and what is made of disks (arrays, bcache) in place of these,
/// so that no request counts twice. The device mapper's stand for nothing: their disks do.
fn devices(root: &Root) -> Vec<String> {
    let has_size = |name: &String| {
        root.read(&format!("/sys/block/{name}/size")).is_ok_and(|size| size.trim() != "0")
    };
    let all = block_devices(root).into_iter();
    let (made, disks): (Vec<_>, Vec<_>) = all
        .filter(|name| !name.starts_with("dm-") && has_size(name))
        .partition(|name| !parts_of(root, name).is_empty());
    let mut inner = BTreeSet::new();
    let mut left: Vec<_> = made.iter().flat_map(|name| parts_of(root, name)).collect();
    // What something is made of may itself be made of others, of the device mapper's too.
    while let Some(part) = left.pop() {
        left.extend(parts_of(root, &part).into_iter().filter(|part| !inner.contains(part)));
        inner.insert(part);
    }
    let outside = |name: &String| {
        let partitions = root.list(&format!("/sys/block/{name}"));
        !inner.contains(name) && !partitions.iter().any(|part| inner.contains(part))
    };
    disks.into_iter().chain(made).filter(outside).collect()
}

/// The devices or partitions that a device is made of; none of a disk.
fn parts_of(root: &Root, name: &str) -> Vec<String> {
    root.list(&format!("/sys/block/{name}/slaves"))
}

/// The time of the host's devices.
fn of_devices(root: &Root, findings: &mut Vec<Finding>) -> Option<Measured> {
    let devices = devices(root);
    let names: Vec<_> = devices.iter().map(|name| quoted(name)).collect();
    let table = format!("kind = \"diskstats\"\ndevices = [{}]\n", names.join(", "));
    if devices.is_empty() {
        findings.push(Finding::new("latency", false, "this host has no block device to watch"));
        return None;
    }
    answers(root, &format!("diskstats of {}", devices.join(", ")), &table, findings).then(|| {
        Measured { what: DEVICE_TIME.into(), table, settings: "plf = 0.1".into(), only: None }
    })
}

/// Whether a table `latency` works here; says so.
fn answers(root: &Root, place: &str, table: &str, findings: &mut Vec<Finding>) -> bool {
    let what = format!("latency: {place}");
    let all = format!("name = \"x\"\n[latency]\n{table}[[group]]\nname = \"x\"\ncores = \"0\"\n");
    let config = DaemonConfig::from_toml(&all);
    let told = config.map(|config| config.latency.map(|config| latency(&config, root, PERIOD)));
    let finding = match told {
        Ok(told) => told.map(|told| {
            // An error names the source, as `what` does.
            let text = told.text.strip_prefix(&format!("{place}: ")).unwrap_or(&told.text);
            Finding::new(&what, told.ok, text)
        }),
        Err(error) => Some(Finding::new(&what, false, error.to_string())),
    };
    let Some(finding) = finding else { return false };
    let ok = finding.ok;
    findings.push(finding);
    ok
}

/// The cores that the server's processes may use; all that run if that is not known.
fn cores(root: &Root, server: Option<&Server>, topology: &Topology) -> Cpus {
    let pids = server.map(|server| server.pids.as_slice()).unwrap_or_default();
    let allowed = pids.iter().filter_map(|&pid| processes::allowed(root, pid, pid));
    let cores = allowed.fold(Cpus::default(), |all, own| all.or(&own)).and(&topology.online);
    if cores.is_empty() { topology.online.clone() } else { cores }
}

/// The cores with what to add to a group's name: kind by kind where they are of several, which a law
/// would take to be alike.
fn by_kind(cores: &Cpus, topology: &Topology) -> Vec<(String, Cpus)> {
    let kinds = topology.kinds().map(|(kind, cpus)| (format!("-{kind}"), cores.and(cpus)));
    let mut kinds: Vec<_> = kinds.filter(|(_, own)| !own.is_empty()).collect();
    let told = kinds.iter().fold(Cpus::default(), |told, (_, own)| told.or(own));
    let others = cores.without(&told);
    if kinds.len() + usize::from(!others.is_empty()) < 2 {
        return vec![(String::new(), cores.clone())];
    }
    if !others.is_empty() {
        kinds.push(("-others".to_owned(), others));
    }
    kinds
}

/// The configuration up to the keys of its last group.
fn head(name: &str, measured: &Measured, kinds: &[(String, Cpus)]) -> String {
    let Measured { what, table, settings, .. } = measured;
    let group = |(kind, cores): &(String, Cpus)| {
        format!(
            "\n[[group]]\n\
             name = {}\n\
             # Those that its processes may use now, and how many of them always stay on.\n\
             cores = {}\n\
             cores_min = {}\n",
            quoted(&format!("{name}{kind}")),
            quoted(&cores.to_string()),
            (cores.len() / 4).max(1)
        )
    };
    let groups: String = kinds.iter().map(group).collect();
    format!(
        "# Proposed by `wattiod init`, which looked at this host once: read it before you use it.\n\
         name = {}\n\n\
         {}\
         [latency]\n{table}\n\
         [policy]\n\
         name = \"pacer\"\n\
         # How much the mean may exceed that at full speed: 0.2 is 20 %. Smaller is safer, saves less.\n\
         settings = {{ {settings} }}\n\
         {groups}",
        quoted(name),
        comment(&format!("Measured: {what}."))
    )
}

/// How the server's processes are kept on fewer cores: by their control group where it has them alone
/// and can be set, else by their name unless others have it too.
fn placement_of(
    root: &Root,
    topology: &Topology,
    server: &Server,
    head: &str,
    has_own_name: bool,
    findings: &mut Vec<Finding>,
) -> Option<Placement> {
    let by_name = format!("processes = {{ comm = {} }}\n", quoted(&server.comm));
    let by_group = cgroup_of(root, server)
        .map(|cgroup| ("cpu.cpuset", format!("cgroup = {}\n", quoted(&cgroup))));
    let by_name = has_own_name.then_some(("cpu.affinity", by_name));
    for (knob, key) in by_group.into_iter().chain(by_name) {
        let what = format!("knob {knob}");
        match opens(root, topology, head, &key, knob) {
            Ok(()) => {
                findings.push(Finding::new(&what, true, key.trim_end()));
                return Some(Placement { key, knob });
            }
            Err(why) => findings.push(Finding::new(&what, false, why)),
        }
    }
    None
}

/// The control group that holds all processes of the server and no others.
fn cgroup_of(root: &Root, server: &Server) -> Option<String> {
    let cgroups = Cgroups::find(root);
    let of = |pid: u32| cgroups.of_process(root, "cpuset", pid);
    let own = of(*server.pids.first()?)?;
    let alone = processes::pids(root)
        .into_iter()
        .all(|pid| server.pids.contains(&pid) == (of(pid).as_ref() == Some(&own)));
    (alone && own != "/").then_some(own)
}

/// Whether a knob can be had with the group as it is in `head` and `key`; else why not.
fn opens(
    root: &Root,
    topology: &Topology,
    head: &str,
    key: &str,
    knob: &str,
) -> Result<(), String> {
    let text = format!("{head}{key}[[knob]]\nkind = \"{knob}\"\n");
    let config = DaemonConfig::from_toml(&text).map_err(|error| error.to_string())?;
    let groups: Vec<Group> =
        groups::resolve(&config.all_groups(), topology).map_err(|error| error.to_string())?;
    config.knobs.iter().try_for_each(|config| match config.open(root, topology, &groups) {
        Ok(_) => Ok(()),
        Err(error) => {
            let why = error.to_string();
            Err(why.strip_prefix(&format!("{knob}: ")).unwrap_or(&why).to_owned())
        }
    })
}

/// The knobs: the frequency where it can be set, which is the mildest, else the cores.
fn knobs(scales: bool, placement: Option<&Placement>) -> String {
    let mut text = String::from("\n");
    if scales {
        text += "[[knob]]\nkind = \"cpu.frequency\"\n\n";
    }
    match placement {
        Some(Placement { knob, .. }) if scales => {
            text += "# The second step, once the first has held for a day: fewer cores as well.\n";
            text += &format!("#[[knob]]\n#kind = \"{knob}\"\n\n");
        }
        Some(Placement { knob, .. }) => text += &format!("[[knob]]\nkind = \"{knob}\"\n\n"),
        None if scales => {}
        None => {
            text += "# No knob was found that can be turned: `wattiod observe` asks what cores and \
                     frequency\n# would save together, and `wattiod doctor` says what is missing.\n\n";
        }
    }
    text
}

/// The table `power`: all packages with their memory, else the first meter that can be read.
fn power(root: &Root, findings: &mut Vec<Finding>) -> String {
    const WHAT: &str = "power meter";
    let found = power::Meters::find(root);
    let usable: Vec<_> = found.iter().filter(|meter| meter.problem.is_none()).collect();
    let best = usable.iter().find(|meter| meter.name == "rapl:sum").or(usable.first());
    let mut text = String::from("[power]\n");
    match best {
        Some(meter) => {
            findings.push(Finding::new(WHAT, true, format!("{}: {}", meter.name, meter.what)));
            text += &comment(&format!("Measures {}.", meter.what));
            text += &format!("meter = {}\n", quoted(&meter.name));
        }
        None => {
            let problem = found.iter().find_map(|meter| meter.problem.clone());
            let none = "none that the kernel knows: power is estimated".to_owned();
            findings.push(Finding::new(WHAT, false, problem.unwrap_or(none)));
        }
    }
    text += "# For estimates. Numbers that nobody measured: good for orders of magnitude only.\n";
    text + "model = \"assumed\"\n"
}

/// The table `service`, for a user who may not write where the socket is by default.
fn control_socket() -> String {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return String::new();
    }
    let folder = std::env::var("XDG_RUNTIME_DIR").unwrap_or_else(|_| "/tmp".to_owned());
    let place = quoted(&format!("{folder}/wattiod-{}.sock", user.as_raw()));
    format!(
        "\n[service]\n# The default, /run/wattiod/wattiod.sock, needs root.\nsocket = {place}\n"
    )
}

/// A text as TOML writes it: as in JSON, but for one character.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Comment lines of at most 100 characters.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let fits =
            lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() <= 100);
        if !fits {
            lines.push(String::from("#"));
        }
        if let Some(line) = lines.last_mut() {
            *line += " ";
            *line += word;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests;
