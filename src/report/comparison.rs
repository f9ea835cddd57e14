//! Two runs side by side: command, versions, settings, memory, speed, and the lines at the peak that
//! changed.

mod same_kind;

use super::score;
use super::story::SessionStory;
use crate::anatomy::{Category, by_line};
use crate::command::{Change, CommandLine, Word, difference};
use crate::event::{EDITS, NvmlState, SourceEdit, Structure};
use crate::state::{Run, State};
use crate::units::{Bytes, RunNumber, clock_face};
use same_kind::{PairedStep, Pairing};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Two runs, the earlier one first.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// What each is called.
    pub names: (String, String),
    pub command: Vec<WordChange>,
    /// All that is known of either.
    pub rows: Vec<ComparedRow>,
    /// Those that changed most first.
    pub lines: Vec<ComparedLine>,
    /// The steps whose lines these are, or why there are none.
    pub steps: Option<String>,
}

/// One fact of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedRow {
    pub name: &'static str,
    pub before: String,
    pub after: String,
    /// `−8.80 GiB (−37 %)`; empty where that says nothing.
    pub change: String,
}

/// What a line held at the peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedLine {
    pub place: String,
    pub before: Bytes,
    pub after: Bytes,
}

/// A run of a session, under a name.
#[derive(Debug, Clone, Copy)]
pub struct ComparedRun<'a> {
    pub name: &'a str,
    pub story: &'a SessionStory,
    pub run: &'a Run,
}

/// Lines listed.
const LISTED: usize = 8;

/// A smaller change of a line is noise: the allocator's rounding, a batch's last tensor.
const SMALLEST: Bytes = Bytes::mib(1);

impl ComparedRow {
    pub fn is_same(&self) -> bool {
        self.before == self.after
    }
}

impl ComparedLine {
    /// `+1.20 GiB`.
    pub fn change(&self) -> String {
        signed(self.before, self.after)
    }
}

impl Comparison {
    pub fn new(before: ComparedRun, after: ComparedRun) -> Comparison {
        let name = |side: &ComparedRun| match side.story.state.runs.len() {
            1 => side.name.to_string(),
            _ => format!("{} run {}", side.name, side.run.number),
        };
        let (lines, steps) = lines(before.run, after.run);
        Comparison {
            names: (name(&before), name(&after)),
            command: in_words(
                Some(&before.run.command),
                &difference(&before.run.command, &after.run.command),
            ),
            rows: rows(&before, &after),
            lines,
            steps,
        }
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{} → {}\n\n", self.names.0, self.names.1);
        let changed: Vec<&ComparedRow> = self.rows.iter().filter(|row| !row.is_same()).collect();
        let width = changed.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let width = width.max("command".len());
        if !self.command.is_empty() {
            let words: Vec<String> = self.command.iter().map(WordChange::text).collect();
            let _ = writeln!(text, "{:width$}  {}", "command", words.join(", "));
        }
        for row in &changed {
            let mut line = format!("{:width$}  {} → {}", row.name, row.before, row.after);
            if !row.change.is_empty() {
                let _ = write!(line, "  {}", row.change);
            }
            let _ = writeln!(text, "{line}");
        }
        if changed.is_empty() && self.command.is_empty() {
            text.push_str("nothing differs\n");
        }
        if let Some(steps) = &self.steps {
            let _ = writeln!(text, "\n{steps}");
        }
        if !self.lines.is_empty() {
            text.push_str("\nlines that hold more or less than before, most changed first:\n");
            for line in &self.lines {
                let _ = writeln!(
                    text,
                    "  {:>10}  {}  ({} → {})",
                    line.change(),
                    line.place,
                    line.before,
                    line.after
                );
            }
        }
        let same: Vec<String> = (self.rows.iter())
            .filter(|row| row.is_same())
            .map(|row| format!("{} {}", row.name, row.before))
            .collect();
        if !same.is_empty() {
            let _ = writeln!(text, "\nthe same: {}", same.join(", "));
        }
        text
    }
}

