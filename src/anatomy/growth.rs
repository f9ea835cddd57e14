//! What grew from step to step, by the line that allocated it and by the model's module: what is alive
//! at the beginning of a later traced step and was not at that of the first; or, with a single one, what
//! it left behind. Parameters, gradients and optimizer state are none of it.

use super::{Category, StepAnatomy, StepBlock};
use super::{Numbers, pattern, spelled};
use crate::event::SourceLine;
use crate::state::StepTraces;
use crate::units::Bytes;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// What is less than this share of all growth isn't told.
const NOTABLE: f64 = 0.02;

/// Less than this share of what is allocated, a step, is no growth.
const LEAST: f64 = 0.0005;

/// The growth between two moments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepGrowth {
    /// From the beginning of this step
    pub from: u64,
    /// to that of this one.
    pub to: u64,
    /// The lines that hold more, the largest first.
    pub lines: Vec<GrownLine>,
    /// The modules, as far as they are known; `None` for outside of any.
    pub modules: Vec<GrownModule>,
}

/// A line that holds more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrownLine {
    /// `None` for blocks whose origin is not known.
    pub line: Option<SourceLine>,
    /// The growth in all steps.
    pub bytes: Bytes,
}

/// A module, or several that differ in a number, that hold more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrownModule {
    pub module: Option<String>,
    pub alike: usize,
    /// The growth in all steps.
    pub bytes: Bytes,
}

type Sums<'a> = HashMap<Option<&'a SourceLine>, Bytes>;

impl StepGrowth {
    /// The growth over the traced steps of a process; `None` if there is none, or nothing grew.
    pub fn new(traces: &StepTraces) -> Option<StepGrowth> {
        let read = |trace| StepAnatomy::new(trace).ok();
        let first = read(traces.first()?)?;
        let last = traces.last().and_then(read)?;
        let whole = traces.all().rfind(|trace| !trace.failed).and_then(read)?;
        if last.step > first.step {
            StepGrowth::between(&first, &last, &whole)
        } else {
            StepGrowth::within(&first)
        }
    }

    /// From the beginning of one step to that of another; `whole` is a step that was seen to its end.
    fn between(first: &StepAnatomy, last: &StepAnatomy, whole: &StepAnatomy) -> Option<StepGrowth> {
        let at_start = |step: &StepAnatomy| step.allocated[0];
        let (before, after) = (sums(first, is_carried), sums(last, is_carried));
        let steps = last
            .step
            .checked_sub(first.step)
            .filter(|steps| *steps > 0)?;
        let per_step = Bytes((total(&after) - total(&before)).0 / steps);
        if per_step.fraction_of(at_start(last)) < Some(LEAST) {
            return None;
        }
        StepGrowth::made(first.step, last.step, grown(&before, after), whole)
    }

    /// From the beginning of a step to its end.
    fn within(step: &StepAnatomy) -> Option<StepGrowth> {
        let (before, after) = (sums(step, is_carried), sums(step, is_left));
        let at_end = step.allocated[step.end()];
        if (total(&after) - total(&before)).fraction_of(at_end) < Some(LEAST) {
            return None;
        }
        StepGrowth::made(step.step, step.step + 1, grown(&before, after), step)
    }

    fn made(from: u64, to: u64, grown: Sums, whole: &StepAnatomy) -> Option<StepGrowth> {
        let all: Bytes = grown.values().copied().sum();
        let notable = |bytes: Bytes| bytes.fraction_of(all) >= Some(NOTABLE);
        let modules = by_module(&grown, whole);
        let mut lines: Vec<GrownLine> = grown
            .into_iter()
            .filter(|(_, bytes)| notable(*bytes))
            .map(|(line, bytes)| GrownLine {
                line: line.cloned(),
                bytes,
            })
            .collect();
        lines.sort_by_cached_key(|of| {
            let line = of.line.as_ref();
            (Reverse(of.bytes), line.map(|l| (l.file.clone(), l.line)))
        });
        let modules = modules.into_iter().filter(|of| notable(of.bytes)).collect();
        (!lines.is_empty()).then_some(StepGrowth {
            from,
            to,
            lines,
            modules,
        })
    }

