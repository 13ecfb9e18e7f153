//! The target as a whole: opens volumes and sockets, starts reactors, and stops them.

use crate::device::{Device, DeviceError, PATIENCE, RETRY};
use crate::handle::Handle;
use crate::log::{Priority, log};
use crate::normal::Offer;
use crate::open::{Opened, open_volume};
use crate::reactor::link::{self, Link};
use crate::reactor::{Halt, Idle, Listener, Owned, Parts, Reactor, Shared};
use crate::status::Status;
use crate::tls::{Files, Identity, TlsError};
use crate::volume::{Pace, VolumeMemory};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use thiserror::Error;
use wattio_nbd::{Export, Exports, FastZero};
use wattio_ring::Doorbell;
use wattio_volume::{OpenError, OpenOptions};

/// Why the target cannot serve.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A volume cannot be opened.
    #[error("export `{export}`: {error}")]
    Volume {
        /// Which one.
        export: String,
        /// Why.
        error: OpenError,
    },
    /// A device beside a volume's is neither new nor of the volume.
    #[error("{}: holds something that is not of the volume; clear it to have it filled", .0.display())]
    Foreign(PathBuf),
    /// A socket cannot be opened.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which one.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// There is no socket of systemd's.
    #[error(
        "listen: \"systemd\" has no socket: the target was not started by a socket unit; start \
         that too, as with `systemctl start wattio-target.socket`, or name an address"
    )]
    NotPassed,
    /// Nobody would accept what comes by sockets of systemd's.
    #[error(
        "listen: systemd passed {0} sockets and \"systemd\" is not in the list: add it, or disable \
         the socket unit"
    )]
    Unasked(usize),
    /// Another process listens there.
    #[error("cannot listen on {}: another process does", .0.display())]
    Answered(PathBuf),
    /// Something that is not a socket is in its place.
    #[error("cannot listen on {}: it is there and is not a socket", .0.display())]
    NoSocket(PathBuf),
    /// What is exported makes no sense.
    #[error(transparent)]
    Export(#[from] wattio_nbd::ExportError),
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A reactor could not begin, or stopped.
    #[error("reactor {reactor}: {error}")]
    Reactor {
        /// Which one.
        reactor: usize,
        /// Why.
        error: io::Error,
    },
}

/// Where connections come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A UNIX socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// The sockets that systemd passes to the service that they start.
    Systemd,
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
    /// What they do when nothing is to be done.
    pub idle: Idle,
    /// How often everything is read.
    pub pace: Pace,
    /// Memory for blocks of each volume.
    pub memory: VolumeMemory,
    /// Who it is to clients that use TLS, and whether those by TCP have to.
    pub tls: Option<(Files, bool)>,
}

/// The target while it serves. Dropped, it stops at once, as if it had been killed.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Sockets whose files are removed at the end.
    sockets: Vec<SocketFile>,
    began: Instant,
}

impl Server {
    /// Opens everything and begins to serve.
    ///
    /// # Errors
    /// What could not be opened, and why.
    pub fn start(settings: &Settings) -> Result<Self, ServerError> {
        Self::start_on(settings, Vec::new())
    }

