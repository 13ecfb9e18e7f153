//! Opening a session: roles, writers, and who meets whom.

use crate::client::{self, Client};
use crate::config::{Approach, Config};
use crate::connection::Address;
use crate::error::{Error, Result, host, tell};
use crate::job::{Account, Job, client_token, random_hex};
use crate::launch::{PathWriter, Writer};
use crate::peers::{self, Peers};
use crate::relay::{Port, Relay, Senders};
use crate::remote::Remote;
use crate::session::{Report, Session};
use crate::topology::{Topology, emulated};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattio_files::plain;

/// How long whoever cannot be ended by MPI has to end by itself.
const ABORT: Duration = Duration::from_secs(3);
/// How long to wait between two attempts to reach a writer that starts.
const RETRY: Duration = Duration::from_millis(2);

/// How many ranks may meet their writer at a path.
pub const PATH_RANKS_MAX: usize = 4096;

/// How long to wait for a writer at a path.
struct Patience {
    /// Until it is told who is waited for.
    quiet: Duration,
    /// Until it is given up.
    all: Duration,
}

const PATIENCE: Patience =
    Patience { quiet: Duration::from_secs(5), all: crate::connection::START };

/// An error as ranks tell each other.
#[derive(Debug, Serialize, Deserialize)]
struct SentError {
    input: bool,
    text: String,
}

impl From<Error> for SentError {
    fn from(error: Error) -> Self {
        Self { input: matches!(error, Error::Input(_)), text: error.to_string() }
    }
}

impl From<SentError> for Error {
    fn from(told: SentError) -> Self {
        if told.input { Self::Input(told.text) } else { Self::Host(told.text) }
    }
}

/// What rank 0 tells all: what to do, or why it cannot be.
#[derive(Serialize, Deserialize)]
struct Plan {
    config: Config,
    dedicated_nodes: Option<usize>,
    id: String,
    token: String,
}

/// A rank of a job that has started.
pub struct Member {
    /// What the rank hands over by; absent on ranks that only write.
    pub session: Option<Session>,
    relay: Option<Senders>,
    writer: Option<Writer>,
    peers: Arc<dyn Peers>,
    approach: String,
}

/// What all ranks' calls have cost, and what became of dumps.
#[derive(Debug, Serialize)]
pub struct JobReport {
    /// The approach, as one writes it.
    pub approach: String,
    /// The ranks' own, by rank; of this rank alone on others than rank 0.
    pub ranks: Vec<RankReport>,
}

/// What a rank tells at the end.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankReport {
    /// The rank.
    pub rank: usize,
    /// What its calls have cost; absent on ranks that only write.
    pub compute: Option<Report>,
    /// What its writer did, where it had one of its own.
    pub writer: Option<Account>,
}

impl Member {
    /// Start on all ranks; rank 0's file counts, or why it has none. Collective.
    ///
    /// # Errors
    ///
    /// `Input` or `Host`, the same kind and words on all ranks.
    pub fn open(
        peers: Arc<dyn Peers>,
        config: Result<PathBuf>,
        beside: Option<&Path>,
    ) -> Result<Self> {
        let mut plan = plan(&*peers, config)?;
        let nodes = match plan.config.ranks_per_node {
            Some(count) => emulated(peers.size(), count),
            None => nodes(&*peers)?,
        };
        let topology = Topology::plan(&plan.config, &nodes, plan.dedicated_nodes)?;
        if plan.dedicated_nodes.is_some() {
            plan.config.ratio = topology.ratio();
        }
        let config = &plan.config;
        let machines = peers::gather(&*peers, &peers.machine())?;
        let spread = machines.iter().any(|&one| one != machines[0]);
        let writing = topology.writing();
        let (rank, root) = (peers.rank(), writing.first().copied().unwrap_or_default());
        let mut writer = None;
        let mut answer = Ok((String::new(), None));
        let job = |publisher: Option<String>| Job {
            id: plan.id.clone(),
            config: config.clone(),
            approach: config.approach_text(),
            process: rank,
            clients: topology.clients(rank),
            share: topology.share(topology.clients(rank)[0], config.buffer.value() as u64),
            computing: if rank == root { topology.computing() } else { Vec::new() },
            publisher,
            writers: writing.len(),
            token: plan.token.clone(),
            spread,
            address: None,
        };
        // The one that publishes sees to the folder before others write there.
        if writing.contains(&rank) {
            match Writer::start(config, beside) {
                Ok(mut started) => {
                    if rank == root {
                        answer = started.instruct(&job(None));
                    }
                    writer = Some(started);
                }
                Err(error) => answer = Err(error),
            }
        }
        let published = answer.clone().map(|answer| answer.1.unwrap_or_default());
        let published: std::result::Result<String, SentError> = peers::broadcast(
            &*peers,
            (rank == root).then(|| published.map_err(SentError::from)).as_ref(),
            root,
        )?;
        if let (Ok(publisher), Some(writer), Ok(_)) = (&published, &mut writer, &answer)
            && rank != root
        {
            answer = writer.instruct(&job(Some(publisher.clone())));
        }
        let answer = match published {
            Ok(_) => answer.map(|answer| answer.0),
            Err(told) => Err(told.into()),
        };
        let addresses = agree(&*peers, answer)?;
        let meeting = Meeting { peers: &peers, plan: &plan, topology: &topology, spread };
        let (session, relay) = if config.approach == Approach::Dn {
            meeting.remote(&addresses[rank], writing.contains(&rank))?
        } else {
            (meeting.local(&addresses)?, None)
        };
        Ok(Self { session, relay, writer, peers, approach: config.approach_text() })
    }

