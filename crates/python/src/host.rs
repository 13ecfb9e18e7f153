//! The host as Python may measure and turn it: meters, held knobs, the daemon's configuration.

use crate::error::Fault;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wattio_files::plain;
use wattio_governor::{
    Address, Assignment, FileStore, Note, RestorableWriter, Restored, Saved, Target,
};
use wattio_host::lock::Lock;
use wattio_host::power::sampler::{Sampled, Sampler};
use wattio_host::power::{Meter, Meters};
use wattio_host::{DaemonConfig, LinuxMachine, Root};
use wattio_target_config::Config as TargetConfig;
use wattio_units::{Seconds, Watts};

create_exception!(
    wattio._core,
    HostError,
    PyException,
    "The host lacks what was asked for, or refuses: which place, why, and how to fix it."
);

/// By whom the snapshot says that a place was written to.
const KNOB: &str = "python";

/// Who holds the lock panicked; what it guards is no worse than before.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    HostError::new_err(plain(error))
}

/// Checks a configuration of `wattiod`, without looking at any host.
#[pyfunction]
pub fn check_daemon_config(text: &str, path: &str) -> PyResult<()> {
    let checked = DaemonConfig::from_toml(text);
    checked.map(|_| ()).map_err(|error| Fault::new(format!("{path}: {error}")).into())
}

/// Checks a configuration of `wattio-target`, without looking at devices; the exports' names.
#[pyfunction]
pub fn check_target_config(text: &str, path: &str) -> PyResult<Vec<String>> {
    let checked = TargetConfig::from_toml(text);
    let config = checked.map_err(|error| Fault::new(format!("{path}: {error}")))?;
    Ok(config.exports.into_iter().map(|export| export.name).collect())
}

/// The power meters of the host, also those that cannot be read now.
#[pyfunction]
#[pyo3(signature = (root=PathBuf::from("/")))]
pub fn power_meters(py: Python<'_>, root: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let found = py.detach(|| Meters::find(&Root::new(root)));
    let told = |meter: wattio_host::power::MeterInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", meter.name)?;
        dict.set_item("what", meter.what)?;
        dict.set_item("trouble", meter.problem)?;
        Ok(dict)
    };
    found.into_iter().map(told).collect()
}

/// An open power meter.
#[pyclass(frozen)]
pub struct PowerMeter {
    meter: Arc<Mutex<Meter>>,
    opened: Instant,
}

#[pymethods]
impl PowerMeter {
    #[new]
    #[pyo3(signature = (name, root=PathBuf::from("/")))]
    fn new(name: &str, root: PathBuf) -> PyResult<Self> {
        let meter = Meters::open(&Root::new(root), name).map_err(refused)?;
        Ok(Self { meter: Arc::new(meter.into()), opened: Instant::now() })
    }

    #[getter]
    fn name(&self) -> String {
        open(&self.meter).name().to_owned()
    }

    fn read(&self, py: Python<'_>) -> PyResult<Option<(f64, f64)>> {
        let reading = py.detach(|| {
            let mut meter = open(&self.meter);
            meter.read(Seconds(self.opened.elapsed().as_secs_f64()))
        });
        let reading = reading.map_err(refused)?;
        Ok(reading.map(|reading| (reading.power_w, reading.energy_j_since_open)))
    }
}

/// Meters that are sampled many times a second by a thread of their own.
#[pyclass(frozen)]
pub struct PowerSampler(Mutex<Sampler>);

#[pymethods]
impl PowerSampler {
    #[new]
    fn new(
        meters: Vec<(Bound<'_, PowerMeter>, PathBuf, bool)>,
        period_s: f64,
        power_w_max: f64,
    ) -> PyResult<Self> {
        let sampled = |(meter, path, counts_energy): (Bound<'_, PowerMeter>, PathBuf, bool)| {
            let file = OpenOptions::new().append(true).open(&path);
            let file = file.map_err(|error| refused(format!("{}: {error}", path.display())))?;
            let meter = meter.get();
            let (most, opened) = (Watts(power_w_max), meter.opened);
            Ok(Sampled { meter: Arc::clone(&meter.meter), opened, counts_energy, most, file })
        };
        let sampled = meters.into_iter().map(sampled).collect::<PyResult<_>>()?;
        if !(1e-6..=1.0).contains(&period_s) {
            return Err(
                Fault::new(format!("period is {period_s} s; allowed is 1 us to 1 s")).into()
            );
        }
        // In range, as was just checked.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let period_ns = (period_s * 1e9) as u32;
        Ok(Self(Sampler::start(sampled, period_ns).into()))
    }

    fn fates(&self) -> Vec<(i64, u64, Option<String>)> {
        let sampler = open(&self.0);
        let statuses = sampler.statuses().iter();
        statuses.map(|status| (status.newest_ns(), status.missed(), status.failure())).collect()
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| open(&self.0).stop());
    }
}

