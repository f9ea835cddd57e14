//! Puts a made-up training under the real binary, with a screen or without one, and holds what
//! comes of it to what oomph promises.
//!
//! Every test ends with [`Training::finish`], which checks the promises that hold after any fault:
//! the training was never held up, the status is its own, nothing of the run lives on, the terminal
//! is as it was found, and the log is a copy of the output or says what is missing of it.
//! [`Training::go`] checks on the way what oomph costs while a training goes on.

use crate::faults::{ledger, yardstick};
use crate::harness::{Marker, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use oomph::event::{Event, EventKind, Exit};
use oomph::units::Bytes;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The binary under test.
pub const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// The longest that a training may be held up on a machine that wakes its threads in time.
pub const HEARTBEAT: Duration = Duration::from_millis(200);

/// How many delays of the machine's one gap may hold: the keeper is woken, loses its processor to
/// others half-way, and the training is woken in turn.
const DELAYS_IN_A_GAP: u32 = 3;

/// What a front and a keeper may hold of their own. Resident pages of the binary are not counted
/// here: in a build for tests they are many; `tests/bench/run.py` measures the release build.
const FRONT: Bytes = Bytes::mib(25);
const KEEPER: Bytes = Bytes::mib(5);

/// A place for one training, and how it is to be started.
pub struct Scene {
    pub place: TempDir,
    options: Vec<String>,
    words: Vec<String>,
    env: Vec<(String, String)>,
    before: String,
    size: (u16, u16),
}

/// A training under oomph.
pub struct Training {
    pub place: TempDir,
    pub view: View,
    gap: Option<Duration>,
    began: Instant,
    /// Whether its output comes to our pipes as the training wrote it.
    copied: bool,
}

/// What a person has of it.
pub enum View {
    /// A terminal with the screen, or passed through.
    Terminal(Box<Terminal>),
    /// Pipes.
    Pipes {
        child: Child,
        marker: Marker,
        out: Collected,
        err: Collected,
        exit: Option<Exit>,
    },
}

/// What comes out of a pipe, gathered by a thread.
#[derive(Clone, Default)]
pub struct Collected(Arc<Mutex<(Vec<u8>, bool)>>);

impl Collected {
    pub fn from(mut stream: impl Read + Send + 'static) -> Collected {
        let collected = Collected::default();
        let ours = collected.clone();
        std::thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(n @ 1..) = stream.read(&mut chunk) {
                ours.0
                    .lock()
                    .expect("bytes")
                    .0
                    .extend_from_slice(&chunk[..n]);
            }
            ours.0.lock().expect("bytes").1 = true;
        });
        collected
    }

    pub fn so_far(&self) -> Vec<u8> {
        self.0.lock().expect("bytes").0.clone()
    }

    pub fn to_the_end(&self) -> Vec<u8> {
        wait_until("the end of a stream", PATIENCE, || {
            self.0.lock().expect("bytes").1
        });
        self.so_far()
    }
}

impl Scene {
    /// No NVML, a recording, graces and deadlines a hundred times shorter.
    pub fn new() -> Scene {
        let place = tempfile::tempdir().expect("a directory");
        let record = format!("--record={}", place.path().join("rec.jsonl").display());
        Scene {
            place,
            options: vec!["--scaled=100".into(), "--no-nvml".into(), record],
            words: Vec::new(),
            env: Vec::new(),
            before: String::new(),
            size: (24, 80),
        }
    }

    /// With these options of oomph's in place of the usual ones.
    pub fn options(mut self, options: &[&str]) -> Scene {
        self.options = options.iter().map(|word| word.to_string()).collect();
        self
    }

    /// With graces and deadlines this many times shorter.
    pub fn scaled(mut self, times: u32) -> Scene {
        self.options[0] = format!("--scaled={times}");
        self
    }

    /// Without one of the usual options.
    pub fn without(mut self, option: &str) -> Scene {
        self.options.retain(|other| other != option);
        self
    }

    /// With one option more.
    pub fn option(mut self, option: impl Into<String>) -> Scene {
        self.options.push(option.into());
        self
    }