    /// Whether this rank only writes.
    #[must_use]
    pub fn is_writer(&self) -> bool {
        self.session.is_none()
    }

    /// On a rank that only writes: wait until its writer has done so, asleep.
    ///
    /// # Errors
    ///
    /// Does not come back where the writer or a rank that it writes for has died: all ranks are ended.
    fn wait(&mut self) -> Result<Option<Account>> {
        let Some(writer) = self.writer.take() else { return Ok(None) };
        let relayed = self.relay.take().map_or(Ok(()), |senders| senders.run(&*self.peers));
        let account = relayed.and_then(|()| writer.wait());
        let rank = self.peers.rank();
        match &account {
            Err(_) => died(rank, ITS_WRITER.to_owned(), self.peers.abort())(),
            // What it had ended is written by now.
            Ok(account) => {
                if let Some(lost) = account.lost.first() {
                    died(rank, format!("rank {lost}, for which it writes,"), self.peers.abort())();
                }
            }
        }
        account.map(Some)
    }

    /// Wait until everything is written, and end; what it has cost, on rank 0 of all ranks. Collective.
    ///
    /// # Errors
    ///
    /// `StepFailed` where a step failed of which no call has told, on any rank: then on all, so that
    /// none leaves as if nothing had happened while another ends the program. The report is there all
    /// the same.
    pub fn close(&mut self) -> (JobReport, Result<()>) {
        let closed = self.session.as_mut().map_or(Ok(()), Session::close);
        let writer = self.wait().unwrap_or_default();
        let mut own = RankReport {
            rank: self.peers.rank(),
            compute: self.session.as_ref().map(Session::report),
            writer,
        };
        // A line for each dump is the rank's own: of all ranks they are more than a rank can hold.
        let dumps = own.writer.as_mut().map(|writer| std::mem::take(&mut writer.dumps));
        let told = closed.as_ref().err().map(ToString::to_string);
        let approach = self.approach.clone();
        let peers = &*self.peers;
        let everybody = peers.meet().and_then(|()| peers::gather(peers, &(own, told)));
        let everybody: Vec<(RankReport, Option<String>)> = match everybody {
            Ok(found) => found,
            Err(error) => return (JobReport { approach, ranks: Vec::new() }, Err(error)),
        };
        let first = everybody.iter().find_map(|(_, told)| told.clone());
        let wanted = |report: &RankReport| peers.rank() == 0 || report.rank == peers.rank();
        let mut ranks: Vec<RankReport> =
            everybody.into_iter().map(|(report, _)| report).filter(wanted).collect();
        let mine = ranks.iter_mut().find(|report| report.rank == peers.rank());
        if let (Some(writer), Some(dumps)) = (mine.and_then(|one| one.writer.as_mut()), dumps) {
            writer.dumps = dumps;
        }
        let end = closed.and(first.map_or(Ok(()), |text| Err(Error::StepFailed(text))));
        (JobReport { approach, ranks }, end)
    }
}

/// What ranks know when their writers are there.
struct Meeting<'a> {
    peers: &'a Arc<dyn Peers>,
    plan: &'a Plan,
    topology: &'a Topology,
    spread: bool,
}

