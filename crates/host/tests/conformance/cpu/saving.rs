//! What follows saving: preferences, idle states, the wake latency, the uncore, caps of power.

use super::super::tree::{CPU, Tree};
use super::super::{Store, Subject, full_speed, setting};
use super::{GROUPS, values};
use wattio_governor::Setting;
use wattio_host::machine::dma_latency;

/// A tree in the active mode of intel_pstate, with preferences and biases.
fn active() -> Tree {
    let tree = Tree::new();
    tree.write(&format!("{CPU}/intel_pstate/status"), "active");
    for policy in 0..4 {
        let file = |name: &str| format!("{CPU}/cpufreq/policy{policy}/{name}");
        tree.write(&file("scaling_governor"), "powersave");
        tree.write(&file("scaling_driver"), "intel_pstate");
        tree.write(&file("energy_performance_preference"), "balance_performance");
        let words = "default performance balance_performance balance_power power ";
        tree.write(&file("energy_performance_available_preferences"), words);
    }
    for cpu in 0..8 {
        tree.write(&format!("{CPU}/cpu{cpu}/power/energy_perf_bias"), "6");
    }
    tree
}

/// What a knob asks of its first place: while saving, and at full speed.
fn both(tree: &Tree, knob: &str) -> [String; 2] {
    let mut knob = tree.knob(knob, GROUPS).unwrap();
    [setting(&["0,4", "2"], 1e9), full_speed(&["0-1,4-5", "2-3,6-7"])].map(|setting| {
        let assignments = knob.assignments(&setting, &mut *tree.machine()).unwrap();
        let at = if setting.full_speed { assignments.len() - 1 } else { 0 };
        values(&assignments)[at].1.to_owned()
    })
}

fn saving_conforms(tree: &Tree, knob: &str) {
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
}

#[test]
fn preferences_follow_saving() {
    let tree = active();
    for (knob, asked) in [
        ("kind = 'cpu.epp'", ["balance_power", "original"]),
        (
            "kind = 'cpu.epp'\nsaving = 'power'\nat_full_speed = 'performance'",
            ["power", "performance"],
        ),
        ("kind = 'cpu.epb'", ["8", "original"]),
        ("kind = 'cpu.epb'\nsaving = 15\nat_full_speed = 0", ["15", "0"]),
    ] {
        assert_eq!(both(&tree, knob), asked, "{knob}");
        saving_conforms(&tree, knob);
    }
    // In the active mode a cap is a cap under either governor.
    for governor in ["powersave", "performance"] {
        for policy in 0..4 {
            tree.write(&format!("{CPU}/cpufreq/policy{policy}/scaling_governor"), governor);
        }
        assert_eq!(both(&tree, "kind = 'cpu.frequency'"), ["1000000", "original"]);
        saving_conforms(&tree, "kind = 'cpu.frequency'");
    }
}

#[test]
fn whoever_prefers_energy_more_is_left_alone() {
    let tree = active();
    for policy in 0..3 {
        let file = format!("{CPU}/cpufreq/policy{policy}/energy_performance_preference");
        tree.write(&file, ["power", "200", "balance_power"][policy]);
    }
    let mut knob = tree.knob("kind = 'cpu.epp'", GROUPS).unwrap();
    let slow = setting(&["0", "2"], 1e9);
    let asked = knob.assignments(&slow, &mut *tree.machine()).unwrap();
    let file = format!("{CPU}/cpufreq/policy3/energy_performance_preference");
    assert_eq!(values(&asked), [(file.as_str(), "balance_power")]);
    tree.write(&file, "power");
    let message = tree.knob("kind = 'cpu.epp'", GROUPS).err().unwrap();
    assert!(message.contains("nothing to turn"), "{message}");
}

