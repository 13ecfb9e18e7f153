//! The output folder: dumps get their name when they are whole.
//!
//! ```text
//! dump-00000010/            whole: manifest.json, part files, fields.h5
//! dump-00000020.partial/    not (yet): parts, or a note on why it never will be
//! before-0001/              dumps of earlier jobs, where they are kept apart
//! .lock                     while a job writes
//! ```

use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wattio_io::config::Existing;
use wattio_io::error::tell;

/// What a whole dump consists of.
pub const MANIFEST: &str = "manifest.json";
const PARTIAL: &str = ".partial";
const REPLACED: &str = ".replaced";
const LOCK: &str = ".lock";
const BEFORE: &str = "before-";

/// The output folder of a job.
#[derive(Clone, Debug)]
pub struct Output(PathBuf);

impl Output {
    /// The folder at a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of a dump that is whole.
    #[must_use]
    pub fn whole(&self, step: u64) -> PathBuf {
        self.0.join(name(step))
    }

    /// The folder of a dump that is not.
    #[must_use]
    pub fn partial(&self, step: u64) -> PathBuf {
        self.0.join(format!("{}{PARTIAL}", name(step)))
    }

    /// Whether the folder is there and can be written to, or could be made; nothing is changed.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn try_out(&self) -> Result<(), String> {
        let shown = self.0.display();
        let refuse = |at: &Path, why: &str| {
            let where_ = if at == self.0 { String::new() } else { format!("{}: ", at.display()) };
            Err(format!("output {shown}: cannot be used: {where_}{why}"))
        };
        let mut nearest = Path::new(if self.0.is_absolute() { "/" } else { "." });
        for at in self.0.ancestors().filter(|at| !at.as_os_str().is_empty()) {
            match std::fs::symlink_metadata(at) {
                Ok(_) => {
                    nearest = at;
                    break;
                }
                Err(error)
                    if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
                Err(error) => return refuse(at, &plain(&error)),
            }
        }
        if !nearest.is_dir() {
            return refuse(nearest, "is not a folder");
        }
        let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(nearest, needed).or_else(|error| refuse(nearest, &plain(&error.into())))
    }

    /// Make the folder where it is missing, and take its lock; what earlier jobs left there stays as it is.
    ///
    /// # Errors
    ///
    /// The folder cannot be used, or another job writes there.
    pub fn claim(&self) -> Result<Claim, Unclaimed> {
        let missing = |at: &&Path| !at.as_os_str().is_empty() && !at.exists();
        let made: Vec<PathBuf> =
            self.0.ancestors().take_while(missing).map(Path::to_owned).collect();
        let mut claim = Claim { output: self.clone(), made, lock: None };
        std::fs::create_dir_all(&self.0).map_err(|error| {
            let text = self.unusable(&error);
            match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Unclaimed::NoRoom(text),
                _ => Unclaimed::Unusable(text),
            }
        })?;
        // One that is there may still be another user's, or read-only: the first dump is too late to learn that.
        self.try_out().map_err(Unclaimed::Unusable)?;
        claim.lock = Lock::take(&self.0).map_err(Unclaimed::Unusable)?;
        Ok(claim)
    }

    fn unusable(&self, error: &std::io::Error) -> String {
        format!("output {}: cannot be used: {}", self.0.display(), plain(error))
    }

    /// See to what earlier jobs left there.
    fn clear(&self, existing: Existing) -> std::io::Result<()> {
        let mut kept = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let Some(text) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let replaced = text.strip_suffix(REPLACED).filter(|bare| is_dump(bare));
            let place = replaced.map(|bare| self.0.join(bare));
            if let Some(whole) = place.filter(|place| !place.exists()) {
                // Its place was about to be taken when the job was killed.
                std::fs::rename(entry.path(), &whole)?;
            } else if replaced.is_some() {
                std::fs::remove_dir_all(entry.path())?;
            } else if text.strip_suffix(PARTIAL).is_some_and(is_dump) {
                match existing {
                    Existing::KeepApart => kept.push(entry.path()),
                    _ => std::fs::remove_dir_all(entry.path())?,
                }
            } else if is_dump(&text) {
                kept.push(entry.path());
            }
        }
        if existing == Existing::KeepApart && !kept.is_empty() {
            let apart = self.next_before()?;
            for path in kept {
                let to = apart.join(path.file_name().unwrap_or_default());
                std::fs::rename(&path, to)?;
            }
            let index = self.0.join(crate::fields::INDEX);
            match std::fs::rename(&index, apart.join(crate::fields::INDEX)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn next_before(&self) -> std::io::Result<PathBuf> {
        let mut number = 1;
        loop {
            let path = self.0.join(format!("{BEFORE}{number:04}"));
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                other => return other.map(|()| path),
            }
        }
    }

    /// Give a dump its name; one that is there already gives way, where it may.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn publish(&self, step: u64, existing: Existing, sync: bool) -> std::io::Result<()> {
        let (partial, whole) = (self.partial(step), self.whole(step));
        if existing == Existing::Overwrite && whole.exists() {
            let replaced = self.0.join(format!("{}{REPLACED}", name(step)));
            // At once, so that there is a whole dump of that name at every moment.
            let here = rustix::fs::CWD;
            let old = match rustix::fs::renameat_with(
                here,
                &partial,
                here,
                &whole,
                RenameFlags::EXCHANGE,
            ) {
                Ok(()) => std::fs::rename(&partial, &replaced).map_or(&partial, |()| &replaced),
                // File systems that cannot, as NFS.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    std::fs::rename(&whole, &replaced)?;
                    std::fs::rename(&partial, &whole)?;
                    &replaced
                }
                Err(error) => return Err(error.into()),
            };
            remove(old);
        } else {
            std::fs::rename(&partial, &whole)?;
        }
        if sync { File::open(&self.0)?.sync_all() } else { Ok(()) }
    }
}