fn rows(before: &ComparedRun, after: &ComparedRun) -> Vec<ComparedRow> {
    let mut rows = Vec::new();
    let mut words = |name, absent, of: &dyn Fn(&ComparedRun) -> Option<String>| {
        add(
            &mut rows,
            (name, absent),
            (of(before), of(after)),
            String::new(),
        );
    };
    words("outcome", NOT_SEEN, &|side| Some(side.run.outcome_words()));
    words("GPU", NOT_SEEN, &|side| {
        Some(side.story.state.devices.first()?.name.clone())
    });
    words(
        "driver",
        NO_NVML,
        &|side| match side.story.state.nvml.as_ref()? {
            NvmlState::Live { driver, .. } => Some(driver.clone()),
            NvmlState::Unavailable { .. } | NvmlState::Stale | NvmlState::Off => None,
        },
    );
    words("torch", NOT_SEEN, &|side| {
        Some(side.run.ranks.first()?.hello.torch.clone())
    });
    words("Python", NOT_SEEN, &|side| {
        Some(side.run.ranks.first()?.hello.python.clone())
    });
    words("processes", NOT_SEEN, &|side| {
        Some(side.run.ranks.len().to_string())
    });
    words("allocator settings", DEFAULTS, &|side| {
        let settings = side.run.ranks.first()?.hello.alloc_conf.clone();
        settings.filter(|settings| !settings.is_empty())
    });
    words("took", NOT_SEEN, &|side| {
        Some(clock_face(ended(side).since(side.run.started)))
    });
    words("steps completed", NOT_SEEN, &|side| {
        Some(side.run.steps().to_string())
    });
    let mut bytes = |name, absent, of: &dyn Fn(&ComparedRun) -> Option<Bytes>| {
        let (a, b) = (of(before), of(after));
        let (shown, change) = match (a, b) {
            (Some(a), Some(b)) if is_noise(a, b) => {
                let same = same_words(a, b);
                ((Some(same.clone()), Some(same)), String::new())
            }
            (Some(a), Some(b)) => {
                let [before, after] = a.apart(b);
                let change = format!("{}{}", signed(a, b), percent(a, b));
                ((Some(before), Some(after)), change)
            }
            (a, b) => {
                let shown = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string());
                ((shown(a), shown(b)), String::new())
            }
        };
        add(&mut rows, (name, absent), shown, change);
    };
    bytes("peak allocated", NOT_SEEN, &|side| side.run.peak());
    bytes("peak reserved", NOT_SEEN, &|side| {
        (side.run.ranks.iter())
            .map(|rank| rank.reserved_peak)
            .filter(|peak| *peak > Bytes::ZERO)
            .max()
    });
    let has_only_need = |side: &ComparedRun| {
        side.run.predicted_peak.is_none() && score::predicted(side.run).is_some()
    };
    // Where no figure of the peak was worth one, its need was predicted: as the run's end says it.
    let is_need = has_only_need(before) || has_only_need(after);
    bytes("predicted peak", NOT_PREDICTED, &|side| {
        side.run.predicted_peak.filter(|_| !is_need)
    });
    let part = |of: fn(&Structure) -> Bytes| {
        move |side: &ComparedRun| {
            let ranks = side.run.ranks.iter();
            ranks
                .filter_map(|rank| rank.structure.as_ref().map(of))
                .max()
        }
    };
    // Of a run that came to no step its out-of-memory tells of them.
    let at_oom = |side: &ComparedRun| {
        let record = side.run.oom()?.record.as_ref()?;
        Some(record.structure.as_ref()?.parameters)
    };
    bytes("parameters", NOT_SEEN, &|side| {
        part(|structure| structure.parameters)(side).or_else(|| at_oom(side))
    });
    bytes(
        "gradients",
        NOT_SEEN,
        &part(|structure| structure.gradients),
    );
    bytes(
        "optimizer state",
        NOT_SEEN,
        &part(|structure| structure.optimizer_state),
    );
    let seconds = |side: &ComparedRun| {
        let rates = side.run.ranks.iter().filter_map(|rank| rank.steps.rate);
        Some(1.0 / rates.min_by(f64::total_cmp)?)
    };
    let (a, b) = (seconds(before), seconds(after));
    let change = match (a, b) {
        (Some(a), Some(b)) => in_percent(b / a - 1.0, 0),
        (Some(_) | None, _) => String::new(),
    };
    let shown = |seconds: Option<f64>| seconds.map(|seconds| format!("{:.0} ms", seconds * 1e3));
    add(
        &mut rows,
        ("step time", NOT_SEEN),
        (shown(a), shown(b)),
        change,
    );
    if is_need {
        let said = [before, after].map(|side| score::predicted(side.run));
        let [before, after] = said;
        let row = ("predicted", NOT_PREDICTED);
        add(&mut rows, row, (before, after), String::new());
    }
    rows
}

/// What stands where one of the two has no such fact: why it has none.
const NOT_SEEN: &str = "not seen";
const NOT_PREDICTED: &str = "not predicted";
const NO_NVML: &str = "no NVML";
/// None are set.
const DEFAULTS: &str = "defaults";

