//! A server as small as it can be: one thread per connection, one request after another.

use crate::disk::Disk;
use crate::tls::{self, Ends};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use wattio_nbd::{
    Broken, Command, Ending, Errno, Export, Exports, GREETING, Handshake, Header, Next, Session,
    Span, TlsPolicy, Verdict,
};

/// Serves until the test's process ends.
pub struct Server {
    directory: tempfile::TempDir,
    pub disks: Arc<[Disk]>,
}

impl Server {
    pub fn start(exports: Vec<Export>) -> Self {
        Self::with(exports, TlsPolicy::Off, None)
    }

    pub fn with(exports: Vec<Export>, tls: TlsPolicy, broken_at_bytes: Option<u64>) -> Self {
        let disk = |export: &Export| Disk::new(export.size_bytes, broken_at_bytes);
        let disks: Arc<[Disk]> = exports.iter().map(disk).collect();
        let server = Self { directory: tempfile::tempdir().unwrap(), disks: disks.clone() };
        let exports = Exports::new(exports).unwrap();
        let listener = UnixListener::bind(server.socket()).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let handshake = Handshake::new(exports.clone(), tls);
                let (stream, disks) = (stream.unwrap(), disks.clone());
                // A client that goes away ends its connection, whatever it was about to do.
                thread::spawn(move || serve(stream, handshake, &disks));
            }
        });
        server
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().to_str().unwrap())
    }
}

fn serve(stream: UnixStream, mut handshake: Handshake, disks: &[Disk]) -> io::Result<()> {
    let (mut reader, mut writer): Ends =
        (Box::new(stream.try_clone()?), Box::new(stream.try_clone()?));
    writer.write_all(&GREETING)?;
    let mut input = Vec::new();
    let session = loop {
        let mut output = Vec::new();
        let fed = handshake.feed(&input, &mut output);
        writer.write_all(&output)?;
        input.drain(..fed.consumed_bytes);
        match fed.next {
            Next::Continue if input.is_empty() => {
                let mut arrived = [0; 4096];
                let count = reader.read(&mut arrived)?;
                if count == 0 {
                    return Ok(());
                }
                input.extend_from_slice(&arrived[..count]);
            }
            Next::Continue => {}
            Next::Transmission(session) => break session,
            Next::StartTls => {
                (reader, writer) = tls::start(&stream, std::mem::take(&mut input))?;
                handshake.tls_started();
            }
            Next::Close(_) => return Ok(()),
        }
    };
    let disk = &disks[session.export_index()];
    let mut requests = input.chain(reader);
    loop {
        let mut bytes = [0; Header::BYTES];
        requests.read_exact(&mut bytes)?;
        let header = Header::parse(&bytes).map_err(io::Error::other)?;
        match session.judge(&header) {
            Verdict::Accept(Command::Disconnect) => return Ok(()),
            Verdict::Accept(command) => {
                let mut payload = vec![0; command.payload_bytes() as usize];
                requests.read_exact(&mut payload)?;
                let output = answer(&session, header.cookie, command, &payload, disk)?;
                writer.write_all(&output)?;
            }
            Verdict::Refuse(refusal) => {
                let payload_bytes = u64::from(refusal.payload_bytes);
                io::copy(&mut requests.by_ref().take(payload_bytes), &mut io::sink())?;
                let mut output = Vec::new();
                session.reply(header.cookie).error(refusal.errno, refusal.message, &mut output);
                writer.write_all(&output)?;
            }
            Verdict::Close(reason) => return Err(io::Error::other(reason)),
        }
    }
}

/// Carries a command out; what is to be sent. An error closes the connection.
fn answer(
    session: &Session,
    cookie: u64,
    command: Command,
    payload: &[u8],
    disk: &Disk,
) -> io::Result<Vec<u8>> {
    let reply = session.reply(cookie);
    match command {
        Command::Read { span, is_unfragmented } => {
            return read(session, cookie, span, is_unfragmented, disk);
        }
        Command::BlockStatus { span, is_first_only } => {
            let mut output = Vec::new();
            session.block_status(cookie, span, is_first_only, disk.extents(span), &mut output);
            return Ok(output);
        }
        Command::Write { span, .. } => disk.write(span, payload),
        Command::Trim { span, .. } => disk.zero(span, true),
        Command::WriteZeroes { span, may_make_hole, .. } => disk.zero(span, may_make_hole),
        Command::Flush | Command::Cache { .. } | Command::Disconnect => {}
    }
    Ok(reply.done().as_ref().to_vec())
}

fn read(
    session: &Session,
    cookie: u64,
    span: Span,
    is_unfragmented: bool,
    disk: &Disk,
) -> io::Result<Vec<u8>> {
    let reply = session.reply(cookie);
    let data = disk.read(span);
    let broken = disk.broken_at_bytes;
    if let Some(at) = broken.filter(|at| (span.offset_bytes..span.end_bytes()).contains(at)) {
        let sent_bytes = u32::try_from(at - span.offset_bytes).expect("within the span");
        let mut error = Vec::new();
        let (head, _) = reply.start_read(span);
        let message = "this byte is broken";
        return match reply.broken_read(span, sent_bytes, Errno::Io, message, &mut error) {
            Broken::Close => Err(io::Error::other(message)),
            Broken::Pad { zeroes_bytes } => {
                let zeroes = vec![0; zeroes_bytes as usize];
                Ok([head.as_ref(), &data[..sent_bytes as usize], &zeroes, &error].concat())
            }
        };
    }
    let Some(chunks) = reply.chunks().filter(|_| !is_unfragmented) else {
        return Ok([reply.whole_read(span).as_ref(), &data].concat());
    };
    let (mut output, mut at) = (Vec::new(), 0);
    for extent in disk.extents(span) {
        let length_bytes = u32::try_from(extent.length_bytes).expect("within the span");
        let part = Span { offset_bytes: span.offset_bytes + at as u64, length_bytes };
        let end = at + length_bytes as usize;
        if extent.is_zero {
            output.extend_from_slice(chunks.hole(part, Ending::More).as_ref());
        } else {
            output.extend_from_slice(chunks.data(part, Ending::More).as_ref());
            output.extend_from_slice(&data[at..end]);
        }
        at = end;
    }
    output.extend_from_slice(chunks.none().as_ref());
    Ok(output)
}
