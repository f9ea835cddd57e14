//! The explanation as text to paste into an issue: first what matters, in full, then the other OOMs
//! with a line each.

use super::{Explained, Explanation, decisive, step};
use crate::anatomy::{GrownLine, GrownModule};
use crate::diagnosis::{AmongRanks, Finding};
use crate::event::{GrowingLine, LineUsage, MemoryKind, SourceLine, Structure};
use crate::oom::OomOutcome;
use crate::remedy::{self, Availability, Plan};
use crate::units::Bytes;

/// The maximum number of other OOMs listed.
const LISTED: usize = 20;

/// The maximum number of the program's lines listed.
const HOLDERS: usize = 10;

/// The explanation; each line ends in a newline.
pub fn text(explanation: &Explanation) -> String {
    let mut out = Lines::default();
    let source = explanation.source;
    let Some(chosen) = decisive(explanation.ooms) else {
        return match explanation.length {
            Some(0) => format!("{source} is empty: no OOM to explain.\n"),
            Some(length) => format!("No OOM found in {source} ({}).\n", Bytes(length)),
            None => format!("No OOM in the recording {source}.\n"),
        };
    };
    let oom = &explanation.ooms[chosen];
    out.line(format!("Out of memory in {source}: {}.", place(oom)));
    if let Some((_, command)) = &oom.run {
        out.line(format!("  command: {command}"));
    }
    let mut shown = figures(&mut out, oom);
    for finding in &oom.findings {
        cause(&mut out, finding, &mut shown);
    }
    holders(&mut out, oom);
    kept_alive(&mut out, oom);
    let of_step = |step| step::lines(step, &oom.source);
    for line in oom.step.iter().flat_map(of_step) {
        out.line(line);
    }
    others(&mut out, explanation.ooms, chosen);
    remedies(&mut out, explanation);
    out.0
}

/// Text that is built line by line.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    /// What a line of the program says, below it.
    fn source(&mut self, oom: &Explained, line: &SourceLine) {
        if let Some(text) = oom.source.of(line) {
            self.line(format!("      {text}"));
        }
    }
}

/// Where it happened and how it ended: "line 812, rank 3, device 0: PyTorch's CUDA allocator; it
/// …".
fn place(oom: &Explained) -> String {
    let run = oom.run.as_ref().map(|(number, _)| format!("run {number}"));
    let line = oom
        .incident
        .report
        .as_ref()
        .map(|r| format!("line {}", r.line));
    let rank = oom.rank().map(|rank| format!("rank {rank}"));
    let device = oom.device().map(|device| format!("device {device}"));
    let known: Vec<String> = [run, line, rank, device].into_iter().flatten().collect();
    let end = match oom.outcome {
        OomOutcome::Fatal => "the program ended with it",
        OomOutcome::Caught => "caught, the program continued",
        OomOutcome::Unknown => "it is not shown whether the program ended with it",
    };
    match known.is_empty() {
        true => format!("{}; {end}", oom.kind().spec().allocator),
        false => format!(
            "{}: {}; {end}",
            known.join(", "),
            oom.kind().spec().allocator
        ),
    }
}

/// Writes the incident's figures, and returns them.
fn figures(out: &mut Lines, oom: &Explained) -> Vec<(String, Bytes)> {
    let incident = &oom.incident;
    let report = incident.report.as_ref();
    let segment = match oom.is_small_segment() {
        true => " (the segment of a small allocation: it says nothing about the tensor's size)",
        false => "",
    };
    let rows = [
        ("requested", incident.requested(), segment),
        ("capacity", incident.capacity(), ""),
        ("limit", incident.limit(), ""),
        ("free", incident.free(), ""),
        ("allocated", incident.allocated(), ""),
        ("private pools", report.and_then(|r| r.private_pools), ""),
        ("reserved", incident.reserved(), ""),
        ("cached", incident.cached(), ""),
        ("this process", report.and_then(|r| r.process_used), ""),
    ];
    let mut shown = Vec::new();
    for (name, bytes, note) in rows {
        if let Some(bytes) = bytes {
            out.line(format!("  {name:<15} {bytes}{note}"));
            shown.push((name.to_string(), bytes));
        }
    }
    for other in report.map_or(&[][..], |report| &report.others) {
        let used = match other.used {
            Some(used) => used.to_string(),
            None => "unknown".into(),
        };
        let name = format!("process {}", other.pid);
        out.line(format!("  {name:<15} {used}"));
    }
    shown
}

