//! What each option does and is answered.

use super::replies::{Denied, Replies};
use super::{Closed, Handshake, Next, State, TlsPolicy};
use crate::export::{BlockSize, Export};
use crate::session::{ALLOCATION_CONTEXT_ID, Session};
use crate::wire::{Fields, STRING_BYTES_MAX, info, option, rep};

const ALLOCATION: &[u8] = b"base:allocation";
const EVERYTHING_OF_BASE: &[u8] = b"base:";

const WITH_DATA: Denied = Denied(rep::ERR_INVALID, "this option takes no data");
const MALFORMED: Denied = Denied(rep::ERR_INVALID, "the data do not have the form of this option");
const STRING_TOO_LONG: Denied = Denied(rep::ERR_TOO_BIG, "a string of more than 4096 bytes");
const DATA_TOO_LONG: Denied = Denied(rep::ERR_TOO_BIG, "too much data for one option");
const UNKNOWN_OPTION: Denied = Denied(rep::ERR_UNSUP, "this server does not know the option");
const UNKNOWN_EXPORT: Denied = Denied(rep::ERR_UNKNOWN, "there is no export of this name");
const TLS_REQUIRED: Denied = Denied(rep::ERR_TLS_REQD, "this server requires TLS");
const TLS_IS_OFF: Denied = Denied(rep::ERR_POLICY, "TLS is not enabled on this server");
const TLS_IS_ON: Denied = Denied(rep::ERR_INVALID, "TLS has started already");
const NOT_STRUCTURED: Denied =
    Denied(rep::ERR_INVALID, "metadata contexts need structured replies, which were not asked for");

