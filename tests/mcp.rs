//! `oomph mcp` as a program, by a small client of our own on its pipes: an agent's loop, every tool over recordings of a GPU
//! and over the demo, what hostile clients send, and a thousand calls.

use crate::harness::schema::problems;
use crate::harness::{PATIENCE, at_home, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
const REPLAYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay");
const READING: [&str; 8] = [
    "list_sessions",
    "read_session",
    "explain_log",
    "show_step",
    "plan_command",
    "predict_change",
    "compare_sessions",
    "wait_for_session",
];
const OOM_LINE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB \
of which 1.20 GiB is free. Including non-PyTorch memory, this process has 22.43 GiB memory in use. Of the allocated memory 20.10 GiB is \
allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but unallocated.";

struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(TempDir::new().expect("a directory"))
    }

    fn oomph(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .args(words)
            .env("OOMPH_SIMULATED_SPEED", "8")
            .env("SECRET_OF_THE_SERVER", "s3cr3t-environment")
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        at_home(&mut command, self.0.path());
        // What other tests leave where there is no home is not listed.
        command.env("OOMPH_STATE_DIR", self.0.path());
        command
    }

    /// A session of the demo that has ended.
    fn demo(&self, arguments: &[&str]) -> String {
        let words = ["--headless", "--no-nvml", "python3", DEMO, "--simulated"];
        let before = self.sessions().len();
        self.oomph(&[&words[..], arguments].concat())
            .output()
            .expect("oomph runs");
        self.id(before)
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let stored = self.0.path().join("oomph/sessions");
        let mut found: Vec<PathBuf> = std::fs::read_dir(stored)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        found.retain(|path| path.join("events.jsonl").exists());
        found.sort();
        found
    }

    fn id(&self, session: usize) -> String {
        let path = &self.sessions()[session];
        path.file_name().expect("a name").to_string_lossy().into()
    }

    fn server(&self, options: &[&str]) -> Client {
        let mut client = Client::start(self.oomph(&[&["mcp"], options].concat()));
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let answer = client.ask("initialize", hello);
        assert_eq!(answer["serverInfo"]["name"], "oomph", "{answer}");
        client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }
}

/// A client on the pipes of a server.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn start(mut command: Command) -> Client {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("oomph runs");
        let (said, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Client {
            stdin: child.stdin.take(),
            child,
            lines,
            next: 0,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("open");
        stdin
            .write_all(bytes)
            .and_then(|()| stdin.flush())
            .expect("it reads");
    }

    fn write(&mut self, line: &str) {
        self.send(format!("{line}\n").as_bytes());
    }

    /// The next line: standard output has the protocol and nothing else.
    fn read(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.write(&request.to_string());
        self.next
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.read();
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get("result") {
            Some(result) => result.clone(),
            None => answer["error"].clone(),
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer of a call that must have one, held to the tool's schema.
    fn answer(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone());
        assert_ne!(result["isError"], true, "{tool} {arguments}: {result}");
        let answer = result["structuredContent"].clone();
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), answer);
        answer
    }

    /// What a call that must fail says.
    fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().expect("text").into()
    }

    fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({}))["tools"]
            .as_array()
            .expect("tools")
            .clone()
    }

    /// In KiB, without the pages of its file: the kernel takes and gives those back as it likes.
    fn memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("alive");
        let line = status
            .lines()
            .find(|line| line.starts_with("RssAnon"))
            .expect("a line");
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .expect("a number")
    }

    fn wait_for_end(&mut self, session: &str) -> Value {
        loop {
            let waited = self.answer(
                "wait_for_session",
                json!({"session": session, "seconds": 5}),
            );
            if waited["ended"] == true {
                return waited["session"].clone();
            }
        }
    }
}

fn replay(name: &str) -> String {
    format!("{REPLAYS}/{name}.jsonl")
}

