//! A made-up training: does what its words say, one after the other, and proves with a heartbeat
//! that it was never held up. Built by `staging.rs` beside it, with std alone.
//!
//! Each word is a step, `VERB` or `VERB:ARGUMENT:…`; files are in the working directory. A word
//! that is no verb is passed over (the options of a training's command line).
//!
//! | step | what it does |
//! |---|---|
//! | `beat` | from now on each turn of a loop is a heartbeat; the longest gap goes to the file `beat` |
//! | `say:TEXT` | TEXT and a newline, to stdout (`grumble:TEXT`: to stderr) |
//! | `bytes:N` | N bytes without a newline |
//! | `lines:N` | N numbered lines of 80 bytes |
//! | `bars:N` | N updates of two nested progress bars, with `\r` and `ESC[A` |
//! | `soup:KIND[:N]` | bytes that are no text: see `soup.rs` |
//! | `nag:FILE` | asks its terminal where the cursor is, a hundred times a turn, until FILE is there |
//! | `until:FILE` | turns (of 1 ms) until FILE is there |
//! | `chatter:FILE` | the same, with a numbered line each turn |
//! | `turns:N` | N turns |
//! | `pause:MS` | sleeps |
//! | `catch:SIGNAL:HOW` | `count` (in the file `count-SIGNAL`), `ignore`, `exit-N` after the next turn |
//! | `raise:SIGNAL` / `parent:SIGNAL` / `group:SIGNAL` | sends it to itself, its parent, its group |
//! | `fork:STEP,STEP` / `setsid:STEP,STEP` | a child (in a session of its own) that does the steps |
//! | `storm:N` | N short-lived grandchildren that are orphaned |
//! | `breed:FILE` | children that each leave another behind, until FILE is there |
//! | `touch:FILE` | makes FILE, with this process's id in it |
//! | `status:FILE` | `/proc/self/status`, limits, descriptors and more, into FILE |
//! | `read:FILE` | a line of stdin, into FILE |
//! | `raw` | its terminal without echo, line editing and signals |
//! | `size:FILE` | its terminal's rows and columns, into FILE |
//! | `close:N` | closes a descriptor |
//! | `clog` | writes into a pipe that nobody reads, for ever |
//! | `oom:KIND` | an out-of-memory on stderr: `python`, `pieces` (in small writes, coloured), `host` |
//! | `oom-from:N` | `oom:python` and `exit:1` where `--batch-size` is N or more |
//! | `as:NAME` | the files of caught signals are called `NAME-count-SIGNAL` from now on |
//! | `shout` | `<<HERE>>` on a line of its own |
//! | `await:SIGNAL` | turns until SIGNAL was caught |
//! | `kill:SIGNAL:FILE` | sends it to the process whose id is in FILE |
//! | `listen:FILE` | listens at the port in FILE, or at a free one that it puts there; ends with 98 where that is taken |
//! | `args:FILE` | its own words, into FILE |
//! | `exit:N` / `die:SIGNAL` | the end |

mod heart;
mod soup;
mod system;

use heart::Heart;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use system::*;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut trainer = Trainer { heart: None, said: 0, words: words.clone() };
    for word in &words {
        trainer.step(word);
    }
}

struct Trainer {
    heart: Option<Heart>,
    said: u64,
    words: Vec<String>,
}

impl Trainer {
    fn step(&mut self, word: &str) {
        let (verb, rest) = word.split_once(':').unwrap_or((word, ""));
        let number = || rest.parse::<u64>().unwrap_or_else(|_| panic!("{word}: a number"));
        match verb {
            "beat" => self.heart = Some(Heart::begin("beat")),
            "say" => say(1, format!("{rest}\n").as_bytes()),
            "grumble" => say(2, format!("{rest}\n").as_bytes()),
            "bytes" => self.bytes(number()),
            "lines" => (0..number()).for_each(|_| self.line()),
            "bars" => self.bars(number()),
            "soup" => self.soup(rest),
            "nag" => {
                let hundred = soup::of("where").repeat(100);
                self.turn_while(|_| {
                    say(1, &hundred);
                    !Path::new(rest).exists()
                });
            }
            "until" => self.turn_while(|_| !Path::new(rest).exists()),
            "chatter" => {
                while !Path::new(rest).exists() {
                    self.line();
                    self.turn();
                }
            }
            "turns" => {
                let mut left = number();
                self.turn_while(|_| {
                    left -= 1;
                    left > 0
                });
            }
            "pause" => std::thread::sleep(Duration::from_millis(number())),
            "catch" => {
                let (signal, how) = rest.split_once(':').expect("catch:SIGNAL:HOW");
                catch(signal_of(signal), how);
            }
            "raise" => send(own_pid(), signal_of(rest)),
            "parent" => send(parent_pid(), signal_of(rest)),
            "group" => send(0, signal_of(rest)),
            "fork" => self.child(rest, false),
            "setsid" => self.child(rest, true),
            "storm" => storm(number()),
            "breed" => breed(Path::new(rest)),
            "touch" => put(rest, format!("{}\n", own_pid()).as_bytes()),
            "status" => put(rest, &status()),
            "read" => put(rest, &line_of_stdin()),
            "raw" => make_raw(0),
            "size" => put(rest, format!("{:?}\n", window_size(0)).as_bytes()),
            "close" => close_fd(number() as i32),
            "clog" => clog(),
            "oom" => out_of_memory(rest),
            "oom-from" => self.out_of_memory_from(number()),
            "as" => *NAME.lock().expect("a name") = format!("{rest}-"),
            "shout" => say(1, b"\r\n<<HERE>>\r\n"),
            "await" => self.turn_while(|_| caught(signal_of(rest)) == 0),
            "kill" => {
                let (signal, file) = rest.split_once(':').expect("kill:SIGNAL:FILE");
                self.turn_while(|_| !Path::new(file).exists());
                let pid = fs::read_to_string(file).expect("a pid");
                send(pid.trim().parse().expect("a pid"), signal_of(signal));
            }
            "listen" => listen(rest),
            "args" => put(rest, format!("{:?}\n", self.words).as_bytes()),
            "exit" => end(number() as i32),
            "die" => die_by(signal_of(rest)),
            _ => {}
        }
    }

