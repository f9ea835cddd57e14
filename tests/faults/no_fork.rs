//! Refuses the keeper the first processes that it asks for, as where `ulimit -u` is reached for a moment: put in front of
//! the C library's `fork` with `LD_PRELOAD`. Built by `staging.rs`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn prctl(option: c_int, ...) -> c_int;
    fn __errno_location() -> *mut c_int;
}

const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
const PR_GET_NAME: c_int = 16;
const EAGAIN: c_int = 11;
const REFUSED: u32 = 5;

static ASKED: AtomicU32 = AtomicU32::new(0);

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> c_int {
    let mut name = [0_u8; 16];
    unsafe {
        prctl(PR_GET_NAME, name.as_mut_ptr());
        if name.starts_with(b"oomph-keeper") && ASKED.fetch_add(1, Ordering::Relaxed) < REFUSED {
            *__errno_location() = EAGAIN;
            return -1;
        }
        let real: unsafe extern "C" fn() -> c_int =
            std::mem::transmute(dlsym(RTLD_NEXT, c"fork".as_ptr()));
        real()
    }
}
