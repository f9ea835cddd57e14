//! Whether a relaunched run has trained with the same numbers as the run before it, as its remedies promise: the losses of the
//! steps that both made, compared. Only where the remedies keep the batch and the order of the data, and only with a fixed
//! seed; elsewhere it says why nothing was compared.

use super::RemedyId;
use super::plan::{Alteration, Plan, Remedy};
use crate::command::CommandLine;
use crate::event::{Numerics, PrintedLoss, StepLoss};
use crate::state::{RankState, Run};
use crate::units::RunNumber;

/// What became of the promise that the training's numbers stay as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct NumericsProof {
    /// What was promised.
    pub promised: Numerics,
    pub found: ProofOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ProofOutcome {
    Compared(Compared),
    NotChecked(Unchecked),
}

/// The steps that two runs both made.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The run that it is compared with.
    pub with: RunNumber,
    pub steps: usize,
    /// The steps of that run whose losses are known: the most that can be compared.
    pub of: usize,
    pub by: LossesFrom,
    /// The first step whose losses differ, and by how much of them they do at the most; `None` if none does.
    pub differs: Option<(String, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossesFrom {
    /// The losses themselves, read by the probe.
    Process,
    /// The program's output, as far as it prints them.
    Output,
}

/// Why nothing was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// A remedy changes what the numbers come from.
    Changed(Numerics),
    /// torch's random numbers began with another seed.
    OtherSeed,
    /// Two runs of one command differ.
    CommandDiffers,
    /// There are no losses of a step that both made.
    NoCommonStep,
}

/// Beyond this share of a loss it is no rounding: losses in bf16 differ by some thousandths.
pub const ROUNDING: f64 = 5e-3;

impl NumericsProof {
    /// Of a relaunched run; `runs` are those of its session. `None` where nothing was promised of it.
    pub fn new(runs: &[Run], run: &Run) -> Option<NumericsProof> {
        let promised = run.numerics?;
        let found = match promised.is_comparable() {
            true => compared(runs, run),
            false => ProofOutcome::NotChecked(Unchecked::Changed(promised)),
        };
        Some(NumericsProof { promised, found })
    }

    /// Whether all steps that can be compared have been, while the run goes on.
    pub fn is_whole(&self) -> bool {
        matches!(&self.found, ProofOutcome::Compared(found) if found.steps >= found.of)
    }
}

fn compared(runs: &[Run], run: &Run) -> ProofOutcome {
    let not_checked = ProofOutcome::NotChecked;
    let mut earlier = runs.iter().filter(|one| one.number < run.number).rev();
    for before in &mut earlier {
        if has_other_seed(before, run) {
            return not_checked(Unchecked::OtherSeed);
        }
        if let Some(found) = steps_of_both(before, run) {
            let is_far = |(_, share): &(String, f64)| *share > ROUNDING;
            if found.differs.as_ref().is_some_and(is_far) && one_command_differs(runs) {
                return not_checked(Unchecked::CommandDiffers);
            }
            return ProofOutcome::Compared(found);
        }
        // The run before that one had other numbers.
        if !before.numerics.is_some_and(Numerics::is_comparable) {
            break;
        }
    }
    not_checked(Unchecked::NoCommonStep)
}

/// The processes of two runs that are of one rank.
fn pairs<'a>(one: &'a Run, other: &'a Run) -> impl Iterator<Item = (&'a RankState, &'a RankState)> {
    one.ranks.iter().flat_map(|rank| {
        let same = |other: &&RankState| other.hello.rank == rank.hello.rank;
        let same = other.ranks.iter().filter(same);
        same.map(move |other| (rank, other))
    })
}

fn has_other_seed(one: &Run, other: &Run) -> bool {
    let seeds = pairs(one, other).filter_map(|(one, other)| Some((one.seed?, other.seed?)));
    let mut seeds = seeds.peekable();
    seeds.peek().is_some() && seeds.all(|(one, other)| one != other)
}

/// Two runs of a session whose commands are the same, and their losses are not.
fn one_command_differs(runs: &[Run]) -> bool {
    runs.iter().enumerate().any(|(at, one)| {
        let later = runs[at + 1..].iter();
        let mut same = later.filter(|other| other.command == one.command);
        same.any(|other| {
            has_other_seed(one, other)
                || steps_of_both(one, other).is_some_and(|found| found.differs.is_some())
        })
    })
}

/// By the losses themselves where both runs have them, else by what they print. `None` without a common step.
fn steps_of_both(before: &Run, run: &Run) -> Option<Compared> {
    let with = before.number;
    let of_process = pairs(before, run)
        .filter_map(|(before, now)| of_losses(with, &before.losses, &now.losses))
        .max_by_key(|found| found.steps);
    of_process.or_else(|| of_output(with, &before.printed_losses, &run.printed_losses))
}

