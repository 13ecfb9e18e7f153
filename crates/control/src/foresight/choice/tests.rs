use super::*;
use proptest::prelude::*;
use wattio_model::erlang_c;

fn menu(sleeps: bool) -> Menu {
    let point = |ghz: f64| {
        let running_w = 1.0 + 0.3 * ghz * ghz;
        let idle_w = if sleeps { 0.4 } else { running_w };
        let stretch = 0.4 + 0.6 * 3.0 / ghz;
        Point { frequency: Hertz(ghz * 1e9), stretch, running_w, idle_w }
    };
    Menu { cores_min: 1, cores_max: 8, points: [1.0, 2.0, 3.0].map(point).to_vec() }
}

fn scene(rate: f64) -> Scene {
    Scene { rate, weight: rate, overload_s: 0.0, overload_awake_s: 0.0, crowd: 0.0 }
}

/// Power alone counts, and no risk does.
fn terms(scenes: &[Scene]) -> Terms<'_> {
    Terms {
        scenes,
        rate: 100.0,
        weights: [1.0; 3],
        price_w: 0.0,
        utilisation_max: 0.97,
        risk: None,
        slowdown_max: 100.0,
    }
}

fn chosen(menu: &Menu, demand: &Demand, terms: &Terms) -> Choice {
    let mut outlook = Outlook::default();
    outlook.fill(menu, demand, demand, terms);
    best(menu, demand, terms, &outlook)
}

/// The cost of one setting, as the documentation says it.
fn cost(menu: &Menu, demand: &Demand, point: &Point, cores: u32, terms: &Terms) -> f64 {
    let (x, n, rate) = (point.stretch, f64::from(cores), terms.rate);
    let clients = rate * demand.work_s;
    let all = (clients + demand.background) * x;
    let power_w = all.min(n) * point.running_w + (n - all.min(n)) * point.idle_w;
    let task_s = demand.work_s / demand.visits * demand.task_left;
    let left_s = (clients * task_s + demand.background * demand.slice_left_s)
        / (clients + demand.background)
        * x;
    let wait_s = erlang_c(cores, all) * left_s / (n * (1.0 - clients * x / n));
    let extra_s = demand.work_s * (x - 1.0) + demand.visits * wait_s;
    assert!(menu.cores_max >= cores);
    power_w + terms.price_w * rate * extra_s
}

proptest! {
    #[test]
    fn the_search_finds_the_least_cost(
        rate in 100.0f64..50_000.0, background in 0.1f64..2.0, price_w in 0.01f64..1e4,
        sleeps: bool,
    ) {
        let (menu, scenes) = (menu(sleeps), [scene(rate)]);
        let demand = Demand {
            work_s: 20e-6, visits: 2.0, others: 0.0, others_room: 2.0, background, slice_left_s: 150e-6, task_left: 0.6,
        };
        let terms = Terms {
            rate, weights: [1.0, 1.0, 0.0], price_w, ..terms(&scenes)
        };
        let found = chosen(&menu, &demand, &terms);
        let mut least_w = f64::INFINITY;
        for point in &menu.points {
            let busy = (rate * demand.work_s + background) * point.stretch;
            for cores in 1..=8 {
                if busy <= 0.97 * f64::from(cores) {
                    least_w = least_w.min(cost(&menu, &demand, point, cores, &terms));
                }
            }
        }
        prop_assert!((found.cost_w - least_w).abs() < 1e-6 * least_w, "{found:?} {least_w}");
    }
}

#[test]
fn an_outlook_has_the_features_of_every_setting() {
    let (menu, scenes) = (menu(true), [scene(100.0), Scene { crowd: 5.0, ..scene(9e4) }]);
    let demand = Demand { work_s: 20e-6, visits: 2.0, background: 0.5, ..Demand::default() };
    let terms = terms(&scenes);
    let mut outlook = Outlook::default();
    outlook.fill(&menu, &demand, &demand, &terms);
    for (cores, point) in (1..=8).flat_map(|cores| menu.points.iter().map(move |p| (cores, p))) {
        let setting = GroupAction { cores, frequency: point.frequency };
        let found = outlook.at(&menu, &demand, setting, &scenes);
        assert_eq!(found, demand.at(&menu, setting, &scenes));
    }
}

