//! The OOMs of a log or a recording, each with its causes: as text to paste into an issue, and as
//! JSON for other programs.
//!
//! No I/O: this is given what was read and diagnosed, and returns text.

mod in_json;
mod in_short;
#[cfg(test)]
mod tests;

pub use in_json::{json, value};
pub use in_short::in_short;

use crate::anatomy::{KEPT, StepAnatomy, StepGrowth};
use crate::command::{CommandLine, MASK};
use crate::diagnosis::{Cause, Finding, FittedGrowth, GrowthVerdict};
use crate::document::text::{TextLayout, lines};
use crate::document::{
    self, DocumentBlock, Figure, Heading, KnownLines, MadeByLine, MemoryHolder, RunProof, Tree,
};
use crate::event::{OomRecord, Retainers, Structure, displayed};
use crate::oom::{OomKind, OomOutcome};
use crate::remedy::{self, Remedy, RemedyInputs};
use crate::state::{OomIncident, Run, RunOutcome, SourceTexts};
use crate::units::{Bytes, Rank, RunNumber};

/// The maximum number of other OOMs listed.
const LISTED: usize = 20;

/// The maximum number of the program's lines listed.
const HOLDERS: usize = 10;

/// The maximum number of a traced step's lines and modules listed.
const OF_A_STEP: usize = 5;

/// Everything that was found in one text.
#[derive(Debug)]
pub struct Explanation<'a> {
    /// For display: a file's name, "standard input".
    pub source: &'a str,
    /// Bytes of text; `None` for a recording.
    pub length: Option<u64>,
    /// In order.
    pub ooms: &'a [Explained],
    /// What oomph itself wrote into a log when the run ended, whose recording is not there.
    pub said: &'a [String],
    /// The command that ran out of memory and the inputs of its remedies: the one that was given, or the recorded one.
    pub command: Option<(&'a CommandLine, RemedyInputs<'a>)>,
    /// Of each relaunched run, whether its losses stayed as they were.
    pub proofs: Vec<RunProof>,
    /// What became of the recorded runs after the one that ran out, in sentences.
    pub followed: Vec<String>,
    /// What to type after `oomph again` to start it.
    pub again: Option<&'a str>,
    /// How the last recorded run ended, and what it left unused, in sentences; of a log what may be of memory.
    pub ended: Vec<String>,
    /// How far the batch of the last recorded run could have gone: `a batch of 48 would fit (32 ran)`.
    pub room: Option<String>,
    /// By how much what stays between steps grew in a recorded run that went well.
    pub growth: Option<String>,
}

/// An OOM and its causes.
#[derive(Debug)]
pub struct Explained {
    pub incident: OomIncident,
    /// Whether the program ended with it.
    pub outcome: OomOutcome,
    /// The recording's run and its command for display (secrets masked).
    pub run: Option<(RunNumber, String)>,
    /// Most certain first.
    pub findings: Vec<Finding>,
    /// What the step is made of that ran out of memory, or else the latest one that was traced.
    pub step: Option<StepAnatomy>,
    /// Who keeps the memory alive, if that was searched.
    pub retainers: Option<Retainers>,
    /// What grew over the traced steps.
    pub growth: Option<StepGrowth>,
    /// Whether what is allocated between steps grew.
    pub grows: Option<GrowthVerdict>,
    /// What the lines of the program say.
    pub source: SourceTexts,
}

impl Explained {
    /// The lines that held the memory, and what they held.
    pub fn lines(&self) -> Vec<MemoryHolder> {
        let lines = document::lines_of(&self.incident, &self.source);
        let made = self.step.as_ref().map(MadeByLine::new).unwrap_or_default();
        document::told_apart(lines, &self.incident, self.leaked(), &made)
    }

    /// How much of what was allocated had leaked.
    pub fn leaked(&self) -> Option<Bytes> {
        self.findings.iter().find_map(|finding| finding.leaked)
    }

    /// From a log.
    pub fn of_log(incident: OomIncident, findings: Vec<Finding>) -> Explained {
        let outcome = incident
            .report
            .as_ref()
            .map_or(OomOutcome::Unknown, |r| r.outcome);
        Explained {
            incident,
            outcome,
            run: None,
            findings,
            step: None,
            retainers: None,
            growth: None,
            grows: None,
            source: SourceTexts::default(),
        }
    }

