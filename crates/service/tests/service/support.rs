//! A made-up program whose status tests change, and the raw bytes of HTTP.

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use wattio_service::metrics::{Family, Kind, Value};
use wattio_service::{Program, Publisher, Service, ServiceError, ServiceRequest, ServiceSettings};

/// No test waits longer for what must come.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A kettle.
#[derive(Debug)]
pub enum Kettle {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub utc_ns: u64,
    pub reason: String,
    pub celsius: f64,
}

#[derive(Debug, Serialize)]
pub struct Moment {
    utc_ns: u64,
    celsius: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Status {},
    Heat { celsius: f64 },
    Pause {},
    Resume {},
}

pub type Answer = wattio_service::Answer<Status>;

impl Program for Kettle {
    const NAME: &'static str = "kettle";
    const VIEW: &'static str = "// What the page shows of a kettle.\n";
    const HAS_ITS_OWN_USER: bool = false;
    const ALLOWED: &'static str = r#"allowed is {"op":"status"}, {"op":"heat","celsius":80}, {"op":"pause"} or {"op":"resume"}"#;
    type Status = Status;
    type Moment = Moment;
    type Request = Request;

    fn metrics(status: &Status) -> Vec<Family<'_>> {
        let celsius = Some(Value::Real(status.celsius));
        let boiled = Some(Value::Whole(3));
        vec![
            Family::of("kettle_celsius", "How hot it is.", Kind::Gauge, celsius),
            Family::of("kettle_boiled", "How often it boiled.", Kind::Counter, boiled),
        ]
    }

    fn moment(status: &Status) -> (u64, String, Moment) {
        let moment = Moment { utc_ns: status.utc_ns, celsius: status.celsius };
        (status.utc_ns, String::new(), moment)
    }

    fn asks_status(request: &Request) -> bool {
        *request == Request::Status {}
    }
}

pub struct Running {
    pub service: Service,
    pub publish: Publisher<Kettle>,
    pub asked: mpsc::Receiver<ServiceRequest<Kettle>>,
}

impl Running {
    pub fn try_start(settings: ServiceSettings) -> Result<Self, ServiceError> {
        let (publish, shown) = wattio_service::shown(full_status());
        let (requests, asked) = mpsc::channel();
        Ok(Self { service: Service::start(settings, shown, requests)?, publish, asked })
    }

    pub fn http() -> Self {
        Self::try_start(any_port()).unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.service.page().unwrap().address
    }

    /// The answer to `GET path`.
    pub fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n"))
    }

    /// The answer to a head without its empty line.
    pub fn send(&self, head: &str) -> Response {
        self.open(&format!("{head}Connection: close\r\n")).rest()
    }

    /// A connection from an address of this host.
    pub fn connect_from(&self, from: IpAddr) -> TcpStream {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(from, 0)).unwrap();
        connect(&socket, &self.address()).unwrap();
        socket.into()
    }

    /// Sends a head and reads that of the answer.
    pub fn open(&self, head: &str) -> Opened {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"\r\n").unwrap();
        let mut body = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(body.read_line(&mut head).unwrap() > 0, "the answer ends after {head:?}");
        }
        Opened { head, body }
    }
}

/// An answer whose body is still to come.
pub struct Opened {
    pub head: String,
    body: BufReader<TcpStream>,
}

impl Opened {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.body.read_line(&mut line).unwrap();
        line
    }

    /// The next line that starts so, without the start.
    pub fn line_after(&mut self, start: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the stream ended");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim_end().to_owned();
            }
        }
    }

    pub fn rest(mut self) -> Response {
        let status = self.status();
        let mut body = String::new();
        self.body.read_to_string(&mut body).unwrap();
        Response { status, head: self.head, body }
    }
}

pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// Page and metrics on any free port, no control socket.
pub fn any_port() -> ServiceSettings {
    ServiceSettings {
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        host_names: vec!["storage7.example".to_owned()],
        ..ServiceSettings::default()
    }
}

/// Only a control socket.
pub fn only_socket(path: impl Into<PathBuf>) -> ServiceSettings {
    ServiceSettings { listen: None, socket: Some(path.into()), ..ServiceSettings::default() }
}

/// A status.
pub fn full_status() -> Status {
    let reason = "<script>alert(1)</script>\nnext line".to_owned();
    Status { utc_ns: 1_770_000_000_000_000_000, reason, celsius: 81.5 }
}