/// A finding, with those of its numbers that are not in `shown` yet.
fn cause(out: &mut Lines, finding: &Finding, shown: &mut Vec<(String, Bytes)>) {
    let sure = finding.certainty.word();
    out.line("");
    out.line(format!(
        "Cause ({sure}): {}. {}",
        finding.cause.spec().title,
        finding.headline
    ));
    for sentence in finding.ranks.iter().flat_map(AmongRanks::sentences) {
        out.line(format!("  {sentence}"));
    }
    if !finding.explanation.is_empty() {
        out.line(format!("  {}", finding.explanation));
    }
    let mut numbers = Vec::new();
    for evidence in &finding.evidence {
        let number = (evidence.what.clone(), evidence.bytes);
        if !shown.contains(&number) {
            numbers.push(format!("{} {}", evidence.what, evidence.bytes));
            shown.push(number);
        }
    }
    if !numbers.is_empty() {
        out.line(format!("  Evidence: {}.", numbers.join(", ")));
    }
    for advice in &finding.advice {
        out.line(format!("  - {advice}"));
    }
}

/// The lines with the most live memory, as seen by the probe's observer.
fn holders(out: &mut Lines, oom: &Explained) {
    let Some(record) = &oom.incident.record else {
        return;
    };
    if record.structure.is_none() && record.lines.is_empty() && record.growing.is_empty() {
        return;
    }
    out.line("\nWhat used the memory:");
    if let Some(structure) = &record.structure {
        out.line(format!("  {}", made_of(structure, record.sample.allocated)));
    }
    for holding in record.lines.iter().take(HOLDERS) {
        out.line(format!("  {}", held(holding)));
        out.source(oom, &holding.line);
    }
    if let Some(more) = record.lines.get(HOLDERS..).filter(|more| !more.is_empty()) {
        let bytes: Bytes = more.iter().map(|holding| holding.bytes).sum();
        out.line(format!("  {} more lines: {bytes}", more.len()));
    }
    growing(out, oom, &record.growing);
    grown(out, oom);
}

/// What grew over the traced steps: by module, and by line where the record has no lines.
fn grown(out: &mut Lines, oom: &Explained) {
    let (Some(growth), Some(record)) = (&oom.growth, &oom.incident.record) else {
        return;
    };
    let lines = growth.lines.iter().filter(|_| record.growing.is_empty());
    let of_line = |of: &GrownLine| {
        let line = of.line.as_ref().map(|line| line.path_to(None, ""));
        (line.unwrap_or("line not known".into()), of.bytes)
    };
    let of_module = |of: &GrownModule| {
        let name = of.module.as_ref().map(|name| format!("in {name}"));
        (name.unwrap_or("outside of modules".into()), of.bytes)
    };
    let lines = lines.map(of_line);
    let all: Vec<(String, Bytes)> = lines.chain(growth.modules.iter().map(of_module)).collect();
    if all.is_empty() {
        return;
    }
    out.line(format!(
        "\nGrew from step {} to step {}:",
        growth.from, growth.to
    ));
    for (what, bytes) in all {
        let per_step = growth.each_step(bytes);
        out.line(format!("  {what}: +{per_step} per step, {bytes} in all"));
    }
}

/// The lines whose live memory grows from step to step.
fn growing(out: &mut Lines, oom: &Explained, lines: &[GrowingLine]) {
    let Some(GrowingLine {
        from_step, to_step, ..
    }) = lines.first()
    else {
        return;
    };
    out.line(format!(
        "\nGrowing allocations (steps {from_step} to {to_step}):"
    ));
    for growing in lines {
        let place = growing.line.path_to(growing.inside.as_ref(), "→");
        out.line(format!(
            "  {place}: +{} per step, {} by then",
            growing.per_step, growing.bytes
        ));
        out.source(oom, &growing.line);
    }
}

