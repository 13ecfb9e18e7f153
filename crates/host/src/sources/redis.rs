//! Latency of commands of a Redis or Valkey server, from its own statistics.
//!
//! `INFO commandstats` counts calls and microseconds of each command. This is the time that the
//! server worked on it. It does NOT include the network, or the time that a command waits for its
//! turn (one thread serves all clients). With fewer cores or a lower frequency the work itself
//! takes longer, which shows here; a queue in front of it does not.

use super::differences::{Differences, Totals};
use super::polled::{Polled, at_least, interval};
use super::unix_socket::{ANSWER_BYTES_MAX, connect, explain};
use crate::{Root, Stopwatch};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// The longest first line of an answer.
const HEAD_BYTES_MAX: u64 = 4 << 10;
/// Commands that this source sends itself.
const OWN: [&str; 2] = ["info", "auth"];

/// The table `kind = "redis"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The server's address. Default: `"127.0.0.1:6379"`. Allowed: an address with a port, or the
    /// absolute path of the server's socket.
    #[serde(default = "server_default")]
    pub server: String,
    /// The user to log in as. Default: the server's default user. Allowed: a user of the server,
    /// together with `password_file`.
    pub user: Option<String>,
    /// A file with the password on its first line. Allowed: an absolute path.
    pub password_file: Option<String>,
    /// How often to query. Default: half a window, at most `"250 ms"`. Allowed: at least 1 ms.
    pub interval: Option<Seconds>,
    /// How long to wait for an answer. Default: `"1 s"`. Allowed: at least 1 ms.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn server_default() -> String {
    "127.0.0.1:6379".to_owned()
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

/// The counters in the answer to `INFO commandstats`.
///
/// # Errors
/// Says what makes no sense in it.
pub fn parse(text: &str) -> Result<Totals, String> {
    let (mut requests, mut sum_us, mut found) = (0u64, 0u64, false);
    for line in text.lines() {
        let Some((command, counts)) =
            line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        found = true;
        if OWN.contains(&command) {
            continue;
        }
        let count = |name: &str| {
            let mut pairs = counts.split(',').filter_map(|pair| pair.split_once('='));
            let value =
                pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok());
            value.ok_or_else(|| format!("its commandstats have no {name} of {command:?}"))
        };
        requests = requests.saturating_add(count("calls")?);
        sum_us = sum_us.saturating_add(count("usec")?);
    }
    if !found && !text.contains("# Commandstats") {
        return Err("its answer has no commandstats: is it a Redis server?".to_owned());
    }
    Ok(Totals { requests, latency_us_sum: Some(sum_us as f64), ..Totals::default() })
}

/// A connection.
trait Line: Read + Write + Send {}
impl<T: Read + Write + Send> Line for T {}

/// The server, asked where it may take a moment.
struct Server {
    name: String,
    root: Root,
    config: Config,
    kept: Option<BufReader<Box<dyn Line>>>,
    differences: Differences,
}

/// Checks the keys that do not need the host.
///
/// # Errors
/// The key, and what is allowed.
pub(super) fn check(config: &Config) -> Result<(), (&'static str, String)> {
    let is_port = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let place = config.server.rsplit_once(':');
    let is_place = place.is_some_and(|(host, port)| !host.is_empty() && is_port(port));
    if !config.server.starts_with('/') && !is_place {
        let message = format!(
            "{:?} is neither an address with a port from 1 to 65535, such as \"127.0.0.1:6379\", nor \
             the absolute path of a socket",
            config.server
        );
        return Err(("server", message));
    }
    if config.user.is_some() && config.password_file.is_none() {
        return Err(("user", "needs password_file beside it".to_owned()));
    }
    Ok(())
}

