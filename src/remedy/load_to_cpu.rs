//! `torch.load` to the CPU, at runtime: where a checkpoint's own tensors did not fit beside the model that they are copied into.
//! A flag for it is not known of any program: it is the program's own line.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::event::{LoadedCheckpoint, OomRecord, Patch, Relief, ReliefMoment, SourceLine};
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    rejects: Some(RejectedThing::Place),
    ..RemedySpec::new(
        'i',
        "torch.load to the CPU",
        RemedyEffect::RemovesCause,
        NeedFrom::Itself,
        propose,
    )
};

fn patched(offering: &Offering<'_>, loading: &LoadedCheckpoint) -> Result<Draft, String> {
    offering.check_patch(Patch::Load)?;
    if let Some(left) = &loading.left {
        return Err(format!("no runtime patch: {left}"));
    }
    let available = offering.available_ram();
    if let Some((file, available)) = loading
        .bytes
        .zip(available)
        .filter(|(file, ram)| file > ram)
    {
        return Err(format!(
            "the checkpoint takes {file} of RAM, and {available} is available (mmap=True reads it piece by piece)"
        ));
    }
    Ok(Draft::patching(
        Patch::Load,
        "torch.load with map_location=cpu",
    ))
}

/// What the checkpoint had on the GPU by then: that of the line that loads it.
fn loaded(record: &OomRecord) -> Bytes {
    let is_load = |line: &&SourceLine| {
        line.file
            .replace('\\', "/")
            .ends_with("torch/serialization.py")
    };
    let Some(at) = record.stack.iter().rposition(|line| is_load(&line)) else {
        return Bytes::ZERO;
    };
    let callers = &record.stack[at + 1..];
    let of_callers = record.lines.iter().filter(|usage| {
        usage.inside.is_some() && callers.first().is_some_and(|line| *line == usage.line)
    });
    of_callers.map(|usage| usage.bytes).sum()
}

fn expected(offering: &Offering<'_>, record: &OomRecord, file: Option<Bytes>) -> Expectation {
    let before = record.sample.allocated - loaded(record);
    let mut expected = offering.predictor.then_unseen(before);
    expected.relief = Some(Relief {
        at: ReliefMoment::Loading,
        allocated: Some(before),
        to_ram: file,
        without: None,
        time: None,
    });
    if let Some(file) = file {
        let ram = format!("the file's {file} go to RAM");
        expected.words.push(
            "; ",
            match offering.available_ram() {
                Some(available) => format!("{ram}, {available} is available"),
                None => ram,
            },
        );
    }
    expected
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    if offering.inputs.cause() != Some(Cause::CheckpointLoading) {
        return None;
    }
    let record = offering.inputs.forecast.oom?.record.as_ref()?;
    let loading = record.loading.as_ref()?;
    let cost = ["same numerics", "loading takes RAM"];
    let expectation = expected(offering, record, loading.bytes);
    Some(Proposal::new(patched(offering, loading), cost).expecting(expectation))
}
