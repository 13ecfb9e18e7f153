//! A command that runs as long as somebody reads it, and is restarted when it ends.

use crate::machine::program::{ended, stop};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;
use wattio_files::printable_line;
use wattio_units::Seconds;

/// The longest line that is read.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How much of the last line of its complaints is told when it ends.
const COMPLAINT_CHARS_MAX: usize = 200;

/// How many parts of its complaints are read once it has ended.
const REST_PARTS_MAX: usize = 32;

/// From the end of the output to the end of the command.
const ENDING_MAX: Seconds = Seconds(1.0);

/// How long to wait before a command is started again: doubled each time, up to the most.
#[derive(Clone, Copy, Debug)]
pub(in crate::sources) struct BackOff {
    pub first: Duration,
    pub most: Duration,
}

/// Output of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A line that is text.
    Line(String),
    /// The command failed, or printed something that is not a line of text.
    Failure(String),
}

/// Runs the command again and again until the other end of `stopped` is dropped. `handle` returns
/// whether the output made sense, which resets the back-off.
pub(super) fn listen(
    mut command: Command,
    back_off: BackOff,
    stopped: &UnixStream,
    mut handle: impl FnMut(Output) -> bool,
) {
    let mut wait = back_off.first;
    loop {
        let mut sense = false;
        let ended = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(child) => {
                let mut running = Running(child);
                let ended = running.listen(stopped, |heard| sense |= handle(heard));
                let Some(ended) = ended else { return };
                ended
            }
            Err(error) => format!("cannot be started: {error}"),
        };
        wait = if sense { back_off.first } else { wait };
        handle(Output::Failure(format!("{ended}; it is started again in {wait:?}")));
        if has_stopped(stopped, wait) {
            return;
        }
        wait = (wait * 2).min(back_off.most);
    }
}

/// A running command; killed with everything it started when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

impl Running {
    /// How the command ended; `None` when nobody listens any more.
    fn listen(&mut self, stopped: &UnixStream, mut handle: impl FnMut(Output)) -> Option<String> {
        let Some(mut stdout) = self.0.stdout.take() else { return Some("has no output".into()) };
        let mut complaints = Complaints::of(self.0.stderr.take());
        let mut lines = Lines::default();
        let mut part = [0; 4 << 10];
        loop {
            let ready = ready(&stdout, complaints.from.as_ref(), stopped)?;
            // Why it ends is read before its end.
            if ready.complaint {
                complaints.read();
            }
            if !ready.output {
                continue;
            }
            match stdout.read(&mut part) {
                Ok(0) => break,
                Ok(count) => lines.take(part.get(..count).unwrap_or_default(), &mut handle),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Some(format!("cannot be read: {error}")),
            }
        }
        // It may only have closed its output; then it is of no use any more.
        let ended = ended(&self.0, ENDING_MAX).unwrap_or(false);
        // No more than a pipe holds: what it left running may complain on.
        (0..REST_PARTS_MAX).take_while(|_| complaints.read()).for_each(drop);
        let last = complaints.last.map(|last| format!(" and said {last:?}")).unwrap_or_default();
        match self.0.try_wait() {
            Ok(Some(status)) if ended => Some(format!("ended with {status}{last}")),
            _ => Some(format!("closed its output{last}")),
        }
    }
}

/// What a command prints to stderr: it is passed on to the daemon's own, in lines that steer no
/// terminal, and the last one may say why it ends.
struct Complaints {
    from: Option<ChildStderr>,
    lines: Lines,
    last: Option<String>,
}

impl Complaints {
    fn of(from: Option<ChildStderr>) -> Self {
        // One that cannot be read without waiting is not read.
        let from = from.filter(|from| rustix::io::ioctl_fionbio(from, true).is_ok());
        Self { from, lines: Lines::default(), last: None }
    }

    /// Reads a part of what is there; whether there was any.
    fn read(&mut self) -> bool {
        let Some(from) = &mut self.from else { return false };
        let mut part = [0; 4 << 10];
        let count = match from.read(&mut part) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => 0,
        };
        if count == 0 {
            self.from = None;
            return false;
        }
        let last = &mut self.last;
        self.lines.take(part.get(..count).unwrap_or_default(), &mut |output| {
            let Output::Line(line) = output else { return };
            let _ = writeln!(std::io::stderr(), "{}", printable_line(&line));
            if !line.trim().is_empty() {
                *last = Some(line.trim().chars().take(COMPLAINT_CHARS_MAX).collect());
            }
        });
        true
    }
}

/// What there is to read.
struct Ready {
    /// Output, or its end.
    output: bool,
    complaint: bool,
}

/// Waits until there is something to read; `None` when nobody listens any more.
fn ready(
    output: &ChildStdout,
    complaints: Option<&ChildStderr>,
    stopped: &UnixStream,
) -> Option<Ready> {
    loop {
        let mut all = vec![PollFd::new(stopped, PollFlags::IN), PollFd::new(output, PollFlags::IN)];
        all.extend(complaints.map(|complaints| PollFd::new(complaints, PollFlags::IN)));
        match poll(&mut all, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        }
        let is_ready = |at: usize| all.get(at).is_some_and(|one| !one.revents().is_empty());
        if is_ready(0) {
            return None;
        }
        if is_ready(1) || is_ready(2) {
            return Some(Ready { output: is_ready(1), complaint: is_ready(2) });
        }
    }
}

fn has_stopped(stopped: &UnixStream, wait: Duration) -> bool {
    let wait = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    // A signal ends the wait early, which does no harm.
    poll(&mut [PollFd::new(stopped, PollFlags::IN)], Some(&wait)).is_ok_and(|ready| ready > 0)
}

/// Bytes on their way to lines.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    too_long: bool,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], handle: &mut impl FnMut(Output)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            if self.begun.len() + text.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.begun.clear();
            }
            if !self.too_long {
                self.begun.extend_from_slice(text);
            }
            if ends {
                handle(self.end());
            }
        }
    }

    fn end(&mut self) -> Output {
        let bytes = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.too_long) {
            return Output::Failure(format!("a line is longer than {LINE_BYTES_MAX} bytes"));
        }
        match String::from_utf8(bytes) {
            Ok(line) => Output::Line(line),
            Err(_) => Output::Failure("a line is not UTF-8".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(parts: &[&[u8]]) -> Vec<Output> {
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        for part in parts {
            lines.take(part, &mut |line| heard.push(line));
        }
        heard
    }

    #[test]
    fn lines_are_found_in_any_parts() {
        let line = |text: &str| Output::Line(text.to_owned());
        assert_eq!(lines(&[b"a", b"b\nc\n\nd"]), [line("ab"), line("c"), line("")]);
        let long = vec![b'x'; LINE_BYTES_MAX];
        let heard = lines(&[&long, b"y", b"z\nnext\n\xff\n"]);
        assert!(matches!(&heard[0], Output::Failure(why) if why.contains("longer")));
        assert_eq!(heard[1], line("next"));
        assert!(matches!(&heard[2], Output::Failure(why) if why.contains("UTF-8")));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, at: usize) {
            let (one, other) = bytes.split_at(at % (bytes.len() + 1));
            prop_assert_eq!(lines(&[one, other]), lines(&[&bytes]));
        }
    }
}
