//! A clock on the wall that a file moves: put in front of the C library's with `LD_PRELOAD`. The
//! monotonic clock is left alone. Built by `staging.rs`.

use std::ffi::{c_int, c_long};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

const CLOCK_REALTIME: c_int = 0;
const CLOCK_REALTIME_COARSE: c_int = 5;
#[cfg(target_arch = "x86_64")]
const SYS_CLOCK_GETTIME: c_long = 228;
#[cfg(target_arch = "aarch64")]
const SYS_CLOCK_GETTIME: c_long = 113;

/// # Safety
/// As the C library's: `time` is one that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int {
    let result = unsafe { syscall(SYS_CLOCK_GETTIME, clock, time) } as c_int;
    if result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        let offset = std::env::var_os("WALL_CLOCK_OFFSET")
            .and_then(|path| std::fs::read_to_string(path).ok())
            .and_then(|text| text.trim().parse::<c_long>().ok());
        unsafe { (*time)[0] += offset.unwrap_or(0) };
    }
    result
}
