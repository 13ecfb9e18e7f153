//! What can be turned.