/// A fact that neither has is none; `absent` stands for that of one which has none.
fn add(
    rows: &mut Vec<ComparedRow>,
    (name, absent): (&'static str, &'static str),
    (before, after): (Option<String>, Option<String>),
    change: String,
) {
    if before.is_none() && after.is_none() {
        return;
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| absent.into());
    let (before, after) = (shown(before), shown(after));
    rows.push(ComparedRow {
        name,
        change: if before == after {
            String::new()
        } else {
            change
        },
        before,
        after,
    });
}

fn ended(side: &ComparedRun) -> crate::units::Moment {
    let ended = side.run.ended.map(|(at, _)| at);
    ended.unwrap_or(side.story.state.now)
}

/// A smaller difference of a figure, as a share of it, is none: two runs of one command differ by as much.
const NOISE: f64 = 0.001;

fn is_noise(before: Bytes, after: Bytes) -> bool {
    before.0.abs_diff(after.0) as f64 <= NOISE * before.0.max(after.0) as f64
}

/// Figures that are the same but for noise, as each of the two sessions prints its own: `138.9 and 139.0 GiB`.
fn same_words(before: Bytes, after: Bytes) -> String {
    let (a, b) = (before.to_string(), after.to_string());
    match (a == b, a.split_once(' '), b.split_once(' ')) {
        (false, Some((number, unit)), Some((_, other))) if unit == other => {
            format!("{number} and {b}")
        }
        (false, _, _) => format!("{a} and {b}"),
        (true, _, _) => a,
    }
}

/// `+1.20 GiB`, `−300 MiB`.
fn signed(before: Bytes, after: Bytes) -> String {
    match after >= before {
        true => format!("+{}", after - before),
        false => format!("−{}", before - after),
    }
}

fn percent(before: Bytes, after: Bytes) -> String {
    match after.fraction_of(before) {
        Some(share) => format!(" ({})", in_percent(share - 1.0, 1)),
        None => String::new(),
    }
}

/// `+2.8 %`, `−60 %`: with the minus that stands before bytes, too.
fn in_percent(share: f64, decimals: usize) -> String {
    let percent = format!("{:+.decimals$} %", share * 100.0);
    percent.replace('-', "−")
}

fn lines(before: &Run, after: &Run) -> (Vec<ComparedLine>, Option<String>) {
    match same_kind::steps(before, after) {
        Pairing::Steps(a, b) => {
            let mut words = format!("compared: {} and {}", in_step(&a), in_step(&b));
            let ran_out = [&a, &b].into_iter().find(|step| step.anatomy.failed);
            if let Some(step) = ran_out {
                let step = &step.anatomy;
                let _ = write!(
                    words,
                    ", as far as step {} had come when memory ran out{}",
                    step.step,
                    step.in_phase(step.end())
                );
            }
            // A first step has no optimizer state yet: that is no difference of the runs.
            let without = match (a.has_optimizer_state(), b.has_optimizer_state()) {
                (false, true) => Some(&a),
                (true, false) => Some(&b),
                (true, true) | (false, false) => None,
            };
            if let Some(step) = without {
                let _ = write!(
                    words,
                    "; without optimizer state, which step {} had none of yet",
                    step.anatomy.step
                );
            }
            let is_whole = ran_out.is_none();
            let lines = |step: &PairedStep| held(step, is_whole, without.is_none());
            (changed(lines(&a), lines(&b)), Some(words))
        }
        Pairing::Different(why) => (Vec::new(), Some(why)),
        Pairing::NoSteps => match (at_oom(before), at_oom(after)) {
            (Some(a), Some(b)) => (changed(a, b), None),
            (Some(_) | None, _) => (Vec::new(), None),
        },
    }
}

/// `step 30 (inputs 32×832)`.
fn in_step(step: &PairedStep) -> String {
    match same_kind::shape(step.inputs) {
        Some(inputs) => format!("step {} (inputs {inputs})", step.anatomy.step),
        None => format!("step {}", step.anatomy.step),
    }
}

fn changed(a: Vec<(String, Bytes)>, b: Vec<(String, Bytes)>) -> Vec<ComparedLine> {
    let mut both: BTreeMap<String, (Bytes, Bytes)> = BTreeMap::new();
    for (place, bytes) in a {
        both.entry(place).or_default().0 += bytes;
    }
    for (place, bytes) in b {
        both.entry(place).or_default().1 += bytes;
    }
    let mut lines: Vec<ComparedLine> = (both.into_iter())
        .map(|(place, (before, after))| ComparedLine {
            place,
            before,
            after,
        })
        .filter(|line| line.before.0.abs_diff(line.after.0) >= SMALLEST.0)
        .collect();
    lines.sort_by_key(|line| Reverse(line.before.0.abs_diff(line.after.0)));
    lines.truncate(LISTED);
    lines
}

