//! A stream with a limit on how long the other side may not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long the other side is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// While it reads nothing.
    pub nothing: Duration,
    /// Until it has read all that was written before the next flush.
    pub all: Duration,
}

/// When the last answer was given as a whole, or the connection came.
#[derive(Clone, Debug)]
pub(super) struct Served(Arc<Mutex<Instant>>);

impl Served {
    pub fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn done(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A stream that breaks off with [`io::ErrorKind::TimedOut`] where the other side reads nothing, or
/// not all, in time: it would keep its place for ever.
pub(super) struct WriteTimeout<S> {
    stream: S,
    patience: Patience,
    served: Served,
    /// While nothing can be written: until when that is waited for.
    stuck: Option<Pin<Box<Sleep>>>,
    /// From the first write to the flush: until when that is waited for.
    unread: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub fn new(stream: S, patience: Patience, served: Served) -> Self {
        Self { stream, patience, served, stuck: None, unread: None }
    }

    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let Patience { nothing, all } = self.patience;
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(all)));
        let mut late = unread.as_mut().poll(context).is_ready();
        if written.is_ready() {
            self.stuck = None;
        } else {
            let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(nothing)));
            late |= stuck.as_mut().poll(context).is_ready();
        }
        if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { written }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if self.unread.is_none() {
            return flushed;
        }
        let flushed = self.judge(flushed, context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.unread = None;
            self.served.done();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(shut, context)
    }
}

/// Runs a test in time that passes at once where all wait for it.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may")]
pub(super) fn in_no_time<T>(what: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const PATIENCE: Patience =
        Patience { nothing: Duration::from_secs(10), all: Duration::from_secs(60) };

    #[test]
    fn who_never_reads_is_left() {
        in_no_time(async {
            let (here, _there) = tokio::io::duplex(16);
            let mut here = WriteTimeout::new(here, PATIENCE, Served::now());
            let began = Instant::now();
            let error = here.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed().as_secs(), 10);
        });
    }

    /// Writes 64 bytes, of which the other side reads one after each pause.
    async fn write_to_who_reads_every(pause: Duration) -> (io::Result<()>, Duration) {
        let (here, mut there) = tokio::io::duplex(16);
        let mut here = WriteTimeout::new(here, PATIENCE, Served::now());
        let began = Instant::now();
        let reads = async {
            for _ in 0..64 {
                sleep(pause).await;
                there.read_u8().await?;
            }
            io::Result::Ok(())
        };
        let write = async {
            let written = here.write_all(&[0; 64]).await;
            let flushed = written.and(here.flush().await);
            drop(here);
            (flushed, began.elapsed())
        };
        let (written, _) = tokio::join!(write, reads);
        written
    }

    #[test]
    fn who_reads_slowly_is_waited_for() {
        in_no_time(async {
            write_to_who_reads_every(Duration::from_millis(900)).await.0.unwrap();
        });
    }

    /// A client that read one byte every nine seconds kept its place for hours.
    #[test]
    fn who_reads_a_byte_now_and_then_is_left_in_the_end() {
        in_no_time(async {
            let (written, took) = write_to_who_reads_every(Duration::from_secs(9)).await;
            assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert_eq!(took.as_secs(), 60);
        });
    }

    #[test]
    fn an_answer_is_served_when_all_of_it_is_written_and_not_before() {
        in_no_time(async {
            let (here, mut there) = tokio::io::duplex(16);
            let served = Served::now();
            let came = served.last();
            let mut here = WriteTimeout::new(here, PATIENCE, served.clone());
            sleep(Duration::from_secs(5)).await;
            here.flush().await.unwrap();
            assert_eq!(served.last(), came, "nothing was written");
            here.write_all(&[0; 16]).await.unwrap();
            assert_eq!(served.last(), came, "there may be more");
            here.flush().await.unwrap();
            assert_eq!((served.last() - came).as_secs(), 5);
            there.read_u8().await.unwrap();
        });
    }
}
