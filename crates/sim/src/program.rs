//! A server description compiled into the flat list of steps that the engine follows.

use wattio_plant::{Path, PathKind, Server, Work};

/// One step of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// A task on a core of a group, in nanoseconds at the highest frequency.
    Core { group: u8, time_ns: f64 },
    /// A read of the request's drive.
    DriveRead { time_ns: f64 },
    /// A write to the request's drive, with the cost of the layout in the time.
    DriveWrite { time_ns: f64 },
    /// The client is answered after this time, and the request goes on.
    Persist { time_ns: u64 },
    /// The client is answered now, and the request goes on.
    Answer,
    /// Nothing follows. Answers the client where no step before did.
    End { answers: bool },
}

/// Where the steps of each kind of request begin.
#[derive(Clone, Debug)]
pub struct Program {
    pub steps: Vec<Step>,
    pub read: u16,
    pub read_hit: u16,
    pub write: u16,
}

impl Program {
    /// Compiles a description that was checked.
    pub fn compile(server: &Server) -> Self {
        let mut steps = Vec::new();
        let mut add = |kind| {
            let start = u16::try_from(steps.len()).unwrap_or(u16::MAX);
            server.path(kind).map(|path| {
                compile_path(server, path, &mut steps);
                start
            })
        };
        let read = add(PathKind::Read).unwrap_or_default();
        let write = add(PathKind::Write).unwrap_or_default();
        let read_hit = add(PathKind::ReadHit).unwrap_or(read);
        Self { steps, read, read_hit, write }
    }
}

fn compile_path(server: &Server, path: &Path, steps: &mut Vec<Step>) {
    let write_cost = server.drives.as_ref().map_or(1.0, |drives| drives.write_cost());
    let mut answered = false;
    for stage in &path.stages {
        let time_ns = stage.time.0 * 1e9;
        steps.push(match &stage.on {
            Work::Group(name) => {
                let group = server.group_index(name).unwrap_or_default();
                Step::Core { group: u8::try_from(group).unwrap_or_default(), time_ns }
            }
            Work::DriveRead => Step::DriveRead { time_ns },
            Work::DriveWrite => Step::DriveWrite { time_ns: time_ns * write_cost },
            Work::Persist => {
                answered = true;
                Step::Persist { time_ns: time_ns.round() as u64 }
            }
            Work::Answer => {
                answered = true;
                Step::Answer
            }
        });
    }
    steps.push(Step::End { answers: !answered });
}