    /// One turn of the training's loop.
    fn turn(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
        act_on_signals();
        if let Some(heart) = &mut self.heart {
            heart.beat();
        }
    }

    fn turn_while(&mut self, mut more: impl FnMut(&mut Self) -> bool) {
        while more(self) {
            self.turn();
        }
    }

    /// A numbered line of 80 bytes.
    fn line(&mut self) {
        say(1, format!("{:079}\n", self.said).as_bytes());
        self.said += 1;
        if let Some(heart) = &mut self.heart {
            heart.beat();
        }
    }

    fn bytes(&mut self, mut left: u64) {
        let piece = [b'x'; 8192];
        while left > 0 {
            let length = left.min(piece.len() as u64);
            say(1, &piece[..length as usize]);
            left -= length;
            if let Some(heart) = &mut self.heart {
                heart.beat();
            }
        }
    }

    fn bars(&mut self, updates: u64) {
        say(1, b"\n");
        for n in 0..updates {
            let bars = format!("\x1b[A\router {:3}%\n\rinner {:3}%", n * 100 / updates, n % 100);
            say(2, bars.as_bytes());
            self.turn();
        }
        say(1, b"\n");
    }

    fn soup(&mut self, kind: &str) {
        let (kind, count) = kind.split_once(':').unwrap_or((kind, "1"));
        let piece = soup::of(kind);
        for _ in 0..count.parse::<u64>().expect("soup:KIND:N") {
            say(1, &piece);
            if let Some(heart) = &mut self.heart {
                heart.beat();
            }
        }
    }

    fn child(&mut self, steps: &str, own_session: bool) {
        if fork_child() {
            if own_session {
                new_session();
            }
            self.heart = None;
            for step in steps.split(',') {
                self.step(step);
            }
            end(0);
        }
    }

    fn out_of_memory_from(&mut self, least: u64) {
        let mut words = self.words.iter().skip_while(|word| *word != "--batch-size");
        let batch: u64 = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        if batch >= least {
            out_of_memory("python");
            end(1);
        }
    }
}

/// Writes it all; a stream that is gone is what the test is about, not this program's end.
fn say(fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write_fd(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// A file that is there whole or not at all.
fn put(name: &str, content: &[u8]) {
    let new = format!("{name}.{}.new", own_pid());
    fs::write(&new, content).expect("a file");
    fs::rename(&new, name).expect("a file in its place");
}

fn status() -> Vec<u8> {
    let mut text = String::new();
    for file in ["status", "limits", "oom_score_adj"] {
        let content = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
        text.push_str(&content);
    }
    let mut open: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The one that reads the directory is the last.
    open.sort_unstable();
    open.pop();
    text.push_str(&format!("open: {open:?}\nnice: {}\numask: {:03o}\n", niceness(), umask_now()));
    text.push_str(&format!("session: {}\n", is_session_leader()));
    let words: Vec<_> = std::env::vars().map(|(name, value)| format!("env: {name}={value}\n")).collect();
    text.push_str(&words.concat());
    text.into_bytes()
}

fn line_of_stdin() -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    while std::io::stdin().read(&mut byte).unwrap_or(0) == 1 {
        line.push(byte[0]);
        if byte[0] == b'\n' {
            break;
        }
    }
    line
}

/// What the files of caught signals begin with.
static NAME: Mutex<String> = Mutex::new(String::new());

/// Listens for good. Its end leaves no connection in TIME_WAIT, for there was none.
fn listen(file: &str) {
    let port = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    match TcpListener::bind(("127.0.0.1", port.unwrap_or(0))) {
        Ok(listener) => {
            let port = listener.local_addr().expect("an address").port();
            put(file, format!("{port}\n").as_bytes());
            std::mem::forget(listener);
        }
        Err(_) => end(98),
    }
}

/// As DataLoader's worker that never looks whether its parent lives: it sits in a write.
fn clog() {
    let (reading, mut writing) = std::io::pipe().expect("a pipe");
    put("clogged", format!("{}\n", own_pid()).as_bytes());
    loop {
        let _ = writing.write_all(&[b'x'; 4096]);
        std::hint::black_box(reading.as_raw_fd());
    }
}

const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a \
total capacity of 22.05 GiB of which 310.00 MiB is free. Including non-PyTorch memory, this process has \
21.73 GiB memory in use. Of the allocated memory 20.51 GiB is allocated by PyTorch, and 402.00 MiB is \
reserved by PyTorch but unallocated.";

fn out_of_memory(kind: &str) {
    match kind {
        "python" => {
            say(2, b"Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\n");
            say(2, format!("{OOM}\n").as_bytes());
        }
        // As several writers at one terminal leave it: in pieces, with colours between.
        "pieces" => {
            say(2, b"Traceback (most recent call last):\n\x1b[1;31m");
            for piece in OOM.as_bytes().chunks(7) {
                say(2, piece);
                std::thread::sleep(Duration::from_micros(300));
            }
            say(2, b"\x1b[0m\n");
        }
        "host" => say(2, b"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"),
        other => panic!("oom:{other}"),
    }
}
