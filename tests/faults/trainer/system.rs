//! The system calls that std does not have.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

unsafe extern "C" {
    fn fork() -> c_int;
    fn setsid() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn _exit(code: c_int) -> !;
    fn getpid() -> c_int;
    fn getppid() -> c_int;
    fn getsid(pid: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, length: usize) -> isize;
    fn ioctl(fd: c_int, request: u64, ...) -> c_int;
    fn cfmakeraw(settings: *mut c_void);
    fn tcgetattr(fd: c_int, settings: *mut c_void) -> c_int;
    fn tcsetattr(fd: c_int, when: c_int, settings: *const c_void) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut [c_long; 2]) -> c_int;
    fn getpriority(which: c_int, who: c_uint) -> c_int;
    fn umask(mask: c_uint) -> c_uint;
    fn waitpid(pid: c_int, status: *mut c_int, flags: c_int) -> c_int;
    fn setrlimit(what: c_int, limit: *const [u64; 2]) -> c_int;
    fn prctl(option: c_int, ...) -> c_int;
}

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const TIOCGWINSZ: u64 = 0x5413;
const CLOCK_MONOTONIC: c_int = 1;
const RLIMIT_CORE: c_int = 4;
const PR_SET_NAME: c_int = 15;

static COUNTS: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
static TOLD: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
static EXITS: [AtomicI32; 65] = [const { AtomicI32::new(-1) }; 65];

extern "C" fn count(signal: c_int) {
    if let Some(count) = COUNTS.get(signal as usize) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// `TERM`, `SIGTERM` or `15`.
pub fn signal_of(word: &str) -> i32 {
    const NAMES: [(&str, i32); 19] = [
        ("HUP", 1), ("INT", 2), ("QUIT", 3), ("ABRT", 6), ("KILL", 9), ("USR1", 10), ("SEGV", 11),
        ("USR2", 12), ("PIPE", 13), ("ALRM", 14), ("TERM", 15), ("CHLD", 17), ("CONT", 18), ("STOP", 19),
        ("TSTP", 20), ("TTIN", 21), ("TTOU", 22), ("XFSZ", 25), ("WINCH", 28),
    ];
    let name = word.trim_start_matches("SIG");
    let named = NAMES.iter().find(|(other, _)| *other == name).map(|(_, number)| *number);
    named.or_else(|| word.parse().ok()).unwrap_or_else(|| panic!("{word} is no signal"))
}

pub fn catch(number: i32, how: &str) {
    let handler = match how {
        "ignore" => SIG_IGN,
        _ => count as extern "C" fn(c_int) as usize,
    };
    if let Some(code) = how.strip_prefix("exit-") {
        EXITS[number as usize].store(code.parse().expect("a code"), Ordering::SeqCst);
    }
    if how != "ignore" {
        crate::put(&count_file(number as usize), b"0\n");
    }
    unsafe { signal(number, handler) };
}

fn count_file(number: usize) -> String {
    format!("{}count-{number}", crate::NAME.lock().expect("a name"))
}

/// How often a signal was caught.
pub fn caught(number: i32) -> u32 {
    COUNTS[number as usize].load(Ordering::SeqCst)
}

/// Tells what was caught, and ends where that was asked for.
pub fn act_on_signals() {
    for (number, count) in COUNTS.iter().enumerate() {
        let now = count.load(Ordering::SeqCst);
        if TOLD[number].swap(now, Ordering::SeqCst) != now {
            crate::put(&count_file(number), format!("{now}\n").as_bytes());
            let code = EXITS[number].load(Ordering::SeqCst);
            if code >= 0 {
                end(code);
            }
        }
    }
}

pub fn send(pid: i32, number: i32) {
    unsafe { kill(pid, number) };
}

pub fn own_pid() -> i32 {
    unsafe { getpid() }
}

pub fn parent_pid() -> i32 {
    unsafe { getppid() }
}

pub fn is_session_leader() -> bool {
    unsafe { getsid(0) == getpid() }
}

/// Whether this is the child. There are no threads here that a fork could leave behind.
pub fn fork_child() -> bool {
    match unsafe { fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        pid => pid == 0,
    }
}

pub fn new_session() {
    unsafe { setsid() };
}

pub fn end(code: i32) -> ! {
    unsafe { _exit(code) }
}

pub fn die_by(number: i32) -> ! {
    unsafe {
        setrlimit(RLIMIT_CORE, &[0, 0]);
        signal(number, SIG_DFL);
        kill(getpid(), number);
    }
    loop {
        std::thread::park();
    }
}

pub fn close_fd(fd: i32) {
    unsafe { close(fd) };
}

pub fn write_fd(fd: i32, bytes: &[u8]) -> io::Result<usize> {
    match unsafe { write(fd, bytes.as_ptr().cast(), bytes.len()) } {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n as usize),
    }
}

pub fn make_raw(fd: i32) {
    // Larger than any struct termios.
    let mut settings = [0u64; 32];
    unsafe {
        tcgetattr(fd, settings.as_mut_ptr().cast());
        cfmakeraw(settings.as_mut_ptr().cast());
        tcsetattr(fd, 0, settings.as_ptr().cast());
    }
}

/// Rows and columns; nothing where it is no terminal.
pub fn window_size(fd: i32) -> Option<(u16, u16)> {
    let mut size = [0u16; 4];
    let answered = unsafe { ioctl(fd, TIOCGWINSZ, size.as_mut_ptr()) } == 0;
    answered.then_some((size[0], size[1]))
}

pub fn monotonic_us() -> u64 {
    let mut time = [0; 2];
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time[0] as u64 * 1_000_000 + time[1] as u64 / 1_000
}

pub fn niceness() -> i32 {
    unsafe { getpriority(0, 0) }
}

pub fn umask_now() -> u32 {
    unsafe {
        let mask = umask(0o077);
        umask(mask);
        mask
    }
}

fn reap_what_ended() {
    while unsafe { waitpid(-1, std::ptr::null_mut(), 1) } > 0 {}
}

/// `count` grandchildren whose parents end before them.
pub fn storm(count: u64) {
    for _ in 0..count {
        if fork_child() {
            if fork_child() {
                std::thread::yield_now();
            }
            end(0);
        }
        reap_what_ended();
    }
}

/// A family that never dies out by itself: each leaves a child behind and ends.
pub fn breed(until: &Path) {
    unsafe { prctl(PR_SET_NAME, c"breeder".as_ptr()) };
    if !fork_child() {
        return;
    }
    // If the test is killed, nobody ends the family.
    let end_at = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !until.exists() && std::time::Instant::now() < end_at {
        std::thread::sleep(std::time::Duration::from_millis(2));
        if !fork_child() {
            end(0);
        }
    }
    end(0);
}
