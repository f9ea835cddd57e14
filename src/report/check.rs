//! Whether a run stays below a limit, and whether it needs more than a baseline: the verdict of `oomph check`, as a line,
//! as JSON, and as GitHub's annotations. What it rests on comes in; nothing is looked up or printed here.

use crate::anatomy::StepAnatomy;
use crate::document::{self, MemoryHolder};
use crate::event::Basis;
use crate::forecast::{Estimate, Requirement};
use crate::state::{Run, State};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Of the JSON: one more whenever a field goes or means something else.
const JSON_VERSION: u32 = 1;
/// Lines of the program that are kept for a later comparison.
const KEPT: usize = 40;
/// Lines that are named where memory has grown.
const NAMED: usize = 3;
/// A line has grown where it is more than this part of the whole growth.
const PART_OF_GROWTH: f64 = 0.05;

/// What the run is held to.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryLimit {
    /// For display: `22 GiB`, `RTX 4090`.
    pub name: String,
    /// What was asked for.
    pub bytes: Bytes,
    /// What of it PyTorch can reserve.
    pub for_torch: Bytes,
}

/// One of the program's lines, with what it held at the peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineAtPeak {
    pub line: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub bytes: Bytes,
}

impl LineAtPeak {
    /// Whether it is the same line of the same file: by its text, which stays as lines are added above, or by its number.
    fn is_like(&self, other: &LineAtPeak) -> bool {
        let file = |line: &LineAtPeak| line.line.split(':').next().map(String::from);
        match (&self.text, &other.text) {
            (Some(text), Some(of_other)) => file(self) == file(other) && text == of_other,
            (_, _) => self.line == other.line,
        }
    }
}

/// An earlier `--json` of `oomph check`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CheckBaseline {
    pub version: u32,
    /// The peak of allocated memory.
    pub peak: Option<Bytes>,
    #[serde(default)]
    pub lines: Vec<LineAtPeak>,
}

/// The comparison with a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct GrowthSince {
    /// For display: the file's name.
    pub name: String,
    pub before: Bytes,
    pub after: Bytes,
    /// As a share: 0.05.
    pub tolerance: f64,
    /// The lines that hold more, the most first: before and now.
    pub grown: Vec<(String, Bytes, Bytes)>,
}

impl GrowthSince {
    fn share(&self) -> f64 {
        self.after.fraction_of(self.before).unwrap_or(1.0) - 1.0
    }

    pub fn is_too_much(&self) -> bool {
        self.share() > self.tolerance
    }
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    Below,
    Above,
    Unknown,
}

impl CheckVerdict {
    pub fn status(self) -> i32 {
        match self {
            CheckVerdict::Below => 0,
            CheckVerdict::Above => 1,
            CheckVerdict::Unknown => 2,
        }
    }
}

/// Everything that is known of the checked run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckedRun {
    pub requirement: Option<Requirement>,
    pub peak: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub steps: u64,
    /// The session's name.
    pub session: Option<String>,
    /// Other settings of the allocator than the run's own.
    pub alloc_conf: Option<String>,
    pub lines: Vec<LineAtPeak>,
    /// Why the run says nothing.
    pub why_unknown: Option<String>,
}

impl CheckedRun {
    /// The last run of a session.
    pub fn new(state: &State, alloc_conf: Option<&str>) -> CheckedRun {
        let session = state.session.as_ref().map(|session| session.id.clone());
        let Some(run) = state.run() else {
            return CheckedRun {
                why_unknown: Some("nothing was started".into()),
                session,
                ..CheckedRun::default()
            };
        };
        let requirement = Requirement::of_run(run, alloc_conf);
        CheckedRun {
            why_unknown: (requirement.is_none())
                .then(|| "no optimizer step of it was seen on a GPU".to_string()),
            requirement,
            peak: run.peak(),
            reserved: run.ranks.iter().map(|rank| rank.reserved_peak).max(),
            steps: run.steps(),
            session,
            alloc_conf: alloc_conf.map(String::from),
            lines: lines_of(run),
        }
    }

    pub fn since(
        &self,
        name: &str,
        baseline: &CheckBaseline,
        tolerance: f64,
    ) -> Option<GrowthSince> {
        let (before, after) = (baseline.peak?, self.peak?);
        let growth = (after - before).0 as f64;
        let mut grown: Vec<(String, Bytes, Bytes)> = (self.lines.iter())
            .map(|line| {
                let earlier = baseline.lines.iter().find(|other| other.is_like(line));
                let earlier = earlier.map_or(Bytes::ZERO, |other| other.bytes);
                (line.line.clone(), earlier, line.bytes)
            })
            .filter(|(_, before, after)| (*after - *before).0 as f64 > growth * PART_OF_GROWTH)
            .filter(|(_, before, after)| after > before)
            .collect();
        grown.sort_by_key(|(_, before, after)| std::cmp::Reverse(*after - *before));
        Some(GrowthSince {
            name: name.into(),
            before,
            after,
            tolerance,
            grown,
        })
    }

