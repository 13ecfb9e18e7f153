//! One ring of io_uring for one thread: files, block devices and sockets by the same calls.
//!
//! [`Ring`] takes an operation with a token of the caller and with the memory that it works on, keeps
//! both until the kernel is done, and gives them back as a [`Completion`]. Memory that the kernel
//! reads or writes can therefore not be freed or changed meanwhile, whatever the caller does, and
//! no caller needs unsafe code. One system call, [`Ring::enter`], submits what was queued and waits.
//!
//! - A [`Handle`] names a descriptor that the ring owns. It is closed by [`Ring::close`] once
//!   nothing is under way on it.
//! - What moves a number of bytes is finished by the ring: after a short write or send it submits the
//!   rest, and the caller sees one completion.
//! - A send can end without waking the thread that waits for something else ([`Ring::send_quietly`]).
//! - More operations may be under way than the ring has entries; those that do not fit wait in it.
//! - A [`Doorbell`] wakes a ring that sleeps, from any thread.
//!
//! Needs Linux 5.13; what makes it cheap (completions handled in the thread's own system calls) came
//! with 6.1. [`Ring::new`] takes the best that the kernel has, see [`Ring::setup`].

mod completion;
mod doorbell;
mod flight;
mod handles;
mod operations;
mod ring;
mod setup;

pub use completion::{Back, Completion, Part};
pub use doorbell::Doorbell;
pub use flight::{Interest, Reach, Take};
pub use handles::Handle;
pub use ring::{Ring, Wait};
