//! Every `--json` answer is what its schema in `oomph help json` says, and has what version 1 has always had.

use crate::harness::at_home;
use crate::harness::schema::problems;
use serde_json::Value;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
const REPLAYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay");

struct Home(TempDir);

impl Home {
    fn oomph(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
        command
            .args(words)
            .current_dir(self.0.path())
            .env("OOMPH_SIMULATED_SPEED", "8")
            .stdin(Stdio::null());
        let output = at_home(&mut command, self.0.path())
            .output()
            .expect("oomph runs");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The answers of a command: one value, or one a line.
    fn answers(&self, words: &[&str]) -> Vec<Value> {
        values(&self.oomph(words))
    }
}

fn values(text: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    let values: Vec<Value> = values.collect::<Result<_, _>>().expect("JSON");
    assert!(!values.is_empty(), "an answer");
    values
}

/// What readers of version 1 rely on, by the names that they had when it was published. A name that is missing here may
/// be new; one that goes from an answer needs another version.
const ALWAYS: [(&str, &[&str]); 10] = [
    (
        "explain",
        &[
            "/version",
            "/ooms/0/kind",
            "/ooms/0/outcome",
            "/ooms/0/decisive",
            "/ooms/0/requested",
            "/ooms/0/total",
            "/ooms/0/reserved",
            "/findings/0/oom",
            "/findings/0/cause",
            "/findings/0/certainty",
            "/findings/0/headline",
            "/findings/0/evidence",
            "/findings/0/advice",
            "/remedies/0/id",
            "/remedies/0/available",
            "/remedies/0/argv",
            "/remedies/0/env",
            "/remedies/0/effect",
            "/remedies/0/cost",
            "/remedies/0/expected/needs",
        ],
    ),
    (
        "plan",
        &[
            "/program/word",
            "/program/kind",
            "/launcher",
            "/torch",
            "/batch/value",
            "/batch/scope",
            "/found",
            "/remedies/0/reason",
        ],
    ),
    (
        "predict",
        &[
            "/batch",
            "/peak/low",
            "/peak/likely",
            "/peak/high",
            "/needs/likely",
        ],
    ),
    ("fit", &["/argument", "/batch", "/proven", "/runs", "/argv"]),
    (
        "check",
        &[
            "/verdict",
            "/limit/bytes",
            "/limit/for_torch",
            "/needs/low",
            "/needs/high",
            "/peak",
            "/reserved",
            "/lines/0/line",
            "/lines/0/bytes",
            "/against",
        ],
    ),
    (
        "again",
        &[
            "/session",
            "/starts",
            "/why_not",
            "/remedies",
            "/command",
            "/argv",
            "/directory",
            "/expected/needs",
            "/changed_since",
            "/gaps",
        ],
    ),
    (
        "ls",
        &[
            "/0/id",
            "/0/state",
            "/0/command",
            "/0/peak",
            "/0/steps",
            "/0/recording",
        ],
    ),
    ("diff", &["/names", "/command", "/rows"]),
    ("doctor", &["/oomph", "/command", "/verdict", "/checks/0"]),
    (
        "summary",
        &[
            "/session",
            "/outcome",
            "/status",
            "/batch",
            "/accumulation",
            "/relaunches",
            "/requeued",
            "/runs/0/outcome",
            "/runs/0/predicted",
            "/runs/0/peak",
            "/runs/0/steps",
        ],
    ),
];

#[test]
fn every_answer_is_as_its_schema_says_and_has_what_readers_rely_on() {
    let home = Home(TempDir::new().expect("a directory"));
    let page = home.oomph(&["help", "json"]);
    let at = page.find("\n{").expect("the schemas");
    let schemas: Value = serde_json::from_str(&page[at..]).expect("JSON");
    let demo = [
        "python3",
        DEMO,
        "--simulated",
        "--grad-accum",
        "1",
        "--batch-size",
    ];
    let shape =
        |batch: &'static str, steps: &'static str| [&demo[..], &[batch, "--steps", steps]].concat();
    let session = |record: &str, on_oom: &str, batch: &'static str| {
        let options = [
            "--headless",
            "--no-nvml",
            "--summary",
            "summary.jsonl",
            "--on-oom",
            on_oom,
            "--record",
            record,
        ];
        home.oomph(&[&options[..], &shape(batch, "6")].concat());
    };
    session("oom.jsonl", "exit", "64");
    session("relaunched.jsonl", "auto", "64");
    session("fine.jsonl", "exit", "8");
    home.oomph(&[&["--headless", "--no-nvml"][..], &shape("8", "3")].concat());
    let summary = std::fs::read_to_string(home.0.path().join("summary.jsonl")).expect("a summary");
    let replay = |name: &str| format!("{REPLAYS}/{name}.jsonl");
    let leak = replay("leak");
    // Sessions of a real GPU, of several processes, and one whose recording breaks off.
    for name in ["capacity", "two-ranks", "caught", "unet", "broken"] {
        let directory = home.0.path().join("oomph/sessions").join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let recording = match name {
            "broken" => std::fs::read_to_string(&leak).expect("a recording")[..9000].to_string(),
            name => std::fs::read_to_string(replay(name)).expect("a recording"),
        };
        std::fs::write(directory.join("events.jsonl"), recording).expect("a file");
    }
    let script = format!("python3 {DEMO} --batch-size 64\n");
    std::fs::write(home.0.path().join("run.sh"), script).expect("a script");
    let said = [
        ("explain", home.answers(&["explain", "--json", "oom.jsonl"])),
        ("explain", home.answers(&["explain", "--json", &leak])),
        (
            "plan",
            home.answers(&[&["plan", "--json", "--"][..], &shape("64", "6")].concat()),
        ),
        (
            "plan",
            home.answers(&["plan", "--json", "--", "bash", "run.sh"]),
        ),
        (
            "predict",
            home.answers(
                &[
                    &[
                        "plan",
                        "--predict",
                        "8,16",
                        "--recording",
                        "fine.jsonl",
                        "--",
                    ][..],
                    &shape("8", "6"),
                ]
                .concat(),
            ),
        ),
        (
            "fit",
            home.answers(
                &[
                    &["fit", "--json", "--yes", "--no-nvml", "--"][..],
                    &shape("8", "40"),
                ]
                .concat(),
            ),
        ),
        (
            "check",
            home.answers(&[
                "check",
                "--json",
                "--max",
                "9GiB",
                "--recording",
                "fine.jsonl",
            ]),
        ),
        (
            "check",
            home.answers(&[
                "check",
                "--json",
                "--max",
                "9GiB",
                "--recording",
                "oom.jsonl",
            ]),
        ),
        (
            "again",
            home.answers(&["again", "--print", "--json", "oom.jsonl"]),
        ),
        ("ls", home.answers(&["ls", "--all", "--json"])),
        ("ls", home.answers(&["ls", "--json"])),
        (
            "diff",
            home.answers(&["diff", "--json", "relaunched.jsonl"]),
        ),
        (
            "diff",
            home.answers(&["diff", "--json", &leak, "fine.jsonl"]),
        ),
        (
            "diff",
            home.answers(&["diff", "--json", &replay("two-ranks"), &replay("vit")]),
        ),
        ("doctor", home.answers(&["doctor", "--json"])),
        (
            "doctor",
            home.answers(&["doctor", "--json", "--", "python3", DEMO]),
        ),
        (
            "doctor",
            home.answers(&["doctor", "--json", "--", "/none/python", "train.py"]),
        ),
        ("summary", values(&summary)),
    ];
    let mut found = Vec::new();
    for (name, answers) in &said {
        let schema = &schemas["$defs"][*name];
        assert!(schema.is_object(), "no schema of {name}");
        for answer in answers {
            problems(answer, schema, name, &mut found);
        }
    }
    for (name, pointers) in ALWAYS {
        let (_, answers) = said.iter().find(|(of, _)| *of == name).expect("an answer");
        let lacking = pointers
            .iter()
            .filter(|pointer| answers[0].pointer(pointer).is_none());
        found.extend(lacking.map(|pointer| format!("{name} has no {pointer} any more")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let defined = schemas["$defs"].as_object().expect("schemas").values();
    // `mcp` holds the tools' answers to theirs.
    let is_of_a_tool = |schema: &&Value| {
        schema["title"]
            .as_str()
            .is_some_and(|t| t.contains("oomph mcp"))
    };
    let of_json = defined.filter(|schema| !is_of_a_tool(schema)).count();
    assert_eq!(of_json, ALWAYS.len(), "each schema is held to an answer");
}
