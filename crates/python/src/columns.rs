//! Series of a run as NumPy arrays.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wattio_sim::{Row, Run};

/// The number of the state of laws that have none.
const NO_STATE: f64 = 3.0;

/// The number of what a law was doing: at full speed for whatever reason, saving, or idle.
fn state(mode: &str) -> f64 {
    match mode {
        "stable" | "saving" => 1.0,
        "idle" => 2.0,
        _ => 0.0,
    }
}

/// A column for each quantity of the latency windows; NaN where a value is absent.
pub fn windows<'py>(py: Python<'py>, run: &Run, groups: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let add = |name: &str, value: &dyn Fn(&Row) -> f64| {
        columns.set_item(name, PyArray1::from_iter(py, run.rows().iter().map(value)))
    };
    let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
    add("start_s", &|row| row.start_s)?;
    add("span_s", &|row| row.span_s)?;
    add("ios", &|row| row.ios as f64)?;
    add("latency_us_mean", &|row| known(row.latency_us_mean))?;
    add("latency_us_p99", &|row| known(row.latency_us_p99))?;
    add("energy_j", &Row::energy_j)?;
    add("energy_cores_j", &|row| row.energy_cores_j)?;
    add("energy_drives_j", &|row| row.energy_drives_j)?;
    add("energy_rest_j", &|row| row.energy_rest_j)?;
    add("cores_active_mean", &|row| row.cores_active_mean)?;
    add("frequency_hz_mean", &|row| known(row.frequency_hz_mean))?;
    add("utilisation", &|row| known(row.utilisation))?;
    add("background_rate", &|row| row.background_rate)?;
    add("state", &|row| row.mode.map_or(NO_STATE, state))?;
    for (at, group) in groups.iter().enumerate() {
        add(&format!("cores_{group}"), &|row| row.cores_by_group[at])?;
    }
    Ok(columns)
}

type Histograms<'py> =
    (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u64>>);

/// The windows' histograms, flattened: offsets, upper edges in microseconds, counts.
pub fn window_histograms<'py>(py: Python<'py>, run: &Run) -> Histograms<'py> {
    let histograms = run.histograms();
    let mut offsets = Vec::with_capacity(histograms.len() + 1);
    let mut total = 0;
    offsets.push(total);
    for buckets in histograms.bucket_counts() {
        total += u64::from(buckets);
        offsets.push(total);
    }
    let edges_us = histograms.buckets().map(|bucket| bucket.latency_ns as f64 / 1e3);
    let counts = histograms.buckets().map(|bucket| bucket.count);
    (
        PyArray1::from_vec(py, offsets),
        PyArray1::from_vec(py, edges_us.collect()),
        PyArray1::from_vec(py, counts.collect()),
    )
}

/// The histogram of the whole run: upper edges in microseconds, counts.
pub fn histogram<'py>(
    py: Python<'py>,
    run: &Run,
) -> (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u64>>) {
    let recorded: Vec<_> = run
        .histogram()
        .iter_recorded()
        .map(|bucket| {
            (bucket.value_iterated_to() as f64 / 1e3, bucket.count_since_last_iteration())
        })
        .collect();
    (
        PyArray1::from_iter(py, recorded.iter().map(|&(edge_us, _)| edge_us)),
        PyArray1::from_iter(py, recorded.iter().map(|&(_, count)| count)),
    )
}
