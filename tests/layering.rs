//! Who may import whom: the sources are read and held to the table in `src/README.md`.
//!
//! The table is the rule itself, not a copy of it: what stands there in words is what is checked. A
//! module that is not in it may not be there. Beside the arrows: the rooms from state to remedy
//! are pure, and so are the files of live that decide; the terminal's crates are known to ui, live and commands alone; no files import each other in a
//! circle; no two types have one name; every file says why it exists, and none grows out of sight.

mod circles;
mod source;

use circles::{Modules, circles};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The binaries of tests; each names its files.
const BINARIES: [&str; 3] = ["pure", "processes", "thorough"];

/// A file has one subject, and at most this many lines.
const LONGEST_FILE: usize = 800;

/// Modules that see the world only through their arguments.
const PURE: [&str; 6] = [
    "state",
    "recognize",
    "doctor",
    "forecast",
    "diagnosis",
    "remedy",
];

/// Files that decide, in a room that also acts.
const PURE_FILES: [&str; 11] = [
    "live/gate.rs",
    "live/other_nodes.rs",
    "live/phase.rs",
    "live/policy.rs",
    "live/policy/auto.rs",
    "live/policy/auto/decision.rs",
    "live/session.rs",
    "live/update.rs",
    "live/update/relaunch.rs",
    "live/update/takeover.rs",
    "live/update/told.rs",
];

/// What would let the world in: modules of std, …
const IMPURE_STD: [&str; 7] = [
    "fs",
    "net",
    "process",
    "env",
    "thread",
    "Instant",
    "SystemTime",
];
/// … crates and clocks that a path begins with, and the session's own clock.
const IMPURE: [&str; 9] = [
    "Instant",
    "SystemTime",
    "Clock",
    "tokio",
    "nix",
    "rustix",
    "procfs",
    "jiff",
    "nvml_wrapper",
];

/// The terminal's crates, and the modules that may use them.
const TERMINAL: [&str; 2] = ["ratatui", "crossterm"];
const ON_THE_TERMINAL: [&str; 3] = ["ui", "live", "commands"];

type Sources = Vec<(String, String)>;

