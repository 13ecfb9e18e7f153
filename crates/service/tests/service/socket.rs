//! The control socket: who may use it, what it answers, what becomes of its file.

use crate::support::{
    Answer, DEADLINE, Kettle, Request, Running, Status, full_status, only_socket,
};
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use wattio_service::client::{self, ClientError};
use wattio_service::{LINE_BYTES_MAX, ServiceError, ServiceSettings, read_request};

fn ask(socket: &Path, request: &Request) -> Result<Answer, ClientError> {
    client::ask::<Kettle>(socket, request)
}

struct Control {
    running: Running,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Control {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kettle.sock");
        Self { running: Running::try_start(only_socket(&path)).unwrap(), path, _folder: folder }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        BufReader::new(stream)
    }
}

fn say(stream: &mut BufReader<UnixStream>, bytes: &[u8]) -> Answer {
    stream.get_mut().write_all(bytes).unwrap();
    hear(stream)
}

fn hear(stream: &mut BufReader<UnixStream>) -> Answer {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Refused { message } | Answer::Unable { message } => message,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn owner_and_group_may_use_it_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kettle.sock");
    let group = std::fs::metadata(folder.path()).unwrap().gid();
    let settings = ServiceSettings { socket_group: Some(group), ..only_socket(&path) };
    let running = Running::try_start(settings).unwrap();
    assert_eq!(running.service.page(), None);
    let socket = std::fs::metadata(&path).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!((socket.permissions().mode() & 0o7777, socket.gid()), (0o660, group));
    drop(running);
    assert!(!path.exists(), "the file goes with the service");
}

#[test]
fn the_status_is_answered_without_the_loop() {
    let control = Control::start();
    let answer = ask(&control.path, &Request::Status {}).unwrap();
    assert_eq!(answer, Answer::Status { status: Box::new(full_status()) });
    let later = Status { reason: "later".to_owned(), ..full_status() };
    control.running.publish.send(later.clone());
    let answer = ask(&control.path, &Request::Status {}).unwrap();
    assert_eq!(answer, Answer::Status { status: Box::new(later) });
    assert!(control.running.asked.try_recv().is_err());
}

#[test]
fn what_changes_something_is_answered_by_the_loop() {
    let control = Control::start();
    let path = control.path.clone();
    let request = Request::Heat { celsius: 80.0 };
    let asking = std::thread::spawn({
        let request = request.clone();
        move || ask(&path, &request)
    });
    let asked = control.running.asked.recv_timeout(DEADLINE).unwrap();
    assert_eq!(asked.request, request);
    let done = Answer::Done { message: "it heats".to_owned() };
    asked.reply.send(done.clone()).unwrap();
    assert_eq!(asking.join().unwrap().unwrap(), done);
}

#[test]
fn a_loop_that_is_gone_or_drops_a_request_is_said() {
    let Control { running, path, _folder } = Control::start();
    let asking = std::thread::spawn({
        let path = path.clone();
        move || ask(&path, &Request::Pause {})
    });
    drop(running.asked.recv_timeout(DEADLINE).unwrap());
    assert_eq!(refusal(asking.join().unwrap().unwrap()), "kettle is stopping");
    drop(running.asked);
    assert_eq!(refusal(ask(&path, &Request::Resume {}).unwrap()), "kettle is stopping");
}

#[test]
fn several_requests_fit_a_connection_and_a_bad_one_does_not_end_it() {
    let control = Control::start();
    let mut stream = control.connect();
    assert!(matches!(say(&mut stream, b"{\"op\":\"status\"}\n"), Answer::Status { .. }));
    for line in ["reboot", r#"{"op":"reboot"}"#, "", r#"{"op":"pause","and":"reboot"}"#] {
        let message = refusal(say(&mut stream, format!("{line}\n").as_bytes()));
        assert!(message.contains(r#"{"op":"pause"}"#), "{message}");
    }
    let both = b"{\"op\":\"status\"}\n{\"op\":\"status\"}\n";
    assert!(matches!(say(&mut stream, both), Answer::Status { .. }));
    assert!(matches!(hear(&mut stream), Answer::Status { .. }));
    assert!(control.running.asked.try_recv().is_err());
}

#[test]
fn a_line_without_end_is_refused_and_the_connection_closed() {
    let control = Control::start();
    let mut stream = control.connect();
    let message = refusal(say(&mut stream, &vec![b' '; LINE_BYTES_MAX + 1]));
    assert!(message.contains("more than 4096 bytes"), "{message}");
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0);
    let mut longest = vec![b' '; LINE_BYTES_MAX - 15];
    longest.extend(b"{\"op\":\"status\"}\n");
    assert!(matches!(say(&mut control.connect(), &longest), Answer::Status { .. }));
}

#[test]
fn one_too_many_is_turned_away() {
    let control = Control::start();
    let mut connected: Vec<_> = (0..16).map(|_| control.connect()).collect();
    // Each has been taken when it has been answered.
    for stream in &mut connected {
        assert!(matches!(say(stream, b"{\"op\":\"status\"}\n"), Answer::Status { .. }));
    }
    let message = refusal(hear(&mut control.connect()));
    assert!(message.contains("16 are connected"), "{message}");
}

#[test]
fn what_a_dead_daemon_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kettle.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let running = Running::try_start(only_socket(&path)).unwrap();
    assert!(ask(&path, &Request::Status {}).is_ok());
    drop(running);
}