    fn limit_verdict(&self, limit: &MemoryLimit) -> CheckVerdict {
        match self
            .requirement
            .and_then(|needed| needed.fits(limit.for_torch))
        {
            Some(true) => CheckVerdict::Below,
            Some(false) => CheckVerdict::Above,
            None => CheckVerdict::Unknown,
        }
    }
}

/// What the program's lines held at the peak of the largest traced step, or when memory ran out.
fn lines_of(run: &Run) -> Vec<LineAtPeak> {
    let rank = run.ranks.iter().max_by_key(|rank| rank.reserved_peak);
    let traced = rank.and_then(|rank| rank.traces.largest());
    let step = traced.and_then(|trace| StepAnatomy::new(trace).ok());
    let held: Vec<MemoryHolder> = match (&step, run.oom()) {
        (Some(step), _) => document::lines_at(step, step.peak(), &run.source),
        (None, Some(oom)) => document::lines_of(oom, &run.source),
        (None, None) => Vec::new(),
    };
    let mut lines: Vec<LineAtPeak> = Vec::new();
    for held in held {
        match lines.iter_mut().find(|line| line.line == held.place) {
            Some(line) => line.bytes += held.bytes,
            None => lines.push(LineAtPeak {
                line: held.place,
                text: held.says,
                bytes: held.bytes,
            }),
        }
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    lines.truncate(KEPT);
    lines
}

/// A check with its verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckResult {
    pub run: CheckedRun,
    pub limit: Option<MemoryLimit>,
    /// With a baseline: the comparison, or why there is none.
    pub growth: Option<Result<GrowthSince, String>>,
}

impl CheckResult {
    /// The worst of what was asked for: above before not known before below.
    pub fn verdict(&self) -> CheckVerdict {
        let limit = self
            .limit
            .as_ref()
            .map(|limit| self.run.limit_verdict(limit));
        let growth = self.growth.as_ref().map(|growth| match growth {
            Ok(growth) if growth.is_too_much() => CheckVerdict::Above,
            Ok(_) => CheckVerdict::Below,
            Err(_) => CheckVerdict::Unknown,
        });
        let both = [limit, growth];
        let has = |wanted| both.contains(&Some(wanted));
        match (has(CheckVerdict::Above), has(CheckVerdict::Unknown)) {
            (true, _) => CheckVerdict::Above,
            (false, true) => CheckVerdict::Unknown,
            (false, false) => CheckVerdict::Below,
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let limit = self.limit.as_ref().map(|limit| self.of_limit(limit));
        let growth = self.growth.as_ref().map(|growth| match growth {
            Ok(growth) => of_growth(growth),
            Err(why) => why.clone(),
        });
        let said: Vec<String> = limit.into_iter().chain(growth).collect();
        said.join("; ")
    }

    fn of_limit(&self, limit: &MemoryLimit) -> String {
        let name = &limit.name;
        let Some(needed) = self.run.requirement else {
            let why = self.run.why_unknown.as_deref();
            return format!(
                "not known whether it stays below {name}: {}",
                why.unwrap_or("nothing was seen")
            );
        };
        let conf =
            (self.run.alloc_conf.as_ref()).map_or_else(String::new, |conf| format!(" with {conf}"));
        let needs = format!("needs {}{conf}", figure(&needed));
        let room = limit.for_torch;
        let of = match room == limit.bytes {
            true => String::new(),
            false => format!(", {room} of it for PyTorch"),
        };
        match self.run.limit_verdict(limit) {
            CheckVerdict::Below => format!(
                "below {name}{of}: {needs}, {}",
                needed.needs.spare_words(room).unwrap_or_default()
            ),
            CheckVerdict::Above => format!("above {name}{of}: {needs}"),
            CheckVerdict::Unknown => {
                format!("not known whether it stays below {name}{of}: {needs}")
            }
        }
    }

    /// As GitHub reads it from a job's output; nothing where all is well.
    pub fn annotation(&self) -> Option<String> {
        let level = match self.verdict() {
            CheckVerdict::Below => return None,
            CheckVerdict::Above => "error",
            CheckVerdict::Unknown => "warning",
        };
        let escaped = self
            .line()
            .replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A");
        Some(format!("::{level} title=oomph check::{escaped}"))
    }

    /// Without a trailing newline; as `--against` reads it.
    pub fn json(&self) -> String {
        let run = &self.run;
        let limit = self.limit.as_ref().map(|limit| {
            json!({
                "name": limit.name,
                "bytes": limit.bytes,
                "for_torch": limit.for_torch,
                "verdict": run.limit_verdict(limit),
            })
        });
        let growth = self.growth.as_ref().map(|growth| match growth {
            Ok(growth) => of_growth_in_json(growth),
            Err(why) => json!({"unknown": why}),
        });
        let needs = run.requirement.map(|needed| {
            let Estimate { low, likely, high } = needed.needs.estimate();
            json!({
                "low": low,
                "likely": (!needed.is_bound).then_some(likely),
                "high": (!needed.is_bound).then_some(high),
                "basis": needed.basis,
                "replayed_step": needed.replayed,
            })
        });
        format!(
            "{:#}",
            json!({
                "version": JSON_VERSION,
                "verdict": self.verdict(),
                "words": self.line(),
                "limit": limit,
                "against": growth,
                "needs": needs,
                "peak": run.peak,
                "reserved": run.reserved,
                "steps": run.steps,
                "alloc_conf": run.alloc_conf,
                "session": run.session,
                "lines": run.lines,
            })
        )
    }
}

/// "14.3 GiB (14.2 GiB to 14.4 GiB; measured, step 3 replayed)"
fn figure(needed: &Requirement) -> String {
    let Estimate { low, likely, high } = needed.needs.estimate();
    let basis = match (needed.basis, needed.replayed) {
        (Basis::Measured, Some(step)) => format!("measured, step {step} replayed"),
        (basis, _) => basis.word().into(),
    };
    match (needed.is_bound, low == high) {
        (true, _) => format!("at least {low} ({basis})"),
        (false, true) => format!("{likely} ({basis})"),
        (false, false) => format!("{likely} ({low} to {high}; {basis})"),
    }
}

fn of_growth(growth: &GrowthSince) -> String {
    let GrowthSince {
        name,
        before,
        after,
        tolerance,
        grown,
    } = growth;
    let share = growth.share() * 100.0;
    let tolerance = tolerance * 100.0;
    let change = match share < 0.0 {
        true => format!("{:.1} % less", -share),
        false => format!("{share:.1} % more"),
    };
    let mut words =
        format!("peak {after}, {change} than {before} of {name} (tolerance {tolerance} %)");
    if growth.is_too_much() && !grown.is_empty() {
        let named = grown.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|(line, before, after)| format!("{line} +{}", *after - *before))
            .collect();
        words.push_str(&format!(": {}", named.join(", ")));
    }
    words
}