    /// From a recorded run.
    pub fn of_run(run: &Run, incident: &OomIncident, findings: Vec<Finding>) -> Explained {
        let reported = incident
            .report
            .as_ref()
            .map_or(OomOutcome::Unknown, |r| r.outcome);
        let decisive = run.oom().is_some_and(|oom| std::ptr::eq(oom, incident));
        let ran_out = run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure();
        let outcome = match (run.survived_oom(incident), decisive && ran_out) {
            (true, _) => OomOutcome::Caught,
            (false, true) => OomOutcome::Fatal,
            (false, false) => reported,
        };
        let rank = run.rank_of(incident);
        Explained {
            incident: incident.clone(),
            outcome,
            run: Some((run.number, displayed(&run.command))),
            findings,
            step: rank.and_then(|rank| StepAnatomy::of_oom(&rank.traces)),
            retainers: rank
                .and_then(|rank| rank.retainers.as_ref())
                .map(|(_, found)| found.clone()),
            growth: rank.and_then(|rank| StepGrowth::new(&rank.traces)),
            grows: rank.map(|rank| {
                GrowthVerdict::new(rank, incident.capacity(), &FittedGrowth::default())
            }),
            source: run.source.clone(),
        }
    }

    /// The gradients there were then, where a traced step says so.
    pub(super) fn traced_gradients(&self) -> Option<Bytes> {
        let phase = self.incident.record.as_ref()?.phase;
        self.step.as_ref()?.gradients_at_oom(phase)
    }

    /// What ran out of memory. The probe only observes PyTorch's CUDA allocator.
    fn kind(&self) -> OomKind {
        self.incident.kind()
    }

    /// The device's index in the process.
    fn device(&self) -> Option<u32> {
        let record = self.incident.record.as_ref().map(|record| record.device);
        record.or_else(|| self.incident.report.as_ref()?.device)
    }

    fn rank(&self) -> Option<Rank> {
        self.incident.rank
    }

    /// Whether the requested size isn't a tensor's.
    fn is_small_segment(&self) -> bool {
        let requested = self.incident.requested();
        requested.is_some_and(|requested| self.kind().is_small_segment(requested))
    }
}

/// The index of the OOM that matters: the one that ended the program, else one that may have. Of
/// several ranks that fail together the first, since the others follow from it; of several failures
/// of one rank, or several runs in one text, the last.
pub fn decisive(ooms: &[Explained]) -> Option<usize> {
    let weight = |oom: &Explained| match oom.outcome {
        OomOutcome::Fatal => 2,
        OomOutcome::Unknown => 1,
        OomOutcome::Caught => 0,
    };
    let heaviest = ooms.iter().map(weight).max()?;
    let candidates = || {
        let all = ooms.iter().enumerate().rev();
        all.filter(|(_, oom)| weight(oom) == heaviest)
    };
    // A later one without figures (a library that finds no memory while the exception is handled)
    // is a consequence.
    let with_figures = candidates().find(|(_, oom)| oom.incident.requested().is_some());
    let (last_place, last) = with_figures.or_else(|| candidates().next())?;
    let number = |oom: &Explained| oom.run.as_ref().map(|(number, _)| *number);
    let mut chosen = last_place;
    let mut seen = vec![last.rank()];
    for (place, oom) in candidates().filter(|(place, _)| *place < last_place) {
        // Without ranks it may be the same process again.
        let same = oom.rank().is_none() || seen.contains(&None) || seen.contains(&oom.rank());
        if same || number(oom) != number(last) {
            break;
        }
        seen.push(oom.rank());
        chosen = place;
    }
    Some(chosen)
}

/// Above what oomph wrote into the log.
const SAID: &str = "oomph wrote there when the run ended";

