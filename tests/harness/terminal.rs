//! A pseudo-terminal with an emulator behind it, and the program under test in front.

use super::frames::Frames;
use super::{Key, Marker, PATIENCE, processes, wait_until};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, read, setsid, write};
use oomph::event::Exit;
use std::ffi::OsStr;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Raw output kept for the post-mortem; a program that writes more is seen on the screen only.
const RAW_KEPT: usize = 64 << 20;

nix::ioctl_write_ptr_bad!(set_window_size, nix::libc::TIOCSWINSZ, Winsize);
nix::ioctl_write_int_bad!(take_controlling_terminal, nix::libc::TIOCSCTTY);

/// A terminal in which a program runs. Dropped, it kills whatever is left of it.
pub struct Terminal {
    master: Option<Arc<OwnedFd>>,
    /// Held open so that the terminal's settings can still be read when the program is gone.
    slave: OwnedFd,
    child: Child,
    exit: Option<Exit>,
    view: Arc<Mutex<View>>,
    reader: Option<(UnixStream, JoinHandle<()>)>,
    before: Termios,
    marker: Marker,
}

/// What the person sees, and what came down the wire.
struct View {
    parser: vt100::Parser,
    frames: Frames,
    raw: Vec<u8>,
}

/// What a test waits for: text on the screen, or whatever a closure says of the screen's text.
pub trait Expectation {
    /// Whether it is there.
    fn met(&mut self, screen: &str) -> bool;
    /// What it is, for the message.
    fn words(&self) -> String;
}

impl Expectation for &str {
    fn met(&mut self, screen: &str) -> bool {
        screen.contains(*self)
    }
    fn words(&self) -> String {
        format!("{self:?}")
    }
}

impl<F: FnMut(&str) -> bool> Expectation for F {
    fn met(&mut self, screen: &str) -> bool {
        self(screen)
    }
    fn words(&self) -> String {
        "what the test looks for".into()
    }
}

