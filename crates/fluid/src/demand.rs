//! What a mix of requests asks of a server: work for each request, group by group.

use crate::setting::Setting;
use wattio_plant::{GROUPS_MAX, Path, PathKind, Server, Work};

/// The mix of requests of a stretch of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Share of requests at random addresses, 0 to 1.
    pub random_share: f64,
    /// Mean size of a request in bytes.
    pub bytes_mean: f64,
}

/// Sums over the tasks of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tasks {
    /// How many there are.
    pub count: f64,
    /// Their time in seconds at the highest frequency.
    pub time_s: f64,
    /// The sum of the squares of their mean times, in square seconds.
    pub square_s2: f64,
}

/// One kind of request: a read that a drive answers, one that the cache answers, a write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Class {
    /// Its share of all requests.
    pub share: f64,
    /// Whether it reads.
    pub is_read: bool,
    /// What the client waits for, by group.
    pub waited: [Tasks; GROUPS_MAX],
    /// Drive requests that the client waits for, at full awake speed.
    pub drives_waited: Tasks,
    /// Network and persisting, in seconds.
    pub fixed_s: f64,
    /// A bit for each group to which its tasks come back from a drive.
    pub returns: u8,
}

/// What one request of a mix asks for, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The mix.
    pub mix: Mix,
    /// The kinds of request in it.
    pub classes: [Class; 3],
    /// All tasks, waited for or not, by group.
    pub groups: [Tasks; GROUPS_MAX],
    /// All requests to drives.
    pub drives: Tasks,
}

impl Tasks {
    fn add(&mut self, share: f64, time_s: f64) {
        self.count += share;
        self.time_s += share * time_s;
        self.square_s2 += share * time_s * time_s;
    }

    /// Mean time of a task in seconds; 0 where there is none.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        if self.count > 0.0 { self.time_s / self.count } else { 0.0 }
    }

    /// Squared coefficient of variation of a task's time, where each task's own is `variation`.
    #[must_use]
    pub fn variation_squared(&self, variation: f64) -> f64 {
        if self.time_s <= 0.0 {
            return 0.0;
        }
        self.square_s2 * (1.0 + variation * variation) * self.count / (self.time_s * self.time_s)
            - 1.0
    }
}

impl Class {
    /// What it takes at least with a setting, in seconds: the constant part of every task.
    #[must_use]
    pub fn least_s(&self, server: &Server, setting: &Setting) -> f64 {
        let drives = server.drives.as_ref().map_or(0.0, |drives| drives.time_variation);
        let tasks = self.waited.iter().zip(&setting.stretch);
        let cores_s: f64 = tasks.map(|(tasks, stretch)| tasks.time_s * stretch).sum();
        self.fixed_s
            + self.drives_waited.time_s * (1.0 - drives)
            + cores_s * (1.0 - server.cores.time_variation)
    }

    /// Whether its tasks come back to a group from a drive.
    #[must_use]
    pub fn returns_to(&self, group: usize) -> bool {
        self.share > 0.0 && self.returns & (1 << group) != 0
    }
}

impl Demand {
    /// Walks the paths of a server that was checked.
    #[must_use]
    pub fn of(server: &Server, mix: Mix) -> Self {
        let (read, random) = (mix.read_share, mix.random_share);
        let cache = &server.cache;
        let hit = random * cache.hit_random + (1.0 - random) * cache.hit_sequential;
        let shares = [
            (PathKind::Read, read * (1.0 - hit)),
            (PathKind::ReadHit, read * hit),
            (PathKind::Write, 1.0 - read),
        ];
        let mut demand = Self {
            mix,
            classes: [Class::default(); 3],
            groups: [Tasks::default(); GROUPS_MAX],
            drives: Tasks::default(),
        };
        for (at, (kind, share)) in shares.into_iter().enumerate() {
            // Without a path of their own, hits take that of reads, as in the simulator.
            let path = server.path(kind).or_else(|| server.path(PathKind::Read));
            let is_read = kind != PathKind::Write;
            let start = Class { share, is_read, fixed_s: server.network.0, ..Class::default() };
            demand.classes[at] = start;
            if let Some(path) = path {
                demand.walk(server, path, at);
            }
        }
        demand
    }

    fn walk(&mut self, server: &Server, path: &Path, class: usize) {
        let relative = self.mix.bytes_mean / server.sizing.reference.0;
        let grown = |share: f64| 1.0 - share + share * relative;
        let core_factor = grown(server.sizing.core_share);
        let drive_factor = server.drives.as_ref().map_or(1.0, |drives| grown(drives.size_share));
        let write_cost = server.drives.as_ref().map_or(1.0, |drives| drives.write_cost());
        let share = self.classes[class].share;
        let (mut waits, mut from_drive) = (true, false);
        for stage in &path.stages {
            let class = &mut self.classes[class];
            let time_s = stage.time.0;
            match &stage.on {
                Work::Group(name) => {
                    let at = server.group_index(name).unwrap_or_default();
                    self.groups[at].add(share, time_s * core_factor);
                    class.returns |= u8::from(from_drive) << at;
                    from_drive = false;
                    class.waited[at].add(f64::from(u8::from(waits)), time_s * core_factor);
                }
                Work::DriveRead | Work::DriveWrite => {
                    let cost = if stage.on == Work::DriveWrite { write_cost } else { 1.0 };
                    let time_s = time_s * drive_factor * cost;
                    self.drives.add(share, time_s);
                    from_drive = true;
                    class.drives_waited.add(f64::from(u8::from(waits)), time_s);
                }
                Work::Persist => {
                    class.fixed_s += time_s;
                    waits = false;
                }
                Work::Answer => waits = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_plant::DORADO6000;

    #[test]
    fn work_of_a_mix_is_the_sum_of_its_stages() {
        let server = Server::from_toml(DORADO6000).unwrap();
        let mix = Mix { read_share: 0.7, random_share: 1.0, bytes_mean: 8192.0 };
        let demand = Demand::of(&server, mix);
        let miss = 0.7 * 0.9;
        // normal: 60 us for every read, 82 us for a write; kv: 27 us but for hits.
        assert!((demand.groups[0].time_s - (0.7 * 60e-6 + 0.3 * 82e-6)).abs() < 1e-12);
        assert!((demand.groups[1].time_s - (miss + 0.3) * 27e-6).abs() < 1e-12);
        // Whoever writes has its answer once the write is persistent.
        let write = demand.classes[2];
        assert_eq!((write.waited[1].count, write.drives_waited.count), (0.0, 0.0));
        assert!((write.fixed_s - 50e-6).abs() < 1e-12);
        assert!((demand.drives.time_s - (miss * 80e-6 + 0.3 * 200e-6 * 24.0 / 22.0)).abs() < 1e-12);
    }
}