impl Meeting<'_> {
    /// By memory that is shared with a writer on the same node.
    fn local(&self, addresses: &[String]) -> Result<Option<Session>> {
        let rank = self.peers.rank();
        let session = self.topology.writer_of.get(&rank).map(|by| {
            let client = self.client(rank, &addresses[*by])?;
            client.watch(died(rank, ITS_WRITER.to_owned(), self.peers.abort()))?;
            let synchronous = self.plan.config.approach == Approach::Tp;
            Ok(Session::new(Box::new(client), synchronous))
        });
        agreed(&**self.peers, session.transpose())
    }

    /// By messages to a rank on another node, which relays them to its writer.
    fn remote(&self, address: &str, writes: bool) -> Result<(Option<Session>, Option<Senders>)> {
        let rank = self.peers.rank();
        let relay = writes.then(|| {
            let ranks = self.topology.clients(rank);
            let local = ranks.iter().map(|&one| self.client(one, address));
            let local = local.collect::<Result<Vec<Client>>>()?;
            let port = Port::open(self.spread)?;
            let address = port.address.clone();
            Ok((Relay::new(port, ranks, self.plan.token.clone(), local), address))
        });
        let (relay, port) = match relay.transpose() {
            Ok(made) => {
                made.map_or((None, Ok(String::new())), |(relay, port)| (Some(relay), Ok(port)))
            }
            Err(error) => (None, Err(error)),
        };
        let ports = agree(&**self.peers, port)?;
        let made: Result<(Option<Session>, Option<Senders>)> = match relay {
            Some(relay) => relay.admit().map(|senders| (None, Some(senders))),
            None => self.topology.writer_of.get(&rank).map_or(Ok((None, None)), |&by| {
                let peers = Arc::clone(self.peers);
                let remote = Remote::connect(&ports[by], by, &self.plan.token, peers)?;
                watch(&remote, died(rank, ITS_WRITER.to_owned(), self.peers.abort()))?;
                Ok((Some(Session::new(Box::new(remote), false)), None))
            }),
        };
        agreed(&**self.peers, made)
    }

    fn client(&self, rank: usize, address: &str) -> Result<Client> {
        let (token, when_full) = (client_token(&self.plan.token), self.plan.config.when_full);
        Client::connect(&Address::from(address), rank, token, when_full)
    }
}

/// Call `died` from a thread of its own when the rank that relays is gone unasked.
fn watch(remote: &Remote, died: impl FnOnce() + Send + 'static) -> Result<()> {
    let (stream, closing) = remote.watched()?;
    client::watch(stream, closing, died)
}

fn plan(peers: &dyn Peers, config: Result<PathBuf>) -> Result<Plan> {
    let make = || -> Result<Plan> {
        let (mut config, dedicated_nodes) = Config::read_any(&config?)?;
        // Writers start in the folders of their own ranks.
        config.output = std::path::absolute(&config.output).map_err(|error| {
            Error::Input(format!("output {:?}: {}", config.output, plain(error)))
        })?;
        // Ranks and writers tell each other in JSON.
        if config.output.to_str().is_none() {
            return Err(Error::Input(format!("output {:?}: is not text in UTF-8", config.output)));
        }
        Ok(Plan { config, dedicated_nodes, id: random_hex(16)?, token: random_hex(16)? })
    };
    let own = (peers.rank() == 0).then(|| make().map_err(SentError::from));
    let found: std::result::Result<Plan, SentError> = peers::broadcast(peers, own.as_ref(), 0)?;
    Ok(found?)
}

/// The node of each rank: machines, in the order of their first ranks.
fn nodes(peers: &dyn Peers) -> Result<Vec<usize>> {
    let machines = peers::gather(peers, &peers.machine())?;
    let mut known: Vec<usize> = Vec::new();
    Ok(machines
        .into_iter()
        .map(|machine| {
            known.iter().position(|&one| one == machine).unwrap_or_else(|| {
                known.push(machine);
                known.len() - 1
            })
        })
        .collect())
}

/// What all ranks have; where one has none, why, on all.
fn agree<T: Serialize + serde::de::DeserializeOwned>(
    peers: &dyn Peers,
    own: Result<T>,
) -> Result<Vec<T>> {
    let all: Vec<std::result::Result<T, SentError>> =
        peers::gather(peers, &own.map_err(SentError::from))?;
    all.into_iter().map(|one| one.map_err(Error::from)).collect()
}

/// What this rank has, if no rank lacks its own; else why, on all.
fn agreed<T>(peers: &dyn Peers, own: Result<T>) -> Result<T> {
    let told = own.as_ref().map(|_| ()).map_err(Clone::clone);
    agree(peers, told)?;
    own
}

const ITS_WRITER: &str = "its writer";