/// What each line held where a traced step is compared. What its blocks are for is known of a whole step only.
fn held(step: &PairedStep, is_whole: bool, with_state: bool) -> Vec<(String, Bytes)> {
    let holdings = by_line(&step.anatomy, step.at);
    let placed = holdings.into_iter().filter_map(|holding| {
        let (line, category) = (holding.line?, holding.category);
        let is_counted = with_state || category != Category::OptimizerState;
        let place = line.path_to(None, "");
        let place = match is_whole {
            true => format!("{place} ({})", category.title()),
            false => place,
        };
        is_counted.then_some((place, holding.bytes))
    });
    placed.collect()
}

/// What each line held when memory ran out.
fn at_oom(run: &Run) -> Option<Vec<(String, Bytes)>> {
    let record = run.oom()?.record.as_ref()?;
    let lines = record.lines.iter();
    let lines = lines.map(|line| (line.line.path_to(None, ""), line.bytes));
    Some(lines.collect())
}

/// The run that is meant: the one with this number, or the last.
pub fn run_of(state: &State, number: Option<RunNumber>) -> Option<&Run> {
    match number {
        Some(number) => state.run_numbered(number),
        None => state.run(),
    }
}

/// What a changed word belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOf {
    Nothing,
    Option(String),
    /// A variable of the environment.
    Variable(String),
    /// A number in the program's text: the file, the line, and what comes before it.
    Number(String),
}

/// The name, a variable's with `=`; empty for nothing.
impl Serialize for ChangeOf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ChangeOf::Nothing => serializer.serialize_str(""),
            ChangeOf::Option(name) | ChangeOf::Number(name) => serializer.serialize_str(name),
            ChangeOf::Variable(name) => serializer.collect_str(&format_args!("{name}=")),
        }
    }
}

/// One change: what is gone, and what came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WordChange {
    /// What both belong to.
    #[serde(rename = "name")]
    pub of: ChangeOf,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// The changes of `command` to another.
pub fn in_words(command: Option<&CommandLine>, changes: &[Change]) -> Vec<WordChange> {
    let argv = command.map_or(&[][..], |command| &command.argv);
    let each = changes.iter().flat_map(|change| match change {
        Change::Env { name, from, to } if *name == *EDITS => edits(from.as_ref(), to.as_ref()),
        _ => vec![one(argv, change)],
    });
    each.collect()
}

/// Numbers that are changed in the program's text, by file and line.
fn edits(from: Option<&Word>, to: Option<&Word>) -> Vec<WordChange> {
    let (new, gone) = SourceEdit::differences(from, to);
    let number = |edit: &SourceEdit, from: Option<u64>, to: Option<u64>| WordChange {
        of: ChangeOf::Number(format!("{}  {}", edit.place(), edit.spelled)),
        from: from.map(|number| number.to_string()),
        to: to.map(|number| number.to_string()),
    };
    let new = new
        .iter()
        .map(|edit| number(edit, Some(edit.from), Some(edit.to)));
    // It is again what stands in the file.
    let gone = gone
        .iter()
        .map(|edit| number(edit, Some(edit.to), Some(edit.from)));
    new.chain(gone).collect()
}

fn one(argv: &[Word], change: &Change) -> WordChange {
    let text = |word: &Word| word.to_string_lossy();
    let joined = |words: &[Word]| words.iter().map(text).collect::<Vec<_>>().join(" ");
    match change {
        Change::Replaced { at, from, to } => {
            let before = at.checked_sub(1).and_then(|before| argv.get(before));
            let option = before.map(text).filter(|word| word.starts_with('-'));
            let is_value = !text(from).starts_with('-');
            WordChange {
                of: option
                    .filter(|_| is_value)
                    .map_or(ChangeOf::Nothing, ChangeOf::Option),
                from: Some(text(from)),
                to: Some(text(to)),
            }
        }
        Change::Added { words, .. } => WordChange {
            of: ChangeOf::Nothing,
            from: None,
            to: Some(joined(words)),
        },
        Change::Removed { words, .. } => WordChange {
            of: ChangeOf::Nothing,
            from: Some(joined(words)),
            to: None,
        },
        Change::Env { name, from, to } => WordChange {
            of: ChangeOf::Variable(text(name)),
            from: from.as_ref().map(text),
            to: to.as_ref().map(text),
        },
    }
}

