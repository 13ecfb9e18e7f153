//! What the daemon shows and is told: the status page, metrics, and the control socket.
//!
//! One thread of its own with one small runtime, so that a slow browser never delays a step. What
//! reads (page, metrics, `status`) is answered from the last [`Status`]; what changes something is
//! handed to the loop as a [`ServiceRequest`].

pub mod client;
mod desk;
mod events;
mod guard;
mod history;
mod http;
mod metrics;
mod page;
mod patience;
mod protocol;
mod socket;

pub use metrics::{CONTENT_TYPE as METRICS_CONTENT_TYPE, text as metrics_text};
pub use protocol::{LINE_BYTES_MAX, read_request};

use crate::control::{Answer, Request};
use crate::status::Status;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use wattio_host::config::PORT;

/// Where the service is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Address of page and metrics; port 0 takes any free one. `None`: neither.
    pub listen: Option<SocketAddr>,
    /// Names that page and metrics may be asked for under, besides `localhost` and IP addresses.
    pub host_names: Vec<String>,
    /// The control socket. `None`: no control.
    pub socket: Option<PathBuf>,
    /// The group that may use the control socket, besides its owner.
    pub socket_group: Option<u32>,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))),
            host_names: Vec::new(),
            socket: None,
            socket_group: None,
        }
    }
}

/// What an operator wants of the loop.
#[derive(Debug)]
pub struct ServiceRequest {
    /// The request; never [`Request::Status`].
    pub request: Request,
    /// Where the answer goes; who asked may have left.
    pub reply: oneshot::Sender<Answer>,
}

/// Why the service cannot start.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The address of the page.
    #[error(
        "cannot listen on {address}: {error}; choose another service.listen, or \"off\" to have no page"
    )]
    Listen {
        /// What was wanted.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// Somebody answers on the control socket.
    #[error("another wattiod answers on {}; stop it, or choose another socket", .0.display())]
    Answered(PathBuf),
    /// Something else has the socket's name.
    #[error("{} is no socket and stays; choose another path for the control socket", .0.display())]
    NoSocket(PathBuf),
    /// The control socket.
    #[error("cannot {what} the control socket {}: {error}", path.display())]
    Socket {
        /// What failed.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Thread or runtime.
    #[error("cannot start the thread of page and control socket: {0}")]
    Thread(std::io::Error),
}

/// The running service; it ends when dropped.
#[derive(Debug)]
pub struct Service {
    http_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Opens the sockets and serves from a thread of its own.
    ///
    /// # Errors
    /// Where a socket cannot be opened; then nothing is left behind.
    pub fn start(
        settings: ServiceSettings,
        status: watch::Receiver<Arc<Status>>,
        requests: mpsc::Sender<ServiceRequest>,
    ) -> Result<Self, ServiceError> {
        let (stop, stopped) = oneshot::channel();
        let (opened, open) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("wattiod-service".to_owned())
            .spawn(move || run(&settings, desk::Desk::new(status, requests), stopped, &opened))
            .map_err(ServiceError::Thread)?;
        let http_address = open.recv().map_err(|_| {
            ServiceError::Thread(std::io::Error::other("it ended before it was ready"))
        })??;
        Ok(Self { http_address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where page and metrics are to be had.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}

/// The thread: opens, says so, serves until told to stop. Dropping the runtime ends every
/// connection where it stands.
fn run(
    settings: &ServiceSettings,
    desk: desk::Desk,
    stopped: oneshot::Receiver<()>,
    opened: &mpsc::SyncSender<Result<Option<SocketAddr>, ServiceError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(opened.send(Err(ServiceError::Thread(error)))),
    };
    runtime.block_on(async {
        let doors = match Doors::open(settings).await {
            Ok(doors) => doors,
            Err(error) => return drop(opened.send(Err(error))),
        };
        let address = doors.page.as_ref().map(|(_, address)| *address);
        let _door = doors.control.as_ref().map(|control| control.file());
        let _ = opened.send(Ok(address));
        tokio::spawn(desk.clone().remember());
        if let Some((listener, _)) = doors.page {
            tokio::spawn(http::serve(listener, http::router(&desk, &settings.host_names)));
        }
        if let Some(control) = doors.control {
            tokio::spawn(control.serve(desk));
        }
        // An error is the sender dropped: that is how it is told.
        let _ = stopped.await;
    });
}

/// What is open.
struct Doors {
    page: Option<(tokio::net::TcpListener, SocketAddr)>,
    control: Option<socket::ControlSocket>,
}

impl Doors {
    async fn open(settings: &ServiceSettings) -> Result<Self, ServiceError> {
        let page = match settings.listen {
            Some(address) => Some(http::listen(address).await?),
            None => None,
        };
        let control = match settings.socket.as_deref() {
            Some(path) => Some(socket::ControlSocket::open(path, settings.socket_group).await?),
            None => None,
        };
        Ok(Self { page, control })
    }
}

/// A failure around the control socket.
fn socket_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ServiceError {
    let path = path.to_owned();
    move |error| ServiceError::Socket { what, path, error }
}
