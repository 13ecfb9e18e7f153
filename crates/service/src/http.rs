//! Page and metrics over HTTP/1.

use crate::app_state::AppState;
use crate::metrics::Format;
use crate::places::Places;
use crate::socket::ACCEPT_REST;
use crate::write_timeout::{Patience, Served, WriteTimeout};
use crate::{Program, ServiceError, events, guard, page};
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// How long a connection may take to read anything of an answer, and all of it.
const PATIENCE: Patience =
    Patience { nothing: Duration::from_secs(10), all: Duration::from_secs(60) };
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
pub(super) fn router<P: Program>(state: &AppState<P>, host_names: &[String]) -> Router {
    let live = Router::new()
        .route("/v1/status", get(status::<P>))
        .route("/v1/events", get(events::events::<P>))
        .route("/v1/history", get(history::<P>))
        .route("/metrics", get(metrics::<P>))
        .with_state(state.clone());
    guard::guarded(live.merge(page::router(P::VIEW)), host_names, P::NAME)
}

async fn status<P: Program>(State(state): State<AppState<P>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], state.last_json().to_string()).into_response()
}

async fn history<P: Program>(State(state): State<AppState<P>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], state.history_json()).into_response()
}

async fn metrics<P: Program>(State(state): State<AppState<P>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let text = format.write(&P::metrics(&state.last()));
    ([(CONTENT_TYPE, format.content_type()), (VARY, "accept")], text).into_response()
}

/// Accepts connections for ever.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut places = Places::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        places.make_room(from.ip()).await;
        // Events are small and must not wait for each other; if this fails they are only late.
        let _ = stream.set_nodelay(true);
        let served = Served::now();
        let task = tokio::spawn(connection(stream, router.clone(), served.clone()));
        places.enter(from.ip(), served, task.abort_handle());
    }
}

/// Answers until the other side leaves or is too slow.
async fn connection<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router, served: Served) {
    // A browser that leaves in the middle of a response is not worth a message.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream, PATIENCE, served)),
            TowerToHyperService::new(router),
        )
        .await;
}
