//! A reactor: one thread with one ring, which runs its lanes until there is nothing left to do, and
//! then sleeps.

pub mod link;
mod orders;
mod parts;
mod published;
mod shared;
mod shutdown;
mod volumes;

pub use parts::{Listener, Owned, Parts};
pub use published::{Answered, Published};
pub use shared::{Halt, Loads, Moves, Order, Shared};

use crate::log::{Priority, log};
use crate::messages::{Answer, ToNormal, ToVolume};
use crate::normal::{Accepted, Normal};
use crate::plant::CLASSES;
use crate::token::Token;
use crate::volume::{Left, Rates, VolumeLane};
use link::{Hand, Link};
use rustix::net::sockopt;
use shutdown::Stopping;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use volumes::Volumes;
use wattio_pages::Recycler;
use wattio_ring::{Back, Completion, Handle, Ring, Wait};
use wattio_target_config::Idle;
use wattio_volume::Backlog;

/// Submissions that a ring takes at once.
const RING_ENTRIES: u32 = 256;
/// Memory for payloads that a reactor keeps for later use.
const MEMORY_BYTES: usize = 16 << 20;
/// Pause after a connection could not be accepted (no descriptors left).
const ACCEPT_REST: Duration = Duration::from_secs(1);

/// A reactor on its thread.
pub struct Reactor {
    number: usize,
    ring: Ring,
    memory: Recycler,
    normal: Normal,
    volumes: Volumes,
    links: Vec<Option<Link>>,
    listeners: Vec<(Handle, bool)>,
    idle: Idle,
    shared: Arc<Shared>,
    answers: Vec<ToNormal>,
    /// What others are told of volumes, behind what they are asked.
    words: Vec<(usize, Hand)>,
    is_parked: bool,
    /// Core-seconds in a second for each class of background work of one volume.
    rates: Rates,
    turns: u64,
    busy: Duration,
    /// Which reactor gets the next connection.
    next_connection: usize,
    stopping: Stopping,
}

impl Reactor {
    /// On the thread that will run it.
    ///
    /// # Errors
    /// When the kernel gives no ring, or takes no descriptor.
    pub fn new(parts: Parts, shared: Arc<Shared>) -> io::Result<Self> {
        let mut ring = Ring::new(RING_ENTRIES)?;
        let mut volumes = Volumes::default();
        for Owned { number, export, volume, devices, opening, pace, memory } in parts.volumes {
            let devices = devices.into_iter().map(|device| device.map(|one| ring.add(one)));
            let devices: io::Result<Vec<_>> = devices.map(Option::transpose).collect();
            let lane = VolumeLane::new(number, (volume, opening), devices?, pace, memory);
            volumes.add(number, export, lane);
        }
        let mut listeners = Vec::new();
        for (number, Listener { socket, is_tcp }) in parts.listeners.into_iter().enumerate() {
            let handle = ring.add(socket)?;
            ring.accept(Token::Accept(number).pack(), handle);
            listeners.push((handle, is_tcp));
        }
        Ok(Self {
            number: parts.number,
            normal: Normal::new(
                parts.number as u8,
                parts.offer,
                Arc::clone(shared.published(parts.number)),
            ),
            volumes,
            links: Vec::new(),
            listeners,
            idle: parts.idle,
            memory: Recycler::new(MEMORY_BYTES),
            ring,
            shared,
            answers: Vec::new(),
            words: Vec::new(),
            is_parked: false,
            rates: Rates::default(),
            turns: 0,
            busy: Duration::ZERO,
            next_connection: 0,
            stopping: Stopping::No,
        })
    }