/// Places of the host that are written to, and put back.
#[pyclass(frozen)]
pub struct HeldKnobs {
    writer: Mutex<RestorableWriter>,
    restored_at_open: Vec<String>,
    /// Dropped after the writer, which restores.
    _locks: (Lock, Option<Lock>),
}

#[pymethods]
impl HeldKnobs {
    #[new]
    fn new(py: Python<'_>, root: PathBuf, snapshot_path: PathBuf) -> PyResult<Self> {
        let root = Root::new(root);
        let machine = LinuxMachine::new(root.clone(), &[]).map_err(refused)?;
        let boot_id = root.read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let folder = snapshot_path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let lock = Lock::take(folder.unwrap_or(Path::new("."))).map_err(refused)?;
        let host_lock = Lock::take_host(&root).map_err(refused)?;
        let store = Box::new(FileStore::new(snapshot_path));
        let opened = py.detach(|| RestorableWriter::open(Box::new(machine), store, &boot_id));
        let (writer, earlier) = opened.map_err(refused)?;
        let restored_at_open = told(&earlier)?;
        Ok(Self { writer: writer.into(), restored_at_open, _locks: (lock, host_lock) })
    }

    #[getter]
    fn restored_at_open(&self) -> Vec<String> {
        self.restored_at_open.clone()
    }

    fn read(&self, py: Python<'_>, address: &str) -> PyResult<String> {
        let address = parsed(address)?;
        py.detach(|| open(&self.writer).look().read(&address)).map_err(refused)
    }

    fn write(&self, py: Python<'_>, address: &str, value: &str) -> PyResult<()> {
        let address = parsed(address)?;
        py.detach(|| write(&mut open(&self.writer), &address, value)).map_err(refused)
    }

    fn restore(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let restored = py.detach(|| open(&self.writer).restore()).map_err(refused)?;
        told(&restored)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.restore(py).map(|_| ())
    }
}

fn parsed(text: &str) -> PyResult<Address> {
    match text.split_once(':') {
        Some((scheme, rest)) if !scheme.is_empty() => Ok(Address::new(scheme, rest)),
        _ => {
            let message =
                "is not an address: it must be a scheme and a place, such as file:/sys/...";
            Err(Fault::new(format!("{text:?} {message}")).into())
        }
    }
}

/// Writes a value, and says why where it does not stand there afterwards.
fn write(writer: &mut RestorableWriter, address: &Address, value: &str) -> Result<(), String> {
    let target = Target::Set(value.to_owned());
    let assignment = Assignment { address: address.clone(), target, endangers: Vec::new() };
    let applied = writer.apply(KNOB, &[assignment]);
    if let Some(note) = applied.notes.into_iter().next() {
        return Err(match note {
            Note::Failed { message, .. } => message,
            Note::Foreign { address, written, found, .. } => format!(
                "{address} was set to {written:?} and is now {found:?}: somebody else changed it, \
                 and it is left alone from now on"
            ),
        });
    }
    // Nothing is written to a place that is gone, or that was left to somebody else before.
    let found = writer.look().read(address).map_err(|error| error.to_string())?;
    if writer.look().took(address, value, &found) {
        return Ok(());
    }
    if writer.look().is_limited(address, value, &found) {
        let why = "heat, the firmware or the kernel allows no more for now";
        return Err(format!("{address} was set to {value:?} and shows {found:?}: {why}"));
    }
    Err(format!("{address} is {found:?} because somebody else changed it, and was left alone"))
}

/// The places that were put back; an error where some could not be.
fn told(restored: &Restored) -> PyResult<Vec<String>> {
    if restored.left.is_empty() {
        let place = |saved: &Saved| saved.address.to_string();
        return Ok(restored.restored.iter().map(place).collect());
    }
    let left = restored.left.iter().map(|left| {
        format!(
            "not restored: {}; it should be {:?}; by hand: {}",
            left.message, left.saved.value, left.restore_command
        )
    });
    Err(refused(left.collect::<Vec<_>>().join("\n")))
}