#[test]
fn an_agent_asks_why_predicts_and_starts_once_by_the_server_alone() {
    let home = Home::new();
    home.demo(&["--batch-size", "64", "--grad-accum", "1", "--steps", "6"]);
    let mut agent = home.server(&["--allow-run"]);
    let listed = agent.answer("list_sessions", json!({}));
    let failed = listed["sessions"][0]["id"]
        .as_str()
        .expect("a session")
        .to_string();
    assert_eq!(listed["sessions"][0]["state"], "out of memory");
    let read = agent.answer("read_session", json!({"session": failed}));
    assert_eq!(read["findings"][0]["cause"], "capacity", "{read}");
    let remedy = &read["remedies"][0];
    assert_eq!(
        (&remedy["id"], &remedy["expected"]["verdict"]),
        (&json!("batch"), &json!("likely fits"))
    );
    // The dialog's figure is the prediction's.
    let predict =
        |agent: &mut Client, batch: u64| agent.answer("predict_change", json!({"batch": batch}));
    let same = predict(&mut agent, 64);
    assert_eq!(same["expected"]["fits"], false, "{same}");
    let half = predict(&mut agent, 32);
    for name in ["fits", "needs", "within", "room", "verdict", "basis"] {
        assert_eq!(
            half["expected"][name], remedy["expected"][name],
            "{name}: {half}"
        );
    }
    let smaller = agent.answer("predict_change", json!({"batch": 32, "gpu": "T4"}));
    assert_eq!(smaller["expected"]["fits"], false, "{smaller}");
    let larger = agent.answer("predict_change", json!({"batch": 64, "room": "80GiB"}));
    assert_ne!(larger["expected"]["fits"], false, "{larger}");

    let started = agent.answer("start_again", json!({"session": failed}));
    assert_eq!(
        (&started["starts"], &started["remedies"]),
        (&json!(true), &json!(["batch"]))
    );
    let id = started["started"].as_str().expect("a session").to_string();
    let ended = agent.wait_for_end(&id);
    assert_eq!(
        (&ended["state"], &ended["steps"]),
        (&json!("finished"), &json!(6)),
        "{ended}"
    );
    assert_eq!(ended["predictions"][0]["held"], true, "{ended}");
    assert_eq!(home.sessions().len(), 2, "one relaunch");
    let compared = agent.answer("compare_sessions", json!({"before": failed, "after": id}));
    assert!(
        compared["command"]
            .as_array()
            .is_some_and(|words| !words.is_empty())
    );
    let again = agent.answer("start_again", json!({"session": id}));
    assert_eq!(again["started"], Value::Null);
    assert!(
        again["why_not"]
            .as_str()
            .expect("why")
            .contains("nothing to remedy"),
        "{again}"
    );
    let stopped = agent.answer("stop_session", json!({"session": id}));
    assert_eq!(stopped["stopping"], false, "it has ended by itself");
    assert!(
        agent
            .refusal("stop_session", json!({"session": failed}))
            .contains("left alone")
    );
}

#[test]
fn what_was_started_goes_on_without_the_server_and_is_stopped_by_it() {
    let home = Home::new();
    let failed = home.demo(&["--batch-size", "64", "--steps", "4000"]);
    let mut first = home.server(&["--allow-run"]);
    let started = first.answer("start_again", json!({"session": failed}));
    let id = started["started"].as_str().expect("a session").to_string();
    // Another server's session is not one's own.
    let mut second = home.server(&["--allow-run"]);
    assert!(
        second
            .refusal("stop_session", json!({"session": id}))
            .contains("not started by this server")
    );
    drop(first);
    let steps = |agent: &mut Client| {
        let read = agent.answer("wait_for_session", json!({"session": id, "seconds": 0}));
        assert_eq!(read["ended"], false, "{read}");
        read["session"]["steps"].as_u64().unwrap_or(0)
    };
    let before = steps(&mut second);
    wait_until("steps after the server is gone", PATIENCE, || {
        steps(&mut second) > before + 2
    });
    let busy = second.answer("start_again", json!({"session": id, "same": true}));
    assert!(
        busy["why_not"]
            .as_str()
            .expect("why")
            .contains("still running"),
        "{busy}"
    );
    assert!(
        home.oomph(&["stop", "--kill", &id])
            .output()
            .expect("oomph runs")
            .status
            .success()
    );
    second.wait_for_end(&id);
    let again = second.answer("start_again", json!({"session": failed}));
    let own = again["started"].as_str().expect("a session").to_string();
    wait_until("steps of the one to be stopped", PATIENCE, || {
        let read = second.answer("wait_for_session", json!({"session": own, "seconds": 0}));
        read["session"]["steps"].as_u64() > Some(0)
    });
    let stopping = second.answer("stop_session", json!({"session": own}));
    assert_eq!(stopping["stopping"], true);
    let ended = second.wait_for_end(&own);
    assert_eq!(ended["state"], "stopped", "{ended}");
}