    /// The ring, for its doorbell and for what the log says of it.
    #[must_use]
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Runs until the target stops.
    ///
    /// # Errors
    /// When the kernel refuses to go on.
    pub fn run(mut self, links: Vec<Option<Link>>) -> io::Result<()> {
        self.links = links;
        let published = Arc::clone(self.shared.published(self.number));
        published.begin();
        let (mut wait, mut busy_at, mut began) = (Wait::Poll, Instant::now(), Instant::now());
        loop {
            let (links, shared, number) = (&self.links, &self.shared, self.number);
            let has_work =
                || shared.has_orders(number) || links.iter().flatten().any(Link::has_work);
            let has_come = self.ring.has_come();
            let (former, entered) = (began, Instant::now());
            self.busy += entered - former;
            self.ring.enter_unless(wait, has_work)?;
            began = Instant::now();
            let now = began;
            self.turns += 1;
            // What came while the last turn went on came in the middle of it, on average.
            self.normal.begin_turn(if has_come { former + (now - former) / 2 } else { now });
            self.volumes.lanes().for_each(|(_, lane)| lane.begin_turn(now));
            let is_idle = !self.take_all();
            self.hand_over();
            if !is_idle {
                busy_at = now;
            }
            let mut left = self.work(now, is_idle);
            if is_idle && wait == Wait::Poll && left != Left::Now {
                published.looked(entered.elapsed());
            }
            match self.shared.halt() {
                Halt::No => {}
                Halt::Now => return Ok(()),
                Halt::Orderly => {
                    let before = self.stopping;
                    if self.stop(now) {
                        return Ok(());
                    }
                    // A volume that begins to close has work that nothing else brings up.
                    if self.stopping != before {
                        left = Left::Now;
                    }
                }
            }
            wait = self.wait(left, now, busy_at);
        }
    }

    /// Takes what has been completed, ordered and handed over; whether there was anything.
    fn take_all(&mut self) -> bool {
        let mut had_any = false;
        while let Some(completion) = self.ring.next_completion() {
            had_any = true;
            self.completed(completion);
        }
        for order in self.shared.take_orders(self.number) {
            had_any = true;
            self.order(order);
        }
        // Answers of others come now.
        self.normal.begin_answers(Instant::now());
        for from in 0..self.links.len() {
            while let Some(hand) = self.links[from].as_mut().and_then(Link::take) {
                had_any = true;
                self.handed(from, hand);
            }
        }
        had_any
    }

    fn handed(&mut self, from: usize, hand: Hand) {
        match hand {
            Hand::Ask(to) => self.ask(to),
            Hand::Answer(answer) => self.normal.answered(answer),
            Hand::Hold(volume) => {
                self.normal.hold(volume);
                self.words.push((from, Hand::Held(volume)));
            }
            Hand::Held(volume) => self.volumes.held(volume),
            Hand::Here(volume) => self.normal.found(volume, from),
        }
    }

    /// Asks a volume of this reactor; nothing else comes here.
    fn ask(&mut self, ToVolume { volume, tag, ask }: ToVolume) {
        match self.volumes.get(volume) {
            Some(lane) => lane.ask(tag, ask),
            None => {
                let answer = Answer::Done(Err(wattio_volume::Fault::Io));
                self.answers.push(ToNormal { tag, answer });
            }
        }
    }

    fn completed(&mut self, completion: Completion) {
        match Token::unpack(completion.token) {
            Some(Token::Receive(index)) => {
                self.normal.received(index, completion, &mut self.memory);
            }
            Some(Token::Send(index)) => self.normal.sent(index, completion, &mut self.memory),
            Some(Token::Device { volume, io }) => {
                if let Some(lane) = self.volumes.get(volume) {
                    lane.completed(io, completion, &mut self.memory);
                    self.shared.published(self.number).device_returns(1);
                }
            }
            Some(Token::Accept(listener)) => self.accepted(listener, completion),
            Some(Token::Listen(listener)) => {
                if let Some(&(handle, _)) = self.listeners.get(listener) {
                    self.ring.accept(Token::Accept(listener).pack(), handle);
                }
            }
            Some(Token::Deadline { connection, generation }) => {
                self.normal.deadline(connection, generation);
            }
            None => {}
        }
    }