/// Starts to ask in a thread of its own.
///
/// # Errors
/// When the configuration makes no sense. A server that does not run is not an error yet.
pub fn open(
    config: &Config,
    root: &Root,
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<Polled, SourceError> {
    let name = format!("redis {}", config.server);
    check(config).map_err(|(key, message)| SourceError::new(&name, format!("{key}: {message}")))?;
    let interval = interval(&name, config.interval, period)?;
    at_least(&name, "timeout", config.timeout, Seconds(0.001))?;
    let differences = Differences::new(&name);
    let (root, config) = (root.clone(), config.clone());
    Polled::start(Server { name, root, config, kept: None, differences }, interval, stopwatch)
}

impl Server {
    fn totals(&mut self) -> Result<Totals, String> {
        let mut line = match self.kept.take() {
            Some(line) => line,
            None => self.connect()?,
        };
        let answer = self.ask(&mut line, &["INFO", "commandstats"])?;
        let totals = parse(&answer)?;
        self.kept = Some(line);
        Ok(totals)
    }

    fn connect(&self) -> Result<BufReader<Box<dyn Line>>, String> {
        let timeout = self.config.timeout;
        let stream: Box<dyn Line> = if self.config.server.starts_with('/') {
            let place = self.root.path(&self.config.server);
            Box::new(connect(&place, timeout).map_err(|error| explain(&error, timeout))?)
        } else {
            Box::new(dial(&self.config.server, timeout).map_err(|error| explain(&error, timeout))?)
        };
        let mut line = BufReader::new(stream);
        if let Some(file) = &self.config.password_file {
            let text = self.root.read(file).map_err(|error| format!("{file}: {error}"))?;
            let password = text.lines().next().unwrap_or_default();
            let words: Vec<_> =
                ["AUTH"].into_iter().chain(self.config.user.as_deref()).chain([password]).collect();
            self.ask(&mut line, &words)?;
        }
        Ok(line)
    }

    /// Sends a command; returns what is answered.
    fn ask(&self, line: &mut BufReader<Box<dyn Line>>, words: &[&str]) -> Result<String, String> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        let answer = line.get_mut().write_all(&command).and_then(|()| answer(line));
        answer.map_err(|error| explain(&error, self.config.timeout))?
    }
}

