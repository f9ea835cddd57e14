//! A keeper of an earlier release goes on for weeks while oomph is updated: today's front attaches to it.
//!
//! `earlier_keeper/VERSION.txt` has what a keeper of that version said on its socket, and
//! `VERSION.events.jsonl` what its first front had recorded. Here a thread says it again.

use crate::harness::{Marker, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use oomph::event::Exit;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");
const ID: &str = "20260301-100000-train.sh";

/// The orders that 0.2.0 knows. It passes over others, so what they ask for would not happen.
const ORDERS: [&str; 15] = [
    "launch",
    "interrupt",
    "forward",
    "stop",
    "kill",
    "sweep",
    "resize",
    "screen_shown",
    "release",
    "step_back",
    "listen",
    "remember",
    "describe",
    "finish",
    "attach",
];

/// A frame: its length (4 bytes, little endian, of what follows), its kind and its body.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).expect("a short frame");
    [&length.to_le_bytes()[..], &[kind], body].concat()
}

const JSON: u8 = 1;

/// The next frame; `None` at the end.
fn next(socket: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut frame).ok()?;
    let body = frame.split_off(1);
    Some((frame[0], body))
}

/// The keeper's frames, by what they answer.
fn exchange(text: &str, home: &str) -> BTreeMap<String, Vec<u8>> {
    let mut answers: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut to = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(said) = line.strip_prefix("> ") {
            to = said.to_string();
        } else if let Some((kind, body)) = line.split_once(' ') {
            let body = body.replace("{home}", home);
            let kind = match kind {
                "json" => JSON,
                "terminal" => 16,
                "recent" => 19,
                kind => panic!("{kind}: not a kind of frame"),
            };
            let body = body.replace('␍', "\r").replace('␊', "\n");
            let answer = answers.entry(to.clone()).or_default();
            answer.extend(frame(kind, body.as_bytes()));
        }
    }
    answers
}

/// A keeper of an earlier version, as far as a front sees it, and what it was told.
struct EarlierKeeper {
    home: TempDir,
    answers: BTreeMap<String, Vec<u8>>,
    orders: Arc<Mutex<Vec<Value>>>,
    front: Arc<Mutex<Option<UnixStream>>>,
    marker: Marker,
}

impl EarlierKeeper {
    fn start(version: &str) -> EarlierKeeper {
        let home = TempDir::new().expect("a directory");
        let (run, state) = (
            home.path().join("run/oomph").join(ID),
            home.path().join("state/oomph/sessions").join(ID),
        );
        for directory in [&run, &state] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .expect("a directory");
        }
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/earlier_keeper");
        let read = |name: String| std::fs::read_to_string(fixtures.join(name)).expect("a fixture");
        let recording = state.join("events.jsonl");
        let recorded = read(format!("{version}.events.jsonl"));
        std::fs::write(&recording, recorded).expect("a recording");
        std::fs::write(state.join("output.log"), "step 0\r\nstep 1\r\n").expect("a log");
        let presence = json!({
            "id": ID,
            "keeper": std::process::id(),
            "start_time": own_start_time(),
            "world": {
                "host": read_line("/proc/sys/kernel/hostname"),
                "boot": read_line("/proc/sys/kernel/random/boot_id"),
                "pids": std::fs::read_link("/proc/self/ns/pid").expect("a namespace"),
            },
            "log": state.join("output.log"),
            "recording": recording,
        });
        for directory in [&run, &state] {
            std::fs::write(directory.join("session.json"), presence.to_string()).expect("a file");
        }
        let listener = UnixListener::bind(run.join("keeper.sock")).expect("a socket");
        let keeper = EarlierKeeper {
            answers: exchange(
                &read(format!("{version}.txt")),
                &home.path().display().to_string(),
            ),
            home,
            orders: Arc::default(),
            front: Arc::default(),
            marker: Marker::unique(),
        };
        let (answers, orders) = (keeper.answers.clone(), keeper.orders.clone());
        let front = keeper.front.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let (answers, orders) = (answers.clone(), orders.clone());
                let front = front.clone();
                std::thread::spawn(move || serve(caller, &answers, &orders, &front));
            }
        });
        keeper
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name| self.home.path().join(name).display().to_string();
        vec![
            ("OOMPH_STATE_DIR", path("state")),
            ("OOMPH_RUNTIME_DIR", path("run")),
            ("HOME", path("")),
            (processes::VARIABLE, self.marker.value().into()),
        ]
    }

    fn attach(&self) -> Terminal {
        let environment = self.environment();
        let environment: Vec<(&str, &str)> = (environment.iter())
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        Terminal::spawn(&[OOMPH, "attach", ID], &environment, 45, 140)
    }

    fn say(&self, what: &str) {
        let mut front = self.front.lock().expect("the front");
        let front = front.as_mut().expect("a front");
        front.write_all(&self.answers[what]).expect("it reads");
    }

    fn wait_for_order(&self, what: &str, is_it: impl Fn(&Value) -> bool) {
        wait_until(what, PATIENCE, || {
            self.orders.lock().expect("the orders").iter().any(&is_it)
        });
    }
}

