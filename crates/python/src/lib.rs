//! Conversions between Python and the Rust crates, and nothing else.

mod columns;
mod error;
mod fleet;
mod host;
mod oracle;
mod power;
mod probe;
mod spec;

use error::Fault;
use pyo3::prelude::*;

/// A callback that gets the share done and says whether to go on.
fn watcher(progress: Option<Py<PyAny>>, failed: &mut Option<PyErr>) -> impl FnMut(f64) -> bool {
    move |share| {
        let Some(callback) = &progress else { return true };
        let answer = Python::attach(|py| callback.call1(py, (share,))?.is_truthy(py));
        answer.unwrap_or_else(|error| {
            *failed = Some(error);
            false
        })
    }
}

/// Runs what takes a progress callback; an exception of the callback goes before its own error.
fn watched<T>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(f64) -> bool) -> Result<T, Fault> + Send,
) -> PyResult<T>
where
    T: Send,
{
    let mut failed = None;
    let result = py.detach(|| work(&mut watcher(progress, &mut failed)));
    match failed {
        Some(error) => Err(error),
        None => Ok(result?),
    }
}

/// The native module of wattio.
#[pymodule(name = "_core")]
mod core {
    use super::error::Fault;
    use super::{columns, spec, watched};
    use numpy::PyArray1;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;
    use std::path::{Path, PathBuf};
    use wattio_control::Settings;
    use wattio_plant::Server;
    use wattio_sim::Run;
    use wattio_trace::{Reading, TraceError};
    use wattio_units::{Bytes, Hertz, Joules, Seconds, Watts};

    #[pymodule_export]
    use super::error::InputError;
    #[pymodule_export]
    use super::host::{
        HeldKnobs, HostError, PowerMeter, PowerSampler, check_daemon_config, check_target_config,
        power_meters,
    };
    #[pymodule_export]
    use super::power::{PowerModel, assumed_power_model};

    /// The most bounds that the oracle keeps at once.
    #[pymodule_export]
    const ORACLE_BOUNDS_MAX: usize = wattio_sim::oracle::BOUNDS_MAX;

    /// Hours of a mean year.
    #[pymodule_export]
    const YEAR_H: f64 = wattio_host::price::YEAR_H;

    /// The version of the native module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Reads `"10 ms"` into its SI base unit.
    #[pyfunction]
    fn parse_quantity(text: &str, kind: &str) -> PyResult<f64> {
        let value = match kind {
            Watts::KIND => text.parse::<Watts>().map(|power| power.0),
            Joules::KIND => text.parse::<Joules>().map(|energy| energy.0),
            Hertz::KIND => text.parse::<Hertz>().map(|frequency| frequency.0),
            Seconds::KIND => text.parse::<Seconds>().map(|span| span.0),
            Bytes::KIND => text.parse::<Bytes>().map(|size| size.0),
            _ => return Err(Fault::new(format!("there is no quantity {kind:?}")).into()),
        };
        Ok(value.map_err(Fault::from)?)
    }

