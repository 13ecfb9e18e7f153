//! What this process is to the simulation: its own, and no hindrance to it.
#![allow(unsafe_code)]

/// Let go of what the rank had open that has started this process, but for the three standard ones: a launcher
/// that waits for the end of a rank's pipe, and whoever waits for a lock of its, would wait for this one, too.
/// Before anything else is opened.
pub fn let_go_of_what_others_opened() {
    // SAFETY: nothing of this process has a descriptor of its own yet.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// Be scheduled as what computes in the background, so that where cores are few a writer that wakes does not
/// push the simulation aside; where that cannot be, go on without.
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