fn dial(server: &str, timeout: Seconds) -> Result<TcpStream, Error> {
    let timeout = Duration::try_from_secs_f64(timeout.0.min(60.0)).unwrap_or(Duration::MAX);
    let mut last = Error::other("no address of that name");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One answer of the protocol (RESP2): `$LENGTH`, bytes; `+OK`; `-ERR why`, which is the inner error.
fn answer(line: &mut impl BufRead) -> Result<Result<String, String>, Error> {
    let mut head = Vec::new();
    line.by_ref().take(HEAD_BYTES_MAX).read_until(b'\n', &mut head)?;
    if !head.ends_with(b"\r\n") {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let head = String::from_utf8_lossy(&head).trim_end().to_owned();
    if let Some(why) = head.strip_prefix('-') {
        return Ok(Err(format!("it refuses: {why:?}")));
    }
    if head.starts_with('+') {
        return Ok(Ok(head));
    }
    let length = head.strip_prefix('$').and_then(|digits| digits.parse::<u64>().ok());
    let Some(length) = length.filter(|&length| length <= ANSWER_BYTES_MAX) else {
        return Ok(Err(format!("its answer begins with {head:?}, which is not Redis's")));
    };
    let mut text = Vec::new();
    line.by_ref().take(length + 2).read_to_end(&mut text)?;
    if text.len() as u64 != length + 2 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
}

impl LatencySource for Server {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let totals = self.totals().map_err(|message| SourceError::new(&self.name, message));
        self.differences.answer(now, totals)
    }
}

#[cfg(test)]
mod tests {
    //! A server in this process.

    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// Statistics of the shape of Redis 7's.
    fn stats(gets: u64, us: u64) -> String {
        format!(
            "# Commandstats\r\n\
             cmdstat_info:calls=900,usec=90000,usec_per_call=100.00,rejected_calls=0,failed_calls=0\r\n\
             cmdstat_get:calls={gets},usec={us},usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n\
             cmdstat_client|setname:calls=1,usec=5,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r\n"
        )
    }

    /// Serves one connection: each question that ends with a line gets the next answer.
    fn server(answers: Vec<(&'static str, String)>) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = BufReader::new(stream);
            for (asked, answer) in answers {
                let mut question = vec![0; asked.len()];
                line.read_exact(&mut question).unwrap();
                assert_eq!(String::from_utf8(question).unwrap(), asked);
                line.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        };
        (address, std::thread::spawn(serve))
    }

    const INFO: &str = "*2\r\n$4\r\nINFO\r\n$12\r\ncommandstats\r\n";

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn asking(server: &str, root: &Root, password_file: Option<&str>) -> Server {
        let config = Config {
            server: server.to_owned(),
            user: None,
            password_file: password_file.map(str::to_owned),
            interval: None,
            timeout: Seconds(20.0),
        };
        let (name, differences) = ("redis".to_owned(), Differences::new("redis"));
        Server { name, root: root.clone(), config, kept: None, differences }
    }

    #[test]
    fn commands_between_two_answers_are_a_window() {
        let answers = vec![(INFO, bulk(&stats(10, 100))), (INFO, bulk(&stats(30, 200)))];
        let (address, thread) = server(answers);
        let mut source = asking(&address, &Root::default(), None);
        assert_eq!(source.sample(Seconds(1.0)).unwrap(), None);
        let sample = source.sample(Seconds(2.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.latency_us_mean), (20, Some(5.0)));
        thread.join().unwrap();
    }

    #[test]
    fn an_answer_that_failed_is_followed_by_a_new_window() {
        let answers = vec![(INFO, bulk(&stats(10, 100))), (INFO, "-LOADING\r\n".to_owned())];
        let (address, thread) = server(answers);
        let mut source = asking(&address, &Root::default(), None);
        assert_eq!(source.sample(Seconds(1.0)), Ok(None));
        assert!(source.sample(Seconds(2.0)).is_err());
        thread.join().unwrap();
        let answers = vec![(INFO, bulk(&stats(9000, 900))), (INFO, bulk(&stats(9010, 950)))];
        let (address, thread) = server(answers);
        source.config.server = address;
        assert_eq!(source.sample(Seconds(600.0)), Ok(None));
        assert_eq!(source.sample(Seconds(601.0)).unwrap().unwrap().requests, 10);
        thread.join().unwrap();
    }

    #[test]
    fn a_password_comes_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "sesame\n").unwrap();
        let auth = "*2\r\n$4\r\nAUTH\r\n$6\r\nsesame\r\n";
        let (address, thread) = server(vec![(auth, "+OK\r\n".into()), (INFO, bulk(&stats(1, 1)))]);
        let mut source = asking(&address, &Root::new(folder.path()), Some("/secret"));
        assert_eq!(source.sample(Seconds(1.0)), Ok(None));
        thread.join().unwrap();
        let (address, thread) = server(vec![(auth, "-WRONGPASS no\r\n".into())]);
        let mut source = asking(&address, &Root::new(folder.path()), Some("/secret"));
        let error = source.sample(Seconds(1.0)).unwrap_err().to_string();
        assert!(error.contains("refuses: \"WRONGPASS no\""), "{error}");
        thread.join().unwrap();
    }

    #[test]
    fn what_is_no_answer_of_it_is_said() {
        for (answer, why) in [
            ("-NOAUTH Authentication required.\r\n", "NOAUTH"),
            ("HTTP/1.1 400 Bad Request\r\n", "which is not Redis's"),
            ("$99999999999\r\n", "which is not Redis's"),
            ("$5\r\nab", "ends early"),
            ("$", "ends early"),
            ("$4\r\nhola\r\n", "no commandstats"),
            ("$22\r\ncmdstat_get:calls=many\r\n", "no calls of \"get\""),
        ] {
            let (address, thread) = server(vec![(INFO, answer.to_owned())]);
            let mut source = asking(&address, &Root::default(), None);
            let error = source.sample(Seconds(1.0)).unwrap_err().to_string();
            assert!(error.contains(why), "{answer:?}: {error}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let open = |server: &str, user: Option<&str>| {
            let config = Config {
                user: user.map(str::to_owned),
                ..asking(server, &Root::default(), None).config
            };
            open(&config, &Root::default(), Seconds(0.5), crate::stopwatch()).err()
        };
        assert!(open("localhost", None).unwrap().to_string().contains("6379"));
        assert!(open("a:1", Some("me")).unwrap().to_string().contains("password_file"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, bytes: Vec<u8>, counts in "[a-z=0-9,|]{0,30}") {
            let _ = (parse(&text), parse(&format!("cmdstat_x:{counts}")));
            let _ = answer(&mut bytes.as_slice());
            let _ = answer(&mut [b"$", bytes.as_slice()].concat().as_slice());
        }
    }
}