impl WordChange {
    /// `--batch-size 64→32`, `added --grad-accum 2`, `removed --amp`, `A=1→2`.
    pub fn text(&self) -> String {
        let name = match &self.of {
            ChangeOf::Nothing => String::new(),
            ChangeOf::Option(name) => format!("{name} "),
            ChangeOf::Variable(name) => format!("{name}="),
            ChangeOf::Number(name) => name.clone(),
        };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!("{name}{from}→{to}"),
            (None, Some(to)) => format!("added {name}{to}"),
            (Some(from), None) => format!("removed {name}{from}"),
            (None, None) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandLine, Word};

    fn story(batch: &str, peak: u64) -> SessionStory {
        let mut story = SessionStory::default();
        let mut run = Run::default();
        let words = ["python", "train.py", "--batch-size", batch];
        run.command = CommandLine {
            argv: words.into_iter().map(Word::from).collect(),
            ..CommandLine::default()
        };
        run.ranks.push(crate::state::RankState {
            allocated_peak: Bytes::gib(peak),
            ..Default::default()
        });
        story.state.runs.push(run);
        story
    }

    #[test]
    fn figures_that_differ_are_told_apart_and_noise_is_no_difference() {
        let mib = |mib: f64| Bytes::mib(1).scale(mib);
        let of = |parameters: f64, peak: f64| {
            let mut story = story("64", 20);
            let rank = &mut story.state.runs[0].ranks[0];
            rank.structure = Some(Structure {
                pid: crate::units::Pid(1),
                device: 0,
                parameters: mib(parameters),
                gradients: mib(parameters),
                optimizer_state: mib(2.0 * parameters),
                whole: None,
            });
            rank.allocated_peak = mib(peak);
            story
        };
        let row = |a: &SessionStory, b: &SessionStory, name| {
            let side = |story| ComparedRun {
                name: "a",
                story,
                run: run_of(&story.state, None).expect("a run"),
            };
            let rows = Comparison::new(side(a), side(b)).rows;
            let row = rows.into_iter().find(|row| row.name == name);
            let row = row.expect("a row");
            format!("{} → {}  {}", row.before, row.after, row.change)
        };
        // Of one model at two lengths: both figures have changed by the same share.
        let (a, b) = (of(164.33, 15_000.0), of(163.66, 15_001.0));
        assert_eq!(
            row(&a, &b, "parameters"),
            "164.3 MiB → 163.7 MiB  −686.1 KiB (−0.4 %)"
        );
        assert!(row(&a, &b, "optimizer state").starts_with("329 MiB → 327 MiB"));
        assert_eq!(row(&a, &b, "peak allocated"), "14.6 GiB → 14.6 GiB  ");
        // Each side finds its own figure in it.
        let more = of(164.33, 15_012.0);
        assert_eq!(
            row(&a, &more, "peak allocated"),
            "14.6 and 14.7 GiB → 14.6 and 14.7 GiB  "
        );
    }

    #[test]
    fn what_differs_is_said_with_how_much() {
        let (mut a, b) = (story("64", 20), story("32", 15));
        a.state.runs[0].predicted_peak = Some(Bytes::gib(21));
        fn side<'a>(name: &'a str, story: &'a SessionStory) -> ComparedRun<'a> {
            let run = run_of(&story.state, None).expect("a run");
            ComparedRun { name, story, run }
        }
        let comparison = Comparison::new(side("a", &a), side("b", &b));
        let text = comparison.text();
        assert!(text.starts_with("a → b\n"), "{text}");
        assert!(text.contains("--batch-size 64→32"), "{text}");
        assert!(
            text.contains("20.0 GiB → 15.0 GiB  −5.00 GiB (−25.0 %)"),
            "{text}"
        );
        // Why one has no such figure is said, and is never a difference that nobody knows of.
        assert!(
            text.contains("predicted peak  21.0 GiB → not predicted\n"),
            "{text}"
        );
        assert!(text.contains("the same: outcome running"), "{text}");
        let same = Comparison::new(side("a", &a), side("a", &a)).text();
        assert!(same.contains("nothing differs"), "{same}");
    }

    #[test]
    fn a_value_stands_behind_its_option() {
        let command = |line: &str| CommandLine {
            argv: line.split(' ').map(Word::from).collect(),
            ..CommandLine::default()
        };
        let (old, mut new) = (command("t.py --batch 64 --x"), command("t.py --batch 32"));
        new.set_env("A", Some(Word::from("1")));
        let changes = in_words(Some(&old), &difference(&old, &new));
        let words: Vec<String> = changes.iter().map(WordChange::text).collect();
        assert_eq!(words, ["added A=1", "--batch 64→32", "removed --x"]);
    }
}