    pub fn steps(&self) -> u64 {
        (self.to - self.from).max(1)
    }

    /// What a step adds, of all lines together.
    pub fn per_step(&self) -> Bytes {
        self.each_step(self.lines.iter().map(|line| line.bytes).sum())
    }

    /// The part of a step in the growth of all.
    pub fn each_step(&self, bytes: Bytes) -> Bytes {
        Bytes(bytes.0 / self.steps())
    }
}

/// Alive at the beginning.
fn is_carried(block: &StepBlock) -> bool {
    block.from == 0
}

/// Alive at the end.
fn is_left(block: &StepBlock) -> bool {
    block.until.is_none()
}

/// Whether it is no part of what a training keeps.
fn may_grow(block: &StepBlock) -> bool {
    match block.category {
        Category::Parameters
        | Category::Gradients
        | Category::OptimizerState
        | Category::Frozen => false,
        Category::Kept
        | Category::Left
        | Category::Activations
        | Category::Recomputed
        | Category::Temporaries
        | Category::Other => true,
    }
}

/// Bytes by line, of the blocks that are chosen.
fn sums<'a>(step: &'a StepAnatomy, chosen: impl Fn(&StepBlock) -> bool) -> Sums<'a> {
    let mut of_origins: HashMap<Option<usize>, Bytes> = HashMap::new();
    for block in step.blocks.iter().filter(|b| may_grow(b) && chosen(b)) {
        *of_origins.entry(block.origin).or_default() += block.bytes;
    }
    let mut sums = Sums::new();
    for (origin, bytes) in of_origins {
        let line = origin.and_then(|origin| step.origins[origin].line.as_ref());
        *sums.entry(line).or_default() += bytes;
    }
    sums
}

/// All lines together. What one has more than before is no growth where another has as much less: each
/// step may replace what the step before left.
fn total(sums: &Sums) -> Bytes {
    sums.values().copied().sum()
}

/// What each line has more in the later sums.
fn grown<'a>(earlier: &Sums<'_>, mut later: Sums<'a>) -> Sums<'a> {
    for (line, bytes) in &mut later {
        *bytes = *bytes - earlier.get(line).copied().unwrap_or_default();
    }
    later.retain(|_, bytes| *bytes > Bytes::ZERO);
    later
}