/// Started right after a kill, it said that another one answers: the kernel had not closed the socket
/// of the killed one yet.
#[test]
fn a_daemon_that_dies_meanwhile_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kettle.sock");
    let dying = UnixListener::bind(&path).unwrap();
    let death = std::thread::spawn(move || {
        let connected = dying.accept().unwrap();
        drop(dying);
        drop(connected);
    });
    let running = Running::try_start(only_socket(&path)).unwrap();
    death.join().unwrap();
    assert!(ask(&path, &Request::Status {}).is_ok());
    drop(running);
}

#[test]
fn a_living_daemon_keeps_its_socket() {
    let control = Control::start();
    let error = Running::try_start(only_socket(&control.path)).err().unwrap();
    assert!(matches!(error, ServiceError::Answered { .. }));
    assert!(error.to_string().starts_with("another kettle answers on "), "{error}");
    assert!(ask(&control.path, &Request::Status {}).is_ok());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kettle.sock");
    std::fs::write(&path, "mine").unwrap();
    let error = Running::try_start(only_socket(&path)).err().unwrap();
    assert!(error.to_string().contains("is not a socket and is left alone"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// Somebody removed the file and another daemon made its own: that one stays at the end.
#[test]
fn the_socket_of_another_is_not_removed() {
    let Control { running, path, _folder } = Control::start();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(running);
    assert!(path.exists());
}

#[test]
fn nobody_there_is_said() {
    let error = ask(Path::new("/nonexistent/kettle.sock"), &Request::Status {}).unwrap_err();
    assert!(matches!(error, ClientError::Nobody { .. }));
    let start = "no kettle answers on /nonexistent/kettle.sock";
    assert!(error.to_string().starts_with(start), "{error}");
}

/// Whoever had put a socket where somebody looked for the daemon's could tell him anything.
#[test]
fn what_a_stranger_says_is_not_asked_for() {
    // Only root can be another user for a while.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().join("planted");
    let planted = path.clone();
    // Of this thread alone.
    let listen = move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_uid(nobody).unwrap();
        UnixListener::bind(planted).unwrap()
    };
    let _listener = std::thread::spawn(listen).join().unwrap();
    let error = ask(&path, &Request::Status {}).unwrap_err();
    assert!(matches!(error, ClientError::Stranger { user: 65534, .. }), "{error}");
}

#[test]
fn an_answer_that_is_none_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answering = std::thread::spawn(move || {
        for answer in ["hello\n", "{\"answer\":\"done\""] {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let error = ask(&path, &Request::Pause {}).unwrap_err();
    assert!(error.to_string().contains("is not this version of kettle"), "{error}");
    let error = ask(&path, &Request::Pause {}).unwrap_err();
    assert!(error.to_string().contains("broke off"), "{error}");
    answering.join().unwrap();
}

/// Whatever a client says, it gets answers line by line, and the next client is served.
#[test]
fn no_bytes_break_the_conversation() {
    let control = Control::start();
    let line = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        r#"\{"op":"(status|heat|x)"(,"celsius":[0-9eE.+-]{1,8})?\}"#.prop_map(String::into_bytes),
    ];
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() };
    proptest!(config, |(lines in prop::collection::vec(line, 1..4))| {
        let mut stream = control.connect();
        for line in &lines {
            // Requests for the loop would wait for an answer of the test.
            prop_assume!(!matches!(read_request::<Kettle>(line), Ok(Request::Heat { .. })));
            let line: Vec<u8> = line.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
            stream.get_mut().write_all(&[&line[..], b"\n"].concat()).unwrap();
            hear(&mut stream);
        }
    });
    assert!(ask(&control.path, &Request::Status {}).is_ok());
}