    /// The server descriptions that come with wattio: `{name: TOML text}`.
    #[pyfunction]
    fn built_in_servers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let servers = PyDict::new(py);
        for (name, text) in wattio_plant::BUILT_IN {
            servers.set_item(name, text)?;
        }
        Ok(servers)
    }

    /// Validates a server description; returns it resolved, as JSON.
    #[pyfunction]
    fn check_server(text: &str) -> PyResult<String> {
        let server = Server::from_toml(text).map_err(Fault::from)?;
        Ok(serde_json::to_string(&server).map_err(Fault::from)?)
    }

    /// All policies and their hyperparameters, as JSON.
    #[pyfunction]
    fn policies() -> PyResult<String> {
        let all: serde_json::Map<_, _> = wattio_control::policies()
            .into_iter()
            .map(|policy| Ok((policy.name.to_owned(), serde_json::to_value(policy.table)?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(Fault::from)?;
        Ok(serde_json::to_string(&all).map_err(Fault::from)?)
    }

    /// Validates the settings of a policy; returns all its parameters as a JSON object.
    #[pyfunction]
    fn check_policy(name: &str, settings: &str) -> PyResult<String> {
        let settings: Settings = serde_json::from_str(settings)
            .map_err(|error| Fault::new(format!("settings of {name}: {error}")))?;
        let policy = wattio_control::policy(name).map_err(Fault::from)?;
        let resolved = policy.resolve(&settings).map_err(Fault::from)?;
        Ok(serde_json::to_string(&resolved).map_err(Fault::from)?)
    }

    /// Reads a bound on latency as users write it; returns its parts as a JSON object.
    #[pyfunction]
    fn check_bound(text: &str) -> PyResult<String> {
        Ok(spec::bound_json(text)?)
    }

    /// Highest rate that closed-loop clients reach at full speed, in I/Os per second.
    #[pyfunction]
    fn saturated_iops(
        py: Python<'_>,
        server: &str,
        pattern: &str,
        clients: u32,
        seed: u64,
    ) -> PyResult<f64> {
        Ok(py.detach(|| spec::saturated_iops(server, pattern, clients, seed))?)
    }

    /// One simulated run.
    #[pyclass(frozen)]
    struct Simulation {
        run: std::sync::Mutex<Run>,
        groups: Vec<String>,
    }

    impl Simulation {
        fn run(&self) -> std::sync::MutexGuard<'_, Run> {
            // A panic while advancing leaves a run that is no worse than one that was cut short.
            self.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    #[pymethods]
    impl Simulation {
        #[new]
        fn new(spec: &str) -> PyResult<Self> {
            let spec = spec::Spec::from_json(spec)?;
            let server = Server::from_toml(&spec.server).map_err(Fault::from)?;
            let groups = server.groups.into_iter().map(|group| group.name).collect();
            Ok(Self { run: spec.run()?.into(), groups })
        }

        fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<f64> {
            Ok(py.detach(|| self.run().advance(seconds)).map_err(Fault::from)?)
        }

        fn record_steps(&self) {
            self.run().record_steps();
        }

        fn steps(&self) -> PyResult<String> {
            Ok(super::probe::steps_json(&self.run())?)
        }

        fn summary(&self) -> PyResult<String> {
            Ok(serde_json::to_string(&self.run().summary()).map_err(Fault::from)?)
        }

        fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            columns::windows(py, &self.run(), &self.groups)
        }

        #[allow(clippy::type_complexity, reason = "a tuple of three arrays for Python")]
        fn window_histograms<'py>(
            &self,
            py: Python<'py>,
        ) -> (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u64>>)
        {
            columns::window_histograms(py, &self.run())
        }

        #[allow(clippy::type_complexity, reason = "a tuple of two arrays for Python")]
        fn latency_histogram<'py>(
            &self,
            py: Python<'py>,
        ) -> (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u64>>) {
            columns::histogram(py, &self.run())
        }
    }

    /// A control law by itself: observations in, actions out.
    #[pyclass]
    struct Law(super::probe::Probe);

    #[pymethods]
    impl Law {
        #[new]
        fn new(server: &str, name: &str, settings: &str) -> PyResult<Self> {
            Ok(Self(super::probe::Probe::new(server, name, settings)?))
        }

        fn set_bounds(&mut self, bounds: Vec<String>) -> PyResult<()> {
            Ok(self.0.set_bounds(&bounds)?)
        }

        fn step(&mut self, observation: &str, dt_s: f64) -> PyResult<String> {
            Ok(self.0.step(observation, dt_s)?)
        }
    }

    /// Plans the best settings for a load that is known beforehand; returns the run that follows
    /// the plan, and the plan as JSON; nothing when `progress` returned False.
    #[pyfunction]
    #[pyo3(name = "oracle", signature = (spec, options, progress=None))]
    fn plan_by_oracle(
        py: Python<'_>,
        spec: &str,
        options: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<(Simulation, String)>> {
        let planned = watched(py, progress, |watch| super::oracle::plan(spec, options, watch))?;
        Ok(planned.map(|(run, groups, plan)| (Simulation { run: run.into(), groups }, plan)))
    }

    /// Runs a batch of fluid servers under one policy; JSON of their totals, or nothing when
    /// `progress` returned False.
    #[pyfunction]
    #[pyo3(signature = (batch, progress=None))]
    fn run_fleet(
        py: Python<'_>,
        batch: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<String>> {
        watched(py, progress, |watch| super::fleet::run(batch, watch))
    }

    /// How a trace is to be read, by the name of a format or a description of columns.
    fn reading(format: Option<&str>, columns: Option<&str>) -> PyResult<Reading> {
        Ok(Reading::new(format, columns).map_err(Fault::from)?)
    }

    /// Checks the name of a format and a description of columns.
    #[pyfunction]
    fn check_trace_reading(format: Option<&str>, columns: Option<&str>) -> PyResult<()> {
        reading(format, columns).map(drop)
    }

    /// What a trace holds, as a JSON object.
    #[pyfunction]
    #[pyo3(signature = (path, progress=None, format=None, columns=None))]
    fn trace_info(
        py: Python<'_>,
        path: PathBuf,
        progress: Option<Py<PyAny>>,
        format: Option<&str>,
        columns: Option<&str>,
    ) -> PyResult<String> {
        let reading = reading(format, columns)?;
        watched(py, progress, |watch| {
            wattio_trace::info_json(&path, &reading, watch)
                .map_err(|error| Fault::in_file(&path, &error))
        })
    }

    /// Rate and mix of requests of each segment of a trace, as a JSON array.
    #[pyfunction]
    #[pyo3(signature = (path, segment_s, progress=None, format=None, columns=None))]
    fn trace_segments(
        py: Python<'_>,
        path: PathBuf,
        segment_s: f64,
        progress: Option<Py<PyAny>>,
        format: Option<&str>,
        columns: Option<&str>,
    ) -> PyResult<String> {
        let reading = reading(format, columns)?;
        watched(py, progress, |watch| {
            wattio_trace::segments_json(&path, &reading, segment_s, watch)
                .map_err(|error| Fault::in_file(&path, &error))
        })
    }

    /// Writes a trace in another format; returns the number of records.
    #[pyfunction]
    #[pyo3(signature = (
        source, target, form, rate_scale=1.0, time_scale=1.0, progress=None, format=None,
        columns=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords on Python's side")]
    fn trace_convert(
        py: Python<'_>,
        source: PathBuf,
        target: PathBuf,
        form: &str,
        rate_scale: f64,
        time_scale: f64,
        progress: Option<Py<PyAny>>,
        format: Option<&str>,
        columns: Option<&str>,
    ) -> PyResult<u64> {
        let reading = reading(format, columns)?;
        let form = form.parse().map_err(|error| Fault::new(format!("{error}")))?;
        let (source, target): (&Path, &Path) = (&source, &target);
        watched(py, progress, |watch| {
            wattio_trace::convert(source, &reading, target, form, rate_scale, time_scale, watch)
                .map_err(|error| match error {
                    // Of whichever of the two it is.
                    TraceError::File { .. } => error.into(),
                    _ => Fault::in_file(source, &error),
                })
        })
    }
}
