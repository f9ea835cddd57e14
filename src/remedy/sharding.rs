//! What ranks can do otherwise with a model that they divide or reduce: parameters divided again behind forward, gathered in
//! bf16, gradients that lie in the buckets, and everything in RAM. Each is what the rehearsed step would be, and each says
//! what it costs. FSDP and DistributedDataParallel take these where the program constructs them, so it is done there at runtime;
//! what would have to change the program's other lines is only said.

use super::plan::Alteration;
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_on};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Phrase;
use crate::event::{Patch, RankChange, Rehearsal, RehearsedVariant};
use crate::recognize::argument::{Arguments, InsertPoint, Name};
use crate::recognize::spellings::is_no;
use crate::units::Bytes;

/// Parameters are divided again behind each layer's forward.
pub(in crate::remedy) mod reshard {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec::new(
        'F',
        "reshard after forward",
        RemedyEffect::LessAllocated,
        NeedFrom::Forecast(|_, target| target.treatment.ranks = Some(RankChange::Reshard)),
        |offering| {
            rehearsed(offering, RankChange::Reshard)?;
            let shown = "reshard_after_forward=True (FULL_SHARD)";
            let cost = [
                "same numerics",
                "each layer is gathered once more, in backward: more is sent",
            ];
            Some(Proposal::new(
                patched(offering, Patch::Reshard, shown),
                cost,
            ))
        },
    );
}

/// Parameters are gathered, and layers computed, in bf16.
pub(in crate::remedy) mod shards_in_bf16 {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec {
        alters: Some(Alteration::Precision),
        rejects: Some(RejectedThing::Precision),
        ..RemedySpec::new(
            'P',
            "gather in bf16",
            RemedyEffect::LessAllocated,
            NeedFrom::Forecast(|_, target| target.treatment.ranks = Some(RankChange::InBf16)),
            |offering| {
                rehearsed(offering, RankChange::InBf16)?;
                let draft = match offering.inputs.bf16 {
                    Some(false) => Err("the GPU has no bf16".into()),
                    Some(true) | None => {
                        let shown = "FSDP's precision: param_dtype=bfloat16, reduce_dtype=float32";
                        patched(offering, Patch::ShardsInBf16, shown)
                    }
                };
                let cost = [
                    "lower precision, results change",
                    "the shards, the optimizer and what is reduced stay in float32",
                ];
                Some(Proposal::new(draft, cost))
            },
        )
    };
}

/// Gradients are views of the buckets that DistributedDataParallel reduces.
pub(in crate::remedy) mod gradients_in_buckets {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec::new(
        'V',
        "gradients in buckets",
        RemedyEffect::LessAllocated,
        NeedFrom::Forecast(|_, target| target.treatment.ranks = Some(RankChange::InBuckets)),
        |offering| {
            let (said, _) = rehearsed(offering, RankChange::InBuckets)?;
            let shown = "DistributedDataParallel(gradient_as_bucket_view=True)";
            let gradients = Bytes(said.trained.iter().sum());
            let cost = Phrase::from("same numerics")
                .and("; ", format!("{gradients} of gradients are there once instead of twice"))
                .and(
                    "; ",
                    "nothing is saved where the peak lies at the beginning of backward",
                )
                .and(
                    "; ",
                    "bucket_cap_mb would move nothing: all buckets together are as large as the gradients",
                );
            let draft = patched(offering, Patch::GradientsInBuckets, shown);
            Some(Proposal::new(draft, cost))
        },
    );
}

/// Everything that is divided lies in RAM.
pub(in crate::remedy) mod shards_to_ram {
    use super::*;

    pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec::new(
        'O',
        "shards to RAM",
        RemedyEffect::LessAllocated,
        NeedFrom::Forecast(|_, target| target.treatment.ranks = Some(RankChange::Offload)),
        propose,
    );

    fn propose(offering: &Offering<'_>) -> Option<Proposal> {
        let (said, variant) = rehearsed(offering, RankChange::Offload)?;
        let moved = Moved::of(said, variant);
        let draft = match offering.available_ram() {
            Some(ram) if moved.all() > ram => Err(format!(
                "RAM would have to hold {} for each rank, and {ram} is available",
                moved.all()
            )),
            Some(_) | None => by_argument(offering),
        };
        let draft = draft.map_err(|why| match in_code(offering, &moved) {
            Some(code) => format!("{why}; {code}"),
            None => why,
        });
        let cost = Phrase::from("same numerics")
            .and("; ", format!("RAM takes {moved}"))
            .and("; ", "parameters are copied to the GPU for each layer, and the optimizer steps on the CPU: slower");
        Some(Proposal::new(draft, cost))
    }

    /// What goes to RAM, of one rank.
    struct Moved {
        parameters: Bytes,
        gradients: Bytes,
        states: Bytes,
    }

