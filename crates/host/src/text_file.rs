//! Files that somebody wrote with an editor.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// What no such file comes near: whatever is larger was named by mistake.
const BYTES_MAX: u64 = 16 << 20;

/// The text of a file that a user wrote, such as a configuration.
///
/// # Errors
/// When it cannot be read; where it is not text in UTF-8, with the line and the byte in it.
pub fn read_text(path: &Path) -> io::Result<String> {
    let wrong = |message: String| io::Error::new(ErrorKind::InvalidData, message);
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(format!(
            "is larger than {} MiB, the most that is read",
            BYTES_MAX >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let right = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + right.iter().filter(|&&byte| byte == b'\n').count();
        let byte = 1 + right.iter().rev().take_while(|&&byte| byte != b'\n').count();
        wrong(format!("line {line}: is not text in UTF-8 (byte {byte} of the line)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was told as "stream did not contain valid UTF-8", of whatever file.
    #[test]
    fn bytes_that_are_no_text_have_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_text(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read("a = 'ö'\n".as_bytes()).as_deref(), Ok("a = 'ö'\n"));
        assert_eq!(
            read(b"a = 1\nb = '\xff'").unwrap_err(),
            "line 2: is not text in UTF-8 (byte 6 of the line)"
        );
        assert!(read(b"\xfe").unwrap_err().starts_with("line 1: is not text in UTF-8 (byte 1 "));
        assert!(read(&vec![b' '; (16 << 20) + 1]).unwrap_err().contains("larger than 16 MiB"));
        assert!(read_text(Path::new("/dev/zero")).is_err());
        assert_eq!(read_text(Path::new("/nowhere")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