/// Why a job cannot have an output folder, in words.
#[derive(Debug)]
pub enum Unclaimed {
    /// The disk is full, or a quota used up.
    NoRoom(String),
    /// It cannot be written to, or another job writes there.
    Unusable(String),
}

/// An output folder that a job will write to, if it begins: until it does, the folder is given back as it was.
#[derive(Debug)]
pub struct Claim {
    output: Output,
    /// Folders that were made, the innermost first.
    made: Vec<PathBuf>,
    lock: Option<Lock>,
}

impl Claim {
    /// The job begins: see to what earlier ones left there. The lock, where the file system has any.
    ///
    /// # Errors
    ///
    /// In words: something there cannot be moved or removed.
    pub fn begin(mut self, existing: Existing) -> Result<Option<Lock>, String> {
        self.output.clear(existing).map_err(|error| self.output.unusable(&error))?;
        self.made.clear();
        Ok(self.lock.take())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lock = None;
        for folder in &self.made {
            // Stays where somebody has put something there.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Remove the dump that has given way. The new one is whole if that fails, too, as on NFS where somebody has a
/// file of it open; the next job's `clear` removes what is left.
fn remove(old: &Path) {
    if let Err(error) = std::fs::remove_dir_all(old) {
        let told = format!("{}: cannot be removed: {}", old.display(), plain(&error));
        tell("wattio-io-writer", &told);
    }
}

/// The name of a dump's folder.
#[must_use]
pub fn name(step: u64) -> String {
    format!("dump-{step:08}")
}

fn is_dump(text: &str) -> bool {
    let step = text.strip_prefix("dump-").and_then(|digits| digits.parse().ok());
    step.is_some_and(|step| name(step) == text)
}

/// Write a file that appears when it is whole.
///
/// # Errors
///
/// Those of the kernel; nothing new is left then.
pub fn put(path: &Path, content: &[u8], sync: bool) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        if sync {
            file.sync_all()?;
        }
        std::fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })?;
    match path.parent() {
        Some(folder) if sync => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// What the kernel says, without its number.
#[must_use]
pub fn plain(error: &std::io::Error) -> String {
    wattio_files::plain(error)
}

/// A job's lock on its output folder. The kernel lets go of it when the process ends, however that
/// was. It is a lock of POSIX, which NFS keeps for all its clients.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: OwnedFd,
}

impl Lock {
    /// Take it; `None` where the file system has no locks, since it is a precaution.
    fn take(folder: &Path) -> Result<Option<Self>, String> {
        let path = folder.join(LOCK);
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666)) else {
                return Ok(None);
            };
            match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::ACCESS) => return Err(refusal(folder, file)),
                Err(_) => return Ok(None),
            }
            // The holder before may have removed it since it was opened.
            let in_place = rustix::fs::fstat(&file).is_ok_and(|own| {
                std::fs::metadata(&path)
                    .is_ok_and(|there| (there.dev(), there.ino()) == (own.st_dev, own.st_ino))
            });
            if in_place {
                let name = rustix::system::uname();
                let host = name.nodename().to_string_lossy();
                let _ = rustix::fs::ftruncate(&file, 0);
                let signed = format!("process {} on {host}", std::process::id());
                let _ = rustix::io::write(&file, signed.as_bytes());
                return Ok(Some(Self { path, file }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let own = rustix::fs::fstat(&self.file);
        let there = std::fs::metadata(&self.path);
        if let (Ok(own), Ok(there)) = (own, there)
            && (there.dev(), there.ino()) == (own.st_dev, own.st_ino)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn refusal(folder: &Path, file: OwnedFd) -> String {
    let mut holder = String::new();
    let _ = File::from(file).take(200).read_to_string(&mut holder);
    let holder: String = holder.chars().filter(|letter| !letter.is_control()).collect();
    let holder = if holder.is_empty() { "which, it does not tell".to_owned() } else { holder };
    let (shown, lock) = (folder.display(), folder.join(LOCK));
    format!(
        "output {shown}: another job writes there ({holder}): wait for its end, or choose another \
         folder; where there is none any more, remove {}",
        lock.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join(MANIFEST), path.display().to_string()).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn what_earlier_jobs_did_not_finish_goes_and_whole_dumps_stay() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::new(folder.path());
        for name in [
            "dump-00000001",
            "dump-00000001.replaced",
            "dump-00000002.partial",
            "dump-00000003.replaced",
            "dump-x",
        ] {
            touch(&folder.path().join(name));
        }
        drop(output.claim().unwrap().begin(Existing::Refuse).unwrap());
        // One that was being replaced when its job was killed is there again.
        assert_eq!(names(folder.path()), ["dump-00000001", "dump-00000003", "dump-x"]);
    }

    #[test]
    fn dumps_of_before_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::new(folder.path());
        for _ in 0..2 {
            touch(&output.whole(5));
            touch(&output.partial(6));
            drop(output.claim().unwrap().begin(Existing::KeepApart).unwrap());
        }
        assert_eq!(names(folder.path()), ["before-0001", "before-0002"]);
        let kept = names(&folder.path().join("before-0002"));
        assert_eq!(kept, ["dump-00000005", "dump-00000006.partial"]);
        drop(output.claim().unwrap().begin(Existing::KeepApart).unwrap());
        assert_eq!(names(folder.path()), ["before-0001", "before-0002"]);
    }

    #[test]
    fn a_new_dump_takes_the_place_of_an_old_one_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::new(folder.path());
        touch(&output.whole(5));
        touch(&output.partial(5));
        assert!(output.publish(5, Existing::Refuse, false).is_err());
        output.publish(5, Existing::Overwrite, true).unwrap();
        assert_eq!(names(folder.path()), ["dump-00000005"]);
        let text = std::fs::read_to_string(output.whole(5).join(MANIFEST)).unwrap();
        assert!(text.ends_with(".partial"), "{text}");
    }

    #[test]
    fn the_lock_goes_with_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::new(folder.path());
        let lock = output.claim().unwrap().begin(Existing::Refuse).unwrap().unwrap();
        let text = std::fs::read_to_string(folder.path().join(LOCK)).unwrap();
        assert!(text.starts_with("process "), "{text}");
        drop(lock);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_job_that_does_not_begin_leaves_the_folder_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (here, made) = (Output::new(folder.path()), Output::new(&folder.path().join("a/b")));
        for name in ["dump-00000001", "dump-00000002.partial", "dump-00000003.replaced"] {
            touch(&folder.path().join(name));
        }
        let before = names(folder.path());
        let (one, other) = (here.claim().unwrap(), made.claim().unwrap());
        assert!(folder.path().join(LOCK).exists() && made.path().is_dir());
        drop((one, other));
        assert_eq!(names(folder.path()), before);
    }
}