impl Handshake {
    /// The answer to an option that has arrived whole.
    pub(super) fn answer(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Next {
        let mut replies = Replies { option, output };
        match option {
            option::ABORT => return aborted(&mut replies),
            option::EXPORT_NAME => return self.export_name(data, replies.output),
            option::STARTTLS => return self.start_tls(data, &mut replies),
            _ if self.lacks_tls() => replies.end(Err(TLS_REQUIRED)),
            option::GO => match self.info(data, &mut replies) {
                Ok(export) => {
                    replies.end(Ok(()));
                    return Next::Transmission(self.session(export));
                }
                Err(denied) => replies.end(Err(denied)),
            },
            option::INFO => {
                let outcome = self.info(data, &mut replies);
                replies.end(outcome.map(|_| ()));
            }
            option::LIST => {
                let outcome = self.list(data, &mut replies);
                replies.end(outcome);
            }
            option::STRUCTURED_REPLY => {
                let outcome = without_data(data);
                self.is_structured |= outcome.is_ok();
                replies.end(outcome);
            }
            option::LIST_META_CONTEXT => {
                let outcome = self.list_contexts(data, &mut replies);
                replies.end(outcome);
            }
            option::SET_META_CONTEXT => {
                let outcome = self.set_contexts(data, &mut replies);
                replies.end(outcome);
            }
            _ => replies.end(Err(UNKNOWN_OPTION)),
        }
        Next::Continue
    }

    /// The answer to an option with so much data that they were not kept.
    pub(super) fn answer_dropped(&mut self, option: u32, output: &mut Vec<u8>) -> Next {
        let mut replies = Replies { option, output };
        match option {
            option::ABORT => return aborted(&mut replies),
            option::STARTTLS => replies.end(Err(WITH_DATA)),
            _ if self.lacks_tls() => replies.end(Err(TLS_REQUIRED)),
            option::LIST | option::STRUCTURED_REPLY => replies.end(Err(WITH_DATA)),
            option::INFO | option::GO | option::LIST_META_CONTEXT => {
                replies.end(Err(DATA_TOO_LONG));
            }
            option::SET_META_CONTEXT => {
                self.allocation_of = None;
                replies.end(Err(DATA_TOO_LONG));
            }
            _ => replies.end(Err(UNKNOWN_OPTION)),
        }
        Next::Continue
    }

    fn lacks_tls(&self) -> bool {
        self.tls == TlsPolicy::Required && !self.has_tls
    }

    /// Why `EXPORT_NAME` ends without an export.
    pub(super) fn no_export(&self) -> Closed {
        if self.lacks_tls() { Closed::TlsRequired } else { Closed::UnknownExport }
    }

    fn session(&self, export: usize) -> Session {
        let has_allocation = self.is_structured && self.allocation_of == Some(export);
        Session::new(self.exports.clone(), export, self.is_structured, has_allocation)
    }

    /// The one option without a reply of the usual form.
    fn export_name(&self, name: &[u8], output: &mut Vec<u8>) -> Next {
        let found = if self.lacks_tls() { None } else { self.exports.find(name) };
        let Some(at) = found else { return Next::Close(self.no_export()) };
        let export = &self.exports.as_slice()[at];
        output.extend_from_slice(&export.size_bytes.to_be_bytes());
        output.extend_from_slice(&export.transmission_flags(self.is_structured).to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; 124]);
        }
        Next::Transmission(self.session(at))
    }

    fn start_tls(&mut self, data: &[u8], replies: &mut Replies) -> Next {
        let outcome = match self.tls {
            _ if self.has_tls => Err(TLS_IS_ON),
            _ if !data.is_empty() => Err(WITH_DATA),
            TlsPolicy::Off => Err(TLS_IS_OFF),
            TlsPolicy::Allowed | TlsPolicy::Required => Ok(()),
        };
        let next = if outcome.is_ok() { Next::StartTls } else { Next::Continue };
        if outcome.is_ok() {
            self.state = State::Tls;
        }
        replies.end(outcome);
        next
    }

    fn list(&self, data: &[u8], replies: &mut Replies) -> Result<(), Denied> {
        without_data(data)?;
        for Export { name, description, .. } in self.exports.as_slice() {
            // At most 4,096 bytes, so it fits.
            let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes();
            let parts = [&length, name.as_bytes(), description.as_bytes()];
            replies.put(rep::SERVER, &parts);
        }
        Ok(())
    }

    /// The information that `INFO` and `GO` ask for; returns the place of the export.
    fn info(&self, data: &[u8], replies: &mut Replies) -> Result<usize, Denied> {
        let mut fields = Fields(data);
        let name = fields.string().ok_or(MALFORMED)?;
        let count = fields.u16().ok_or(MALFORMED)?;
        let wanted = fields.bytes(usize::from(count) * 2).ok_or(MALFORMED)?;
        if !fields.is_empty() {
            return Err(MALFORMED);
        }
        let at = self.find(name)?;
        let export = &self.exports.as_slice()[at];
        let wants = |kind: u16| wanted.chunks_exact(2).any(|bytes| bytes == kind.to_be_bytes());
        let flags = export.transmission_flags(self.is_structured);
        let size = export.size_bytes.to_be_bytes();
        replies.info(info::EXPORT, [&size, &flags.to_be_bytes(), &[]]);
        if wants(info::NAME) {
            replies.info(info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if wants(info::DESCRIPTION) && !export.description.is_empty() {
            replies.info(info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        // Sizes that a client would not assume are told unasked.
        let sizes = export.block_size;
        if wants(info::BLOCK_SIZE) || sizes != BlockSize::default() {
            let bytes = [sizes.min_bytes, sizes.preferred_bytes, sizes.max_payload_bytes];
            let [min, preferred, max] = bytes.map(u32::to_be_bytes);
            replies.info(info::BLOCK_SIZE, [&min, &preferred, &max]);
        }
        Ok(at)
    }

    fn find(&self, name: &[u8]) -> Result<usize, Denied> {
        if name.len() > STRING_BYTES_MAX {
            return Err(STRING_TOO_LONG);
        }
        self.exports.find(name).ok_or(UNKNOWN_EXPORT)
    }

    fn list_contexts(&self, data: &[u8], replies: &mut Replies) -> Result<(), Denied> {
        let (at, queries) = self.queries(data)?;
        let matches = queries.is_empty()
            || [EVERYTHING_OF_BASE, ALLOCATION].iter().any(|q| queries.contains(q));
        if matches && self.exports.as_slice()[at].can_block_status {
            replies.put(rep::META_CONTEXT, &[&0_u32.to_be_bytes(), ALLOCATION]);
        }
        Ok(())
    }

    /// What was selected before is gone even where this fails.
    fn set_contexts(&mut self, data: &[u8], replies: &mut Replies) -> Result<(), Denied> {
        self.allocation_of = None;
        let (at, queries) = self.queries(data)?;
        if queries.contains(&ALLOCATION) && self.exports.as_slice()[at].can_block_status {
            self.allocation_of = Some(at);
            replies.put(rep::META_CONTEXT, &[&ALLOCATION_CONTEXT_ID.to_be_bytes(), ALLOCATION]);
        }
        Ok(())
    }

    /// The export and the queries of both options about contexts. Queries of other namespaces, and
    /// of none, find nothing.
    fn queries<'a>(&self, data: &'a [u8]) -> Result<(usize, Vec<&'a [u8]>), Denied> {
        if !self.is_structured {
            return Err(NOT_STRUCTURED);
        }
        let mut fields = Fields(data);
        let name = fields.string().ok_or(MALFORMED)?;
        let count = fields.u32().ok_or(MALFORMED)?;
        // Each takes four bytes at least, so a count that is not true ends with the data.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(fields.string().ok_or(MALFORMED)?);
        }
        if !fields.is_empty() {
            return Err(MALFORMED);
        }
        if queries.iter().any(|query| query.len() > STRING_BYTES_MAX) {
            return Err(STRING_TOO_LONG);
        }
        Ok((self.find(name)?, queries))
    }
}

fn without_data(data: &[u8]) -> Result<(), Denied> {
    if data.is_empty() { Ok(()) } else { Err(WITH_DATA) }
}

fn aborted(replies: &mut Replies) -> Next {
    replies.end(Ok(()));
    Next::Close(Closed::Aborted)
}
