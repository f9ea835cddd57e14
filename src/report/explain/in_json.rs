//! An explanation for other programs. Fields come; none goes or means something else but with another version.

use super::{Explained, Explanation, decisive};
use crate::anatomy::StepGrowth;
use crate::diagnosis::Finding;
use crate::event::{GrowingLine, LineText, LineUsage, OomRecord, Phase, Retainer, SourceLine};
use crate::oom::{OomKind, OomOutcome, OtherProcess};
use crate::remedy;
use crate::units::{Bytes, Pid, Rank, RunNumber};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Of the JSON: one more whenever a field goes or means something else.
const JSON_VERSION: u32 = 1;

/// What the optimizers account for, with the gradients of that moment.
#[derive(Serialize)]
struct MadeOf {
    pid: Pid,
    device: u32,
    parameters: Bytes,
    /// `null` where they are not known.
    gradients: Option<Bytes>,
    optimizer_state: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<Bytes>,
}

impl MadeOf {
    fn new(oom: &Explained, record: &OomRecord) -> Option<MadeOf> {
        let of = record.structure.as_deref()?;
        Some(MadeOf {
            pid: of.pid,
            device: of.device,
            parameters: of.parameters,
            gradients: record.gradients_then(of.gradients, oom.traced_gradients()),
            optimizer_state: of.optimizer_state,
            whole: of.whole,
        })
    }
}

#[derive(Serialize)]
struct OomObject<'a> {
    kind: OomKind,
    outcome: OomOutcome,
    /// Whether the remedies are for this one.
    decisive: bool,
    /// In a recording.
    run: Option<RunNumber>,
    line: Option<u64>,
    rank: Option<Rank>,
    device: Option<u32>,
    requested: Option<Bytes>,
    /// Whether `requested` is what the allocator requests for any small tensor.
    small_segment: bool,
    total: Option<Bytes>,
    free: Option<Bytes>,
    allocated: Option<Bytes>,
    reserved: Option<Bytes>,
    unallocated: Option<Bytes>,
    process_used: Option<Bytes>,
    limit: Option<Bytes>,
    private_pools: Option<Bytes>,
    others: &'a [OtherProcess],
    /// The rest is only known in a recording.
    phase: Option<Phase>,
    steps_ended: Option<u64>,
    made_of: Option<MadeOf>,
    /// What FSDP had gathered beside the shards in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    gathered: Option<Bytes>,
    held_by: Option<&'a [LineUsage]>,
    growing: Option<&'a [GrowingLine]>,
    /// What these lines say.
    source: Option<Vec<LineText>>,
    kept_by: Option<&'a [Retainer]>,
    grown: Option<&'a StepGrowth>,
}

/// A finding and the index in `ooms` of the one it explains.
#[derive(Serialize)]
struct OomFinding<'a> {
    oom: usize,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// The explanation as JSON, `{"version", "ooms", "findings", "remedies"}` with sizes in bytes, null if unknown, without
/// a trailing newline. Remedies are as in `oomph plan --json`;
/// without a command there are none.
pub fn json(explanation: &Explanation) -> String {
    remedy::plan_text(&value(explanation))
}

/// The same as a value.
pub fn value(explanation: &Explanation) -> Value {
    let chosen = decisive(explanation.ooms);
    let ooms: Vec<OomObject> = (0..)
        .zip(explanation.ooms)
        .map(|(place, oom)| in_json(oom, chosen == Some(place)))
        .collect();
    let findings: Vec<OomFinding> = (0..)
        .zip(explanation.ooms)
        .flat_map(|(oom, explained)| {
            let findings = explained.findings.iter();
            findings.map(move |finding| OomFinding { oom, finding })
        })
        .collect();
    let remedies = match &explanation.command {
        Some((command, inputs)) => remedy::plan_json(command, inputs)["remedies"].take(),
        None => Value::Array(Vec::new()),
    };
    let again = explanation.again.filter(|_| explanation.command.is_some());
    json!({
        "version": JSON_VERSION,
        "again": again,
        "ooms": ooms,
        "oomph_said": explanation.said,
        "findings": findings,
        "remedies": remedies,
        "losses": explanation.proofs,
        "followed": explanation.followed,
        "room": explanation.room,
    })
}

fn in_json(oom: &Explained, decisive: bool) -> OomObject<'_> {
    let incident = &oom.incident;
    let (record, report) = (incident.record.as_ref(), incident.report.as_ref());
    // The observer knows both; a message has one of them, and the other isn't computed.
    let (reserved, unallocated) = match record {
        Some(_) => (incident.reserved(), incident.cached()),
        None => (
            report.and_then(|report| report.reserved),
            report.and_then(|report| report.unallocated),
        ),
    };
    OomObject {
        kind: oom.kind(),
        outcome: oom.outcome,
        decisive,
        run: oom.run.as_ref().map(|(number, _)| *number),
        line: report.map(|report| report.line),
        rank: oom.rank(),
        device: oom.device(),
        requested: incident.requested(),
        small_segment: oom.is_small_segment(),
        total: incident.capacity(),
        free: incident.free(),
        allocated: incident.allocated(),
        reserved,
        unallocated,
        process_used: report.and_then(|report| report.process_used),
        limit: incident.limit(),
        private_pools: report.and_then(|report| report.private_pools),
        others: report.map_or(&[], |report| &report.others),
        phase: record.map(|record| record.phase),
        steps_ended: record.map(|record| record.step),
        made_of: record.and_then(|record| MadeOf::new(oom, record)),
        gathered: record.and_then(|record| record.sample.gathered),
        held_by: record.map(|record| record.lines.as_slice()),
        growing: record.map(|record| record.growing.as_slice()),
        source: record.map(|record| source(oom, record)),
        grown: oom.growth.as_ref(),
        kept_by: (oom.retainers.as_ref()).map(|found| found.retainers.as_slice()),
    }
}

/// The texts of the lines that held memory or grew, as far as they are known.
fn source(oom: &Explained, record: &OomRecord) -> Vec<LineText> {
    let held = record.lines.iter().map(|of| &of.line);
    let growing = record.growing.iter().map(|of| &of.line);
    let lines: HashSet<&SourceLine> = held.chain(growing).collect();
    let mut texts: Vec<LineText> = (lines.into_iter())
        .filter_map(|line| oom.source.text_of(line).cloned())
        .collect();
    texts.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    texts
}