fn of_growth_in_json(growth: &GrowthSince) -> Value {
    let grown = growth
        .grown
        .iter()
        .map(|(line, before, after)| json!({"line": line, "before": before, "after": after}));
    json!({
        "file": growth.name,
        "before": growth.before,
        "after": growth.after,
        "growth": growth.share(),
        "tolerance": growth.tolerance,
        "is_too_much": growth.is_too_much(),
        "grown": grown.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Need;

    fn line(line: &str, text: Option<&str>, mib: u64) -> LineAtPeak {
        LineAtPeak {
            line: line.into(),
            text: text.map(String::from),
            bytes: Bytes::mib(mib),
        }
    }

    fn run(low: u64, high: u64) -> CheckedRun {
        let [low, high] = [low, high].map(Bytes::mib);
        CheckedRun {
            requirement: Some(Requirement {
                needs: Need::of(Estimate::new(low, low, high)),
                is_bound: false,
                basis: Basis::Measured,
                replayed: None,
            }),
            peak: Some(low),
            lines: vec![
                line("a.py:9 f", Some("x = g(y)"), 600),
                line("a.py:20 f", None, 80),
            ],
            ..CheckedRun::default()
        }
    }

    fn against(mib: u64, limit: Option<u64>, peak: Option<u64>) -> CheckResult {
        let baseline = CheckBaseline {
            version: 1,
            peak: peak.map(Bytes::mib),
            lines: vec![
                line("a.py:7 f", Some("x = g(y)"), 500),
                line("a.py:20 f", None, 80),
            ],
        };
        let run = run(mib, mib + 100);
        CheckResult {
            growth: peak.map(|_| Ok(run.since("base.json", &baseline, 0.05).expect("both peaks"))),
            limit: limit.map(|limit| MemoryLimit {
                name: Bytes::mib(limit).to_string(),
                bytes: Bytes::mib(limit),
                for_torch: Bytes::mib(limit),
            }),
            run,
        }
    }

    #[test]
    fn the_worst_of_what_was_asked_for_is_the_verdict() {
        use CheckVerdict::{Above, Below, Unknown};
        for (needs, limit, peak, verdict) in [
            (1_000, Some(1_100), None, Below),
            (1_000, Some(1_099), None, Unknown),
            (1_000, Some(999), None, Above),
            (1_000, None, Some(960), Below),
            (1_000, None, Some(950), Above),
            (1_000, Some(1_099), Some(1_000), Unknown),
            (1_000, Some(1_099), Some(900), Above),
        ] {
            let result = against(needs, limit, peak);
            assert_eq!(result.verdict(), verdict, "{}", result.line());
            let said = result.annotation();
            assert_eq!(said.is_none(), verdict == Below, "{said:?}");
        }
    }

    #[test]
    fn the_line_that_grew_is_named_wherever_it_stands_now() {
        let result = against(1_000, None, Some(900));
        let line = result.line();
        assert!(
            line.ends_with(": a.py:9 f +100 MiB") && !line.contains("a.py:20"),
            "{line}"
        );
        let said = result.annotation().expect("an annotation");
        assert!(
            said.starts_with("::error title=oomph check::") && said.contains("11.1 %25 more"),
            "{said}"
        );
        let kept: CheckBaseline = serde_json::from_str(&result.json()).expect("a baseline");
        assert_eq!(kept.peak, Some(Bytes::mib(1_000)));
        assert_eq!(kept.lines, result.run.lines);
    }
}
