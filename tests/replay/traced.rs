//! Recordings whose steps were traced on an H200 (`tests/gpu/programs/grid.py`, and the demo's leak): what
//! holds the memory at the peak, by category, line and module, and what grows.

use super::{events, kept};
use oomph::anatomy::{StepAnatomy, StepGrowth, by_category, by_line, by_module};
use oomph::event::SourceLine;
use oomph::state::{RankState, State};
use oomph::units::Bytes;
use std::fmt::Write;
use std::path::Path;

/// Rows that are told of each list.
const MOST: usize = 5;

fn rank_of(name: &str) -> RankState {
    let mut state = State::default();
    events(name).iter().for_each(|event| state.apply(event));
    let run = state.run().expect("a run");
    run.ranks.first().expect("a process").clone()
}

fn named(line: Option<&SourceLine>) -> String {
    line.map_or("no line".into(), |line| {
        let file = Path::new(&line.file).file_name().unwrap_or_default();
        format!("{}:{} {}", file.display(), line.line, line.function)
    })
}

/// The step at its peak, in words.
fn told(step: &StepAnatomy) -> String {
    let peak = step.peak();
    let mut told = String::new();
    let _ = writeln!(
        told,
        "step {}: {} at the peak{}",
        step.step,
        step.allocated[peak],
        step.in_phase(peak)
    );
    for (category, bytes) in by_category(step, peak) {
        let _ = writeln!(told, "  {}: {bytes}", category.title());
    }
    for row in by_line(step, peak).iter().take(MOST) {
        let line = named(row.line.as_ref());
        let _ = writeln!(told, "{line}: {} in {} blocks", row.bytes, row.blocks);
    }
    for row in by_module(step, peak).iter().take(MOST) {
        let module = row.module.as_deref().unwrap_or("no module");
        let _ = writeln!(
            told,
            "{module} (of {}): {} in {} blocks",
            row.alike, row.bytes, row.blocks
        );
    }
    told
}

/// The peak of the trace is the one that torch said, to 1 %: cuBLAS' workspace is in none of its blocks.
#[test]
fn the_peak_of_a_traced_step_is_made_of_lines_and_modules() {
    for name in ["vit", "lora", "unet"] {
        let rank = rank_of(name);
        let step = StepAnatomy::new(rank.traces.largest().expect("a trace")).expect("a sound one");
        let traced = step.allocated[step.peak()];
        let missing = rank.allocated_peak.0.abs_diff(traced.0);
        assert!(
            missing <= rank.allocated_peak.0 / 100,
            "{name}: {traced} of {}",
            rank.allocated_peak
        );
        let lines: Bytes = by_line(&step, step.peak())
            .iter()
            .map(|row| row.bytes)
            .sum();
        assert_eq!(lines, traced, "{name}: no block is lost");
        kept(&format!("traced-{name}"), &told(&step));
    }
}

#[test]
fn what_grows_between_two_traced_steps_is_the_leak() {
    let rank = rank_of("leak-traced");
    let growth = StepGrowth::new(&rank.traces).expect("two traces");
    let mut told = format!(
        "{} a step, from step {} to {}\n",
        growth.per_step(),
        growth.from,
        growth.to
    );
    for line in growth.lines.iter().take(MOST) {
        let _ = writeln!(told, "{}: {}", named(line.line.as_ref()), line.bytes);
    }
    for module in growth.modules.iter().take(MOST) {
        let name = module.module.as_deref().unwrap_or("no module");
        let _ = writeln!(told, "{name} (of {}): {}", module.alike, module.bytes);
    }
    let (_, found) = rank.retainers.as_ref().expect("looked for at the end");
    for keeps in &found.retainers {
        let line = named(keeps.line.as_ref());
        let _ = writeln!(
            told,
            "{line}: {}.{} keeps {} alive",
            keeps.of, keeps.name, keeps.bytes
        );
    }
    kept("traced-leak", &told);
}