/// The explanation as text; each line ends in a newline.
pub fn text(explanation: &Explanation) -> String {
    let source = explanation.source;
    let Some(chosen) = decisive(explanation.ooms) else {
        return match explanation.length {
            Some(0) => format!("{source} is empty: no OOM to explain.\n"),
            Some(_) if !explanation.said.is_empty() => {
                let said: String = (explanation.said.iter())
                    .map(|line| format!("  {line}\n"))
                    .collect();
                format!("No message of an OOM found in {source}. {}:\n{said}", SAID)
            }
            Some(length) => {
                let hints = explanation.ended.iter();
                let hints: String = hints.map(|sentence| format!("{sentence}\n")).collect();
                format!("No OOM found in {source} ({}).\n{hints}", Bytes(length))
            }
            None => {
                let growth = explanation.growth.as_ref();
                let growth = growth.map_or(String::new(), |growth| format!("But {growth}.\n"));
                let ended = explanation.ended.iter();
                let ended: String = ended.map(|sentence| format!("{sentence}\n")).collect();
                format!("No OOM in {source}.\n{ended}{growth}")
            }
        };
    };
    let oom = &explanation.ooms[chosen];
    let what = oom.incident.what();
    let mut text = format!("Out of {what} in {source}: {}.\n", place(oom));
    for line in lines(&blocks(explanation, oom, chosen), TextLayout::Parts) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// First what matters, in full, then the other OOMs with a line each, then what can be run.
fn blocks(explanation: &Explanation, oom: &Explained, chosen: usize) -> Vec<DocumentBlock> {
    let mut blocks = Vec::new();
    let changes = match &explanation.command {
        Some((command, inputs)) => remedy::remedies(command, inputs),
        None => Vec::new(),
    };
    if let Some((_, command)) = &oom.run {
        blocks.push(DocumentBlock::detail(format!("command: {command}")));
    }
    if !explanation.said.is_empty() {
        blocks.push(DocumentBlock::heading(SAID));
        let said = explanation.said.iter().cloned();
        blocks.extend(said.map(DocumentBlock::detail));
    }
    // The answer comes first, and then what it rests on.
    let mut shown = numbers(oom);
    for (n, finding) in oom.findings.iter().enumerate() {
        // A number is told once.
        let mut finding = document::beside_remedies(finding, &changes);
        finding.evidence.retain(|number| {
            let number = (number.what.clone(), number.bytes);
            let is_new = !shown.contains(&number);
            shown.push(number);
            is_new
        });
        blocks.extend(document::finding(&finding, n == 0));
    }
    let figures = figures(oom);
    if !figures.is_empty() {
        blocks.push(DocumentBlock::heading("Figures"));
        blocks.push(DocumentBlock::Table(figures));
    }
    blocks.extend(holders(oom));
    let found = oom.retainers.as_ref();
    blocks.extend(
        found
            .into_iter()
            .flat_map(|found| document::kept_alive(found, "Kept alive by")),
    );
    let has_lines = (oom.incident.record.as_ref()).is_some_and(|record| !record.lines.is_empty());
    let of_step = |step| of_step(step, &oom.source, has_lines);
    blocks.extend(oom.step.iter().flat_map(of_step));
    blocks.extend(others(explanation.ooms, chosen));
    let after = oom.run.as_ref().map(|(number, _)| *number);
    let of_others = |proof: &&RunProof| explanation.followed.is_empty() || Some(proof.run) <= after;
    blocks.extend(proofs(explanation.proofs.iter().filter(of_others)));
    if !explanation.followed.is_empty() {
        blocks.push(DocumentBlock::heading("What followed"));
        let followed = explanation.followed.iter().cloned();
        blocks.extend(followed.map(DocumentBlock::detail));
    }
    blocks.extend(remedies(explanation, &changes));
    blocks
}

/// Where it happened and how it ended: "line 812, rank 3, device 0: PyTorch's CUDA allocator; it
/// …".
fn place(oom: &Explained) -> String {
    let run = oom.run.as_ref().map(|(number, _)| format!("run {number}"));
    let of_output = match oom.run {
        Some(_) => " of the output",
        None => "",
    };
    let line = oom
        .incident
        .report
        .as_ref()
        .map(|r| format!("line {}{of_output}", r.line));
    let rank = oom.rank().map(|rank| format!("rank {rank}"));
    let device = oom.device().map(|device| format!("device {device}"));
    let known: Vec<String> = [run, line, rank, device].into_iter().flatten().collect();
    let later = oom.incident.report.as_ref();
    let later = later.and_then(|report| report.later_error.as_deref());
    let end = match (oom.outcome, later) {
        (OomOutcome::Fatal, _) => "the program ended with it".to_string(),
        (OomOutcome::Caught, None) => "caught, the program continued".to_string(),
        (OomOutcome::Caught, Some(other)) => {
            format!("caught, the program continued, and ended with another error later ({other})")
        }
        (OomOutcome::Unknown, None) => {
            "it is not shown whether the program ended with it".to_string()
        }
        (OomOutcome::Unknown, Some(other)) => {
            format!("the program ended with another error ({other}), which may follow from it")
        }
    };
    let whose = match oom.incident.what() {
        "memory" => oom.kind().spec().allocator.to_string(),
        other => format!("{other}, not memory"),
    };
    match known.is_empty() {
        true => format!("{whose}; {end}"),
        false => format!("{}: {whose}; {end}", known.join(", ")),
    }
}

/// The incident's figures that are known, with their names.
fn numbers(oom: &Explained) -> Vec<(String, Bytes)> {
    let incident = &oom.incident;
    let report = incident.report.as_ref();
    let rows = [
        ("requested", incident.requested()),
        ("capacity", incident.capacity()),
        ("limit", incident.limit()),
        ("free", incident.free()),
        ("allocated", incident.allocated()),
        ("private pools", report.and_then(|r| r.private_pools)),
        ("reserved", incident.reserved()),
        ("cached", incident.cached()),
        ("this process", report.and_then(|r| r.process_used)),
    ];
    let known = rows
        .into_iter()
        .filter_map(|(name, n)| Some((name.to_string(), n?)));
    known.collect()
}

/// A row for each figure, and for each process that the message names.
fn figures(oom: &Explained) -> Vec<Figure> {
    const SEGMENT: &str =
        "(the segment of a small allocation: it says nothing about the tensor's size)";
    let mut rows: Vec<Figure> = (numbers(oom).into_iter())
        .map(|(name, bytes)| Figure::new(name, bytes))
        .collect();
    if let (true, Some(requested)) = (oom.is_small_segment(), rows.first_mut()) {
        requested.value = format!("{} {SEGMENT}", requested.value);
    }
    let report = oom.incident.report.as_ref();
    rows.extend(
        report
            .iter()
            .flat_map(|report| &report.others)
            .map(|other| {
                let used = other.used.map(|used| used.to_string());
                let name = format!("process {}", other.pid);
                Figure::new(name, used.unwrap_or_else(|| "unknown".into()))
            }),
    );
    rows
}

/// The lines with the most live memory, as seen by the probe's observer, and what grew.
fn holders(oom: &Explained) -> Vec<DocumentBlock> {
    let Some(record) = &oom.incident.record else {
        return Vec::new();
    };
    if record.structure.is_none() && record.lines.is_empty() && record.growing.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![DocumentBlock::heading("What used the memory")];
    if let Some(structure) = &record.structure {
        let gradients = record.gradients_then(structure.gradients, oom.traced_gradients());
        blocks.push(DocumentBlock::detail(made_of(
            structure,
            gradients,
            record,
            oom.leaked(),
        )));
        blocks.extend(document::in_blocks(record));
    }
    let known = KnownLines::at(&oom.incident).and_then(KnownLines::words);
    blocks.extend(known.map(|words| DocumentBlock::detail(document::why_not_all(&words))));
    let mut held = oom.lines();
    let more = held.split_off(HOLDERS.min(held.len()));
    blocks.push(DocumentBlock::Tree(Tree::Lines(held)));
    if !more.is_empty() {
        let bytes: Bytes = more.iter().map(|held| held.bytes).sum();
        let lines = if more.len() == 1 { "line" } else { "lines" };
        blocks.push(DocumentBlock::detail(format!(
            "{} more {lines}: {bytes}",
            more.len()
        )));
    }
    if let Some(((from, to), growing)) = document::growing_lines(&oom.incident, &oom.source) {
        let heading = format!("Growing allocations, from step {from} to step {to}");
        blocks.push(DocumentBlock::heading(heading));
        blocks.push(DocumentBlock::Tree(Tree::Growing(growing)));
        let verdict = oom.grows.filter(|_| oom.leaked().is_none());
        let words = verdict.and_then(GrowthVerdict::of_lines_that_grew);
        blocks.extend(words.map(DocumentBlock::detail));
    }
    if let Some(growth) = &oom.growth {
        // Where the record has lines, they are the ones that grow.
        let grown = document::grown(growth, record.growing.is_empty());
        if !grown.is_empty() {
            let heading = format!("Grew from step {} to step {}", growth.from, growth.to);
            blocks.push(DocumentBlock::heading(heading));
            blocks.push(DocumentBlock::Tree(Tree::Growing(grown)));
        }
    }
    blocks
}

/// With the gradients of that moment: where they are not known they are in the rest.
fn made_of(
    structure: &Structure,
    gradients: Option<Bytes>,
    record: &OomRecord,
    leaked: Option<Bytes>,
) -> String {
    // What FSDP has gathered beside the rank's shards.
    let gathered = record.sample.gathered.filter(|_| structure.whole.is_some());
    let kept = structure.parameters + structure.optimizer_state;
    let named = kept + gradients.unwrap_or_default() + gathered.unwrap_or_default();
    let own = match structure.whole {
        Some(_) => "parameter shards",
        None => "parameters",
    };
    let whole = gathered.map_or(String::new(), |bytes| format!(", gathered layers {bytes}"));
    let (then, rest) = match gradients {
        Some(bytes) => (format!(", gradients {bytes}"), "activations + other"),
        None => (String::new(), "gradients, activations + other"),
    };
    let unnamed = record.sample.allocated - named;
    let leaked = leaked.map(|leaked| leaked.min(unnamed));
    let stays = leaked.map_or(String::new(), |bytes| format!(", {KEPT} {bytes}"));
    format!(
        "{own} {}{then}, optimizer state {}{whole}{stays}, {rest} {}",
        structure.parameters,
        structure.optimizer_state,
        unnamed - leaked.unwrap_or_default()
    )
}

/// Where a step ends with so much of its peak, memory ran out at it.
const AT_THE_PEAK: f64 = 0.9;

/// What a traced step is made of at its peak. If that is where memory ran out and the record has the lines, they are told by it: it
/// counts as the allocator does what was not split off a block, which a trace does not know.
fn of_step(step: &StepAnatomy, source: &SourceTexts, has_lines: bool) -> Vec<DocumentBlock> {
    let peak = step.peak();
    let ends_there = step.allocated[step.end()] >= step.allocated[peak].scale(AT_THE_PEAK);
    let is_told = has_lines && step.failed && ends_there;
    let end = match step.failed {
        true => ", which ran out of memory",
        false => "",
    };
    let (number, bytes) = (step.step, step.allocated[peak]);
    let heading = format!(
        "The peak of step {number}{end}: {bytes}{}",
        step.in_phase(peak)
    );
    let mut blocks = vec![
        DocumentBlock::Heading(Heading {
            words: heading,
            aside: (!step.failed).then(|| "the latest that was traced whole".into()),
        }),
        document::parts_at(step, peak),
    ];
    if !is_told {
        let held = document::main_lines_at(step, peak, source, OF_A_STEP);
        blocks.push(DocumentBlock::Tree(Tree::Lines(held)));
    }
    let mut modules = document::modules_at(step, peak);
    modules.truncate(OF_A_STEP);
    blocks.push(DocumentBlock::Tree(Tree::Modules(modules)));
    blocks
}

/// The other OOMs, those that say the same in one line.
fn others(ooms: &[Explained], chosen: usize) -> Vec<DocumentBlock> {
    let others = (0..).zip(ooms).filter(|(at, _)| *at != chosen);
    let rest: Vec<&Explained> = others.map(|(_, oom)| oom).collect();
    if rest.is_empty() {
        return Vec::new();
    }
    let mut alike: Vec<(String, &str, Vec<&Explained>)> = Vec::new();
    for oom in &rest {
        let place = place(oom);
        let cause = oom
            .findings
            .first()
            .map_or("", |one| one.cause.spec().title);
        match (alike.iter_mut()).find(|(known, of, _)| *known == place && *of == cause) {
            Some((_, _, ooms)) => ooms.push(oom),
            None => alike.push((place, cause, vec![oom])),
        }
    }
    let mut blocks = vec![DocumentBlock::heading(format!("{} more", rest.len()))];
    blocks.extend(alike.iter().take(LISTED).map(|(place, cause, ooms)| {
        let asked = ooms.iter().filter_map(|oom| oom.incident.requested());
        let asked = match (asked.clone().min(), asked.max()) {
            (Some(least), Some(most)) if least < most => {
                format!("; requested {least} to {most}")
            }
            (Some(bytes), _) => format!("; requested {bytes}"),
            (None, _) => String::new(),
        };
        let cause = match cause.is_empty() {
            true => String::new(),
            false => format!("; {cause}"),
        };
        let times = match ooms.len() {
            1 => String::new(),
            times => format!("{times} × "),
        };
        DocumentBlock::detail(format!("{times}{place}{asked}{cause}"))
    }));
    let listed: usize = alike.iter().take(LISTED).map(|(_, _, of)| of.len()).sum();
    if rest.len() > listed {
        let more = rest.len() - listed;
        let words = format!("and {more} more (--json has all of them)");
        blocks.push(DocumentBlock::detail(words));
    }
    blocks
}

/// What became of the relaunched runs' numbers, a line each.
fn proofs<'a>(proofs: impl Iterator<Item = &'a RunProof>) -> Vec<DocumentBlock> {
    let mut proofs = proofs.peekable();
    if proofs.peek().is_none() {
        return Vec::new();
    }
    let mut blocks = vec![DocumentBlock::heading(
        "The training's numbers after a relaunch",
    )];
    blocks.extend(proofs.map(|proof| {
        let with = (proof.with).map_or(String::new(), |with| format!(", against run {with}"));
        DocumentBlock::detail(format!("run {}{with}: {}", proof.run, proof.words))
    }));
    blocks
}