/// The `.rs` files below `directory`, by their path from it, in order.
fn sources(directory: &Path) -> Sources {
    fn walk(directory: &Path, prefix: &str, found: &mut Sources) {
        for entry in fs::read_dir(directory).expect("the sources").flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(entry.path()).expect("a source");
                found.push((name, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, "", &mut found);
    found.sort();
    found
}

/// A module that another one may import, by a word of the table.
struct Grant {
    name: String,
    /// Whether what that module may import comes with it, and so on.
    and_below: bool,
}

/// For each module what it may import and by which words: `nothing of ours`, names with commas between
/// them, `X and below` (X and what X may import, and so on), `all of the above`.
#[derive(Default)]
struct Table {
    allowed: BTreeMap<String, BTreeSet<String>>,
    /// Without `all of the above`, which names none.
    grants: Vec<(String, Vec<Grant>)>,
}

impl Table {
    fn read(map: &str) -> Table {
        let mut table = Table::default();
        for line in map.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let ["", module, _, words, ""] = cells[..] else {
                continue;
            };
            let Some(module) = module.strip_prefix('`').and_then(|m| m.strip_suffix('`')) else {
                continue;
            };
            let (mut may, mut grants) = (BTreeSet::new(), Vec::new());
            let words = words.trim_start_matches("nothing but ");
            for word in words.split(',').map(str::trim) {
                match word {
                    "nothing of ours" => {}
                    "all of the above" => may.extend(table.allowed.keys().cloned()),
                    word => {
                        let above = word.strip_suffix(" and below");
                        let grant = Grant {
                            name: above.unwrap_or(word).to_string(),
                            and_below: above.is_some(),
                        };
                        may.extend(table.reached(&grant));
                        grants.push(grant);
                    }
                }
            }
            for name in &may {
                assert!(
                    table.allowed.contains_key(name),
                    "{module} may import {name:?}, which stands not above it"
                );
            }
            table.allowed.insert(module.to_string(), may);
            table.grants.push((module.to_string(), grants));
        }
        table
    }

    fn reached(&self, grant: &Grant) -> BTreeSet<String> {
        match grant.and_below {
            true => below(&grant.name, &self.allowed),
            false => BTreeSet::from([grant.name.clone()]),
        }
    }

    /// Grants that nothing in the sources needs, and those that another one of the same row includes.
    fn idle(&self, sources: &Sources) -> Vec<String> {
        let mut imported: BTreeSet<(String, String)> = BTreeSet::new();
        for (file, text) in sources {
            let module = module_of(file);
            for path in Source::read(text, &module).paths {
                if path.segments[0] == "crate" {
                    imported.insert((module[0].clone(), path.segments[1].clone()));
                }
            }
        }
        let mut idle = Vec::new();
        for (module, grants) in &self.grants {
            for (at, Grant { name, .. }) in grants.iter().enumerate() {
                if !imported.contains(&(module.clone(), name.clone())) {
                    idle.push(format!("{module} may import {name}, and does not"));
                }
                let others = grants.iter().enumerate().filter(|(other, _)| *other != at);
                for (_, other) in others {
                    if self.reached(other).contains(name) {
                        let other = &other.name;
                        idle.push(format!("{module} may import {name} by {other} already"));
                    }
                }
            }
        }
        idle
    }
}

fn below(top: &str, allowed: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut all = BTreeSet::from([top.to_string()]);
    for name in allowed.get(top).into_iter().flatten() {
        all.extend(below(name, allowed));
    }
    all
}

/// `state/run.rs` is the module `state::run`.
fn module_of(file: &str) -> Vec<String> {
    file.trim_end_matches(".rs")
        .split('/')
        .map(String::from)
        .collect()
}

/// What is wrong with the sources, a line each: `src/FILE:LINE: the rule`.
fn violations(sources: &Sources, map: &str) -> Vec<String> {
    let table = Table::read(map).allowed;
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let mut say = |line: usize, rule: String| wrong.push(format!("src/{file}:{line}: {rule}"));
        if !text.starts_with("//!") {
            say(1, "a file begins with //! and says why it exists".into());
        }
        let module = module_of(file);
        let top = module[0].as_str();
        let test_file = module.iter().skip(1).any(|name| name == "tests");
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            say(lines, format!("a file has at most {LONGEST_FILE} lines"));
        }
        // The crate's roots: what they may use is everything that is public.
        if matches!(top, "lib" | "main" | "bin") {
            continue;
        }
        let Some(may) = table.get(top) else {
            say(1, format!("{top} is not in the table of src/README.md"));
            continue;
        };
        for path in Source::read(text, &module).paths {
            let first = path.segments[0].as_str();
            let second = path.segments[1].as_str();
            let ours = first == "crate" && table.contains_key(second);
            if ours && second != top && !may.contains(second) {
                say(path.line, format!("{top} may not import {second}"));
            }
            if TERMINAL.contains(&first) && !ON_THE_TERMINAL.contains(&top) {
                say(
                    path.line,
                    format!("{first} is for {} alone", ON_THE_TERMINAL.join(" and ")),
                );
            }
            let has = |names: &[&str], segments: &[String]| {
                let mut segments = segments.iter();
                segments
                    .find(|name| names.contains(&name.as_str()))
                    .cloned()
            };
            let impure = match first {
                "std" => has(&IMPURE_STD, &path.segments),
                "crate" => has(&["Clock"], &path.segments),
                _ => has(&IMPURE, &path.segments[..1]),
            };
            // The number of a signal is a name.
            let last = path.segments.last().map(String::as_str);
            let is_name = first == "nix" && matches!(last, Some("libc" | "Signal"));
            let pure = match PURE_FILES.contains(&file.as_str()) {
                true => Some(file.as_str()),
                false => PURE.contains(&top).then_some(top),
            };
            if let (Some(what), Some(pure)) = (impure, pure)
                && !(path.in_test || test_file || is_name)
            {
                say(path.line, format!("{pure} is pure and may not use {what}"));
            }
        }
    }
    wrong
}

fn the_map() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/README.md");
    fs::read_to_string(path).expect("src/README.md")
}

#[test]
fn the_map_names_only_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = the_map();
    let named: Vec<&str> = map
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| {
            name.contains('/')
                || [".rs", ".py", ".toml"]
                    .iter()
                    .any(|end| name.ends_with(end))
        })
        .filter(|name| *name != "oomph.toml")
        .collect();
    assert!(named.len() > 30, "{named:?}");
    // A data file or a file of the probe may be named without its room.
    let rooms =
        ["", "src", "src/recognize", "src/probe/python/oomph_probe"].map(|room| root.join(room));
    for name in named {
        let there = rooms.iter().any(|room| room.join(name).exists());
        assert!(there, "src/README.md names {name}, which is not there");
    }
}

