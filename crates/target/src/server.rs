//! The target as a whole: opens volumes and sockets, starts reactors, and stops them.

use crate::device::{Device, DeviceError, identity};
use crate::frequency::stay_on;
use crate::handle::Handle;
use crate::log::{Priority, counted, log, of_export};
use crate::normal::Offer;
use crate::open::{Opened, is_wrong_device, open_volume};
use crate::reactor::link::{self, Link};
use crate::reactor::{Halt, Owned, Parts, Reactor, Shared};
use crate::sockets::{ListenError, Listening};
use crate::status::ReactorStatus;
use crate::tls::{Files, Identity, TlsError};
use crate::volume::{Pace, VolumeMemory};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use thiserror::Error;
use wattio_nbd::{Export, Exports, FastZero};
use wattio_ring::Doorbell;
use wattio_service::SocketFile;
use wattio_target_config::{Address, Idle};
use wattio_volume::{OpenError, OpenOptions};

/// Why the target cannot serve.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A volume cannot be opened.
    #[error("{}: {error}", of_export(export))]
    Volume {
        /// Which one.
        export: String,
        /// Why.
        error: OpenError,
    },
    /// One of several devices of a volume is not there, or cannot be filled.
    #[error("{}: {error}", of_export(export))]
    Half {
        /// Of which one.
        export: String,
        /// Why.
        error: DeviceError,
    },
    /// A device beside a volume's is neither new nor of the volume.
    #[error("{}: holds something that is not of the volume; clear it to have it filled", .0.display())]
    Foreign(PathBuf),
    /// More devices are named than the volume has.
    #[error(
        "{}: the volume has {}, and {} is not one of them (a volume is mirrored when it is created)",
        of_export(export),
        counted(*devices as u64, "device"),
        path.display()
    )]
    Surplus {
        /// Which export.
        export: String,
        /// The device that is none of the volume's.
        path: PathBuf,
        /// How many the volume has.
        devices: usize,
    },
    /// One device is named twice.
    #[error(
        "{}: {} is the same device as {}",
        of_export(export),
        path.display(),
        other.display()
    )]
    Same {
        /// Which export.
        export: String,
        /// The device.
        path: PathBuf,
        /// What it was called before, of this export or another one.
        other: PathBuf,
    },
    /// Nobody can connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// What is exported makes no sense.
    #[error(transparent)]
    Export(#[from] wattio_nbd::ExportError),
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Volumes could not be closed.
    #[error("not closed: {}; recovered at the next start", .0.join(", "))]
    NotClosed(Vec<String>),
    /// A reactor could not begin, or stopped.
    #[error("reactor {reactor}: {error}")]
    Reactor {
        /// Which one.
        reactor: usize,
        /// Why.
        error: io::Error,
    },
}

/// Something that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Under which name.
    pub export: String,
    /// Its devices: one, or two that mirror each other.
    pub devices: Vec<PathBuf>,
    /// Whether clients may not write.
    pub is_read_only: bool,
    /// How it is opened.
    pub open: OpenOptions,
}

/// What the target does.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What is served.
    pub volumes: Vec<Volume>,
    /// Where.
    pub listen: Vec<Address>,
    /// How many reactors.
    pub reactors: usize,
    /// The core that each of them stays on; empty: wherever the kernel has them.
    pub cores: Vec<u32>,
    /// What they do when nothing is to be done.
    pub idle: Idle,
    /// How often everything is read.
    pub pace: Pace,
    /// Memory for blocks of each volume.
    pub memory: VolumeMemory,
    /// Who it is to clients that use TLS, and whether those by TCP have to.
    pub tls: Option<(Files, bool)>,
}

impl ServerError {
    /// Whether what was asked for does not fit, however often it is tried.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Device(error) | Self::Half { error, .. } => error.is_bad_input(),
            Self::Volume { error, .. } => is_wrong_device(error),
            Self::Export(_)
            | Self::Tls(_)
            | Self::Same { .. }
            | Self::Surplus { .. }
            | Self::Foreign(_) => true,
            Self::Listen(_) | Self::NotClosed(_) | Self::Reactor { .. } => false,
        }
    }
}

