//! Whether root may rely on a file: whoever can change it could make root do anything.
//!
//! A file or folder is trusted if it belongs to root, to the caller or to another named `owner`; if
//! neither group nor others may write to it; and if nobody else can replace it: others may not
//! write to any folder on the path (except one like `/tmp`, where users can remove only their own
//! files), and no link on the path was made by them.

use rustix::process::{getegid, geteuid};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Why a file or folder cannot be trusted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}: {message}", path.display())]
pub struct Untrusted {
    path: PathBuf,
    message: String,
}

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;
/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Looks whether a path can be trusted, as far as it is there. Besides root's and the caller's own,
/// what belongs to `owner` can.
///
/// # Errors
/// [`Untrusted`] names the file, folder or link, and what would do.
pub fn check(path: &Path, owner: Option<u32>) -> Result<(), Untrusted> {
    let whole = std::path::absolute(path).map_err(|error| unseen(path, &error))?;
    let names = |path: &Path| -> Vec<OsString> {
        let named = path.components().filter(|part| *part != Component::RootDir);
        named.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut left: VecDeque<_> = names(&whole).into();
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = left.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let is = match fs::symlink_metadata(&next) {
            // What is not there yet is made by the caller.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            is => is.map_err(|error| unseen(&next, &error))?,
        };
        let owned = [Some(0), Some(geteuid().as_raw()), owner].contains(&Some(is.uid()));
        if is.is_symlink() {
            links += 1;
            if !owned {
                return Err(not_ours(next, "is a link of", is.uid()));
            }
            let target = fs::read_link(&next).map_err(|error| unseen(&next, &error))?;
            if links > LINKS_MAX {
                let message = "leads through too many links".to_owned();
                return Err(Untrusted { path: next, message });
            }
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            names(&target).into_iter().rev().for_each(|name| left.push_front(name));
            continue;
        }
        if left.is_empty() && !owned {
            return Err(not_ours(next, "belongs to", is.uid()));
        }
        let on_the_way = !left.is_empty();
        check_mode(&next, is.mode(), is.gid(), on_the_way)?;
        here = next;
    }
    Ok(())
}

fn check_mode(path: &Path, mode: u32, group: u32, on_the_way: bool) -> Result<(), Untrusted> {
    let trusted_group = on_the_way && [0, getegid().as_raw()].contains(&group);
    let (whose, remedy) = if mode & OTHERS_WRITE != 0 {
        ("others", "chmod go-w")
    } else if mode & GROUP_WRITES != 0 && !trusted_group {
        ("its group", "chmod g-w")
    } else {
        return Ok(());
    };
    if on_the_way && mode & STICKY != 0 {
        return Ok(());
    }
    let message = format!(
        "{whose} may write there, and could make this user do anything: {remedy}, or name \
         another place"
    );
    Err(Untrusted { path: path.to_owned(), message })
}

fn not_ours(path: PathBuf, how: &str, uid: u32) -> Untrusted {
    let message = format!(
        "{how} user {uid}, who could make this user do anything: it must belong to root or to \
         this user"
    );
    Untrusted { path, message }
}

fn unseen(path: &Path, error: &io::Error) -> Untrusted {
    Untrusted { path: path.to_owned(), message: format!("cannot be looked at: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    const NOBODY: u32 = 65534;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_write_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, file) = (folder.path().join("inner"), folder.path().join("inner/file"));
        fs::create_dir(&inner).unwrap();
        mode(&inner, 0o755);
        assert_eq!(check(&file, None), Ok(()), "not there yet");
        fs::write(&file, "").unwrap();
        for (bits, trusted) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            mode(&file, bits);
            let checked = check(&file, None);
            assert_eq!(checked.is_ok(), trusted, "{bits:o}: {checked:?}");
        }
        mode(&file, 0o600);
        for (bits, trusted) in [(0o757, false), (0o1777, true), (0o755, true)] {
            mode(&inner, bits);
            let checked = check(&file, None);
            assert_eq!(checked.is_ok(), trusted, "{bits:o}: {checked:?}");
        }
    }

    #[test]
    fn what_belongs_to_others_is_not_trusted() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        mode(&file, 0o644);
        chown(&file, Some(NOBODY), None).unwrap();
        let message = check(&file, None).unwrap_err().to_string();
        assert!(message.contains("belongs to user 65534"), "{message}");
        assert_eq!(check(&file, Some(NOBODY)), Ok(()), "as whom it runs");
    }

    /// A folder of root's behind somebody's link in /tmp was taken for the state folder.
    #[test]
    fn a_link_that_others_planted_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        mode(&real, 0o700);
        symlink("real", &link).unwrap();
        assert_eq!(check(&link, None), Ok(()));
        assert_eq!(check(&link.join("below"), None), Ok(()));
        if geteuid().is_root() {
            lchown(&link, Some(NOBODY), None).unwrap();
            for path in [link.clone(), link.join("below")] {
                let message = check(&path, None).unwrap_err().to_string();
                assert!(message.contains("is a link of user 65534"), "{message}");
            }
        }
        let round = folder.path().join("round");
        symlink("round", &round).unwrap();
        assert!(check(&round, None).is_err());
    }
}