/// Each line's growth, shared out among the modules in which a whole step leaves blocks of that line
/// behind: of what earlier steps left it is not known in which module.
fn by_module(grown: &Sums, whole: &StepAnatomy) -> Vec<GrownModule> {
    let mut left: HashMap<Option<&SourceLine>, HashMap<Option<usize>, Bytes>> = HashMap::new();
    let of_this_step = |block: &&StepBlock| may_grow(block) && is_left(block) && block.from > 0;
    for block in whole.blocks.iter().filter(of_this_step) {
        let line = block.origin.and_then(|o| whole.origins[o].line.as_ref());
        let of_line = left.entry(line).or_default();
        *of_line.entry(block.module).or_default() += block.bytes;
    }
    let mut found: BTreeMap<Option<String>, (Bytes, Numbers)> = BTreeMap::new();
    for (line, bytes) in grown {
        let Some(of_line) = left.get(line) else {
            continue;
        };
        let all: Bytes = of_line.values().copied().sum();
        for (module, part) in of_line {
            let name = module.map(|module| pattern(&whole.modules[module]));
            let (name, numbers) = name.unzip();
            let of = found.entry(name).or_default();
            of.0 += bytes.scale(part.fraction_of(all).unwrap_or(0.0));
            of.1.extend(numbers);
        }
    }
    if found.keys().all(Option::is_none) {
        return Vec::new();
    }
    let mut modules: Vec<GrownModule> = found
        .into_iter()
        .map(|(name, (bytes, numbers))| GrownModule {
            module: name.map(|name| spelled(&name, &numbers)),
            alike: numbers.len(),
            bytes,
        })
        .collect();
    modules.sort_by_key(|of| Reverse(of.bytes));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BlockOrigin, MemoryKind, Phase, PhaseStart, StepTrace};

    const MIB: u64 = 1 << 20;

    fn line(number: u32) -> SourceLine {
        SourceLine {
            file: "/w/model.py".into(),
            line: number,
            function: "forward".into(),
        }
    }

    /// A step with so many blocks of a MiB that earlier ones have left at line 32, and two more that
    /// it leaves itself, in two layers. It also makes and frees one at line 40.
    fn step(number: u64, left: usize, failed: bool) -> StepTrace {
        let of = |number| BlockOrigin {
            line: Some(line(number)),
            ..BlockOrigin::default()
        };
        let weights = BlockOrigin {
            kind: Some(MemoryKind::Parameters),
            ..of(7)
        };
        let carried = format!(" {MIB}").repeat(left);
        StepTrace {
            step: number,
            failed,
            trace: format!("{MIB}{carried} | {MIB} {MIB} {MIB} -1"),
            phases: vec![PhaseStart {
                phase: Phase::Forward,
                from: 0,
            }],
            origins: vec![of(32), of(40), weights],
            blocks: format!("3{} 1*2 2", " 1".repeat(left)),
            modules: vec!["h.0.mlp".into(), "h.1.mlp".into()],
            block_modules: format!("0*{} 1 2 0", 1 + left),
            ..StepTrace::default()
        }
    }

    fn growth(steps: &[StepTrace]) -> Option<StepGrowth> {
        let mut traces = StepTraces::default();
        for step in steps {
            traces.keep(step);
        }
        StepGrowth::new(&traces)
    }

    #[test]
    fn between_two_steps_it_is_what_their_beginnings_differ_by() {
        let found = growth(&[step(3, 4, false), step(18, 34, true)]).expect("growth");
        assert_eq!((found.from, found.to, found.steps()), (3, 18, 15));
        let lines = vec![GrownLine {
            line: Some(line(32)),
            bytes: Bytes(30 * MIB),
        }];
        assert_eq!(found.lines, lines);
        assert_eq!(found.per_step(), Bytes(2 * MIB));
        let modules = vec![GrownModule {
            module: Some("h.0–1.mlp".into()),
            alike: 2,
            bytes: Bytes(30 * MIB),
        }];
        assert_eq!(found.modules, modules);
    }

    #[test]
    fn with_one_step_it_is_what_it_left() {
        let found = growth(&[step(3, 4, false)]).expect("growth");
        assert_eq!((found.from, found.to), (3, 4));
        assert_eq!(found.per_step(), Bytes(2 * MIB));
        assert_eq!(found.modules[0].bytes, Bytes(2 * MIB));
    }

    /// The output of the step before was kept, of which no line is known, and is replaced by this one's.
    #[test]
    fn what_each_step_replaces_has_not_grown() {
        let replaced = StepTrace {
            trace: format!("{MIB} {MIB} | {MIB} -2"),
            blocks: "3 0 1".into(),
            modules: Vec::new(),
            block_modules: String::new(),
            ..step(3, 0, false)
        };
        assert_eq!(growth(std::slice::from_ref(&replaced)), None);
        let later = StepTrace {
            step: 9,
            ..replaced
        };
        assert_eq!(growth(&[step(3, 1, false), later]), None);
    }

    #[test]
    fn what_stays_the_same_has_not_grown() {
        assert_eq!(growth(&[step(3, 4, false), step(6, 4, false)]), None);
        assert_eq!(growth(&[]), None);
        // One that ended early says nothing of what a step leaves.
        assert_eq!(growth(&[step(3, 4, true)]), None);
    }
}