#[test]
fn every_tool_answers_by_its_schema_over_recordings_and_the_demo() {
    let home = Home::new();
    let demo = home.demo(&["--batch-size", "64", "--steps", "3"]);
    let names = [
        "capacity",
        "leak-traced",
        "vit",
        "unet",
        "two-ranks",
        "caught",
    ];
    let files = names.map(replay);
    let options: Vec<&str> = files
        .iter()
        .flat_map(|file| ["--recording", file])
        .collect();
    let mut agent = home.server(&options);
    let tools = agent.tools();
    let listed: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(listed, READING);
    let held = |agent: &mut Client, tool: &str, arguments: Value| {
        let answer = agent.answer(tool, arguments.clone());
        let schema = tools
            .iter()
            .find(|spec| spec["name"] == tool)
            .expect("the tool");
        let mut found = Vec::new();
        problems(&answer, &schema["outputSchema"], tool, &mut found);
        assert!(found.is_empty(), "{tool} {arguments}: {found:#?}");
        let text = answer.to_string();
        assert!(
            !text.contains("s3cr3t-environment"),
            "{tool}: the environment"
        );
        answer
    };
    let sessions = held(&mut agent, "list_sessions", json!({"ended": 5}));
    let rows = sessions["sessions"].as_array().expect("rows");
    assert_eq!(rows.len(), names.len() + 1);
    for row in rows {
        let id = row["id"].as_str().expect("an ID");
        held(&mut agent, "read_session", json!({"session": id}));
        held(
            &mut agent,
            "wait_for_session",
            json!({"session": id, "seconds": 0}),
        );
        held(
            &mut agent,
            "compare_sessions",
            json!({"before": id, "after": demo}),
        );
        let changed = json!({"session": id, "checkpointing": true, "mixed_precision": true, "expandable_segments": true, "gpu": "H100"});
        held(&mut agent, "predict_change", changed);
        let report = agent.ask(
            "resources/read",
            json!({"uri": format!("oomph://session/{id}/report.md")}),
        );
        assert!(
            report["contents"][0]["text"]
                .as_str()
                .expect("text")
                .starts_with("### "),
            "{report}"
        );
    }
    let traced = rows.iter().filter(|row| {
        let result = agent.call("show_step", json!({"session": row["id"]}));
        result["isError"] != true
    });
    assert!(traced.count() >= 2, "steps were traced");
    let step = held(&mut agent, "show_step", json!({"session": demo}));
    let kinds = step["kinds"].as_array().expect("kinds");
    let sum: u64 = kinds.iter().filter_map(|kind| kind["bytes"].as_u64()).sum();
    assert_eq!(Some(sum), step["peak"].as_u64(), "{step}");
    let words = json!([
        "python3",
        "train.py",
        "--batch-size",
        "64",
        "--hf_token",
        "hf_soverysecret1234567890"
    ]);
    let plan = held(
        &mut agent,
        "plan_command",
        json!({"command": {"words": words}}),
    );
    assert!(!plan.to_string().contains("verysecret"), "{plan}");
    let log = held(
        &mut agent,
        "explain_log",
        json!({"text": OOM_LINE, "command": {"words": ["python3", "t.py", "--batch-size", "8"]}}),
    );
    assert_eq!(log["ooms"].as_array().map(Vec::len), Some(1), "{log}");
    assert_eq!(
        agent.ask("resources/list", json!({}))["resources"]
            .as_array()
            .map(Vec::len),
        Some(names.len() + 1)
    );
}

#[test]
fn nothing_is_started_unless_it_is_permitted() {
    let home = Home::new();
    let id = home.demo(&["--batch-size", "64", "--steps", "3"]);
    let mut reading = home.server(&[]);
    assert!(
        reading
            .refusal("start_again", json!({"session": id}))
            .contains("--allow-run")
    );
    assert!(
        reading
            .refusal("stop_session", json!({"session": id}))
            .contains("--allow-run")
    );
    let command = json!({"command": {"words": ["touch", "made"]}});
    assert!(
        reading
            .refusal("start_command", command.clone())
            .contains("--allow-command")
    );
    let mut running = home.server(&["--allow-run"]);
    assert_eq!(running.tools().len(), READING.len() + 2);
    assert!(
        running
            .refusal("start_command", command.clone())
            .contains("--allow-command")
    );
    let made = home.0.path().join("made");
    assert!(!made.exists() && home.sessions().len() == 1);
    let mut any = home.server(&["--allow-command"]);
    let started = any.answer("start_command", command);
    let own = started["started"].as_str().expect("a session").to_string();
    any.wait_for_end(&own);
    assert!(made.exists());
    let missing = any.answer(
        "start_command",
        json!({"command": {"words": ["no-such-program"]}}),
    );
    assert!(
        missing["why_not"]
            .as_str()
            .expect("why")
            .contains("no-such-program"),
        "{missing}"
    );
}