    impl Moved {
        fn of(said: &Rehearsal, variant: &RehearsedVariant) -> Moved {
            let sum = |sizes: &[u64]| Bytes(sizes.iter().sum());
            let left = |sizes: &Option<Vec<u64>>| sizes.as_deref().map_or(Bytes::ZERO, sum);
            let trained = sum(&said.trained) - left(&variant.trained);
            let optimizer = said.optimizer.as_ref();
            let states = optimizer
                .and_then(|optimizer| optimizer.states)
                .unwrap_or(2);
            Moved {
                parameters: sum(&said.weights) - left(&variant.weights),
                gradients: trained,
                states: Bytes(trained.0 * u64::from(states)),
            }
        }

        fn all(&self) -> Bytes {
            self.parameters + self.gradients + self.states
        }
    }

    impl std::fmt::Display for Moved {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(
                f,
                "{} for each rank (parameters {}, gradients {}, optimizer state {})",
                self.all(),
                self.parameters,
                self.gradients,
                self.states
            )
        }
    }

    /// What transformers' `--fsdp` may begin with.
    const STRATEGIES: [&str; 4] = [
        "full_shard",
        "shard_grad_op",
        "hybrid_shard",
        "hybrid_shard_zero2",
    ];

    /// The program's own option for it, or why there is none.
    fn by_argument(offering: &Offering<'_>) -> Result<Draft, String> {
        let recognized = offering.recognized;
        recognized.check_open()?;
        let arguments = recognized.arguments();
        let mut draft = Draft::default();
        for launcher in recognized.launchers() {
            let words = &offering.command.argv[launcher.words.clone()];
            let options = Arguments::of_words(words, launcher.words.start);
            let is_typed = ["--use_fsdp", "--use-fsdp"].into_iter();
            if !launcher.name.starts_with("accelerate")
                || !is_typed.map(Name::new).any(|name| options.has(name))
            {
                continue;
            }
            let name = "--fsdp_offload_params";
            let hits = options.find(Name::new(name));
            return match hits.last().and_then(|hit| hit.value) {
                Some(value) if value.text.eq_ignore_ascii_case("true") => {
                    Err(format!("already on: {name} {}", value.text))
                }
                Some(value) => {
                    draft.set(name, value, "true");
                    Ok(draft)
                }
                None => {
                    let gap = InsertPoint::Before(launcher.options);
                    draft.insert(gap, &[name.into(), "true".into()]);
                    Ok(draft)
                }
            };
        }
        let hits = arguments.find(Name::new("--fsdp"));
        if let Some(value) = hits.last().and_then(|hit| hit.value) {
            let words: Vec<&str> = value.text.split([' ', ',']).collect();
            let separator = if value.text.contains(',') { "," } else { " " };
            return match words.first() {
                _ if words.contains(&"offload") => {
                    Err(format!("already on: --fsdp {}", value.text))
                }
                Some(first) if STRATEGIES.contains(first) => {
                    draft.set(
                        "--fsdp",
                        value,
                        &format!("{}{separator}offload", value.text),
                    );
                    Ok(draft)
                }
                Some(_) | None => Err("what --fsdp takes in this program is not known".into()),
            };
        }
        let entry = recognized
            .known
            .filter(|entry| !entry.offload.add.is_empty());
        let entry = entry.ok_or("no option for it is known for this program")?;
        turn_on(
            Switch {
                what: "offloading to RAM",
                spec: &entry.offload,
                words: Ok(&entry.offload.add),
                of_launcher: None,
                means_off: is_no,
                in_file: &[],
            },
            offering,
            entry,
            arguments,
        )
    }

    /// What to write in the program, and what that comes to.
    fn in_code(offering: &Offering<'_>, moved: &Moved) -> Option<String> {
        let expected = offering.predictor.of_ranks(RankChange::Offload);
        let figure = expected.needs()?;
        Some(format!(
            "in the code: offload_policy=CPUOffloadPolicy() in fully_shard, or cpu_offload=CPUOffload(offload_params=True): \
             needs {figure} then, {} go to RAM",
            moved.all()
        ))
    }
}

/// The rehearsed step with this change, of the rank that ran out; `None` where it would be none.
fn rehearsed<'a>(
    offering: &Offering<'a>,
    change: RankChange,
) -> Option<(&'a Rehearsal, &'a RehearsedVariant)> {
    let oom = offering.inputs.forecast.oom?;
    let run = offering.inputs.forecast.state?.run()?;
    let said = run.rank_of(oom)?.rehearsal.as_ref()?;
    let mut variants = said.variants.iter();
    let found = variants.find(|variant| variant.change == Some(change) && variant.trace.is_some());
    Some((said, found?))
}

fn patched(offering: &Offering<'_>, patch: Patch, shown: &str) -> Result<Draft, String> {
    offering.check_patch(patch)?;
    Ok(Draft::patching(patch, shown))
}
