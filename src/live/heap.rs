//! The heap of the screen's process, which may be there for weeks: one arena for all its threads, and what a prediction needed for a
//! moment is given back. Where the C library is another one than glibc, nothing is done.

/// Before any thread is started: each of a dozen that mostly sleep would have an arena of its own.
#[cfg(target_env = "gnu")]
pub(super) fn keep_together() {
    use nix::libc;
    // SAFETY: changes a setting of this process's allocator, which locks for it.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Gives free memory back to the system.
#[cfg(target_env = "gnu")]
pub(super) fn give_back() {
    use nix::libc;
    // SAFETY: only free memory is touched, under the allocator's own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn keep_together() {}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