#[test]
fn preferences_say_what_is_missing() {
    let missing = |tree: &Tree, knob: &str, says: &str| {
        let message = tree.knob(&format!("kind = '{knob}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    let tree = active();
    missing(&tree, "cpu.epp'\nsaving = 'default'", "not one of performance, balance_performance");
    missing(&tree, "cpu.epp'\nat_full_speed = 'fast'", "not one of performance");
    missing(&tree, "cpu.epb'\nsaving = 16", "a bias of 16 is not between 0 and 15");
    missing(&tree, "cpu.epb'\nsaving = 6", "a bias of 6 or more");
    tree.write(&format!("{CPU}/cpufreq/policy0/scaling_governor"), "performance");
    missing(&tree, "cpu.epp'", "set it to powersave");
    missing(&Tree::new(), "cpu.epp'", "in the active mode of intel_pstate");
    missing(&Tree::new(), "cpu.epb'", "these processors have none");
}

/// A tree whose cores have idle states that take 0, 2, 10 and 133 us to leave, the last one off.
fn sleepy() -> Tree {
    let tree = Tree::new();
    for cpu in 0..8 {
        for (state, (latency, off)) in
            [("0", "0"), ("2", "0"), ("10", "0"), ("133", "1")].iter().enumerate()
        {
            let file = |name: &str| format!("{CPU}/cpu{cpu}/cpuidle/state{state}/{name}");
            tree.write(&file("name"), ["POLL", "C1", "C1E", "C6"][state]);
            tree.write(&file("latency"), latency);
            tree.write(&file("disable"), off);
        }
    }
    tree
}

#[test]
fn idle_states_are_shallow_at_full_speed_and_deep_while_saving() {
    let tree = sleepy();
    let state = |number: u32| format!("{CPU}/cpu0/cpuidle/state{number}/disable");
    let asked = |knob: &str, setting: &Setting| -> Vec<(String, String)> {
        let mut knob = tree.knob(knob, "[[group]]\nname = 'a'\ncores = '0'").unwrap();
        let assignments = knob.assignments(setting, &mut *tree.machine()).unwrap();
        let pairs = values(&assignments).into_iter();
        pairs.map(|(path, value)| (path.to_owned(), value.to_owned())).collect()
    };
    let pair = |number, value: &str| (state(number), value.to_owned());
    let both = "kind = 'cpu.idle'\nsaving = '200 us'\nat_full_speed = '5 us'";
    let (slow, full) = (setting(&["0"], 1e9), full_speed(&["0"]));
    assert_eq!(asked(both, &slow), [pair(1, "0"), pair(2, "0"), pair(3, "0")]);
    assert_eq!(asked(both, &full), [pair(3, "1"), pair(2, "1"), pair(1, "original")]);
    let shallow = "kind = 'cpu.idle'\nat_full_speed = '5 us'";
    assert_eq!(asked(shallow, &slow), [pair(2, "original"), pair(3, "original")]);
    let deep = "kind = 'cpu.idle'\nsaving = '50 us'";
    assert_eq!(asked(deep, &slow), [pair(1, "0"), pair(2, "0")], "the deepest stays as it was");
    saving_conforms(&tree, both);
    assert_eq!(tree.read(&state(3)), "1");
    // On ARM the first is a state like any other.
    let arm = sleepy();
    arm.write(&format!("{CPU}/cpu0/cpuidle/state0/name"), "WFI");
    let mut knob = arm.knob(both, "[[group]]\nname = 'a'\ncores = '0'").unwrap();
    let assignments = knob.assignments(&slow, &mut *arm.machine()).unwrap();
    assert_eq!(values(&assignments)[0], (state(0).as_str(), "0"));
    let missing = |tree: &Tree, knob: &str, says: &str| {
        let message = tree.knob(&format!("kind = 'cpu.idle'{knob}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing(&tree, "", "neither saving nor at_full_speed");
    missing(&tree, "\nsaving = '1 us'\nat_full_speed = '1 ms'", "sleep less deeply while saving");
    missing(&tree, "\nat_full_speed = '1 ms'", "nothing to turn");
    missing(&Tree::new(), "\nsaving = '1 ms'", "no driver of idle states");
}

#[test]
fn the_wake_latency_is_held_at_full_speed_and_let_go_while_saving() {
    let tree = Tree::new();
    let knob = "kind = 'cpu.latency'\nat_full_speed = '20 us'";
    assert!(tree.knob(knob, GROUPS).err().unwrap().contains("/dev/cpu_dma_latency is not there"));
    tree.write("/dev/cpu_dma_latency", "");
    assert_eq!(both(&tree, knob), ["original", "20"]);
    let wrong = "kind = 'cpu.latency'\nat_full_speed = '2 s'";
    assert!(tree.knob(wrong, GROUPS).err().unwrap().contains("is not between 0 s and 1 s"));
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    let (mut writer, _) = subject.writer(&Store::default());
    let (mut knob, address) = ((subject.knobs)().remove(0), dma_latency::address());
    for (setting, held) in
        [(&subject.full, "20"), (&subject.narrow, "released"), (&subject.full, "20")]
    {
        let assignments = knob.assignments(setting, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert_eq!(writer.look().read(&address).as_deref(), Ok(held));
    }
    let restored = writer.restore().unwrap();
    assert_eq!((restored.restored.len(), restored.left.len()), (1, 0));
    assert_eq!(writer.look().read(&address).as_deref(), Ok("released"));
}

/// Two sockets: even processors in the first.
fn sockets() -> Tree {
    let tree = Tree::new();
    for cpu in 0..8 {
        let file = format!("{CPU}/cpu{cpu}/topology/physical_package_id");
        tree.write(&file, &(cpu % 2).to_string());
    }
    for package in 0..2 {
        let die = format!("{CPU}/intel_uncore_frequency/package_0{package}_die_00");
        for (file, khz) in [
            ("initial_min_freq_khz", "800000"),
            ("initial_max_freq_khz", "2400000"),
            ("min_freq_khz", if package == 0 { "800000" } else { "2000000" }),
            ("max_freq_khz", "2400000"),
        ] {
            tree.write(&format!("{die}/{file}"), khz);
        }
        let zone = format!("/sys/class/powercap/intel-rapl:{package}");
        for (file, text) in [
            ("name", format!("package-{package}").as_str()),
            ("enabled", if package == 0 { "1" } else { "0" }),
            ("constraint_0_name", "long_term"),
            ("constraint_0_power_limit_uw", "150000000"),
            ("constraint_0_max_power_uw", "165000000"),
            ("constraint_1_name", "short_term"),
            ("constraint_1_power_limit_uw", "180000000"),
        ] {
            tree.write(&format!("{zone}/{file}"), text);
        }
        tree.write(&format!("{zone}:0/name"), "dram");
    }
    tree
}

/// What a knob writes while saving.
fn slow(tree: &Tree, knob: &str, groups: &str) -> Vec<(String, String)> {
    let mut knob = tree.knob(knob, groups).unwrap();
    let assignments = knob.assignments(&setting(&["0"], 1e9), &mut *tree.machine()).unwrap();
    let pair = |(path, value): (&str, &str)| {
        let mut end = path.rsplitn(3, '/').take(2).collect::<Vec<_>>();
        end.reverse();
        (end.join("/"), value.to_owned())
    };
    values(&assignments).into_iter().map(pair).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn the_uncore_is_capped_while_saving() {
    let tree = sockets();
    let knob = "kind = 'uncore.frequency'\nmaximum = '1.65 GHz'";
    let asked = [
        ("package_00_die_00/max_freq_khz", "1600000"),
        ("package_01_die_00/min_freq_khz", "1600000"),
        ("package_01_die_00/max_freq_khz", "1600000"),
    ];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked), "a minimum above it goes first");
    saving_conforms(&tree, knob);
    let missing = |tree: &Tree, maximum: &str, groups: &str, says: &str| {
        let knob = format!("kind = 'uncore.frequency'\nmaximum = '{maximum}'");
        let message = tree.knob(&knob, groups).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    let first = "[[group]]\nname = 'a'\ncores = '0,4'";
    missing(&tree, "1.6 GHz", first, "shared with processors 2,6, which are in no group");
    let accepted = "kind = 'uncore.frequency'\nmaximum = '1.6 GHz'\naccept_others = true";
    assert_eq!(slow(&tree, accepted, first).len(), 1, "the other socket is not touched");
    missing(&tree, "500 MHz", GROUPS, "is below the 800 MHz");
    missing(&tree, "2.4 GHz", GROUPS, "nothing to turn");
    missing(&Tree::new(), "1 GHz", GROUPS, "intel_uncore_frequency is not there");
    // Newer processors have clusters, and a folder of the die that stands for all.
    for (cluster, package) in [("uncore00", "0"), ("uncore01", "1")] {
        let folder = format!("{CPU}/intel_uncore_frequency/{cluster}");
        tree.write(&format!("{folder}/package_id"), package);
        tree.write(&format!("{folder}/min_freq_khz"), "800000");
        tree.write(&format!("{folder}/max_freq_khz"), "2200000");
    }
    let asked = [("uncore00/max_freq_khz", "1600000"), ("uncore01/max_freq_khz", "1600000")];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked));
    saving_conforms(&tree, knob);
}

#[test]
fn packages_are_capped_while_saving() {
    let tree = sockets();
    let knob = "kind = 'power.cap'\nlimit = '90.2 W'";
    let asked = [
        ("intel-rapl:0/constraint_0_power_limit_uw", "90125000"),
        ("intel-rapl:1/constraint_0_power_limit_uw", "90125000"),
        ("intel-rapl:1/enabled", "1"),
    ];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked));
    saving_conforms(&tree, knob);
    // A limit that an operator keeps low, and off, was switched on because of the other package.
    let second = "/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw";
    tree.write(second, "60000000");
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked[..1]));
    saving_conforms(&tree, knob);
    tree.write(second, "150000000");
    let missing = |tree: &Tree, more: &str, says: &str| {
        let message = tree.knob(&format!("kind = 'power.cap'\n{more}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing(&tree, "limit = '0 W'", "is not above 0 W");
    missing(&tree, "limit = '170 W'", "takes is 165 W");
    missing(&tree, "limit = '150 W'", "nothing to turn");
    missing(&tree, "limit = '90 W'\nhwmon = 'amd'", "has no chip \"amd\" with a powerN_cap");
    missing(&Tree::new(), "limit = '90 W'", "no RAPL");
    for (file, text) in [
        ("name", "amd_hsmp_hwmon"),
        ("power1_cap", "240000000"),
        ("power1_cap_max", "280000000"),
        ("power1_input", "100000000"),
    ] {
        tree.write(&format!("/sys/class/hwmon/hwmon3/{file}"), text);
    }
    let chip = "kind = 'power.cap'\nlimit = '150 W'\nhwmon = 'amd_hsmp_hwmon'";
    assert_eq!(slow(&tree, chip, GROUPS), pairs(&[("hwmon3/power1_cap", "150000000")]));
    saving_conforms(&tree, chip);
}
