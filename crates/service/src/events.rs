//! `GET /v1/events`: the status at each change, as server-sent events.

use crate::Program;
use crate::app_state::{AppState, STREAMS_MAX};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName, RETRY_AFTER};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use std::convert::Infallible;
use std::time::Duration;

/// A comment is sent after this much silence, to find connections that are gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// The event stream, for a limited number of listeners.
pub(super) async fn events<P: Program>(State(state): State<AppState<P>>) -> Response {
    let Ok(place) = state.streams.clone().try_acquire_owned() else {
        let message = format!("{STREAMS_MAX} are watching already; close a page, try again\n");
        let retry = [(RETRY_AFTER, "10")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, message).into_response();
    };
    let changes = changes(state);
    // The place is free again when the stream goes.
    let stream = unfold((Box::pin(changes), place), |(mut changes, place)| async move {
        let event = futures_util::StreamExt::next(&mut changes).await?;
        Some((event, (changes, place)))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("still here");
    // Proxies that hold answers back until they end would never show an event.
    let headers =
        [(CACHE_CONTROL, "no-store"), (HeaderName::from_static("x-accel-buffering"), "no")];
    (headers, Sse::new(stream).keep_alive(keep_alive)).into_response()
}

/// The status now and at each change. Slow readers miss some, and never delay the others.
fn changes<P: Program>(state: AppState<P>) -> impl Stream<Item = Result<Event, Infallible>> {
    let mut status = state.status.clone();
    status.mark_changed();
    unfold((status, state), |(mut status, state)| async move {
        status.changed().await.ok()?;
        status.borrow_and_update();
        let event = Event::default().retry(RETRY).data(state.last_json());
        Some((Ok(event), (status, state)))
    })
}