impl Terminal {
    /// Starts `argv` in a terminal of its own. Of the environment it gets `PATH`, a `TERM`, a
    /// locale, the marker, and `env`: nothing of the machine's that could change what is seen.
    pub fn spawn<W: AsRef<OsStr>>(
        argv: &[W],
        env: &[(&str, &str)],
        rows: u16,
        cols: u16,
    ) -> Terminal {
        let size = window(rows, cols);
        let (master, slave) = pseudo_terminal();
        // SAFETY: the descriptor is open and the size is a plain structure.
        unsafe { set_window_size(master.as_raw_fd(), &size) }.expect("a size");
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a master that never blocks");
        let before = tcgetattr(&slave).expect("the terminal's settings");
        let marker = Marker::unique();
        let stdio = || Stdio::from(slave.try_clone().expect("another handle of the terminal"));
        let mut command = Command::new(&argv[0]);
        command
            .args(&argv[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env(processes::VARIABLE, marker.value())
            .envs(env.iter().copied())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio());
        // SAFETY: between fork and exec only two system calls are made.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                take_controlling_terminal(0, 0)?;
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        let view = Arc::new(Mutex::new(View {
            parser: vt100::Parser::new(at_least_one(rows), at_least_one(cols), 0),
            frames: Frames::default(),
            raw: Vec::new(),
        }));
        let master = Arc::new(master);
        let reader = begin_reading(Arc::clone(&master), Arc::clone(&view));
        Terminal {
            master: Some(master),
            slave,
            child,
            exit: None,
            view,
            reader: Some(reader),
            before,
            marker,
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// The screen's text, a line a row, without blanks at the ends of rows.
    pub fn screen(&self) -> String {
        self.view().parser.screen().contents()
    }

    /// The emulator's screen itself, for colours, the cursor, modes.
    pub fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.view().parser.screen())
    }

    /// Every byte that came so far.
    pub fn raw(&self) -> Vec<u8> {
        self.view().raw.clone()
    }

    /// The program's process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// The marker that it and all that it starts carry.
    pub fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Waits until the screen shows `what`, and returns it; fails with a post-mortem after
    /// `patience`, or as soon as the program and all that it started have ended without showing it.
    #[track_caller]
    pub fn wait_for(&mut self, mut what: impl Expectation, patience: Duration) -> String {
        let deadline = Instant::now() + patience;
        loop {
            let ended = self.has_ended() && self.marker.processes().is_empty();
            // Once more: the last of them may have written in between.
            self.has_ended();
            let screen = self.screen();
            if what.met(&screen) {
                return screen;
            }
            if ended || Instant::now() >= deadline {
                let end = self.exit.map_or("runs".into(), |exit| exit.to_string());
                let words = what.words();
                panic!(
                    "{words} did not come; the program: {end}\n{}",
                    self.post_mortem()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Presses a key, or types text.
    #[track_caller]
    pub fn press(&self, key: impl Into<Key>) {
        let bytes = key.into().bytes();
        let master = self.master.as_ref().expect("the terminal is not closed");
        let deadline = Instant::now() + PATIENCE;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match write(master, rest) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    assert!(Instant::now() < deadline, "nobody reads the keyboard");
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("the keyboard: {error}"),
            }
        }
    }

    /// Gives the terminal another size; the program is told by the kernel.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.view()
            .parser
            .screen_mut()
            .set_size(at_least_one(rows), at_least_one(cols));
        let master = self.master.as_ref().expect("the terminal is not closed");
        // SAFETY: a terminal of ours and a structure of the kernel's.
        unsafe { set_window_size(master.as_raw_fd(), &window(rows, cols)) }.expect("a new size");
    }

    /// Reads no more, as a window whose output was stopped (Ctrl-S, a stopped ssh).
    pub fn stop_reading(&mut self) {
        if let Some((wake, reader)) = self.reader.take() {
            drop(wake);
            let _ = reader.join();
        }
    }

    /// Reads on.
    pub fn read_on(&mut self) {
        if let (Some(master), None) = (&self.master, &self.reader) {
            self.reader = Some(begin_reading(Arc::clone(master), Arc::clone(&self.view)));
        }
    }

    /// Hangs up, as a closed window or a broken connection does.
    pub fn close(&mut self) {
        self.stop_reading();
        // The last handle: the kernel now sends SIGHUP.
        let master = self.master.take();
        debug_assert!(master.is_none_or(|master| Arc::strong_count(&master) == 1));
    }

    /// Whether it was hung up.
    pub fn is_closed(&self) -> bool {
        self.master.is_none()
    }

    /// Waits until the program has ended and all that it wrote is on the screen.
    #[track_caller]
    pub fn exit(&mut self, patience: Duration) -> Exit {
        let deadline = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() >= deadline {
                panic!(
                    "it has not ended after {patience:?}\n{}",
                    self.post_mortem()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.exit.expect("it has ended")
    }

    /// Whether the program has ended; then all that it wrote is on the screen.
    fn has_ended(&mut self) -> bool {
        if self.exit.is_none() {
            let status = self.child.try_wait().expect("the program's status");
            self.exit = status.and_then(|status| Exit::from_raw(status.into_raw()));
        }
        if self.exit.is_some()
            && let Some(master) = &self.master
        {
            let mut view = self.view();
            drain(master, &mut view);
            let rest = view.frames.rest();
            view.parser.process(&without_emoji_marks(&rest));
        }
        self.exit.is_some()
    }

    /// What is not as it was found: settings, modes, a hidden cursor. Empty where all is well.
    pub fn left_behind(&self) -> Vec<&'static str> {
        let now = tcgetattr(&self.slave).expect("the terminal's settings");
        let view = self.view();
        let screen = view.parser.screen();
        let mouse = screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None;
        [
            (now != self.before, "terminal settings (termios)"),
            (screen.alternate_screen(), "the alternate screen"),
            (screen.hide_cursor(), "a hidden cursor"),
            (mouse, "mouse reports"),
            (screen.bracketed_paste(), "bracketed paste"),
            (screen.application_keypad(), "the application keypad"),
            (screen.application_cursor(), "application cursor keys"),
            (is_left_on(&view.raw, b"\x1b[?2026"), "synchronized output"),
            (is_left_on(&view.raw, b"\x1b[?1004"), "focus reports"),
        ]
        .into_iter()
        .filter_map(|(left, what)| left.then_some(what))
        .collect()
    }

    /// The terminal's settings as they are now.
    pub fn settings(&self) -> Termios {
        tcgetattr(&self.slave).expect("the terminal's settings")
    }

    /// The settings it had before the program started.
    pub fn settings_before(&self) -> &Termios {
        &self.before
    }

    /// The screen in a frame and the end of the raw bytes, to be read by a person.
    pub fn post_mortem(&self) -> String {
        let view = self.view();
        let (_, cols) = view.parser.screen().size();
        let rule = "─".repeat(usize::from(cols.get()));
        let tail = &view.raw[view.raw.len().saturating_sub(600)..];
        format!(
            "{rule}\n{}\n{rule}\nthe last of {} bytes: {}",
            view.parser.screen().contents(),
            view.raw.len(),
            tail.escape_ascii(),
        )
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
        self.marker.kill_all();
        let _ = self.child.kill();
        // Killed, so this returns; what the kernel cannot kill is not ours to wait for.
        if !std::thread::panicking() {
            wait_until("the program is reaped", PATIENCE, || {
                !matches!(self.child.try_wait(), Ok(None))
            });
        }
    }
}

fn window(rows: u16, cols: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// A terminal may say 0×0; an emulator cannot be that small.
fn at_least_one(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN)
}

/// Both ends of a new pseudo-terminal, which no program inherits: openpty(3) would let another
/// test's child have them in between, and then closing one here would not hang up the terminal.
pub fn pseudo_terminal() -> (OwnedFd, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).expect("a pseudo-terminal");
    grantpt(&master).expect("its other end granted");
    unlockpt(&master).expect("its other end unlocked");
    let name = ptsname_r(&master).expect("its name");
    let slave = open(name.as_str(), flags, Mode::empty()).expect("its other end");
    let master = master.as_fd().try_clone_to_owned().expect("a plain handle");
    (master, slave)
}

/// Reads for as long as the other end of the returned stream is held: a program whose output
/// nobody reads stops.
fn begin_reading(master: Arc<OwnedFd>, view: Arc<Mutex<View>>) -> (UnixStream, JoinHandle<()>) {
    let (wake, woken) = UnixStream::pair().expect("a pair of sockets");
    let reader = std::thread::spawn(move || {
        loop {
            let mut ready = [
                PollFd::new(master.as_fd(), PollFlags::POLLIN),
                PollFd::new(woken.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
            if ready[1].any().unwrap_or(true) {
                return;
            }
            drain(
                &master,
                &mut view.lock().unwrap_or_else(|held| held.into_inner()),
            );
        }
    });
    (wake, reader)
}

/// The emulator panics where a sign that U+FE0F makes an emoji stands in the last column (vt100 0.18).
fn without_emoji_marks(bytes: &[u8]) -> Vec<u8> {
    const MARK: [u8; 3] = [0xef, 0xb8, 0x8f];
    let mut shown = Vec::with_capacity(bytes.len());
    for byte in bytes {
        shown.push(*byte);
        if shown.ends_with(&MARK) {
            shown.truncate(shown.len() - MARK.len());
        }
    }
    shown
}

/// Takes in all that is there. A read, other than a poll, also waits for what is still on its way
/// through the kernel, so that nothing of a program that has ended is missed.
fn drain(master: &OwnedFd, view: &mut View) {
    let mut buffer = [0; 16 << 10];
    loop {
        match read(master, &mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let whole = view.frames.whole(&buffer[..n]);
                view.parser.process(&without_emoji_marks(&whole));
                let room = RAW_KEPT.saturating_sub(view.raw.len()).min(n);
                view.raw.extend_from_slice(&buffer[..room]);
            }
            Err(Errno::EINTR) => {}
            // Nothing there, or nobody on the other side any more.
            Err(_) => return,
        }
    }
}

/// Whether a private mode was set (`h`) and not reset (`l`) after it.
fn is_left_on(raw: &[u8], mode: &[u8]) -> bool {
    let last = raw.windows(mode.len()).rposition(|window| window == mode);
    last.and_then(|at| raw.get(at + mode.len())) == Some(&b'h')
}
