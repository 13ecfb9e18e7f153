//! The command line as an operator meets it, without root: texts, exit codes, and shadow mode from
//! its first sample to its report.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod arguments;
mod bounds;
mod check;
mod doctor;
mod init;
mod keeper;
mod reload;
mod restore;
mod shadow;
mod support;