    /// The same, with the sockets that [`crate::activation`] found.
    ///
    /// # Errors
    /// What could not be opened, and why.
    pub fn start_on(settings: &Settings, passed: Vec<Listener>) -> Result<Self, ServerError> {
        match (passed.len(), settings.listen.contains(&Address::Systemd)) {
            (0, true) => return Err(ServerError::NotPassed),
            (count @ 1.., false) => return Err(ServerError::Unasked(count)),
            _ => {}
        }
        let count = settings.reactors.max(1);
        let (mut exports, mut reactors) = (Vec::new(), Vec::new());
        let mut owned: Vec<Vec<Owned>> = (0..count).map(|_| Vec::new()).collect();
        for (at, wanted) in settings.volumes.iter().enumerate() {
            let Opened { volume, devices } = open_volume(wanted)?;
            exports.push(offered(wanted, volume.bytes(), settings.memory.cache_bytes > 0));
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
                pace: settings.pace,
                memory: settings.memory,
            });
        }
        let tls = settings.tls.as_ref();
        let offer = Offer {
            exports: Exports::new(exports)?,
            reactors: reactors.into(),
            tls: tls.map(|(files, _)| Identity::read(files)).transpose()?,
            is_tls_required: tls.is_some_and(|&(_, is_required)| is_required),
        };
        let (mut listeners, mut sockets) = (passed, Vec::new());
        for address in &settings.listen {
            listeners.extend(listen(address, &mut sockets)?);
        }
        let shared = Arc::new(Shared::new(count));
        let mut server = Self { shared, threads: Vec::new(), sockets, began: Instant::now() };
        let parts = owned.into_iter().enumerate().map(|(number, volumes)| Parts {
            number,
            offer: offer.clone(),
            volumes,
            listeners: if number == 0 { std::mem::take(&mut listeners) } else { Vec::new() },
            idle: settings.idle,
        });
        server.start_reactors(parts.collect())?;
        Ok(server)
    }

    fn start_reactors(&mut self, parts: Vec<Parts>) -> Result<(), ServerError> {
        let (ready, is_ready) = channel();
        let mut links = Vec::new();
        for parts in parts {
            let (number, shared, ready) = (parts.number, Arc::clone(&self.shared), ready.clone());
            let (give_links, take_links) = channel();
            links.push(give_links);
            let wrong = |error| ServerError::Reactor { reactor: number, error };
            let run = move || {
                let (shared_too, halt) = (Arc::clone(&shared), Halt::Now);
                let mut guard = Guard { shared: shared_too, number, halt };
                let reactor = match Reactor::new(parts, shared) {
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
    pub fn status(&self) -> Status {
        self.handle().status()
    }

    /// What others may ask and order meanwhile.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared), self.began)
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why a reactor stopped that should not have.
    pub fn wait(mut self) -> Result<(), ServerError> {
        let mut result = Ok(());
        for (reactor, thread) in self.threads.drain(..).enumerate() {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it has panicked")));
            result = result.and(ended.map_err(|error| ServerError::Reactor { reactor, error }));
        }
        self.sockets.clear();
        result
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

/// The socket of an address; none for those that were passed.
fn listen(address: &Address, files: &mut Vec<SocketFile>) -> Result<Option<Listener>, ServerError> {
    match address {
        Address::Systemd => Ok(None),
        Address::Tcp(tcp) => {
            let failed = |error| ServerError::Listen { address: tcp.to_string(), error };
            let socket = TcpListener::bind(tcp).map_err(failed)?;
            Ok(Some(Listener { socket: socket.into(), is_tcp: true }))
        }
        Address::Unix(path) => {
            let (socket, file) = listen_unix(path)?;
            files.push(file);
            Ok(Some(Listener { socket: socket.into(), is_tcp: false }))
        }
    }
}

/// A socket's file, removed at the end.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on a UNIX socket, in the place of one that nobody listens on any more.
///
/// # Errors
/// When somebody does, or something else is there.
pub fn listen_unix(path: &Path) -> Result<(UnixListener, SocketFile), ServerError> {
    let failed = |error| ServerError::Listen { address: path.display().to_string(), error };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ServerError::NoSocket(path.to_owned()));
        }
        Ok(_) => {
            let until = Instant::now() + PATIENCE;
            loop {
                match UnixStream::connect(path) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => break,
                    Err(error) => return Err(failed(error)),
                    // Perhaps the kernel still closes the socket of a process that was killed.
                    Ok(_) if Instant::now() < until => std::thread::sleep(RETRY),
                    Ok(_) => return Err(ServerError::Answered(path.to_owned())),
                }
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    Ok((listener, SocketFile(path.to_owned())))
}