fn remedies(explanation: &Explanation, remedies: &[Remedy]) -> Vec<DocumentBlock> {
    let Some((command, inputs)) = &explanation.command else {
        let file = match explanation.source {
            "standard input" => "-",
            file => file,
        };
        let hint =
            format!("oomph explain {file} -- COMMAND shows what can be changed in that command");
        let of_log = explanation.length.map(|_| DocumentBlock::detail(hint));
        return of_log.into_iter().collect();
    };
    let cause = inputs.findings.first().map(|finding| finding.cause);
    let mut blocks = to_relaunch(command, remedies, cause, explanation.again);
    blocks.extend(super::plan::at_runtime(remedies, inputs));
    blocks
}

/// The remedies of a command with what each changes, needs and costs, and how to start it again from its recording.
pub fn to_relaunch(
    command: &CommandLine,
    remedies: &[Remedy],
    cause: Option<Cause>,
    again: Option<&str>,
) -> Vec<DocumentBlock> {
    let (idle, worthwhile): (Vec<Remedy>, Vec<Remedy>) =
        (remedies.iter().cloned()).partition(document::is_of_little_use);
    let heading = match worthwhile.iter().any(Remedy::is_offered) {
        true => "To relaunch",
        false if !idle.is_empty() => "No remedy for the command takes the cause away",
        false => "No remedy can be applied to this command",
    };
    let mut blocks = vec![DocumentBlock::heading(heading)];
    let replay = again.map(|session| format!("oomph replay {session}"));
    let idle = document::of_little_use(&idle, replay.as_deref());
    blocks.extend(idle.map(DocumentBlock::detail));
    blocks.extend(document::offers(command, &worthwhile, |remedy| {
        vec![
            remedy.changes.as_str(),
            &remedy.expectation.words,
            &remedy.cost,
        ]
    }));
    let recommended = remedy::recommended(remedies, cause).map(|at| &remedies[at]);
    if let (Some(session), Some(remedy)) = (again, recommended) {
        let does = match remedy.expectation.verdict().is_expected() {
            true => "starts",
            false => "tries",
        };
        let words = format!("oomph again {session} {does} it with {}", remedy.title);
        blocks.push(DocumentBlock::detail(words));
    }
    if displayed(command).contains(MASK) {
        let words = format!("{MASK} stands for a secret, which no recording has: fill it in");
        blocks.push(DocumentBlock::detail(words));
    }
    blocks
}
