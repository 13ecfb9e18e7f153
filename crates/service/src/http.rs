//! Page and metrics over HTTP/1.

use crate::app_state::AppState;
use crate::connections::Connections;
use crate::log::{Priority, log};
use crate::metrics::Format;
use crate::socket::ACCEPT_REST;
use crate::tls::PageIdentity;
use crate::token::PageToken;
use crate::write_timeout::{Patience, Served, WriteTimeout};
use crate::{Program, ServiceError, ServiceSettings, events, guard, page};
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// How long a connection may take to read anything of an answer, and all of it.
const PATIENCE: Patience =
    Patience { nothing: Duration::from_secs(10), all: Duration::from_secs(60) };
/// How long a connection may take to send its next request's head, and before it to agree on TLS.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// The most bytes that the kernel keeps for a connection that does not read; it takes twice as much
/// memory for them. A page that is open reads some kilobytes with each step.
const UNREAD_BYTES_MAX: u32 = 64 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// The most bytes of a request's head; a browser's has about one thousand.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Opens the address of the page.
pub(super) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServiceError> {
    let failed = |error| ServiceError::Listen { address, error };
    let listener = bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Connections have it from the listener.
    socket.set_send_buffer_size(UNREAD_BYTES_MAX)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The routes.
pub(super) fn router<P: Program>(
    state: &AppState<P>,
    settings: &ServiceSettings,
    token: Option<PageToken>,
) -> Router {
    let live = Router::new()
        .route("/v1/status", get(status::<P>))
        .route("/v1/events", get(events::events::<P>))
        .route("/v1/history", get(history::<P>))
        .route("/metrics", get(metrics::<P>))
        .with_state(state.clone());
    guard::guarded(live.merge(page::router(P::VIEW)), &settings.host_names, token, P::NAME)
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
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<PageIdentity>,
    program: &'static str,
) {
    let mut connections = Connections::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        connections.make_room(from.ip()).await;
        // Events are small and must not wait for each other; if this fails they are only late.
        let _ = stream.set_nodelay(true);
        let served = Served::now();
        let acceptor = tls.as_ref().map(|tls| acceptor(tls, program));
        let task = tokio::spawn(accepted(stream, acceptor, router.clone(), served.clone()));
        connections.enter(from.ip(), served, task.abort_handle());
    }
}

/// With the certificate that the files hold now, or held before where that is wrong.
fn acceptor(tls: &PageIdentity, program: &str) -> TlsAcceptor {
    let (identity, error) = tls.current();
    if let Some(error) = error {
        let message = format!("service.tls: {error}; the page keeps the certificate that it had");
        log(program, Priority::Error, &message);
    }
    TlsAcceptor::from(identity.config())
}

/// Agrees on TLS first where the page has it. Whoever does not, or is too slow, is left.
async fn accepted(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    served: Served,
) {
    let Some(acceptor) = acceptor else { return connection(stream, router, served).await };
    if let Ok(Ok(stream)) = timeout(HEAD_WAIT, acceptor.accept(stream)).await {
        connection(stream, router, served).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream};

    /// A page that never read its events was sent them for minutes, until the kernel had taken
    /// megabytes, and held a place that long.
    #[test]
    fn the_kernel_takes_little_for_who_never_reads() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let (listener, address) = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
            let silent = TcpStream::connect(address).unwrap();
            (listener.accept().await.unwrap().0.into_std().unwrap(), silent)
        });
        let mut taken = 0;
        while let Ok(bytes) = (&stream.0).write(&[b'x'; 4096]) {
            taken += bytes;
        }
        assert!(taken < 400_000, "{taken} bytes");
    }
}