/// The recipes send to functions and constants by their names too.
#[test]
fn what_the_recipes_name_inside_files_is_there() {
    let map = the_map();
    for (declared, file) in [
        ("fn propose(", "src/remedy/workers.rs"),
        ("const REMEDY:", "src/remedy/workers.rs"),
        ("fn examine(", "src/diagnosis/limit.rs"),
        ("const CAUSE:", "src/diagnosis/limit.rs"),
        ("const PANE:", "src/ui/pane/runs.rs"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs::read_to_string(path).expect("a file of ours");
        assert!(text.contains(declared), "{declared} in {file}");
        let (_, name) = declared.split_once(' ').expect("what it is, and its name");
        let name = name.trim_end_matches(['(', ':']);
        assert!(
            map.contains(&format!("`{name}`")),
            "{name} in src/README.md"
        );
    }
}

/// Every file of tests has a line that says what it holds.
#[test]
fn the_tests_own_map_names_all_of_them() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |name: &str| fs::read_to_string(tests.join(name)).expect("a file of tests");
    let map = read("README.md");
    let roots = BINARIES.map(|name| read(&format!("{name}.rs"))).concat();
    let mut found = 0;
    for line in roots.lines() {
        let Some(name) = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'))
        else {
            continue;
        };
        assert!(
            map.contains(&format!("`{name}`")),
            "tests/README.md says nothing of {name}"
        );
        found += 1;
    }
    assert!(found > 20, "{found}");
}

/// What a stranger wrote (arguments, recordings, settings) must not reach the terminal as commands.
#[test]
fn what_oomph_prints_goes_through_one_place() {
    for (file, text) in the_sources() {
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_test = file.to_string().contains("tests");
        for printing in ["println!", "print!(", "stderr().lock()", "stderr().write"] {
            let is_exempt = is_test || file.to_string().ends_with("live/print.rs");
            assert!(
                is_exempt || !product.contains(printing),
                "{file}: {printing}"
            );
        }
    }
}

