//! A stream with a limit on how long the other side may not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that breaks off with [`io::ErrorKind::TimedOut`] once nothing could be written to it
/// for the given time: a client that never reads would keep its place for ever.
pub(super) struct WriteTimeout<S> {
    stream: S,
    write_timeout: Duration,
    /// Since when nothing could be written, and when that is too long.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub fn new(stream: S, write_timeout: Duration) -> Self {
        Self { stream, write_timeout, stuck: None }
    }

    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let write_timeout = self.write_timeout;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
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
        self.judge(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Time that passes at once where all wait for it.
    fn in_no_time<T>(what: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(what)
    }

    #[test]
    fn who_never_reads_is_left() {
        in_no_time(async {
            let (here, _there) = tokio::io::duplex(16);
            let mut here = WriteTimeout::new(here, Duration::from_secs(10));
            let error = here.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn who_reads_slowly_is_waited_for() {
        in_no_time(async {
            let (here, mut there) = tokio::io::duplex(16);
            let mut here = WriteTimeout::new(here, Duration::from_secs(10));
            let reads = async {
                for _ in 0..64 {
                    sleep(Duration::from_secs(9)).await;
                    there.read_u8().await.unwrap();
                }
            };
            let (written, ()) = tokio::join!(here.write_all(&[0; 64]), reads);
            written.unwrap();
        });
    }
}
