//! The token that page and metrics ask for, where not everybody may see them.

use crate::reloaded::Reloaded;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use wattio_files::read_whole;

/// The fewest characters: shorter ones can be guessed.
const LENGTH_MIN: usize = 16;
const LENGTH_MAX: usize = 256;
/// Of whatever file is named.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A token: programs send it (`Authorization: Bearer`), browsers ask for it as a password, with any
/// name (`Authorization: Basic`).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

/// Why a file does not hold one.
#[derive(Debug, Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Everybody knows it.
    #[error("{}: every user of this host may read it: chmod o-r", .0.display())]
    Open(PathBuf),
    /// It is no token.
    #[error(
        "{}: must hold one line of {LENGTH_MIN} to {LENGTH_MAX} letters, digits and characters of \
         -._~+/=, such as `openssl rand -hex 24` prints",
        .0.display()
    )]
    Content(PathBuf),
}

/// That of a page, whose file is read again once it changes.
pub(crate) type PageToken = Reloaded<Token, TokenError>;

/// Reads the file of a page's token.
pub(crate) fn of_page(path: PathBuf) -> Result<PageToken, TokenError> {
    Reloaded::new(vec![path.clone()], move || Token::read(&path))
}

impl Token {
    /// Reads a file that holds it, and nothing else.
    ///
    /// # Errors
    /// [`TokenError`] with the file, and what is allowed.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |error| TokenError::File { path: path.to_owned(), error };
        let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
        if mode & 0o004 != 0 {
            return Err(TokenError::Open(path.to_owned()));
        }
        let text = read_whole(path, FILE_BYTES_MAX).map_err(failed)?;
        let text = String::from_utf8(text).ok();
        let token = text.as_deref().and_then(Self::of);
        token.ok_or_else(|| TokenError::Content(path.to_owned()))
    }

    fn of(text: &str) -> Option<Self> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&line.len()) && line.chars().all(allowed);
        fits.then(|| Self(line.into()))
    }

    /// Whether a request knows it.
    pub(crate) fn is_given(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(only), None) = (given.next(), given.next()) else { return false };
        let Some((scheme, rest)) = only.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        let rest = rest.trim_start_matches(' ');
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(rest.as_bytes());
        }
        let pair = STANDARD.decode(rest).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"));
        let Some(pair) = pair else { return false };
        let password = pair.iter().position(|byte| *byte == b':').map(|at| &pair[at + 1..]);
        password.is_some_and(|password| self.is(password))
    }

    /// In a time that does not tell how much of it is right.
    fn is(&self, other: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differs = own.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == other.len() && std::hint::black_box(differs) == 0
    }
}

/// Without the token itself.
impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::Permissions;

    const TEXT: &str = "0123456789abcdef-._~+/=";

    fn given(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        Token::of(TEXT).unwrap().is_given(&headers)
    }

    #[test]
    fn programs_send_it_and_browsers_as_a_password() {
        let basic = |pair: &str| given(&format!("Basic {}", STANDARD.encode(pair)));
        assert!(given(&format!("Bearer {TEXT}")) && given(&format!("bearer  {TEXT}")));
        assert!(basic(&format!("anybody:{TEXT}")) && basic(&format!(":{TEXT}")));
        assert!(!basic(TEXT) && !basic(&format!("{TEXT}:")) && !basic(&format!("a:b:{TEXT}")));
        for wrong in ["", "Bearer", "Bearer ", "Basic ***", "Digest x", TEXT] {
            assert!(!given(wrong), "{wrong}");
        }
        assert!(!given(&format!("Bearer {TEXT}x")) && !given(&format!("Bearer {}", &TEXT[1..])));
        assert!(!Token::of(TEXT).unwrap().is_given(&HeaderMap::new()));
        let mut twice = HeaderMap::new();
        for value in [TEXT, "other"] {
            twice.append(AUTHORIZATION, format!("Bearer {value}").parse().unwrap());
        }
        assert!(!Token::of(TEXT).unwrap().is_given(&twice));
    }

    #[test]
    fn a_file_holds_one_line_that_cannot_be_guessed_and_not_all_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &[u8], mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|error| error.to_string())
        };
        for end in ["", "\n", "\r\n"] {
            assert_eq!(
                read(format!("{TEXT}{end}").as_bytes(), 0o640),
                Ok(Token::of(TEXT).unwrap())
            );
        }
        for wrong in
            [&b""[..], b"short", b"two\nlines-of-a-token", b"a blank is in it here", &[255; 20]]
        {
            let message = read(wrong, 0o600).unwrap_err();
            assert!(message.contains("must hold one line of 16 to 256"), "{message}");
        }
        assert!(read(TEXT.as_bytes(), 0o644).unwrap_err().contains("chmod o-r"));
        std::fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("No such file"));
        assert_eq!(format!("{:?}", Token::of(TEXT)), "Some(Token)");
    }

    proptest! {
        #[test]
        fn no_header_panics_or_is_let_in(value in r"(?i:bearer |basic )?[ -~]{0,60}") {
            prop_assert!(!given(&value) || value.contains(TEXT));
        }
    }
}