/// Requests that come at once are served `cores` at a time: a simulation of the queue.
#[test]
fn a_crowd_waits_about_as_long_as_one_that_is_served_in_turn() {
    for (together, cores) in [(2_u32, 8_u32), (16, 8), (64, 8), (64, 2), (400, 40)] {
        let waited: u32 = (0..together).map(|at| at / cores).sum();
        let waits = f64::from(waited) / f64::from(together);
        let ours = turns(f64::from(together - 1), cores);
        assert!((ours - waits).abs() < 0.3 + 0.15 * waits, "{together} {cores}: {ours} {waits}");
    }
}

#[test]
fn a_risk_that_is_too_great_is_not_taken() {
    let (menu, scenes) = (menu(true), [scene(100.0)]);
    let demand = Demand {
        work_s: 20e-6,
        visits: 2.0,
        others: 0.0,
        others_room: 2.0,
        background: 0.5,
        slice_left_s: 150e-6,
        task_left: 0.6,
    };
    let mut terms = terms(&scenes);
    let free = chosen(&menu, &demand, &terms).setting;
    let burst =
        Scene { rate: 2e5, weight: 8e3, overload_s: 0.04, overload_awake_s: 0.04, crowd: 2000.0 };
    terms.risk = Some((burst, 1.0));
    let careful = chosen(&menu, &demand, &terms).setting;
    assert!(free.cores < 4);
    assert_eq!(careful, menu.full());
}

/// Cores that are awake are at full speed as soon as a burst is seen, others after they have woken up:
/// both were taken to be as late, and lower frequencies of all cores for as great a risk as sleep.
#[test]
fn cores_that_are_awake_risk_less_than_those_that_sleep() {
    let (menu, scenes) = (menu(true), [scene(100.0)]);
    let demand = Demand { work_s: 20e-6, visits: 2.0, background: 0.5, ..Demand::default() };
    let burst = |overload_awake_s: f64| Scene {
        rate: 5e5,
        weight: 2e4,
        overload_s: 0.04,
        overload_awake_s,
        crowd: 0.0,
    };
    let chosen = |overload_awake_s: f64, limit_us: f64| {
        let risk = Some((burst(overload_awake_s), limit_us));
        chosen(&menu, &demand, &Terms { risk, ..terms(&scenes) }).setting
    };
    // What the burst loses to the second frequency of all cores until none has to wake.
    let second = GroupAction { cores: menu.cores_max, frequency: menu.points[1].frequency };
    let lost_us = |span_s: f64| {
        let burst = [burst(span_s).with_all_awake()];
        let at = |setting| demand.at(&menu, setting, &burst);
        let more = at(second).plus(at(menu.full()).times(-1.0));
        more.weighed([1.0; 3]) * 5e5 * span_s
    };
    let limit_us = 1.01 * lost_us(0.02);
    assert!(limit_us < 0.5 * lost_us(0.04), "twice the requests, each for longer");
    assert_eq!(chosen(0.02, limit_us), second);
    assert_eq!(chosen(0.04, limit_us), menu.full());
}

#[test]
fn a_host_that_tells_no_power_gets_an_assumed_table() {
    let limits = GroupLimits {
        cores_min: 1,
        cores_max: 4,
        frequency_min: Hertz(1e9),
        frequency_max: Hertz(3e9),
        frequency_steps: vec![],
        idle_cores_sleep: true,
        power: vec![],
        frequency_bound_share: None,
    };
    let assumed = Assumed {
        frequency_bound_share: 0.6,
        core_running_w: 5.0,
        core_static_share: 0.25,
        core_sleeping_share: 0.06,
    };
    let menu = Menu::new(&limits, &assumed);
    let last = menu.points.last().unwrap();
    assert_eq!((last.frequency, last.stretch, last.running_w), (Hertz(3e9), 1.0, 5.0));
    assert!(menu.points.windows(2).all(|pair| pair[0].running_w < pair[1].running_w));
}