    /// With a variable in oomph's environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Scene {
        self.env.push((name.into(), value.into()));
        self
    }

    /// With shell words before oomph replaces the shell: limits, signals, descriptors.
    pub fn before(mut self, words: &str) -> Scene {
        self.before = format!("{words}\n");
        self
    }

    /// With words of the training's before its steps.
    pub fn words(mut self, words: &[&str]) -> Scene {
        self.words = words.iter().map(|word| word.to_string()).collect();
        self
    }

    /// On a terminal of this size.
    pub fn size(mut self, rows: u16, cols: u16) -> Scene {
        self.size = (rows, cols);
        self
    }

    /// A file of the place.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn argv(&self, command: &[&str]) -> Vec<String> {
        let script = format!(
            "cd '{}' || exit\n{}exec \"$@\"",
            self.place.path().display(),
            self.before
        );
        let mut argv = vec!["sh".into(), "-c".into(), script, "sh".into(), OOMPH.into()];
        argv.extend(self.options.iter().cloned());
        argv.extend(command.iter().map(|word| word.to_string()));
        argv
    }

    fn environment(&self) -> Vec<(String, String)> {
        let place = |name: &str| self.path(name).display().to_string();
        let mut env = vec![
            ("XDG_STATE_HOME".to_string(), place("state")),
            ("HOME".to_string(), place("")),
        ];
        env.extend(self.env.iter().cloned());
        env
    }

    fn trainer(&self, steps: &[&str]) -> Vec<String> {
        let mut command = vec![trainer().display().to_string()];
        command.extend(self.words.iter().cloned());
        command.push("beat".into());
        command.extend(steps.iter().map(|word| word.to_string()));
        command
    }

    /// The made-up training, with pipes for its output.
    pub fn headless(self, steps: &[&str]) -> Training {
        let command = self.trainer(steps);
        self.run_headless(&words_of(&command))
    }

    /// The made-up training, at a terminal.
    pub fn screen(self, steps: &[&str]) -> Training {
        let command = self.trainer(steps);
        self.run_at_terminal(&words_of(&command))
    }

    /// Any command, with pipes.
    pub fn run_headless(self, command: &[&str]) -> Training {
        let marker = Marker::unique();
        let argv = self.argv(command);
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env(processes::VARIABLE, marker.value())
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to the group of the tests is none to the training.
            .process_group(0)
            .spawn()
            .expect("oomph starts");
        let out = Collected::from(child.stdout.take().expect("a pipe"));
        let err = Collected::from(child.stderr.take().expect("a pipe"));
        self.under(View::Pipes {
            child,
            marker,
            out,
            err,
            exit: None,
        })
    }

    /// Any command, at a terminal.
    pub fn run_at_terminal(self, command: &[&str]) -> Training {
        let argv = self.argv(command);
        let env = self.environment();
        let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let terminal = Terminal::spawn(&argv, &env, self.size.0, self.size.1);
        self.under(View::Terminal(Box::new(terminal)))
    }

    fn under(self, view: View) -> Training {
        yardstick::start();
        Training {
            place: self.place,
            view,
            gap: Some(HEARTBEAT),
            began: Instant::now(),
            copied: true,
        }
    }
}

