//! Accumulation that a program computes: `steps = total // (batch * ranks)`. Told a smaller batch, it takes more steps by itself, and
//! what it trains with stays.

use super::NamedSettingsFile;
use super::statements::{SourceStatements, TokenRange};
use crate::recognize::family;
use std::collections::{BTreeSet, HashMap};

/// Through so many variables a divisor is followed to what it is made of.
const DEEPEST: usize = 4;
/// Of one divisor so many names are looked at.
const MOST_NAMES: usize = 60;

/// Steps that are computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ComputedSteps {
    /// What they are called.
    pub name: String,
    /// The last name of what is divided.
    of: Option<String>,
    /// The names of which the divisor is made.
    through: BTreeSet<String>,
}

impl ComputedSteps {
    /// Whether they become more where the number of this name becomes smaller.
    pub fn follow(&self, batch: &str) -> bool {
        self.through.contains(batch) && self.of.as_deref() != Some(batch)
    }

    /// The name of the total, if it is one.
    pub fn total(&self) -> Option<&str> {
        self.of.as_deref()
    }
}

/// A name that counts the parts of a step. Beside a division by the batch a part of it says enough.
fn counts_parts(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    let is_micro = name.contains("micro") && (name.contains("batches") || name.contains("steps"));
    family::is_accumulation(&name) || name.contains("accum") || is_micro
}

/// What a source computes: assigned, given by name, or returned by a function of that name.
pub(super) fn in_source(said: &SourceStatements<'_>) -> Vec<ComputedSteps> {
    let tokens = &said.tokens;
    let mut made_of: HashMap<&str, Vec<&str>> = HashMap::new();
    for assigned in &said.assigned {
        let names = made_of.entry(last(assigned.target)).or_default();
        names.extend(names_in(said, assigned.value.clone()));
        names.truncate(MOST_NAMES);
    }
    let assigned = said.assigned.iter();
    let assigned = assigned.map(|assigned| (assigned.target, assigned.value.clone()));
    let given = said.calls.iter().flat_map(|call| call.keywords.clone());
    let returned = tokens.statements.iter().filter_map(|line| {
        let begin = line.tokens.start;
        let function = (tokens.text(begin) == "return").then(|| said.enclosing(begin).function)?;
        Some((function?, begin + 1..line.tokens.end))
    });
    let all = assigned.chain(given).chain(returned);
    let counting = all.filter(|(name, _)| counts_parts(name));
    counting
        .filter_map(|(name, value)| {
            let mut signs = value.clone();
            let sign = signs.find(|at| ["/", "//"].iter().any(|op| tokens.is_operator(*at, op)))?;
            let mut through: BTreeSet<&str> = names_in(said, sign + 1..value.end).collect();
            for _ in 0..DEEPEST {
                let further = through
                    .iter()
                    .filter_map(|name| made_of.get(name))
                    .flatten();
                let further: Vec<&str> = further.copied().take(MOST_NAMES).collect();
                through.extend(further);
            }
            Some(ComputedSteps {
                name: name.to_string(),
                of: names_in(said, value.start..sign).last().map(String::from),
                through: through.into_iter().map(String::from).collect(),
            })
        })
        .collect()
}

fn last(dotted: &str) -> &str {
    dotted.rsplit('.').next().unwrap_or(dotted)
}

/// The names in some tokens, each by itself: `args` and `batch_size` of `args.batch_size`.
fn names_in<'t>(said: &SourceStatements<'t>, range: TokenRange) -> impl Iterator<Item = &'t str> {
    let tokens = &said.tokens;
    let names: Vec<&'t str> = range
        .filter(|at| tokens.is_name(*at))
        .map(|at| tokens.text(at))
        .take(MOST_NAMES)
        .collect();
    names.into_iter()
}

/// What a file of settings computes: `accumulate: ${div_up:${total}, ${eval:${devices} * ${loader.batch_size}}}`.
pub(super) fn in_settings(file: &NamedSettingsFile) -> Vec<ComputedSteps> {
    let lines = file.text.lines().filter_map(|line| line.split_once(':'));
    let computed = lines.filter_map(|(name, value)| {
        let name = name.trim();
        let divides = value.contains("div") || value.contains('/');
        (divides && value.contains("${") && counts_parts(name)).then(|| {
            let mut names = interpolated(value);
            ComputedSteps {
                name: name.to_string(),
                of: names.next().map(String::from),
                through: names.map(String::from).collect(),
            }
        })
    });
    computed.collect()
}

/// The last parts of what a value takes from elsewhere, in order.
fn interpolated(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split("${").skip(1).filter_map(|part| {
        let dotted = part.split('}').next()?;
        // A resolver: `div_up:`, `eval:`.
        (!dotted.contains(':')).then(|| last(dotted.trim()))
    });
    parts.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognize::text::SettingsNames;

    fn computed(source: &str) -> Vec<ComputedSteps> {
        in_source(&SourceStatements::new(source))
    }

    #[test]
    fn steps_follow_the_batch_through_what_the_divisor_is_made_of() {
        let found = computed(
            "tokens = args.device_batch * args.length\nall_tokens = tokens * ranks\nassert total % all_tokens == 0\n\
             accum_steps = total // all_tokens\n",
        );
        let [steps] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(steps.follow("device_batch"));
        assert!(!steps.follow("total") && !steps.follow("lr"));
        assert_eq!(steps.total(), Some("total"));
    }

    #[test]
    fn steps_may_be_given_or_returned() {
        let given = "Trainer(accumulate_grad_batches=max(1, wanted // (cfg.batch * cfg.devices)), epochs=n // batch)";
        let returned = "class A:\n    def gradient_accumulation_iters(self, n):\n        return self.whole(n) // self.micro\n";
        for (source, batch) in [(given, "batch"), (returned, "micro")] {
            let found = computed(source);
            assert!(found.len() == 1 && found[0].follow(batch), "{found:?}");
        }
        // Not steps of accumulation, not divided, or divided itself.
        for other in [
            "steps = total // batch",
            "accum = batch",
            "micro = batch // accum_steps",
        ] {
            let found = computed(other);
            assert!(
                found.iter().all(|steps| !steps.follow("batch")),
                "{found:?}"
            );
        }
        assert!(
            computed("accum = batch // n")
                .iter()
                .all(|steps| !steps.follow("batch"))
        );
    }

    #[test]
    fn settings_compute_too() {
        let text = "loader:\n  total: 512\n  batch: ${div_up:${.total}, ${ranks}}\ntrainer:\n  \
                    accumulate_grad_batches: ${div_up:${loader.total}, ${eval:${trainer.devices} * ${loader.batch}}}\n";
        let found = in_settings(&NamedSettingsFile {
            path: "/c.yaml".into(),
            text: text.into(),
            names: SettingsNames::InFile,
        });
        let [steps] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(steps.follow("batch") && !steps.follow("total"));
        assert_eq!(steps.total(), Some("total"));
    }
}