/// Where text of the marker may stand: only below a path that the answer names.
fn leaks(value: &Value, path: &str, named: &[&str], found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains("IGNORE-ALL") && !named.contains(&path) => {
            found.push(format!("{path}: {text}"));
        }
        Value::Array(items) => {
            for item in items {
                leaks(item, &format!("{path}/*"), named, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if path.is_empty() && ["untrusted", "cut"].contains(&name.as_str()) {
                    continue;
                }
                leaks(field, &format!("{path}/{name}"), named, found);
            }
        }
        _ => {}
    }
}

#[test]
fn text_of_the_program_stands_only_in_fields_that_are_named() {
    let home = Home::new();
    // In every text of a recording that a program can choose: files, functions, lines, modules, classes, messages, words.
    let mark = |text: String| {
        text.replace("train.py", "IGNORE-ALL.py")
            .replace("\"function\":\"", "\"function\":\"IGNORE-ALL")
            .replace("\"text\":\"", "\"text\":\"IGNORE-ALL\\u001b[2J ")
            .replace("\"class\":\"", "\"class\":\"IGNORE-ALL")
            .replace("\"modules\":[\"", "\"modules\":[\"IGNORE-ALL")
            .replace("--batch", "--IGNORE-ALL --batch")
    };
    let mut files = Vec::new();
    for name in ["capacity", "leak-traced", "unet", "vit", "lora"] {
        let text = std::fs::read_to_string(replay(name)).expect("a recording");
        let path = home.0.path().join(format!("{name}.jsonl"));
        std::fs::write(&path, mark(text)).expect("a file");
        files.push(path.display().to_string());
    }
    let options: Vec<&str> = files
        .iter()
        .flat_map(|file| ["--recording", file.as_str()])
        .collect();
    let mut agent = home.server(&options);
    let sessions = agent.answer("list_sessions", json!({}));
    let mut seen = 0;
    for row in sessions["sessions"].as_array().expect("rows").clone() {
        let id = row["id"].clone();
        for (tool, arguments) in [
            ("list_sessions", json!({})),
            ("read_session", json!({"session": id})),
            ("show_step", json!({"session": id})),
            (
                "predict_change",
                json!({"session": id, "checkpointing": true}),
            ),
            (
                "compare_sessions",
                json!({"before": id, "after": sessions["sessions"][0]["id"]}),
            ),
            ("wait_for_session", json!({"session": id, "seconds": 0})),
        ] {
            let answer = agent.call(tool, arguments)["structuredContent"].clone();
            let named = answer["untrusted"].as_array().cloned().unwrap_or_default();
            let named: Vec<&str> = named.iter().filter_map(Value::as_str).collect();
            let mut found = Vec::new();
            leaks(&answer, "", &named, &mut found);
            assert!(found.is_empty(), "{tool} {id}: {found:#?}");
            let text = answer.to_string();
            assert!(!text.contains("\\u001b"), "{tool}: a control");
            seen += usize::from(text.contains("IGNORE-ALL"));
        }
    }
    assert!(seen > 10, "{seen} answers quoted the program");
}