/// The target while it serves. Dropped, it stops at once, as if it had been killed.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Of sockets; removed at the end.
    files: Vec<SocketFile>,
}

impl Server {
    /// Opens everything and begins to serve.
    ///
    /// # Errors
    /// What could not be opened, and why.
    pub fn start(settings: &Settings) -> Result<Self, ServerError> {
        Self::start_on(settings, Listening::open(&settings.listen, Vec::new())?)
    }

    /// The same on sockets that are open: what comes meanwhile waits.
    ///
    /// # Errors
    /// What could not be opened, and why.
    pub fn start_on(settings: &Settings, listening: Listening) -> Result<Self, ServerError> {
        // What can be known to be wrong is said before a volume is touched.
        let can_cache = settings.memory.cache_bytes > 0;
        Exports::new(settings.volumes.iter().map(|one| offered(one, 0, can_cache)).collect())?;
        refuse_same(&settings.volumes)?;
        let tls = settings.tls.as_ref();
        let identity = tls.map(|(files, _)| Identity::read(files)).transpose()?;
        let count = settings.reactors.max(1);
        let (mut exports, mut reactors) = (Vec::new(), Vec::new());
        let mut owned: Vec<Vec<Owned>> = (0..count).map(|_| Vec::new()).collect();
        for (at, wanted) in settings.volumes.iter().enumerate() {
            let Opened { volume, devices, opening } = open_volume(wanted)?;
            exports.push(offered(wanted, volume.bytes(), can_cache));
            let reactor = at % count;
            reactors.push(reactor);
            let descriptor = |device: &Device| device.descriptor();
            let devices = devices.iter().map(|one| one.as_ref().map(descriptor).transpose());
            let devices: io::Result<Vec<_>> = devices.collect();
            owned[reactor].push(Owned {
                number: at,
                export: wanted.export.clone(),
                volume,
                devices: devices.map_err(|error| ServerError::Reactor { reactor, error })?,
                opening,
                pace: settings.pace,
                memory: settings.memory,
            });
        }
        let offer = Offer {
            exports: Exports::new(exports)?,
            reactors: reactors.into(),
            tls: identity,
            is_tls_required: tls.is_some_and(|&(_, is_required)| is_required),
        };
        let Listening { sockets: mut listeners, files } = listening;
        let names = settings.volumes.iter().map(|volume| volume.export.clone());
        let shared = Arc::new(Shared::new(count, names.collect()));
        let mut server = Self { shared, threads: Vec::new(), files };
        let parts = owned.into_iter().enumerate().map(|(number, volumes)| Parts {
            number,
            offer: offer.clone(),
            volumes,
            listeners: if number == 0 { std::mem::take(&mut listeners) } else { Vec::new() },
            idle: settings.idle,
        });
        server.start_reactors(parts.collect(), &settings.cores)?;
        Ok(server)
    }