/// What a rank does when somebody has died that it needs: end all ranks, and itself even where the launcher, which
/// MPI asks to do so, is stuck.
fn died(rank: usize, who: String, abort: Box<dyn Fn() + Send>) -> impl FnOnce() + Send {
    move || {
        tell("wattio-io", &format!("rank {rank}: {who} has died; all ranks are ended"));
        let _ = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(ABORT);
            std::process::abort();
        });
        abort();
    }
}

/// Remove a socket that nobody serves, as a killed writer leaves it; nothing else.
fn remove_stale(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let shown = path.display();
    let kind = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(host(&format!("{shown}: cannot be examined")))?.file_type(),
    };
    if !kind.is_socket() {
        return Err(Error::Input(format!("{shown}: already exists, and is not a socket")));
    }
    match Address::Path(path.to_owned()).connect() {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
        _ => {
            return Err(Error::Host(format!(
                "{shown}: the writer that serves there has all its ranks already, or refuses this one"
            )));
        }
    }
    std::fs::remove_file(path)
        .map_err(host(&format!("{shown}: a socket that nobody serves cannot be removed")))
}

/// A rank and the number of ranks, as a program gives them.
///
/// # Errors
///
/// `Input` where there can be no such rank.
pub fn rank_of(rank: i64, ranks: i64) -> Result<(usize, usize)> {
    let told = match (usize::try_from(rank), usize::try_from(ranks)) {
        (Ok(own), Ok(all)) if own < all => return Ok((own, all)),
        _ if ranks < 1 => format!("ranks = {ranks}; allowed: 1 or more"),
        _ => format!("rank = {rank} of {ranks}; allowed: 0 to {}", ranks - 1),
    };
    Err(Error::Input(told))
}

/// A rank that meets its writer at a path, without MPI, and the approach; the first rank starts the
/// writer where nobody has. `rank` is one of `ranks` (`rank_of`).
///
/// # Errors
///
/// `Input`, `Host`.
pub fn open_path(
    file: &Path,
    path: &Path,
    rank: usize,
    ranks: usize,
    beside: Option<&Path>,
) -> Result<(Session, String)> {
    if ranks > PATH_RANKS_MAX {
        return Err(Error::Input(format!("ranks = {ranks}; allowed: 1 to {PATH_RANKS_MAX}")));
    }
    let config = Config::read_for_path(file)?;
    let synchronous = config.approach == Approach::Tp;
    let connect = || {
        let client = Client::connect(&Address::Path(path.to_owned()), rank, 0, config.when_full)?;
        // There is nobody to be ended: calls tell.
        client.watch(|| {})?;
        Ok(client)
    };
    let session = |client| (Session::new(Box::new(client), synchronous), config.approach_text());
    if path.exists()
        && let Ok(client) = connect()
    {
        return Ok(session(client));
    }
    // One rank looks after the writer; the others sleep until it has.
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let what = format!("{}: cannot be locked", lock.display());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let held = rustix::fs::open(&lock, flags, Mode::from_raw_mode(0o600))
        .map_err(crate::error::kernel(&what))?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&held, FlockOperation::LockExclusive))
        .map_err(crate::error::kernel(&what))?;
    let start = || PathWriter::start(path, file, &config, ranks, beside);
    let client = connect().or_else(|_| start_and_connect(&connect, path, &start, &PATIENCE));
    // Only who waits needs it: those who come later find the socket.
    let _ = std::fs::remove_file(&lock);
    client.map(session)
}

/// Start a writer at a path, and reach it; one that cannot be reached is ended.
fn start_and_connect<T>(
    connect: &dyn Fn() -> Result<T>,
    path: &Path,
    start: &dyn Fn() -> Result<PathWriter>,
    patience: &Patience,
) -> Result<T> {
    remove_stale(path)?;
    let mut writer = start()?;
    let began = Instant::now();
    let mut told = false;
    loop {
        let error = match connect() {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        if let Some(why) = writer.refusal(RETRY) {
            return Err(why);
        }
        let (waited, program) = (began.elapsed(), writer.program());
        if waited >= patience.all {
            let limit = patience.all.as_secs();
            let why = Error::Host(format!(
                "the writer {program}, which was started, cannot be reached after {limit} s, and is \
                 ended: {error}"
            ));
            writer.end();
            return Err(why);
        }
        if waited >= patience.quiet && !told {
            told = true;
            let shown = path.display();
            tell("wattio-io", &format!("waiting for {program} to serve at {shown}"));
        }
    }
}

#[cfg(test)]
mod tests;
