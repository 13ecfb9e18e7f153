//! Where cores are few, a writer that wakes does not push the simulation aside.
#![allow(unsafe_code)]

/// Be scheduled as what computes in the background; where that cannot be, go on without.
pub fn yield_to_others() {
    // SAFETY: both structures are plain numbers, and the call changes this process alone.
    unsafe {
        let parameter = std::mem::zeroed::<libc::sched_param>();
        libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameter);
    }
}

/// End the process without what HDF5 does at its end, which may wait for ever after a file could not
/// be written. All that is to be kept has been written.
pub fn exit(code: i32) -> ! {
    // SAFETY: does not return; nothing of this process is needed any more.
    unsafe { libc::_exit(code) }
}
