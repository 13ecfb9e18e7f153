//! The kernel's side effects of taking cores off, on a folder that is shaped like a host.
//!
//! As seen on Linux 6.18 with version 1 control groups: a core that leaves is struck from all sets
//! and does not return to them, a set is not given cores that are off, and a thread that may run on
//! that core only may run everywhere from then on. The governor `userspace` forgets what it was told
//! (Linux 6.1), an interrupt that only went there stays where it is sent, and the files of cores that
//! are all off are busy.

use super::cpus;
use super::tree::{CPU, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wattio_governor::{Address, Cpus, Machine, MachineError, MachineView};
use wattio_host::machine::Masks;

/// The masks of processes, by address.
pub type Affinities = Arc<Mutex<BTreeMap<Address, Masks>>>;

pub struct Kernel {
    pub linux: Box<dyn Machine>,
    pub root: wattio_host::Root,
    /// Files of processors of version 1 control groups.
    pub sets: Vec<Address>,
    pub affinities: Affinities,
    /// The caps that were asked for, by file, where the firmware may allow less.
    pub caps: Caps,
    /// Whether a limit changed that does not show before it is waited for.
    pub late: Arc<AtomicBool>,
}

/// What was asked of each `scaling_max_freq`, in kHz.
pub type Caps = Arc<Mutex<BTreeMap<String, u32>>>;

/// What a cap shows: what was asked for, or less where the firmware limits it.
pub fn show_cap(root: &wattio_host::Root, path: &str, asked: u32) {
    let limit = path.replace("scaling_max_freq", "bios_limit");
    let limit = root.read(&limit).ok().and_then(|text| text.parse().ok());
    let shown = limit.map_or(asked, |limit: u32| asked.min(limit));
    root.write(path, &shown.to_string()).unwrap();
}

impl Kernel {
    pub fn new(tree: &Tree, sets: &[&str], affinities: &Affinities) -> Self {
        let set = |folder: &&str| Address::new("cpuset", &format!("{folder}/cpuset.cpus"));
        Self {
            linux: tree.machine(),
            root: tree.root(),
            sets: sets.iter().map(set).collect(),
            affinities: Arc::clone(affinities),
            caps: Caps::default(),
            late: Arc::default(),
        }
    }

    fn online(&self) -> Cpus {
        cpus(&self.root.read(&format!("{CPU}/online")).unwrap())
    }

    fn gone(address: &Address) -> MachineError {
        MachineError::Gone { address: address.clone() }
    }

    fn refused(address: &Address, message: &str) -> MachineError {
        let (address, message) = (address.clone(), message.to_owned());
        MachineError::Refused { address, message }
    }

    /// Whether a file belongs to cores that are all off.
    fn is_busy(&self, address: &Address) -> bool {
        let inner =
            address.rest().strip_prefix(CPU).and_then(|r| r.strip_prefix("/cpufreq/policy"));
        let policy = inner.and_then(|r| r.split('/').next()?.parse::<u32>().ok());
        policy.is_some_and(|first| {
            !self.online().contains(first) && !self.online().contains(first + 4)
        })
    }

    fn plug(&mut self, cpu: u32, on: bool) {
        let one = Cpus::from_iter([cpu]);
        let online = self.online();
        let online = if on { online.or(&one) } else { online.without(&one) };
        self.root.write(&format!("{CPU}/online"), &online.to_string()).unwrap();
        let policy = format!("{CPU}/cpufreq/policy{}", cpu % 4);
        let alone = !online.contains((cpu + 4) % 8);
        if on
            && alone
            && self.root.read(&format!("{policy}/scaling_governor")).unwrap() == "userspace"
        {
            self.root.write(&format!("{policy}/scaling_setspeed"), "2600000").unwrap();
        }
        if on {
            return;
        }
        for irq in self.root.list("/proc/irq") {
            let file = format!("/proc/irq/{irq}/smp_affinity_list");
            if cpus(&self.root.read(&file).unwrap()).and(&online).is_empty() {
                self.root.write(&file, &online.to_string()).unwrap();
            }
        }
        for set in &self.sets {
            let left = cpus(&self.linux.read(set).unwrap()).without(&one);
            self.root.write(set.rest(), &left.to_string()).unwrap();
        }
        for masks in self.affinities.lock().unwrap().values_mut() {
            *masks = masks.map(|mask| {
                let left = mask.and(&online);
                if left.is_empty() { online.clone() } else { left }
            });
        }
    }
}

impl MachineView for Kernel {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        if self.is_busy(address) {
            return Err(Self::refused(address, "busy"));
        }
        if address.scheme() != "affinity" {
            return self.linux.read(address);
        }
        let masks = self.affinities.lock().unwrap().get(address).map(ToString::to_string);
        masks.ok_or_else(|| Self::gone(address))
    }

    fn same(&self, address: &Address, one: &str, other: &str) -> bool {
        self.linux.same(address, one, other)
    }

    fn took(&self, address: &Address, value: &str, found: &str) -> bool {
        self.linux.took(address, value, found)
    }

    fn is_limited(&self, address: &Address, value: &str, found: &str) -> bool {
        self.linux.is_limited(address, value, found)
    }

    fn unlimited(&self, address: &Address, found: String) -> String {
        self.linux.unlimited(address, found)
    }

    fn is_side_effect(&self, address: &Address, original: &str, found: &str) -> bool {
        self.linux.is_side_effect(address, original, found)
    }

    fn marks(&self, address: &Address, original: &str, value: &str) -> BTreeSet<String> {
        match address.scheme() {
            "affinity" => BTreeSet::new(),
            _ => self.linux.marks(address, original, value),
        }
    }

    fn may_alter(&self, address: &Address) -> bool {
        self.linux.may_alter(address)
    }

    fn put_back(
        &mut self,
        address: &Address,
        original: &str,
        marks: &BTreeSet<String>,
        found: &str,
    ) -> String {
        match address.scheme() {
            "affinity" => original.to_owned(),
            _ => self.linux.put_back(address, original, marks, found),
        }
    }

    fn outlives_boot(&self, address: &Address) -> bool {
        self.linux.outlives_boot(address)
    }

    fn restore_command(&self, address: &Address, value: &str) -> String {
        self.linux.restore_command(address, value)
    }
}