    fn start_reactors(&mut self, parts: Vec<Parts>, cores: &[u32]) -> Result<(), ServerError> {
        let (ready, is_ready) = channel();
        let mut links = Vec::new();
        for parts in parts {
            let (number, shared, ready) = (parts.number, Arc::clone(&self.shared), ready.clone());
            let core = cores.get(number).copied();
            let (give_links, take_links) = channel();
            links.push(give_links);
            let wrong = |error| ServerError::Reactor { reactor: number, error };
            let run = move || {
                let (shared_too, halt) = (Arc::clone(&shared), Halt::Now);
                let mut guard = Guard { shared: shared_too, number, halt };
                let stays = core.map_or(Ok(()), stay_on);
                let reactor = match stays.and_then(|()| Reactor::new(parts, shared)) {
                    Ok(reactor) => reactor,
                    Err(error) => {
                        let _ = ready.send((number, Err(error)));
                        return Ok(());
                    }
                };
                let _ =
                    ready.send((number, Ok((reactor.ring().doorbell(), reactor.ring().setup()))));
                drop(ready);
                // Nothing comes if another reactor could not begin.
                let ended = take_links.recv().map_or(Ok(()), |links| reactor.run(links));
                if ended.is_ok() {
                    guard.halt = Halt::Orderly;
                }
                ended
            };
            let thread = std::thread::Builder::new().name(format!("reactor {number}"));
            self.threads.push(thread.spawn(run).map_err(wrong)?);
        }
        drop(ready);
        let mut doorbells: Vec<Option<Doorbell>> = vec![None; links.len()];
        for (reactor, begun) in is_ready {
            let (doorbell, setup) =
                begun.map_err(|error| ServerError::Reactor { reactor, error })?;
            doorbells[reactor] = Some(doorbell);
            if reactor == 0 {
                log(Priority::Info, &format!("io_uring: {setup}"));
            }
        }
        let doorbells: Vec<Doorbell> = doorbells.into_iter().flatten().collect();
        self.shared.set_doorbells(doorbells.clone());
        give(links, &doorbells);
        Ok(())
    }

    /// Asks all reactors how they stand. One that does not answer is left out.
    #[must_use]
    pub fn status(&self) -> Vec<ReactorStatus> {
        self.handle().status()
    }

    /// What others may ask and order meanwhile.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why a reactor stopped that should not have, or which volumes could not be closed.
    pub fn wait(mut self) -> Result<(), ServerError> {
        let mut result = Ok(());
        for (reactor, thread) in self.threads.drain(..).enumerate() {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it has panicked")));
            result = result.and(ended.map_err(|error| ServerError::Reactor { reactor, error }));
        }
        self.files.clear();
        let mut failed = self.shared.take_not_closed();
        failed.sort();
        let failed = failed.iter().map(|(export, why)| format!("{} ({why})", of_export(export)));
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() { result } else { result.and(Err(ServerError::NotClosed(failed))) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop(Halt::Now);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A reactor that ends, however it does, takes the others with it: a target of which a part is
/// missing serves nobody.
struct Guard {
    shared: Arc<Shared>,
    number: usize,
    halt: Halt,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.ended(self.number);
        self.shared.stop(self.halt);
    }
}

/// Connects the reactors with each other.
fn give(links: Vec<Sender<Vec<Option<Link>>>>, doorbells: &[Doorbell]) {
    for (ends, links) in link::between(links.len()).into_iter().zip(links) {
        let to = |(ends, doorbell): (Option<_>, &Doorbell)| {
            ends.map(|(to, from)| Link::new(to, from, doorbell.clone()))
        };
        // A reactor that is gone has said why.
        let _ = links.send(ends.into_iter().zip(doorbells).map(to).collect());
    }
}

/// Refuses one device under two names: each of them alone can be locked, and both cannot.
fn refuse_same(volumes: &[Volume]) -> Result<(), ServerError> {
    let mut known: Vec<((bool, u64, u64), &PathBuf)> = Vec::new();
    for volume in volumes {
        for path in &volume.devices {
            // What is not there is told when it is opened.
            let Some(identity) = identity(path) else { continue };
            if let Some((_, other)) = known.iter().find(|(known, _)| *known == identity) {
                let (export, other) = (volume.export.clone(), (*other).clone());
                return Err(ServerError::Same { export, path: path.clone(), other });
            }
            known.push((identity, path));
        }
    }
    Ok(())
}

/// How a volume is offered to clients.
fn offered(volume: &Volume, size_bytes: u64, can_cache: bool) -> Export {
    Export {
        is_read_only: volume.is_read_only,
        can_multi_conn: true,
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        fast_zero: FastZero::Served,
        can_block_status: true,
        can_cache,
        ..Export::new(&volume.export, size_bytes)
    }
}