#[test]
fn hostile_lines_end_with_errors_and_the_server_goes_on() {
    let home = Home::new();
    let mut hostile = Client::start(home.oomph(&["mcp"]));
    // Before the handshake: a notification is no reason to end, another request is refused.
    hostile
        .write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    hostile.write(r#"{"jsonrpc":"2.0","id":"early","method":"tools/list"}"#);
    assert_eq!(hostile.read()["id"], "early");
    hostile.write(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#);
    assert_eq!(hostile.read()["id"], 0);
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let nested = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"read_session","arguments":{{"session":{deep}}}}}}}"#
    );
    let long = "x".repeat(6 << 20);
    for (line, code) in [
        (b"{oops".to_vec(), -32700),
        (b"\xff\xfe\x00{}".to_vec(), -32700),
        (deep.clone().into_bytes(), -32700),
        (nested.into_bytes(), -32700),
        (long.into_bytes(), -32600),
        (b"[]".to_vec(), -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_vec(), -32600),
        (br#"{"id":5,"method":"ping"}"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":7}}"#.to_vec(), -32602),
        (br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#.to_vec(), -32600),
        (br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"rm_rf"}}"#.to_vec(), -32602),
        (br#"{"jsonrpc":"2.0","id":9,"method":"no/such"}"#.to_vec(), -32601),
        (br#"{"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}"#.to_vec(), -32002),
        (br#"{"jsonrpc":"2.0","id":11,"method":"resources/read","params":{"uri":"oomph://session/../../etc/report.md"}}"#.to_vec(), -32002),
    ] {
        hostile.send(&[line.as_slice(), b"\n"].concat());
        let answer = hostile.read();
        let shown = String::from_utf8_lossy(&line[..line.len().min(90)]).into_owned();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    }
    for session in [
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "..",
        "nope",
        "a\u{0}b",
        &"x".repeat(5000),
    ] {
        let said = hostile.refusal("read_session", json!({"session": session}));
        assert!(!said.contains("root:"), "{said}");
    }
    for arguments in [
        json!({"sesion": "x"}),
        json!({"session": 7}),
        json!({"session": ["x"]}),
    ] {
        assert!(
            hostile
                .refusal("read_session", arguments)
                .contains("wrong arguments")
        );
    }
    for words in [
        json!([]),
        json!(["A=1"]),
        json!(["python3", "/etc/passwd"]),
        json!([
            "python3",
            "t.py",
            "--config",
            "../../../../../../etc/hostname.yaml"
        ]),
    ] {
        hostile.call("plan_command", json!({"command": {"words": words}}));
    }
    let outside = json!({"command": {"words": ["python3", "passwd"], "directory": "/etc"}});
    assert!(
        hostile
            .refusal("plan_command", outside)
            .contains("is outside of")
    );
    for batch in [
        json!(0),
        json!(-1),
        json!(1e300),
        json!(99_999_999_999u64),
        json!("64"),
    ] {
        hostile.refusal("predict_change", json!({"batch": batch}));
    }
    assert_eq!(hostile.ask("ping", json!({})), json!({}), "it goes on");
}

#[test]
fn a_request_can_be_cancelled_and_an_end_in_the_middle_ends_the_server() {
    let home = Home::new();
    let failed = home.demo(&["--batch-size", "64", "--steps", "4000"]);
    let mut client = home.server(&["--allow-run"]);
    let started = client.answer("start_again", json!({"session": failed}));
    let id = started["started"].as_str().expect("a session").to_string();
    let waits = json!({"name": "wait_for_session", "arguments": {"session": id, "seconds": 50}});
    let waiting = client.request("tools/call", waits.clone());
    // The same ID twice: the second is refused, the first still waits.
    client.write(&json!({"jsonrpc": "2.0", "id": waiting, "method": "ping"}).to_string());
    assert_eq!(client.read()["error"]["code"], -32600);
    assert_eq!(
        client.ask("ping", json!({})),
        json!({}),
        "it answers meanwhile"
    );
    client.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}).to_string());
    assert_eq!(
        client.ask("ping", json!({})),
        json!({}),
        "and not what was cancelled"
    );
    client.request("tools/call", waits);
    client.send(br#"{"jsonrpc":"2.0","id":99,"method":"#);
    client.stdin = None;
    wait_until("the server to end", PATIENCE, || {
        client.child.try_wait().expect("a child").is_some()
    });
    assert!(
        home.oomph(&["stop", "--kill", &id])
            .output()
            .expect("oomph runs")
            .status
            .success()
    );
}

#[test]
fn calls_without_end_take_no_more_memory() {
    let home = Home::new();
    home.demo(&["--batch-size", "8", "--steps", "2"]);
    let mut client = home.server(&[]);
    let log = json!({"text": OOM_LINE});
    let round = |client: &mut Client| {
        client.answer("list_sessions", json!({"ended": 3}));
        client.answer("read_session", json!({}));
        client.answer("explain_log", log.clone());
        client.call("show_step", json!({"session": "nope"}));
        client.call("read_session", json!({"session": "../x"}));
    };
    // The allocator keeps another arena now and then, at no round that could be named; what is never given back grows in each of
    // them. A round is five calls.
    let mut seen = vec![client.memory()];
    while seen.len() < 7 {
        for _ in 0..40 {
            round(&mut client);
        }
        let now = client.memory();
        if now < seen[seen.len() - 1] + 256 {
            return;
        }
        seen.push(now);
    }
    panic!("memory after each 40 rounds, in KiB: {seen:?}");
}

#[test]
fn without_sessions_it_says_that_there_are_none() {
    let home = Home::new();
    let mut client = home.server(&[]);
    assert_eq!(
        client.answer("list_sessions", json!({}))["sessions"],
        json!([])
    );
    for tool in ["read_session", "show_step", "predict_change"] {
        assert!(
            client
                .refusal(tool, json!({}))
                .contains("no recorded session"),
            "{tool}"
        );
    }
    assert_eq!(
        client.ask("resources/list", json!({}))["resources"],
        json!([])
    );
    assert!(
        Path::new(&home.0.path().join("oomph/sessions"))
            .read_dir()
            .is_err()
    );
    let broken = home
        .oomph(&["mcp", "--recording", "none.jsonl"])
        .output()
        .expect("oomph runs");
    assert_eq!(broken.status.code(), Some(125), "{broken:?}");
}