impl Machine for Kernel {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        let online = self.online();
        let refused = |message: &str| Self::refused(address, message);
        if self.is_busy(address) {
            return Err(refused("busy"));
        }
        if address.scheme() == "affinity" {
            let mut all = self.affinities.lock().unwrap();
            let masks = all.get_mut(address).ok_or_else(|| Self::gone(address))?;
            let wanted: Masks = value.parse().map_err(|error: String| refused(&error))?;
            *masks = wanted.map(|mask| mask.and(&online));
            return Ok(());
        }
        if address.scheme() == "cpuset" && !cpus(value).without(&online).is_empty() {
            return Err(refused("cores that are off"));
        }
        let folder = address.rest().strip_suffix("/online");
        let cpu = folder.and_then(|f| f.strip_prefix(CPU)?.strip_prefix("/cpu")?.parse().ok());
        if let Some(cpu) = cpu {
            self.plug(cpu, value == "1");
        }
        self.linux.write(address, value)?;
        if address.rest().ends_with("/scaling_max_freq") {
            let asked = value.parse().unwrap();
            self.caps.lock().unwrap().insert(address.rest().to_owned(), asked);
            show_cap(&self.root, address.rest(), asked);
        }
        Ok(())
    }

    /// Shows a cap as the firmware limits it by now.
    fn settle(&mut self, address: &Address, _value: &str) {
        let asked = self.caps.lock().unwrap().get(address.rest()).copied();
        if let Some(asked) = asked.filter(|_| self.late.swap(false, Relaxed)) {
            show_cap(&self.root, address.rest(), asked);
        }
    }
}
