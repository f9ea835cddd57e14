//! The man page, `src/commands/help/oomph.1`, is written from the definition of the command line. The page
//! is part of the sources so that installing oomph needs no tool for it; the test here holds it to the options.

use clap::Command;
use clap_mangen::Man;
use roff::{Inline, Roff, bold, italic, line_break, roman};

/// The rest of the page, which no option says.
const DESCRIPTION: [&str; 3] = [
    "oomph is put in front of a GPU training command. While the training runs, its screen shows \
     PyTorch's memory: allocated against reserved, step by step, and what it is made of. When memory \
     runs out, oomph names the cause, and one key relaunches the command with a remedy.",
    "The first argument that isn't an oomph option starts the command; everything after it is passed on \
     unchanged. NAME=VALUE before the command sets its environment, as with env(1). A program that has \
     the name of a subcommand is started with -- in front.",
    "Without a terminal oomph is headless by itself, and a clean run prints nothing of oomph's. The \
     keys of the screen are listed by `oomph help keys`, or by ? on the screen.",
];

const EXAMPLES: [&str; 5] = [
    "oomph python train.py --batch-size 64",
    "oomph torchrun --nproc_per_node 4 train.py --batch-size 64",
    "oomph --headless --on-oom auto python train.py > train.log 2>&1",
    "oomph fit -- python train.py --batch-size 64",
    "oomph explain train.log",
];

const EXIT_STATUS: [(&str, &str); 5] = [
    (
        "the command's own",
        "After relaunches, the last run's. If a signal ended it, the same signal ends oomph.",
    ),
    ("1", "fit: no value fits. doctor: something is broken."),
    ("125", "oomph itself failed."),
    ("126", "The command cannot be executed."),
    ("127", "The command is not found."),
];

const ENVIRONMENT: [(&str, &str); 5] = [
    (
        "OOMPH_STATE_DIR",
        "Where recordings and logs are kept, instead of $XDG_STATE_HOME or ~/.local/state.",
    ),
    (
        "OOMPH_RUNTIME_DIR",
        "Where sockets and the probe are kept while a session runs, instead of $XDG_RUNTIME_DIR or /tmp.",
    ),
    (
        "OOMPH_PROBE_DEBUG",
        "A file: each process of the training writes the probe's own errors to FILE.PID. They never reach the training.",
    ),
    (
        "NO_COLOR, COLORTERM, TERM",
        "The screen's colors. NO_COLOR turns them off.",
    ),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "Without UTF-8 in the first one that is set, the screen is ASCII.",
    ),
];

const FILES: [(&str, &str); 3] = [
    (
        "oomph.toml",
        "Defaults, being told, and programs of yours, in the project or in ~/.config/oomph: see `oomph help toml`.",
    ),
    (
        "$XDG_STATE_HOME/oomph/sessions/ID/events.jsonl",
        "A session's recording, for `oomph replay`.",
    ),
    (
        "$XDG_STATE_HOME/oomph/sessions/ID/output.log",
        "What the training wrote, for `oomph logs`.",
    ),
];

fn page() -> String {
    let definition = oomph::commands::definition();
    let version = format!("oomph {}", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["OOMPH", "1", "", version.as_str(), "User Commands"]);
    page.control("SH", ["NAME"]);
    page.text([roman(
        "oomph - see PyTorch's memory live, learn why it ran out, relaunch on one key",
    )]);
    page.control("SH", ["SYNOPSIS"]);
    for words in [
        "[OPTIONS] [--] [NAME=VALUE...] COMMAND [ARG...]",
        "SUBCOMMAND [OPTIONS] [ARG...]",
    ] {
        page.text([bold("oomph"), roman(" "), italic(words), line_break()]);
    }
    page.control("SH", ["DESCRIPTION"]);
    for (at, paragraph) in DESCRIPTION.into_iter().enumerate() {
        if at > 0 {
            page.control("PP", []);
        }
        page.text([roman(paragraph)]);
    }
    let mut text = page.render();
    text.push_str(&options(&definition, ".SH OPTIONS"));
    let mut rest = Roff::new();
    rest.control("SH", ["SUBCOMMANDS"]);
    text.push_str(&without_preamble(&rest));
    for subcommand in definition.get_subcommands() {
        text.push_str(&section_of(subcommand));
    }
    let mut rest = Roff::new();
    rest.control("SH", ["EXAMPLES"]);
    for example in EXAMPLES {
        rest.control("PP", []);
        rest.text([roman("    "), bold(example)]);
    }
    listed(&mut rest, "EXIT STATUS", &EXIT_STATUS);
    listed(&mut rest, "ENVIRONMENT", &ENVIRONMENT);
    listed(&mut rest, "FILES", &FILES);
    rest.control("SH", ["SEE ALSO"]);
    rest.text([
        bold("nvidia-smi"),
        roman("(1), "),
        bold("env"),
        roman("(1)"),
    ]);
    text + &without_preamble(&rest)
}

fn listed(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    for (name, about) in entries {
        page.control("TP", []);
        page.text([bold(*name)]);
        page.text([roman(*about)]);
    }
}

/// A subcommand: how it is called, what it does, its options.
fn section_of(subcommand: &Command) -> String {
    let mut page = Roff::new();
    let usage = subcommand.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_string();
    page.control("SS", [usage.as_str()]);
    let about = subcommand.get_about().map(ToString::to_string);
    let after = subcommand.get_after_help().map(ToString::to_string);
    let mut words: Vec<Inline> = vec![roman(about.unwrap_or_default() + ".")];
    for line in after.iter().flat_map(|text| text.lines()) {
        words.extend([line_break(), roman(line)]);
    }
    page.text(words);
    let is_help = |id: &str| id == "help";
    let has_options =
        (subcommand.get_arguments()).any(|argument| !is_help(argument.get_id().as_str()));
    let mut text = without_preamble(&page);
    if has_options {
        let without_help = subcommand.clone().mut_arg("help", |help| help.hide(true));
        text.push_str(&options(&without_help, ""));
    }
    text
}

/// The options of `definition` below `heading`.
fn options(definition: &Command, heading: &str) -> String {
    let mut bytes = Vec::new();
    let man = Man::new(definition.clone());
    man.render_options_section(&mut bytes)
        .expect("memory takes it");
    let text = String::from_utf8(bytes).expect("text");
    let (_, below) = text.split_once(".SH OPTIONS\n").expect("its heading");
    match heading {
        "" => below.to_string(),
        heading => format!("{heading}\n{below}"),
    }
}

/// The text of a part; what makes apostrophes portable stands at the top of the page once.
fn without_preamble(part: &Roff) -> String {
    part.to_roff()
}

#[test]
fn the_man_page_is_that_of_the_command_line() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/help/oomph.1");
    let page = page();
    if std::env::var_os("OOMPH_UPDATE_MAN").is_some() {
        std::fs::write(path, &page).expect("the man page");
    }
    let kept = std::fs::read_to_string(path).expect("the man page");
    assert_eq!(
        kept, page,
        "run OOMPH_UPDATE_MAN=1 cargo test man_page, and read the difference"
    );
}
