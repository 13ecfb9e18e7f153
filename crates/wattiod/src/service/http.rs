//! Page and metrics over HTTP/1.

use super::desk::Desk;
use super::socket::ACCEPT_REST;
use super::{ServiceError, events, guard, metrics, page};
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections are open; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
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

/// All there is to ask for.
pub(super) fn router(desk: &Desk, host_names: &[String]) -> Router {
    let live = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/events", get(events::events))
        .route("/metrics", get(show_metrics))
        .with_state(desk.clone());
    guard::guarded(live.merge(page::router()), host_names)
}

async fn status(State(desk): State<Desk>) -> Response {
    ([(CONTENT_TYPE, "application/json")], desk.last_json().to_string()).into_response()
}

async fn show_metrics(State(desk): State<Desk>) -> Response {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&desk.last())).into_response()
}

/// Takes connections for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // An error would mean that the semaphore is closed, which nobody does.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, router.clone(), place))),
            Err(_) => tokio::time::sleep(ACCEPT_REST).await,
        }
    }
}

async fn connection(stream: TcpStream, router: Router, place: OwnedSemaphorePermit) {
    // Events are small and shall not wait for each other; without it they are only late.
    let _ = stream.set_nodelay(true);
    // A browser that leaves in the middle of an answer needs no message.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    drop(place);
}