/// Who keeps it alive, by name.
fn kept_alive(out: &mut Lines, oom: &Explained) {
    let Some(found) = &oom.retainers else {
        return;
    };
    if found.retainers.is_empty() {
        return;
    }
    out.line("\nKept alive by (parameters, gradients and optimizer state left out):");
    for retainer in &found.retainers {
        let levels = match retainer.above.is_empty() {
            true => String::new(),
            false => format!(" ← {}", retainer.levels("←")),
        };
        out.line(format!(
            "  {}: {}{levels}",
            retainer.words(),
            retainer.kept()
        ));
    }
    if let Some(why) = &found.left {
        out.line(format!("  not all was searched: {why}"));
    }
}

fn made_of(structure: &Structure, allocated: Bytes) -> String {
    let named = structure.total();
    format!(
        "parameters {}, gradients {}, optimizer state {}, other {}",
        structure.parameters,
        structure.gradients,
        structure.optimizer_state,
        allocated - named
    )
}

/// "train.py:88 forward → modeling_gpt2.py:240 mlp: 6.10 GiB in 48 blocks (gradients)".
fn held(holding: &LineUsage) -> String {
    let blocks = match holding.blocks {
        1 => "1 block".to_string(),
        blocks => format!("{blocks} blocks"),
    };
    let kind = match holding.kind {
        Some(MemoryKind::Parameters) => " (parameters)",
        Some(MemoryKind::Gradients) => " (gradients)",
        Some(MemoryKind::OptimizerState) => " (optimizer state)",
        Some(MemoryKind::Unknown) | None => "",
    };
    let place = holding.line.path_to(holding.inside.as_ref(), "→");
    format!("{place}: {} in {blocks}{kind}", holding.bytes)
}

/// The other OOMs.
fn others(out: &mut Lines, ooms: &[Explained], chosen: usize) {
    let rest = || {
        (0..)
            .zip(ooms)
            .filter(|(at, _)| *at != chosen)
            .map(|(_, oom)| oom)
    };
    let count = rest().count();
    if count == 0 {
        return;
    }
    out.line(format!("\n{count} more:"));
    for oom in rest().take(LISTED) {
        let asked = oom.incident.requested();
        let asked = asked.map_or(String::new(), |bytes| format!("; requested {bytes}"));
        let cause = oom.findings.first();
        let cause = cause.map_or(String::new(), |finding| {
            format!("; {}", finding.cause.spec().title)
        });
        out.line(format!("  {}{asked}{cause}", place(oom)));
    }
    if count > LISTED {
        out.line(format!(
            "  and {} more (--json has all of them)",
            count - LISTED
        ));
    }
}

fn remedies(out: &mut Lines, explanation: &Explanation) {
    let Some((command, inputs)) = &explanation.command else {
        return;
    };
    let remedies = remedy::remedies(command, inputs);
    let offered = |remedy: &&remedy::Remedy| remedy.is_offered();
    if remedies.iter().any(|remedy| remedy.is_offered()) {
        out.line("\nTo relaunch:");
    } else {
        out.line("\nNo remedy can be applied to this command:");
    }
    for remedy in remedies.iter().filter(offered) {
        let facts: Vec<&str> = [
            remedy.changes.as_str(),
            &remedy.expectation.words,
            &remedy.cost,
        ]
        .into_iter()
        .filter(|fact| !fact.is_empty())
        .collect();
        out.line(format!("  {} ({}):", remedy.title, facts.join("; ")));
        let plan = Plan::new(command, &[remedy]);
        out.line(format!("    {}", plan.command.shown()));
    }
    for remedy in &remedies {
        if let Availability::NotOffered(reason) = &remedy.availability {
            out.line(format!("  {}: not offered: {reason}", remedy.title));
        }
    }
}
