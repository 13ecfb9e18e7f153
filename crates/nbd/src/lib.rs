//! The server's side of the NBD protocol: bytes in, requests and bytes out.
//!
//! Nothing here reads or writes: whoever owns the connection hands over what arrived and sends what
//! comes back. There are no sockets, threads or clocks, so a deadline for the handshake is the
//! owner's, and so is the number of requests in flight.
//!
//! 1. Send [`GREETING`], then [`Handshake::feed`] what arrives, until there is a [`Session`].
//! 2. Read [`Header::BYTES`] bytes, [`Header::parse`] them, and ask [`Session::judge`]: carry the
//!    [`Command`] out (a write's payload follows its header), refuse it, or close.
//! 3. Answer with [`Session::reply`]. Payload is never copied: heads come back, and the owner sends
//!    the payload behind them.
//!
//! After doc/proto.md of the NBD project (2026-05), without oldstyle negotiation and without the
//! experimental extensions: `EXTENDED_HEADERS` is answered with `NBD_REP_ERR_UNSUP`, as any option
//! that is not known, and 64-bit lengths and block status filters are therefore absent. The one
//! metadata context is `base:allocation`.
//!
//! ```
//! use wattio_nbd::{Command, Export, Exports, GREETING, Handshake, Header, Next, TlsPolicy};
//! use wattio_nbd::Verdict;
//!
//! let exports = Exports::new(vec![Export::new("disk", 1 << 20)])?;
//! let mut handshake = Handshake::new(exports, TlsPolicy::Off);
//! assert_eq!(&GREETING[..16], b"NBDMAGICIHAVEOPT");
//! // The client's flags, and the option EXPORT_NAME with the name.
//! let arrived = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk";
//! let (mut output, mut at) = (Vec::new(), 0);
//! let session = loop {
//!     let fed = handshake.feed(&arrived[at..], &mut output);
//!     at += fed.consumed_bytes;
//!     match fed.next {
//!         Next::Continue => continue, // Send `output`; read more where nothing is left.
//!         Next::Transmission(session) => break session,
//!         Next::StartTls | Next::Close(_) => panic!("not with these bytes"),
//!     }
//! };
//! assert_eq!(output[..8], (1_u64 << 20).to_be_bytes());
//! let read = Header { flags: 0, command: 0, cookie: 7, offset_bytes: 512, length_bytes: 1024 };
//! let Verdict::Accept(Command::Read { span, .. }) = session.judge(&read) else { panic!() };
//! let head = session.reply(read.cookie).whole_read(span);
//! assert_eq!(head.as_ref().len(), 16); // 1,024 bytes of data go behind it.
//! # Ok::<(), wattio_nbd::ExportError>(())
//! ```

mod errno;
mod export;
mod handshake;
mod reply;
mod request;
mod session;
mod wire;

pub use errno::Errno;
pub use export::{BlockSize, Export, ExportError, Exports, FastZero};
pub use handshake::{Closed, Fed, GREETING, HELD_BYTES_MAX, Handshake, Next, TlsPolicy};
pub use reply::{Broken, Chunks, Ending, Extent, Head, Reply};
pub use request::{BadMagic, Command, Header, Span};
pub use session::{Refusal, Session, TooLong, Verdict};
