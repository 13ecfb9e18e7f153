//! Files that somebody names: only what is a file is opened, and only so much of it is read. And what
//! the system says, in its words alone.

use std::fmt::{Display, Write as _};
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What no file that is written with an editor comes near: whatever is larger was named by mistake.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Opens a regular file for reading. A FIFO without a writer would block for ever, a device may have no
/// end, and merely opening some has effects.
///
/// # Errors
/// When it cannot be opened, or is something else: what.
pub fn open(path: &Path) -> io::Result<File> {
    refuse_other(fs::metadata(path)?.file_type())?;
    // It may have been replaced since.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    refuse_other(file.metadata()?.file_type())?;
    Ok(file)
}

/// The same for what is read once, from its beginning to its end: a pipe without a name, as of a shell's
/// `<(...)`, is taken too.
///
/// # Errors
/// As [`open`].
pub fn open_to_read_once(path: &Path) -> io::Result<File> {
    // Such a pipe is reached through a link in /proc that leads nowhere.
    let is_pipe = fs::metadata(path)?.file_type().is_fifo() && fs::canonicalize(path).is_err();
    if is_pipe { File::open(path) } else { open(path) }
}

/// What is not a file, in words.
fn refuse_other(is: FileType) -> io::Result<()> {
    let what = match is {
        _ if is.is_file() => return Ok(()),
        _ if is.is_dir() => "folder",
        _ if is.is_fifo() => "pipe (FIFO)",
        _ if is.is_socket() => "socket",
        _ => "device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("is a {what}, not a file")))
}

/// All bytes of a regular file.
///
/// # Errors
/// As [`open`]; when it cannot be read, or has more than `bytes_max`.
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let (most, unit) = match bytes_max {
            _ if bytes_max >= 1 << 20 => (bytes_max >> 20, "MiB"),
            _ => (bytes_max >> 10, "KiB"),
        };
        let message = format!("is larger than {most} {unit}, the most that is read");
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

/// The text of a file that a user wrote, such as a configuration.
///
/// # Errors
/// As [`read_whole`]; where it is not text in UTF-8, with the line and the byte in it.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_whole(path, TEXT_BYTES_MAX)?).map_err(|error| {
        let right = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + right.iter().filter(|&&byte| byte == b'\n').count();
        let byte = 1 + right.iter().rev().take_while(|&&byte| byte != b'\n').count();
        let message = format!("line {line}: is not text in UTF-8 (byte {byte} of the line)");
        io::Error::new(ErrorKind::InvalidData, message)
    })
}

/// The most bytes that the path of a UNIX socket may have, by `sun_path` of `unix(7)`.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A message without what Rust adds to the system's words: its numbers, as in ` (os error 2)`, and the
/// name of a macro of C.
#[must_use]
pub fn plain(message: impl Display) -> String {
    const ADDED: &str = " (os error ";
    let message = message.to_string();
    let mut parts = message.split(ADDED);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) if !part.starts_with(')') => text += rest,
            _ => text.extend([ADDED, part]),
        }
    }
    let allowed = format!("the path of a socket may have up to {SOCKET_PATH_BYTES_MAX} bytes");
    text.replace("path must be shorter than SUN_LEN", &allowed)
}

/// The text with control characters, and marks that turn the direction of writing, as JSON writes
/// them, and the system's words without their number; line ends stay.
#[must_use]
pub fn printable(text: &str) -> String {
    let text = plain(text);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\n') || is_mark(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character moves what others show: a mark of direction, or the end of a line or paragraph.
const fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The same on one line.
#[must_use]
pub fn printable_line(text: &str) -> String {
    printable(text).replace('\n', "\\u000a")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// It was told as "stream did not contain valid UTF-8", of whatever file.
    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_text(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read("a = 'ö'\n".as_bytes()).as_deref(), Ok("a = 'ö'\n"));
        assert_eq!(
            read(b"a = 1\nb = '\xff'").unwrap_err(),
            "line 2: is not text in UTF-8 (byte 6 of the line)"
        );
        assert!(read(b"\xfe").unwrap_err().starts_with("line 1: is not text in UTF-8 (byte 1 "));
        assert!(read(&vec![b' '; (16 << 20) + 1]).unwrap_err().contains("larger than 16 MiB"));
        fs::write(&path, [0; 1025]).unwrap();
        let message = read_whole(&path, 1024).unwrap_err().to_string();
        assert_eq!(message, "is larger than 1 KiB, the most that is read");
        assert_eq!(read_whole(&path, 1025).unwrap().len(), 1025);
        assert_eq!(read_text(Path::new("/nowhere")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// Opening a FIFO waited for a writer, so `wattiod check` of one never ended.
    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, what) in [
            (at("fifo"), "pipe (FIFO)"),
            (at("socket"), "socket"),
            (at(""), "folder"),
            ("/dev/zero".into(), "device"),
        ] {
            for opened in [open(&path), open_to_read_once(&path)] {
                let error = opened.unwrap_err();
                assert_eq!(error.to_string(), format!("is a {what}, not a file"));
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
            }
        }
    }

    /// `wattio trace info <(zcat ...)` is of use, and has an end.
    #[test]
    fn a_pipe_without_a_name_is_read_once() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"a").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert!(open(Path::new(&path)).is_err());
        let mut text = String::new();
        open_to_read_once(Path::new(&path)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "a");
    }

    /// "SUN_LEN" told nobody what is allowed.
    #[test]
    fn a_socket_whose_path_is_too_long_is_told_what_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let named = |bytes: usize| {
            let rest = bytes - folder.path().as_os_str().len() - 1;
            folder.path().join("s".repeat(rest))
        };
        assert!(UnixListener::bind(named(SOCKET_PATH_BYTES_MAX)).is_ok());
        let error = UnixListener::bind(named(SOCKET_PATH_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(plain(error), "the path of a socket may have up to 107 bytes");
    }

    #[test]
    fn the_systems_words_come_without_their_number() {
        let error = io::Error::from_raw_os_error(28);
        assert_eq!(plain(&error), "No space left on device");
        assert_eq!(
            plain(format!("a ({error}): b: {error}; c")),
            "a (No space left on device): b: No space left on device; c"
        );
        for other in ["", "a (os error )", "a (os error 2", "a (os error x)", "a (os 2)"] {
            assert_eq!(plain(other), other);
        }
    }

    /// Any user names his processes: with escape sequences in it a name wrote what it liked to the
    /// terminal of whoever asked the doctor.
    #[test]
    fn names_steer_no_terminal() {
        let name = "\u{1b}]0;x\u{7}\u{9b}2J\r\u{7f}é";
        let plain = printable(name);
        assert_eq!(plain, "\\u001b]0;x\\u0007\\u009b2J\\u000d\\u007fé");
        assert_eq!(printable("lmth.\u{202e}gpj\u{2028}é"), "lmth.\\u202egpj\\u2028é");
        assert_eq!(printable_line("a\nok  all is well"), "a\\u000aok  all is well");
        let error = std::io::Error::from_raw_os_error(2);
        assert_eq!(printable(&format!("a: {error}")), "a: No such file or directory");
    }
}