pub fn words_of(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

impl Training {
    /// The processor or the disk may hold this training up, as they would without us.
    pub fn held_up(mut self) -> Training {
        self.gap = None;
        self
    }

    /// Its output goes to a file or to somebody who does not take all of it.
    pub fn elsewhere(mut self) -> Training {
        self.copied = false;
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn marker(&self) -> &Marker {
        match &self.view {
            View::Terminal(terminal) => terminal.marker(),
            View::Pipes { marker, .. } => marker,
        }
    }

    #[track_caller]
    pub fn terminal(&mut self) -> &mut Terminal {
        match &mut self.view {
            View::Terminal(terminal) => terminal,
            View::Pipes { .. } => panic!("a training with pipes"),
        }
    }

    pub fn is_on_terminal(&self) -> bool {
        matches!(self.view, View::Terminal(_))
    }

    pub fn front(&self) -> Pid {
        match &self.view {
            View::Terminal(terminal) => terminal.pid(),
            View::Pipes { child, .. } => Pid::from_raw(child.id() as i32),
        }
    }

    /// The keeper, once there is one.
    pub fn keeper(&self) -> Pid {
        let named = |pid| processes::command_line(pid).starts_with("oomph __keeper");
        // Not a run's session holder, which has its words, and may have a smaller number.
        let holds = |pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("oomph-session"))
                || processes::parent(pid).is_some_and(named)
        };
        self.find("the keeper", |pid| named(pid) && !holds(pid))
    }

    /// The direct child, once its program runs.
    pub fn trainer(&self) -> Pid {
        let keeper = self.keeper();
        let program = trainer();
        self.find("the training", |pid| {
            processes::parent(pid) == Some(keeper)
                && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
        })
    }

    pub fn find(&self, what: &str, is_it: impl Fn(Pid) -> bool) -> Pid {
        let mut found = None;
        wait_until(what, PATIENCE, || {
            found = self
                .marker()
                .processes()
                .into_iter()
                .find(|pid| is_it(*pid));
            found.is_some()
        });
        found.expect("found")
    }

    /// The content of a file that the training makes.
    #[track_caller]
    pub fn file(&self, name: &str) -> String {
        let path = self.path(name);
        let mut text = String::new();
        wait_until(name, PATIENCE, || match fs::read_to_string(&path) {
            Ok(content) => {
                text = content;
                true
            }
            Err(_) => false,
        });
        text
    }

    pub fn make(&self, name: &str) {
        fs::write(self.path(name), "").expect("a file");
    }

    /// How often the training caught a signal, once all of them were handled.
    pub fn count(&self, signal: Signal) -> u32 {
        let number = signal as i32;
        let text = self.file(&format!("count-{number}"));
        text.trim().parse().expect("a count")
    }

    #[track_caller]
    pub fn wait_count(&self, signal: Signal, wanted: u32) {
        wait_until(&format!("{signal} {wanted} times"), PATIENCE, || {
            self.count(signal) >= wanted
        });
        assert_eq!(self.count(signal), wanted, "{signal}");
    }

    pub fn signal_front(&self, signal: Signal) {
        processes::signal(self.front(), signal);
    }

    /// Puts a file with this content in its place, whole.
    pub fn put(&self, name: &str, content: &str) {
        fs::write(self.path("put.new"), content).expect("a file");
        fs::rename(self.path("put.new"), self.path(name)).expect("a file in its place");
    }

    /// What oomph recorded so far.
    pub fn events(&self) -> Vec<Event> {
        let path = self.path("rec.jsonl");
        oomph::recording::read(&path)
            .map(|events| events.filter_map(Result::ok).collect())
            .unwrap_or_default()
    }

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        let events = self.events();
        let started = |event: &&Event| matches!(event.what, EventKind::Started(_));
        events.iter().filter(started).count()
    }

    /// Every line that oomph told of itself.
    pub fn notes(&self) -> String {
        let mut notes = String::new();
        for event in self.events() {
            match event.what {
                EventKind::Note(note) => notes += &format!("{}\n", note.text),
                EventKind::Dropped(dropped) => notes += &format!("{dropped:?}\n"),
                _ => {}
            }
        }
        notes
    }

    /// Waits until oomph has said something.
    #[track_caller]
    pub fn wait_note(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.notes().contains(text) {
            let notes = self.notes();
            assert!(Instant::now() < deadline, "{text:?} is not said: {notes}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Looks at what oomph costs while the training waits, then lets the training go on to its end.
    #[track_caller]
    pub fn go(&self) {
        for (pid, most) in [(self.front(), FRONT), (self.keeper(), KEEPER)] {
            if processes::is_alive(pid) {
                self.rests(pid);
                let own = own_memory(pid);
                assert!(own <= most, "{} holds {own}", processes::command_line(pid));
            }
        }
        self.make("go");
    }

    /// Waits until a process hardly uses the processor: less than 5 %, two ticks in 400 ms.
    #[track_caller]
    pub fn rests(&self, pid: Pid) {
        let what = format!(
            "{} (process {pid}) comes to rest",
            processes::command_line(pid)
        );
        wait_until(&what, PATIENCE, || {
            let before = processes::cpu_ticks(pid);
            std::thread::sleep(Duration::from_millis(200));
            processes::cpu_ticks(pid) <= before + 1
        });
    }

    /// Waits for the end of the front.
    #[track_caller]
    pub fn exit(&mut self) -> Exit {
        match &mut self.view {
            View::Terminal(terminal) => terminal.exit(PATIENCE),
            View::Pipes { child, exit, .. } => {
                wait_until("the end of oomph", PATIENCE, || {
                    if exit.is_none() {
                        let status = child.try_wait().expect("a status");
                        *exit = status.and_then(|status| Exit::from_raw(status.into_raw()));
                    }
                    exit.is_some()
                });
                exit.expect("it has ended")
            }
        }
    }

    /// Everything that came through the pipes, both to their end.
    pub fn output(&self) -> (Vec<u8>, Vec<u8>) {
        match &self.view {
            View::Terminal(terminal) => (terminal.raw(), Vec::new()),
            View::Pipes { out, err, .. } => (out.to_the_end(), err.to_the_end()),
        }
    }

    /// The keeper's log, its older part first.
    pub fn log(&self) -> Vec<u8> {
        let mut log = fs::read(self.path("rec.output.log.1")).unwrap_or_default();
        log.extend(fs::read(self.path("rec.output.log")).unwrap_or_default());
        log
    }

    /// Waits for the end, which must be this one, and for what every fault must leave as it was.
    #[track_caller]
    pub fn finish(&mut self, exit: Exit) {
        assert_eq!(self.exit(), exit, "{}", self.post_mortem());
        self.check();
    }

    /// The promises that hold whatever happened; once the front is gone.
    #[track_caller]
    pub fn check(&mut self) {
        self.marker().wait_gone(PATIENCE);
        if let (Some(most), Ok(text)) = (self.gap, fs::read_to_string(self.path("beat"))) {
            let gap = text
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok());
            let gap = Duration::from_micros(gap.expect("a gap"));
            let late = yardstick::latest_since(self.began);
            assert!(
                gap < most + DELAYS_IN_A_GAP * late,
                "the training was held up for {gap:?}; the machine was late by {late:?}"
            );
        }
        match &self.view {
            View::Terminal(terminal) if terminal.is_closed() => {}
            View::Terminal(terminal) => assert_eq!(terminal.left_behind(), [""; 0]),
            View::Pipes { .. } => {
                let (out, err) = self.output();
                let log = self.log();
                if self.copied && err.is_empty() {
                    ledger::accounts_for(&log, &out);
                }
            }
        }
    }

    fn post_mortem(&self) -> String {
        match &self.view {
            View::Terminal(terminal) => terminal.post_mortem(),
            View::Pipes { err, .. } => String::from_utf8_lossy(&err.so_far()).into_owned(),
        }
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        self.marker().kill_all();
        if let View::Pipes { child, .. } = &mut self.view {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The training's own clock moves on by so much.
pub fn wait_for_beats(training: &Training, micros: u64) {
    let last = || -> u64 {
        let text = training.file("beat");
        text.split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    };
    let before = last();
    wait_until("the heart to beat on", PATIENCE, || {
        last() >= before + micros
    });
}

/// Under a shell with job control.
pub fn under_a_shell(scene: Scene, how: &str, steps: &[&str]) -> Training {
    let shell = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/shell.py");
    let trainer = trainer().display().to_string();
    let before = format!("set -- python3 '{shell}' {how} \"$@\"");
    let command = [&[trainer.as_str(), "beat"], steps].concat();
    scene.before(&before).run_at_terminal(&command)
}

/// Memory that is a process's own, not pages of files.
pub fn own_memory(pid: Pid) -> Bytes {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(Bytes::parse).unwrap_or_default()
}

/// The made-up training.
pub fn trainer() -> PathBuf {
    let sources = [
        include_str!("trainer/main.rs"),
        include_str!("trainer/heart.rs"),
        include_str!("trainer/soup.rs"),
        include_str!("trainer/system.rs"),
    ];
    built("trainer/main.rs", &sources.concat(), "bin")
}

/// A program or a library as `rustc` built it, once for all tests of one version of its source.
pub fn built(file: &str, source: &str, kind: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _building = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|held| held.into_inner());
    let version = source
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = file.split(['/', '.']).next().unwrap_or("program");
    let product = target.join(format!("{name}-{version:016x}"));
    if product.exists() {
        return product;
    }
    // Several test binaries may come here at once: each builds its own, the last name wins.
    let workshop = tempfile::tempdir_in(target).expect("a directory to build in");
    let output = workshop.path().join(name);
    let rustc = std::env::var_os("CARGO")
        .map(|cargo| Path::new(&cargo).with_file_name("rustc"))
        .filter(|rustc| rustc.exists())
        .unwrap_or_else(|| "rustc".into());
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults");
    let built = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            kind,
            "--crate-name",
            name,
        ])
        .args(["-C", "opt-level=1", "-C", "debuginfo=0", "-o"])
        .arg(&output)
        .arg(Path::new(sources).join(file))
        .output()
        .expect("rustc runs");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "rustc on {file}: {said}");
    fs::rename(output, &product).expect("it in its place");
    product
}
