//! Page and metrics over HTTP/1.

use super::app_state::AppState;
use super::socket::ACCEPT_REST;
use super::write_timeout::WriteTimeout;
use super::{ServiceError, events, guard, metrics, page};
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections are open; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// How many of one address: a browser has six, and a proxy that asks for many users some more.
const CONNECTIONS_OF_PEER_MAX: usize = 32;
/// How long a connection may take to read anything of an answer.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may take to send its next request's head.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// The most bytes of a request's head; a browser's has about one thousand.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Opens the address of the page.
pub(super) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServiceError> {
    let failed = |error| ServiceError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The routes.
pub(super) fn router(state: &AppState, host_names: &[String]) -> Router {
    let live = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/events", get(events::events))
        .route("/v1/history", get(history))
        .route("/metrics", get(show_metrics))
        .with_state(state.clone());
    guard::guarded(live.merge(page::router()), host_names)
}

async fn status(State(state): State<AppState>) -> Response {
    ([(CONTENT_TYPE, "application/json")], state.last_json().to_string()).into_response()
}

async fn history(State(state): State<AppState>) -> Response {
    ([(CONTENT_TYPE, "application/json")], state.history_json()).into_response()
}

async fn show_metrics(State(state): State<AppState>) -> Response {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&state.last())).into_response()
}

/// Accepts connections for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let peers = Peers::default();
    // An error would mean that the semaphore is closed, which never happens.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Connections beyond the limit are closed silently.
                if let Some(peer) = peers.enter(from.ip()) {
                    tokio::spawn(connection(stream, router.clone(), (place, peer)));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_REST).await,
        }
    }
}

/// How many connections each address has.
#[derive(Clone, Debug, Default)]
struct Peers(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// One of these connections, until it is dropped.
struct Peer {
    peers: Peers,
    address: IpAddr,
}

impl Peers {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more of this address; `None` if it has as many as it may.
    fn enter(&self, address: IpAddr) -> Option<Peer> {
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= CONNECTIONS_OF_PEER_MAX {
            return None;
        }
        *count += 1;
        Some(Peer { peers: self.clone(), address })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut counts = self.peers.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, place: (OwnedSemaphorePermit, Peer)) {
    // Events are small and must not wait for each other; if this fails they are only late.
    let _ = stream.set_nodelay(true);
    // A browser that leaves in the middle of a response is not worth a message.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream, WRITE_WAIT)),
            TowerToHyperService::new(router),
        )
        .await;
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places() {
        let peers = Peers::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut held: Vec<_> = (0..CONNECTIONS_OF_PEER_MAX).map(|_| peers.enter(one)).collect();
        assert!(held.iter().all(Option::is_some) && peers.enter(one).is_none());
        assert!(peers.enter(other).is_some());
        held.pop();
        assert!(peers.enter(one).is_some());
        held.clear();
        assert!(peers.counts().is_empty());
    }
}