/// A link whose file has moved would be noticed only when the wheel is built.
#[test]
fn every_link_leads_to_a_file() {
    fn walk(directory: &Path, links: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let is = entry.file_type().expect("its type");
            if is.is_symlink() {
                links.push(entry.path());
            } else if is.is_dir() {
                walk(&entry.path(), links);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = Vec::new();
    walk(&root.join("src"), &mut links);
    assert!(!links.is_empty(), "the man page of the wheel is a link");
    for link in links {
        assert!(link.is_file(), "{} leads nowhere", link.display());
    }
}

#[test]
fn imports_run_downwards_only() {
    let sources = the_sources();
    assert!(sources.len() > 10, "the sources were found");
    let wrong = violations(&sources, &the_map());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A grant that nothing uses lets in what nobody has thought about.
#[test]
fn each_grant_of_the_table_is_used_and_needed() {
    let sources = the_sources();
    let idle = Table::read(&the_map()).idle(&sources);
    assert!(idle.is_empty(), "src/README.md:\n{}\n", idle.join("\n"));
}

#[test]
fn an_idle_grant_is_found() {
    let sources = |text: &str| -> Sources { vec![("ui.rs".into(), text.into())] };
    let of_ui = |grants: &str, text: &str| {
        let rows = "| `units` | x | nothing of ours |\n| `state` | x | units |\n";
        let mut idle =
            Table::read(&format!("{rows}| `ui` | x | {grants} |\n")).idle(&sources(text));
        idle.retain(|line| line.starts_with("ui "));
        idle
    };
    let both = "use crate::state::State; use crate::units::Bytes;";
    assert_eq!(of_ui("state, units", both), [""; 0]);
    assert_eq!(of_ui("state and below", both), [""; 0]);
    assert_eq!(
        of_ui("state, units", "use crate::state::State;"),
        ["ui may import units, and does not"]
    );
    assert_eq!(
        of_ui("state and below, units", both),
        ["ui may import units by state already"]
    );
}

/// The product's modules; tests may import what they like.
fn modules(sources: &Sources) -> Modules {
    let read = sources.iter().map(|(file, text)| {
        let module = module_of(file);
        let source = Source::read(text, &module);
        (module, source)
    });
    read.filter(|(module, _)| !module.iter().any(|name| name == "tests" || name == "lib"))
        .collect()
}

fn the_sources() -> Sources {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let circles = circles(&modules(&the_sources()));
    assert!(circles.is_empty(), "\n{}\n", circles.join("\n"));
}

#[test]
fn circles_are_found_through_names_that_are_handed_on() {
    let found = |files: &[(&str, &str)]| {
        let own = |(file, text): &(&str, &str)| (file.to_string(), text.to_string());
        circles(&modules(&files.iter().map(own).collect()))
    };
    let room = ("room.rs", "mod a; mod b; pub use a::A; pub use b::B;");
    let there = ("room/a.rs", "use super::B; pub struct A;");
    assert_eq!(
        found(&[room, there, ("room/b.rs", "fn f() { vec![super::a::A] }")]),
        [
            "src/room/a.rs imports src/room/b.rs",
            "src/room/b.rs imports src/room/a.rs"
        ]
    );
    let for_tests = "pub struct B; #[cfg(test)] mod tests { use crate::room::A; }";
    assert_eq!(found(&[room, there, ("room/b.rs", for_tests)]), [""; 0]);
    let child = ("room/a/deep.rs", "use super::super::A; use super::x;");
    let parent = ("room/a.rs", "mod deep; use deep::X; pub struct A;");
    assert_eq!(found(&[room, parent, child]), [""; 0]);
}

#[test]
fn no_two_types_have_one_name() {
    let sources = the_sources();
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in &sources {
        for (name, line) in Source::read(text, &module_of(file)).types {
            named
                .entry(name)
                .or_default()
                .push(format!("src/{file}:{line}"));
        }
    }
    assert!(named.len() > 300, "the types were found");
    named.retain(|_, places| places.len() > 1);
    assert!(named.is_empty(), "{named:#?}");
}

/// The program is built without `regex`'s tables of Unicode's cases; a test is built with them, as proptest wants them. So such an
/// expression is valid in every test and ends the program.
#[test]
fn no_expression_ignores_case_beyond_ascii() {
    let ignores = |line: &&str| line.contains("(?i") && !line.contains("-u");
    for (file, text) in the_sources() {
        let found: Vec<&str> = text.lines().filter(ignores).collect();
        assert!(found.is_empty(), "src/{file}: {found:#?}");
    }
}

/// A table with one rule of each kind.
const HOUSE: &str = "| module | what | may import |\n|---|---|---|\n\
    | `units` | x | nothing of ours |\n\
    | `oom` | x | units |\n\
    | `event` | x | units, oom |\n\
    | `state` | x | event, units |\n\
    | `probe` | x | nothing but units |\n\
    | `ui` | x | state and below |\n\
    | `live` | x | all of the above |\n";

fn wrong_with(file: &str, text: &str) -> Vec<String> {
    violations(&vec![(file.into(), format!("//! x\n{text}"))], HOUSE)
}

#[test]
fn what_the_table_allows_is_allowed() {
    for (file, text) in [
        ("units.rs", "use std::time::Instant;"),
        (
            "state.rs",
            "use crate::event::{Event, Clockwork};\nuse crate::units::Bytes;",
        ),
        (
            "state/run.rs",
            "use super::apply;\nuse super::super::event::Event;\nuse crate::state::x;",
        ),
        (
            "ui.rs",
            "use crate::{event, oom::OomReport, state::State, units};\nuse ratatui::Frame;",
        ),
        (
            "live.rs",
            "use crate::ui::draw; fn f() { crate::probe::start() }",
        ),
        (
            "event.rs",
            "// use crate::live::App;\n/* crate::ui /* ui */ crate::live */ use crate::oom;",
        ),
        (
            "units/x.rs",
            "const X: &str = \"crate::live::App\"; const Y: &str = r#\"\"crate::live::x\"#;",
        ),
        (
            "units/y.rs",
            "const C: [char; 3] = ['{', '\"', '\\'']; fn f<'a>(x: &'a str) {}",
        ),
        (
            "state/x.rs",
            "#[cfg(test)]\nmod tests {\n use std::fs;\n}\n",
        ),
        ("state/tests.rs", "use std::fs::read;"),
        ("state/oom.rs", "mod inner { use super::super::run; }"),
        (
            "state.rs",
            "mod process;\nuse process::X;\nuse crate::state::process::Y;",
        ),
        ("main.rs", "use oomph::live;"),
        ("live/runtime.rs", "use std::thread;"),
        ("live/update.rs", "use nix::sys::signal::Signal;"),
    ] {
        assert_eq!(wrong_with(file, text), [] as [String; 0], "{file}: {text}");
    }
}

#[test]
fn what_it_does_not_allow_is_found_with_its_line() {
    for (file, text, expected) in [
        (
            "state.rs",
            "\nuse crate::live::App;",
            "src/state.rs:3: state may not import live",
        ),
        (
            "state.rs",
            "use crate::{units::Bytes,\n  ui};",
            "src/state.rs:3: state may not import ui",
        ),
        (
            "units/x.rs",
            "use super::super::event;",
            "src/units/x.rs:2: units may not import event",
        ),
        (
            "units.rs",
            "mod a {\n use super::super::oom::X;\n}",
            "src/units.rs:3: units may not import oom",
        ),
        (
            "units.rs",
            "fn f() {\n crate::live::run() }",
            "src/units.rs:3: units may not import live",
        ),
        (
            "probe.rs",
            "use crate::event as e;",
            "src/probe.rs:2: probe may not import event",
        ),
        (
            "oom.rs",
            "const C: char = '\"'; use crate::ui;",
            "src/oom.rs:2: oom may not import ui",
        ),
        (
            "oom.rs",
            "use crate::{units::{A as B, C}, live::D};",
            "src/oom.rs:2: oom may not import live",
        ),
        (
            "state.rs",
            "use ratatui::Frame;",
            "src/state.rs:2: ratatui is for ui and live and commands alone",
        ),
        (
            "event.rs",
            "fn f(x: crossterm::Event) {}",
            "src/event.rs:2: crossterm is for ui and live and commands alone",
        ),
        (
            "state.rs",
            "use std::{collections::X, fs};",
            "src/state.rs:2: state is pure and may not use fs",
        ),
        (
            "state.rs",
            "use std::time::{Duration, Instant};",
            "src/state.rs:2: state is pure and may not use Instant",
        ),
        (
            "live/phase.rs",
            "fn f() {\n std::thread::spawn(g);\n}",
            "src/live/phase.rs:3: live/phase.rs is pure and may not use thread",
        ),
        (
            "state.rs",
            "use crate::event::Clock;",
            "src/state.rs:2: state is pure and may not use Clock",
        ),
        (
            "state.rs",
            "use tokio::sync::X;",
            "src/state.rs:2: state is pure and may not use tokio",
        ),
        (
            "state.rs",
            "#[cfg(test)]\nmod tests { }\nuse std::net::X;",
            "src/state.rs:4: state is pure and may not use net",
        ),
        (
            "attic.rs",
            "",
            "src/attic.rs:1: attic is not in the table of src/README.md",
        ),
    ] {
        assert_eq!(wrong_with(file, text), [expected], "{file}: {text}");
    }
}

#[test]
fn files_say_why_they_exist_and_stay_short() {
    let sources = vec![("units.rs".into(), "fn f() {}\n".into())];
    assert!(violations(&sources, HOUSE)[0].contains("units.rs:1: a file begins with //!"));
    let long = "\n".repeat(LONGEST_FILE);
    assert!(wrong_with("units.rs", &long)[0].contains("at most 800 lines"));
}

#[test]
#[should_panic(expected = "stands not above it")]
fn a_table_that_points_upwards_is_no_table() {
    Table::read("| `units` | x | live |\n");
}

/// The binaries name their files themselves, so a file that neither names would never run.
#[test]
fn every_test_file_belongs_to_a_binary() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |name: &str| fs::read_to_string(tests.join(name)).expect("a binary's root");
    let roots = BINARIES.map(|name| read(&format!("{name}.rs"))).concat();
    for (file, _) in sources(&tests) {
        let Some(name) = file.strip_suffix(".rs").filter(|name| !name.contains('/')) else {
            continue;
        };
        let named = roots.contains(&format!("mod {name};"));
        assert!(
            named || BINARIES.contains(&name),
            "tests/{file} is in none of {BINARIES:?}"
        );
    }
}
