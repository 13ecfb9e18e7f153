//! What every knob and source must do, whatever machine it turns or watches.

#[path = "../../../governor/tests/conformance/mod.rs"]
mod body;
mod cpu;
mod drives;
mod here;
mod here_sources;
mod kernel;
mod kills;
mod limited;
mod served;
mod sources;
mod threads;
mod tree;

use body::knobs::Store;
use body::{CpuBody, LatencyBody, Subject, Used, cpus, full_speed, idle, setting};