/// A step's losses, one of each backward pass.
fn of_step(losses: &[StepLoss], step: u64) -> impl Iterator<Item = Option<f64>> {
    let of_step = losses.iter().filter(move |(of, _)| *of == step);
    of_step.map(|(_, loss)| *loss)
}

fn of_losses(with: RunNumber, before: &[StepLoss], now: &[StepLoss]) -> Option<Compared> {
    let mut steps: Vec<u64> = now.iter().map(|(step, _)| *step).collect();
    steps.dedup();
    steps.retain(|step| before.iter().any(|(of, _)| of == step));
    let apart = steps.iter().map(|step| {
        // Of the step that memory ran out in some backward passes may be missing.
        let both = of_step(before, *step).zip(of_step(now, *step));
        (step.to_string(), both.map(share).fold(0.0, f64::max))
    });
    let differs = differs(apart);
    let mut all: Vec<u64> = before.iter().map(|(step, _)| *step).collect();
    all.dedup();
    (!steps.is_empty()).then_some(Compared {
        with,
        steps: steps.len(),
        of: all.len(),
        by: LossesFrom::Process,
        differs,
    })
}

fn of_output(with: RunNumber, before: &[PrintedLoss], now: &[PrintedLoss]) -> Option<Compared> {
    let apart: Vec<(String, f64)> = now
        .iter()
        .filter_map(|now| {
            let before = before.iter().find(|before| before.step == now.step)?;
            let number = |printed: &PrintedLoss| printed.loss.parse::<f64>().ok();
            let apart = match before.loss == now.loss {
                true => 0.0,
                false => share((number(before), number(now))),
            };
            Some((now.step.clone(), apart))
        })
        .collect();
    let steps = apart.len();
    (steps > 0).then(|| Compared {
        with,
        steps,
        of: before.len(),
        by: LossesFrom::Output,
        differs: differs(apart.into_iter()),
    })
}

/// By how much of the larger one two losses differ; all of it where one of them is no number.
fn share((one, other): (Option<f64>, Option<f64>)) -> f64 {
    match (one, other) {
        (None, None) => 0.0,
        (Some(one), Some(other)) if one == other => 0.0,
        (Some(one), Some(other)) => (one - other).abs() / one.abs().max(other.abs()),
        (Some(_), None) | (None, Some(_)) => 1.0,
    }
}

fn differs(apart: impl Iterator<Item = (String, f64)>) -> Option<(String, f64)> {
    apart
        .filter(|(_, apart)| *apart > 0.0)
        .reduce(|(first, most), (_, apart)| (first, most.max(apart)))
}

/// What the remedies of the next run do to the training's numbers; `None` where there are none. `command` is the next run's, which
/// the user may have edited further.
pub fn numerics_of(
    before: &CommandLine,
    applied: &[Remedy],
    command: &CommandLine,
) -> Option<Numerics> {
    let most = applied.iter().map(Remedy::keeps).max()?;
    let chosen: Vec<&Remedy> = applied.iter().collect();
    let is_edited = Plan::new(before, &chosen).command != *command;
    Some(if is_edited {
        most.max(Numerics::Edited)
    } else {
        most
    })
}

impl Remedy {
    /// What it does to the training's numbers.
    pub(super) fn keeps(&self) -> Numerics {
        if self.takes.is_some() || self.id.is_candidate() {
            return Numerics::Batch;
        }
        match self.alters {
            Some(Alteration::BatchStatistics | Alteration::EffectiveBatch) => Numerics::Batch,
            Some(Alteration::Precision) => Numerics::Precision,
            Some(Alteration::Optimizer) => Numerics::Optimizer,
            Some(Alteration::Samples) => Numerics::Samples,
            Some(Alteration::Recomputation | Alteration::Offloading) | None => match self.id {
                RemedyId::DataloaderWorkers | RemedyId::PersistentWorkers => {
                    Numerics::RandomNumbers
                }
                RemedyId::Resume => Numerics::Resumed,
                // Another command than the one that ran before, of which nothing is known.
                RemedyId::Without => Numerics::Edited,
                id if id.is_equal_to_rounding() => Numerics::Rounding,
                _ => Numerics::Same,
            },
        }
    }
}

impl RemedyId {
    /// Whether it does the same operations in another order, or by other kernels.
    pub(super) fn is_equal_to_rounding(self) -> bool {
        matches!(
            self,
            RemedyId::NoForeach
                | RemedyId::FusedOptimizer
                | RemedyId::ChunkedLoss
                | RemedyId::FusedAttention
                | RemedyId::CompileBudget
                | RemedyId::CompileDynamic
                | RemedyId::ShardsToRam
                | RemedyId::Device
        )
    }
}

#[cfg(test)]
mod tests;