    /// What lanes said to each other in this turn: a call if the other is here.
    fn hand_over(&mut self) {
        // Before the devices are given the next flush.
        self.let_others_leave();
        let mut asks = std::mem::take(&mut self.normal.asks);
        for (reactor, to) in asks.drain(..) {
            match self.links.get_mut(reactor).and_then(Option::as_mut) {
                None => self.ask(to),
                Some(link) => link.send(Hand::Ask(to)),
            }
        }
        self.normal.asks = asks;
        for (_, lane) in self.volumes.lanes() {
            lane.turn(&mut self.ring, &mut self.answers);
        }
        if !self.answers.is_empty() {
            self.normal.begin_answers(Instant::now());
        }
        for answer in self.answers.drain(..) {
            match self.links.get_mut(answer.tag.reactor()).and_then(Option::as_mut) {
                None => self.normal.answered(answer),
                Some(link) => link.send(Hand::Answer(answer)),
            }
        }
        self.normal.turn(&mut self.ring, &mut self.memory);
        for (volume, part) in self.normal.returned.drain(..) {
            if let Some(lane) = self.volumes.get(volume) {
                lane.recycle(part);
            }
        }
        for (reactor, word) in self.words.drain(..) {
            if let Some(link) = self.links.get_mut(reactor).and_then(Option::as_mut) {
                link.send(word);
            }
        }
        self.let_go();
        self.links.iter_mut().flatten().for_each(Link::end_turn);
    }

    /// Hands over what leaves and can.
    fn let_go(&mut self) {
        for (to, moving) in self.normal.left.drain(..) {
            self.shared.hand_over(to, Order::Arrive(Box::new(moving)));
        }
        while let Some((to, moving)) = self.volumes.depart(&mut self.ring) {
            self.shared.hand_over(to, Order::ArriveVolume(Box::new(moving)));
        }
    }

    /// Background work; what is left of it.
    fn work(&mut self, now: Instant, is_idle: bool) -> Left {
        let mut left = Left::Nothing;
        let mut backlogs = [(Backlog::default(), 0); CLASSES.len()];
        let published = self.shared.published(self.number);
        for (name, lane) in self.volumes.named_lanes() {
            left = left.sooner(lane.work(now, is_idle, published, random));
            lane.turn(&mut self.ring, &mut self.answers);
            left = left.sooner(lane.watch(name, now));
            lane.tell_roles(name);
            lane.log_faults(name);
            for ((sum, volumes), backlog) in backlogs.iter_mut().zip(lane.backlogs()) {
                sum.blocks += backlog.blocks;
                sum.urgency = sum.urgency.max(backlog.urgency);
                *volumes += u64::from(backlog.blocks > 0);
            }
        }
        for (class, (backlog, volumes)) in backlogs.into_iter().enumerate() {
            published.set_backlog(class, backlog, volumes);
        }
        // Work frees space that requests wait for.
        if self.answers.is_empty() { left } else { Left::Now }
    }

    fn wait(&self, left: Left, now: Instant, busy_at: Instant) -> Wait {
        let is_looking = match self.idle {
            _ if self.is_parked => false,
            Idle::Poll => true,
            Idle::Spin(span) => now.duration_since(busy_at) < span,
            Idle::Block => false,
        };
        let until = match self.stopping {
            // After that, only what was cancelled is to come.
            Stopping::Answering(until) if now < until => left.sooner(Left::At(until)),
            _ => left,
        };
        let is_told_soon = self.normal.is_send_awaited() && self.ring.has_quiet();
        match until {
            _ if is_looking || is_told_soon => Wait::Poll,
            Left::Now => Wait::Poll,
            Left::At(then) if then <= now => Wait::Poll,
            Left::At(then) => Wait::Until(then - now),
            Left::Nothing => Wait::Block,
        }
    }

    fn accepted(&mut self, listener: usize, completion: Completion) {
        let goes_on = completion.more;
        if let Back::Socket(socket) = completion.back {
            let is_tcp = self.listeners.get(listener).is_some_and(|&(_, is_tcp)| is_tcp);
            if is_tcp {
                tune(&socket);
            }
            let reactor = self.shared.next_accepting(self.next_connection);
            self.next_connection = (reactor + 1) % self.shared.reactors();
            let accepted = Accepted { socket, is_tcp };
            if reactor == self.number {
                self.normal.connect(&mut self.ring, accepted);
            } else {
                self.shared.order(reactor, Order::Connection(accepted));
            }
        }
        if !goes_on && self.stopping == Stopping::No {
            if let Err(error) = completion.result {
                log(Priority::Error, &format!("a connection could not be accepted: {error}"));
            }
            self.ring.timeout(Token::Listen(listener).pack(), ACCEPT_REST);
        }
    }
}

/// Small replies are sent at once, and a client whose host has gone is noticed, within two minutes.
fn tune(socket: &OwnedFd) {
    // It is slower, or keeps its place for longer, without.
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepcnt(socket, 6);
}

/// A number that is different each time.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
