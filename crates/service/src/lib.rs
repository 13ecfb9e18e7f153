//! What a program that runs for long shows and takes: a page, metrics, and a control socket; the
//! queue of its loop and its log lines.
//!
//! One thread of its own with one small runtime, so that a slow browser never delays the loop. What
//! reads (page, metrics, `status`) is answered from the last status; what changes something is
//! handed to the loop as a [`ServiceRequest`]. What a status holds is the [`Program`]'s.

mod app_state;
pub mod arguments;
pub mod cli;
pub mod client;
mod connections;
mod events;
mod guard;
mod history;
mod http;
pub mod inbox;
pub mod log;
pub mod metrics;
mod page;
mod protocol;
mod reloaded;
mod shown;
mod socket;
mod socket_file;
pub mod tls;
mod token;
mod write_timeout;

pub use protocol::{Answer, LINE_BYTES_MAX, read_request};
pub use shown::{Publisher, Shown, shown};
pub use socket_file::SocketFile;
pub use token::{Token, TokenError};

use metrics::Family;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use thiserror::Error;
use tokio::sync::{Semaphore, oneshot};

/// A program that is shown and told: what it publishes, and what its operators may ask.
pub trait Program: 'static {
    /// Its name, as in its command line.
    const NAME: &'static str;
    /// What the page shows of a status: a JavaScript module that exports `describe(status)` and
    /// `charts(status)`; `page/render.js` and `page/charts.js` say of what these are made.
    const VIEW: &'static str;
    /// Whether it runs as a user of its own: its socket then belongs to neither root nor who asks.
    const HAS_ITS_OWN_USER: bool;
    /// The requests there are, for messages.
    const ALLOWED: &'static str;
    /// Everything an operator may want to see.
    type Status: Serialize + Send + Sync + 'static;
    /// What charts show of a status, under the names that it has there.
    type Moment: Serialize;
    /// What may be asked over the control socket. Anything else is refused.
    type Request: DeserializeOwned + Send + 'static;

    /// The metrics of a status.
    fn metrics(status: &Self::Status) -> Vec<Family<'_>>;

    /// What the page keeps of a status, when it was (nanoseconds since 1970 in UTC), and of which
    /// kind: moments of one kind only can be in the same charts.
    fn moment(status: &Self::Status) -> (u64, String, Self::Moment);

    /// Whether a request asks for the status, which is answered without the loop.
    fn asks_status(request: &Self::Request) -> bool;
}

/// Where the service listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceSettings {
    /// Address of page and metrics; port 0 takes any free one. `None`: neither.
    pub listen: Option<SocketAddr>,
    /// Host names under which page and metrics answer, besides `localhost` and IP addresses.
    pub host_names: Vec<String>,
    /// The control socket. `None`: no control.
    pub socket: Option<PathBuf>,
    /// The group that may use the control socket, besides its owner.
    pub socket_group: Option<u32>,
    /// With what page and metrics are served by HTTPS; without it by HTTP.
    pub tls: Option<tls::Files>,
    /// The file with the token that page and metrics ask for.
    /// The file may be replaced while it runs; so may certificate and key.
    pub token: Option<PathBuf>,
}

impl ServiceSettings {
    /// Whether certificate, key and token can be used, as at a start.
    ///
    /// # Errors
    /// Which one cannot, and why.
    pub fn check_files(&self) -> Result<(), ServiceError> {
        self.tls.clone().map(tls::of_page).transpose()?;
        self.token.clone().map(token::of_page).transpose()?;
        Ok(())
    }
}

/// An operator's request to the loop, never one for the status.
pub struct ServiceRequest<P: Program> {
    /// The request.
    pub request: P::Request,
    /// Where the answer goes; the client may have left.
    pub reply: oneshot::Sender<Answer<P::Status>>,
}

/// Why the service cannot start.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The address of the page.
    #[error(
        "cannot listen on {address}: {error}; choose another service.listen, or \"off\" to have no page"
    )]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Somebody else answers on the control socket.
    #[error("another {program} answers on {}; stop it, or choose another socket", path.display())]
    Answered {
        /// The program that was to start.
        program: &'static str,
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the socket's name.
    #[error("{} is not a socket and is left alone; choose another path for the control socket", .0.display())]
    NoSocket(PathBuf),
    /// The control socket.
    #[error("cannot {what} the control socket {}: {error}", path.display())]
    Socket {
        /// What failed.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Certificate or key of the page.
    #[error("service.tls: {0}")]
    Tls(tls::TlsError),
    /// The token of the page.
    #[error("service.token: {0}")]
    Token(TokenError),
    /// Thread or runtime.
    #[error("cannot start the thread of page and control socket: {0}")]
    Thread(std::io::Error),
}

// Not as their source: who prints a chain of errors would say them twice.
impl From<tls::TlsError> for ServiceError {
    fn from(error: tls::TlsError) -> Self {
        Self::Tls(error)
    }
}

impl From<TokenError> for ServiceError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl ServiceError {
    /// Whether what was asked for cannot be had, however often it is tried.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Tls(_) | Self::Token(_) | Self::NoSocket(_) => true,
            Self::Socket { error, .. } => arguments::is_bad_path(error),
            Self::Listen { .. } | Self::Answered { .. } | Self::Thread(_) => false,
        }
    }
}

/// Where page and metrics are, and what keeps others out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Their address.
    pub address: SocketAddr,
    has_tls: bool,
    has_token: bool,
}

impl Page {
    /// Where they are, in words.
    #[must_use]
    pub fn place(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("page and metrics on {scheme}://{}/", self.address)
    }

    /// What others can see, if they can.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let is_open = !self.has_token && !is_local(&self.address);
        is_open.then(|| {
            format!(
                "whoever reaches {} can see the page and the metrics; service.tls and \
                 service.token keep others out",
                self.address
            )
        })
    }
}