impl Drop for EarlierKeeper {
    fn drop(&mut self) {
        self.marker.kill_all();
    }
}

fn serve(
    mut caller: UnixStream,
    answers: &BTreeMap<String, Vec<u8>>,
    orders: &Mutex<Vec<Value>>,
    front: &Mutex<Option<UnixStream>>,
) {
    while let Some((kind, body)) = next(&mut caller) {
        let order = match kind {
            JSON => serde_json::from_slice(&body).expect("JSON"),
            kind => json!({"kind": kind}),
        };
        if order == "attach" {
            *front.lock().expect("the front") = caller.try_clone().ok();
        }
        let answer = answers.get(&order.to_string());
        if order != "look" {
            orders.lock().expect("the orders").push(order.clone());
        }
        if let Some(answer) = answer
            && caller.write_all(answer).is_err()
        {
            break;
        }
        if order == "look" || order == "finish" {
            let _ = caller.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn read_line(path: &str) -> String {
    let line = std::fs::read_to_string(path).expect("a line");
    line.trim().to_string()
}

/// When this process was started, in clock ticks since boot.
fn own_start_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a line");
    let (_, after_name) = stat.rsplit_once(')').expect("a name");
    let field = after_name.split_whitespace().nth(19).expect("a time");
    field.parse().expect("a number")
}

#[test]
fn todays_front_attaches_to_a_keeper_of_0_2_0() {
    let keeper = EarlierKeeper::start("0.2.0");
    let list = Command::new(OOMPH)
        .args(["ls", "--json"])
        .envs(keeper.environment())
        .output()
        .expect("oomph runs");
    let list: Value = serde_json::from_slice(&list.stdout).expect("a list");
    assert_eq!(list[0]["id"], ID, "{list}");

    let mut terminal = keeper.attach();
    let screen = terminal.wait_for("step 3", PATIENCE);
    assert!(screen.contains("./train.sh"), "{screen}");
    assert!(screen.contains("step 0"), "{screen}");
    // What it is told is in words that it knows: a signal is its number alone.
    processes::signal(terminal.pid(), Signal::SIGUSR1);
    keeper.wait_for_order("USR1 is passed on", |order| {
        *order == json!({"forward": 10})
    });
    terminal.resize(30, 100);
    keeper.wait_for_order("the size is passed on", |order| {
        order["resize"]["cols"] == 100
    });
    keeper.say("the end of the run");
    keeper.wait_for_order("finish", |order| order == "finish");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(7));
    for order in keeper.orders.lock().expect("the orders").iter() {
        let name = match order {
            Value::Object(fields) => fields.keys().next().cloned(),
            order => order.as_str().map(String::from),
        };
        let name = name.unwrap_or_default();
        assert!(
            ORDERS.contains(&name.as_str()),
            "0.2.0 has no order {order}"
        );
    }
}