/// Whether only this host can reach an address.
#[must_use]
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The running service; it ends when dropped.
#[derive(Debug)]
pub struct Service {
    page: Option<Page>,
    /// A permit less for each page that is open.
    streams: Option<Arc<Semaphore>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Sockets that are open before there is anything to be shown: what comes meanwhile waits.
pub struct Opened<P: Program> {
    // Dropped first: the thread then ends.
    begin: oneshot::Sender<app_state::AppState<P>>,
    service: Service,
}

impl<P: Program> Opened<P> {
    /// Serves from a thread of its own.
    #[must_use]
    pub fn serve(mut self, shown: Shown<P>, requests: mpsc::Sender<ServiceRequest<P>>) -> Service {
        let state = app_state::AppState::new(shown, requests);
        self.service.streams = Some(state.streams.clone());
        // If the thread is gone, it has panicked and said so.
        let _ = self.begin.send(state);
        self.service
    }
}

impl Service {
    /// Opens the sockets and serves from a thread of its own.
    ///
    /// # Errors
    /// When a socket cannot be opened; then nothing is left behind.
    pub fn start<P: Program>(
        settings: ServiceSettings,
        shown: Shown<P>,
        requests: mpsc::Sender<ServiceRequest<P>>,
    ) -> Result<Self, ServiceError> {
        Ok(Self::open(settings)?.serve(shown, requests))
    }

    /// Opens the sockets.
    ///
    /// # Errors
    /// When one cannot be opened; then nothing is left behind.
    pub fn open<P: Program>(settings: ServiceSettings) -> Result<Opened<P>, ServiceError> {
        let (stop, stopped) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let tls = settings.tls.clone().map(tls::of_page).transpose()?;
        let token = settings.token.clone().map(token::of_page).transpose()?;
        let (has_tls, has_token) = (tls.is_some(), token.is_some());
        let kept = Kept { tls, token };
        let (opened, open) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("{}-service", P::NAME))
            .spawn(move || run::<P>(&settings, kept, begun, stopped, &opened))
            .map_err(ServiceError::Thread)?;
        let http_address = open.recv().map_err(|_| {
            ServiceError::Thread(std::io::Error::other("it ended before it was ready"))
        })??;
        let page = http_address.map(|address| Page { address, has_tls, has_token });
        let service = Self { page, streams: None, stop: Some(stop), thread: Some(thread) };
        Ok(Opened { begin, service })
    }

    /// Page and metrics, if they are served.
    #[must_use]
    pub fn page(&self) -> Option<Page> {
        self.page
    }

    /// Whether anybody has the page open.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        let free = self.streams.as_ref().map(|streams| streams.available_permits());
        free.is_some_and(|free| free < app_state::STREAMS_MAX)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

/// The thread: opens the sockets, reports that, and serves from the beginning until told to stop. Dropping the runtime
/// ends every connection.
fn run<P: Program>(
    settings: &ServiceSettings,
    kept: Kept,
    begun: oneshot::Receiver<app_state::AppState<P>>,
    stopped: oneshot::Receiver<()>,
    opened: &mpsc::SyncSender<Result<Option<SocketAddr>, ServiceError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(opened.send(Err(ServiceError::Thread(error)))),
    };
    runtime.block_on(async {
        let listeners = match Listeners::open(settings, P::NAME).await {
            Ok(listeners) => listeners,
            Err(error) => return drop(opened.send(Err(error))),
        };
        let address = listeners.page.as_ref().map(|(_, address)| *address);
        let _socket_file = listeners.control.as_ref().map(|control| control.file());
        let _ = opened.send(Ok(address));
        // An error means that there will be nothing to serve.
        let Ok(state) = begun.await else { return };
        if let Some((listener, _)) = listeners.page {
            let router = http::router(&state, settings, kept.token);
            tokio::spawn(http::serve(listener, router, kept.tls, P::NAME));
        }
        if let Some(control) = listeners.control {
            tokio::spawn(control.serve(state));
        }
        // An error means that the sender was dropped, which is the signal to stop.
        let _ = stopped.await;
    });
}

/// What the page is served with, as new as its files.
struct Kept {
    tls: Option<tls::PageIdentity>,
    token: Option<token::PageToken>,
}

/// The open sockets.
struct Listeners {
    page: Option<(tokio::net::TcpListener, SocketAddr)>,
    control: Option<socket::ControlSocket>,
}

impl Listeners {
    async fn open(settings: &ServiceSettings, program: &'static str) -> Result<Self, ServiceError> {
        let page = match settings.listen {
            Some(address) => Some(http::listen(address)?),
            None => None,
        };
        let control = match settings.socket.as_deref() {
            Some(path) => {
                let group = settings.socket_group;
                Some(socket::ControlSocket::open(path, group, program).await?)
            }
            None => None,
        };
        Ok(Self { page, control })
    }
}

/// A failure with the control socket.
fn socket_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ServiceError {
    let path = path.to_owned();
    move |error| ServiceError::Socket { what, path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_where_the_page_is_and_who_can_see_it() {
        let page = |address: &str, has_tls, has_token| {
            let address = address.parse().expect("an address");
            Page { address, has_tls, has_token }
        };
        assert_eq!(
            page("127.0.0.1:1", false, false).place(),
            "page and metrics on http://127.0.0.1:1/"
        );
        assert!(page("127.0.0.1:1", true, false).place().contains(" https://"));
        for local in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(page(local, false, false).warning(), None, "{local}");
        }
        assert!(
            page("0.0.0.0:1", true, false).warning().is_some_and(|told| told.contains("0.0:1"))
        );
        assert_eq!(page("0.0.0.0:1", true, true).warning(), None);
    }
}
