//! Common spellings of batch, accumulation and precision, for programs without an entry. The names
//! are in `spellings.toml`.

use super::argument::{ArgumentForm, Arguments, Hit};
use super::spellings::{
    BatchArgument, CheckpointingArgument, PrecisionArgument, SampleSize, is_bool, is_one, meaning,
    spellings, turned_on,
};

/// Options with which one process is told to split its batch among several GPUs.
pub(super) const LISTS_OF_GPUS: [&str; 4] = ["--gpu_ids", "--gpus", "--gpu", "--device_ids"];

/// A name in the notation of `spellings.toml`.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '-' | '_' | '+'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The last part of an argument's name, unless an earlier part says that it isn't about training.
fn leaf(name: &str) -> Option<String> {
    // `datasets:train:batch_size` is a path as well.
    let (mut front, mut leaf) = name.rsplit_once(['.', ':']).unwrap_or(("", name));
    // `datamodule.batch_size.train`, beside those of the evaluation and the test.
    if matches!(leaf, "train" | "training") {
        (front, leaf) = front.rsplit_once(['.', ':']).unwrap_or(("", front));
    }
    let is_other = |word: &String| is_one(&spellings().not_of_training, word);
    (!words(front).iter().any(is_other)).then(|| plain(leaf))
}

/// The words of a name in lower case: the same for `val_ds` and `valDs`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// How to read a name as a batch, if it is one.
pub(crate) fn batch_level(name: &str) -> Option<BatchArgument> {
    // `-b` is a batch, but `--b` and `-B` may be anything.
    if name == "-b" {
        return Some(BatchArgument::Plain);
    }
    // `--batchSz`, `--train-batch-sz`: the same names, cut short.
    let whole = leaf(name)?.replace("batchsz", "batchsize");
    meaning(&spellings().batch, &whole)
}

/// How to read a name that is not in the list, but has a batch among its words (`--batch_size_A`, `--n-batch`): a number
/// must confirm it.
pub(crate) fn like_a_batch(name: &str) -> Option<BatchArgument> {
    let words = words(name);
    let is_in = |list: &[String]| words.iter().any(|word| is_one(list, word));
    let listed = spellings();
    let other = is_in(&listed.not_of_training) || is_in(&listed.beside_a_batch);
    (is_in(&listed.like_a_batch) && !other).then_some(BatchArgument::Plain)
}

/// Whether a name is that of an evaluation's batch: `test_batch_size`, `valBs`, `validation_ds.batch_size`, `testbatch`.
pub(crate) fn is_evaluation_batch(name: &str) -> bool {
    let listed = spellings();
    let all = words(name);
    let is_in = |list: &[String]| all.iter().any(|word| is_one(list, word));
    if is_in(&listed.beside_a_batch) {
        return false;
    }
    let is_glued = |word: &String| {
        let mut evaluates = listed.evaluates.iter();
        evaluates.any(|front| {
            let rest = word.strip_prefix(front.as_str());
            rest.is_some_and(|rest| is_one(&listed.like_a_batch, rest))
        })
    };
    is_in(&listed.evaluates) && is_in(&listed.like_a_batch) || all.iter().any(is_glued)
}

/// Whether a name that is like a batch's says nothing more than that: `micro_bsz`, but not `gail_batch_size`.
pub(crate) fn is_plainly_a_batch(name: &str) -> bool {
    let listed = spellings();
    let words = words(name).into_iter().filter(|word| !word.is_empty());
    words
        .into_iter()
        .all(|word| is_one(&listed.like_a_batch, &word) || is_one(&listed.with_a_batch, &word))
}

/// Whether a name is of one device's batch: `per_gpu_batch_size`, `batch-gpu`, `micro-device`; not `batch_size_per_card`.
pub(crate) fn is_batch_of_device(name: &str) -> bool {
    if batch_level(name) == Some(BatchArgument::Micro) {
        return true;
    }
    let words = words(name);
    let has = |these: &[&str]| words.iter().any(|word| these.contains(&word.as_str()));
    let is_plain = words.iter().filter(|word| !word.is_empty()).all(|word| {
        is_one(&spellings().like_a_batch, word) || is_one(&spellings().with_a_batch, word)
    });
    let is_batch = (words.iter()).any(|word| is_one(&spellings().like_a_batch, word));
    is_plain && has(&["gpu", "device", "rank"]) && (is_batch || has(&["per", "micro"]))
}

/// Which size of a sample a name says that it is.
pub(crate) fn sample_size(name: &str) -> Option<SampleSize> {
    meaning(&spellings().sample, &leaf(name)?)
}

/// Whether a name is of how many classes an episode of few-shot learning draws: `train_way`, `n_way`, `classes_per_it_tr`.
pub(crate) fn counts_classes(name: &str) -> bool {
    let words = words(name);
    let has = |these: &[&str]| words.iter().any(|word| these.contains(&word.as_str()));
    let is_drawn = has(&["class", "classes"])
        && has(&["per"])
        && has(&["it", "iter", "episode", "task", "batch"]);
    (has(&["way", "ways", "nway"]) || is_drawn) && !is_of_evaluation(&words)
}

/// Whether a name is of how many samples of each class it draws: `shot`, `num_query_tr`, `k_spt`.
pub(crate) fn counts_samples_of_a_class(name: &str) -> bool {
    let words = words(name);
    let is_it = |word: &String| {
        let stem = word.strip_suffix('s').unwrap_or(word);
        matches!(
            stem,
            "shot" | "nshot" | "kshot" | "support" | "spt" | "query" | "querie" | "qry"
        )
    };
    words.iter().any(is_it) && !is_of_evaluation(&words)
}

/// Whether a name is of how many environments or actors run beside one another: `num_envs`, `num_processes`.
pub(crate) fn counts_environments(name: &str) -> bool {
    let is_it = |word: &str| {
        matches!(
            word,
            "env" | "envs" | "environments" | "processes" | "actors"
        )
    };
    counts(name, is_it)
}

/// Whether a name is of how many steps each of them takes for one update: `num_steps`, `n_steps`, `rollout_steps`.
pub(crate) fn counts_their_steps(name: &str) -> bool {
    let is_it = |word: &str| matches!(word, "steps" | "rollout" | "horizon" | "unroll");
    counts(name, is_it)
}

/// Whether a name is of how many parts what they saw is divided into: `num_minibatches`, `num_mini_batch`.
pub(crate) fn counts_parts_of_a_rollout(name: &str) -> bool {
    let is_it = |word: &str| {
        matches!(
            word,
            "mini" | "batch" | "batches" | "minibatch" | "minibatches"
        )
    };
    counts(name, is_it)
}

/// Whether a name is of a number of something, in words of that and of counting alone.
fn counts(name: &str, is_it: impl Fn(&str) -> bool) -> bool {
    const COUNTING: [&str; 7] = ["", "n", "num", "number", "per", "length", "nr"];
    let words = words(name);
    let is_counting = |word: &String| COUNTING.contains(&word.as_str());
    let has = words.iter().any(|word| is_it(word));
    has && words.iter().all(|word| is_counting(word) || is_it(word))
        && (words
            .iter()
            .any(|word| !word.is_empty() && is_counting(word))
            || words.len() > 1)
}

fn is_of_evaluation(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| is_one(&spellings().evaluates, word))
}

/// Whether a name is of how many processes or devices there are.
pub(crate) fn is_ranks(name: &str) -> bool {
    is_one(&spellings().ranks, &plain(name))
}

/// Whether a name says that it is a size of something else, or no size at all.
pub(crate) fn is_other_size(name: &str) -> bool {
    let listed = spellings();
    words(name).iter().any(|word| {
        is_one(&listed.other_sizes, word)
            || is_one(&listed.not_of_training, word)
            || is_one(&listed.beside_a_batch, word)
    })
}

/// The same, but that a number of whatever a batch is made of may be one: `task_num`.
pub(crate) fn is_other_than_a_count(name: &str) -> bool {
    let is_count = |word: &str| matches!(word, "num" | "number");
    let words = words(name).into_iter().filter(|word| !is_count(word));
    is_other_size(&words.collect::<Vec<_>>().join("_"))
}

/// Whether a name of a function, a class or a variable is about something else than training: `evaluate`, `val_loader`,
/// `testset`.
pub(crate) fn is_not_of_training(name: &str) -> bool {
    let listed = &spellings().not_of_training;
    words(name).iter().any(|word| {
        let endings = ["set", "loader", "data", "dataset", "dataloader", "iter"];
        let mut stems = endings
            .iter()
            .filter_map(|ending| word.strip_suffix(ending));
        is_one(listed, word) || stems.any(|stem| is_one(listed, stem))
    })
}

pub(crate) fn is_accumulation(name: &str) -> bool {
    leaf(name).is_some_and(|leaf| is_one(&spellings().accumulation, &leaf))
        || accumulation_of_a_part(name).is_some()
}

/// What is left of the name of an accumulation that a program has for each of its networks, without the network:
/// `num_G_accumulations`, `num_D_accumulations`.
pub(crate) fn accumulation_of_a_part(name: &str) -> Option<String> {
    const NETWORKS: [&str; 9] = [
        "g",
        "d",
        "gen",
        "disc",
        "generator",
        "discriminator",
        "critic",
        "encoder",
        "decoder",
    ];
    let name = name.rsplit('.').next().unwrap_or(name);
    let is_network = |word: &String| NETWORKS.contains(&word.as_str());
    let all = words(name);
    let (networks, rest): (Vec<String>, Vec<String>) = all.into_iter().partition(is_network);
    let rest = rest.join("_");
    (networks.len() == 1 && counts_micro_batches(&rest)).then_some(rest)
}

/// Whether a variable of this name counts the micro-batches of a step: `grad_accum_steps`, `num_accumulation_rounds`; not
/// `accumulated_loss`.
pub(crate) fn counts_micro_batches(name: &str) -> bool {
    const BESIDE: [&str; 18] = [
        "",
        "num",
        "n",
        "step",
        "steps",
        "round",
        "rounds",
        "iter",
        "iters",
        "batches",
        "grad",
        "grads",
        "gradient",
        "gradients",
        "micro",
        "train",
        "count",
        "factor",
    ];
    let words = words(name);
    let is_accumulating = |word: &String| {
        matches!(
            word.as_str(),
            "accum" | "accumulate" | "accumulation" | "accumulations"
        )
    };
    let all_fit = words
        .iter()
        .all(|word| is_accumulating(word) || BESIDE.contains(&word.as_str()));
    let is_listed = leaf(name).is_some_and(|leaf| is_one(&spellings().accumulation, &leaf));
    is_listed || all_fit && words.iter().any(is_accumulating)
}

/// The batch arguments of an unknown program, in order.
pub(crate) fn batches<'a>(arguments: &Arguments<'a>) -> Vec<(BatchArgument, Hit<'a>)> {
    arguments
        .all()
        .filter_map(|hit| Some((batch_level(hit.name)?, hit)))
        .collect()
}

/// The accumulation arguments of an unknown program, in order.
pub(crate) fn accumulations<'a>(arguments: &Arguments<'a>) -> Vec<Hit<'a>> {
    arguments
        .all()
        .filter(|hit| is_accumulation(hit.name))
        .collect()
}

/// The arguments on which no tensor's size depends: how long the training runs, its seed, and where it writes.
pub(crate) fn sizeless<'a>(arguments: &Arguments<'a>) -> Vec<Hit<'a>> {
    let listed = spellings();
    let is_sizeless = |name: &str| {
        let name = name.trim_start_matches('-');
        is_one(&listed.sizeless, &plain(name))
            || is_one(&listed.places_written, &name.replace('-', "_"))
    };
    let all = arguments.all();
    all.filter(|hit| hit.name.starts_with("--") && is_sizeless(hit.name))
        .collect()
}

/// An argument that turns mixed precision or activation checkpointing off, and how to turn it on.
///
/// For an unknown program only an argument that is there is changed; none is invented.
pub(crate) struct OffSwitch<'a> {
    pub hit: Hit<'a>,
    /// The new value; `None` to remove the switch.
    pub with: Option<&'static str>,
}

/// What the command of an unknown program says about a precision or activation checkpointing.
pub(crate) enum SwitchReading<'a> {
    Nothing,
    /// Turned on by this argument.
    On(Hit<'a>),
    /// Turned off, and can be turned on.
    Off(OffSwitch<'a>),
    /// An argument that isn't understood.
    Unclear(Hit<'a>),
}

/// Reads an unknown program's precision; `bf16` is whether the device supports it.
pub(crate) fn precision<'a>(arguments: &Arguments<'a>, bf16: bool) -> SwitchReading<'a> {
    let (mut off, mut unclear, mut fp16_off) = (None, None, None);
    for hit in arguments.all() {
        let named = leaf(hit.name).and_then(|leaf| meaning(&spellings().precision, &leaf));
        let Some(argument) = named else { continue };
        let value = hit.value.map(|value| value.text);
        let turned = |value: &str| Some(turned_on(value).unwrap_or("true"));
        let says_no = value.filter(|v| turned_on(&v.to_lowercase()).is_some());
        use PrecisionArgument::*;
        match (argument, value) {
            (Amp | Bf16 | Fp16, _) => match says_no {
                None => return SwitchReading::On(hit),
                Some(no) if argument == Amp || argument == Bf16 && bf16 => {
                    let with = turned(no);
                    off = Some(OffSwitch { hit, with });
                }
                Some(_) => fp16_off = Some(hit),
            },
            (Format, Some("no")) => {
                let with = Some(if bf16 { "bf16" } else { "fp16" });
                off = Some(OffSwitch { hit, with });
            }
            (Format, Some(no @ ("false" | "False" | "0"))) => {
                let with = turned(no);
                off = Some(OffSwitch { hit, with });
            }
            (Format, _) => return SwitchReading::On(hit),
            (Negated, _) if is_bare(&hit) => off = Some(OffSwitch { hit, with: None }),
            (Negated, _) => {}
            (Valued, Some(v)) if is_half(&plain(v)) => return SwitchReading::On(hit),
            (Valued, _) => unclear = Some(hit),
        }
    }
    match (off, unclear, fp16_off) {
        (_, Some(hit), _) | (None, None, Some(hit)) => SwitchReading::Unclear(hit),
        (Some(off), None, _) => SwitchReading::Off(off),
        (None, None, None) => SwitchReading::Nothing,
    }
}

/// Reads what an unknown program's command says about activation checkpointing.
pub(crate) fn recomputation<'a>(arguments: &Arguments<'a>) -> SwitchReading<'a> {
    use CheckpointingArgument::*;
    for hit in arguments.all().rev() {
        let named = leaf(hit.name).and_then(|leaf| meaning(&spellings().checkpointing, &leaf));
        let value = hit.value.map(|value| value.text);
        match (named, value) {
            // A number may be the number of layers.
            (Some(Switch), Some("0")) | (Some(Unclear), _) => return SwitchReading::Unclear(hit),
            (Some(Switch), value) => match value.and_then(turned_on) {
                None => return SwitchReading::On(hit),
                with => return SwitchReading::Off(OffSwitch { hit, with }),
            },
            (Some(Negated), _) if is_bare(&hit) => {
                return SwitchReading::Off(OffSwitch { hit, with: None });
            }
            (Some(Negated) | None, _) => {}
        }
    }
    SwitchReading::Nothing
}

/// A switch without a value.
fn is_bare(hit: &Hit<'_>) -> bool {
    hit.form == ArgumentForm::Space && !hit.value.is_some_and(|value| is_bool(value.text))
}

/// Whether a precision is half or mixed.
fn is_half(precision: &str) -> bool {
    ["16", "amp", "mixed"]
        .iter()
        .any(|part| precision.contains(part))
}

/// An argument of DataLoader that a program has a flag for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoaderFlag {
    Workers,
    Prefetch,
    PinMemory,
    Persistent,
}

/// A program's flags for an argument of DataLoader, by their names.
pub(crate) fn of_loader<'a>(arguments: &Arguments<'a>, flag: LoaderFlag) -> Vec<Hit<'a>> {
    arguments
        .all()
        .filter(|hit| is_of_loader(flag, hit.name))
        .collect()
}

/// Whether a name alone says that it is of this argument of DataLoader.
pub(crate) fn is_of_loader(flag: LoaderFlag, name: &str) -> bool {
    let listed = spellings();
    let names = match flag {
        LoaderFlag::Workers => &listed.workers,
        LoaderFlag::Prefetch => &listed.prefetch,
        LoaderFlag::PinMemory => &listed.pin_memory,
        LoaderFlag::Persistent => &listed.persistent_workers,
    };
    leaf(name).is_some_and(|leaf| is_one(names, &leaf))
}

/// Whether a name may be of the number of DataLoader workers, if one was seen with its number.
pub(crate) fn is_like_workers(name: &str) -> bool {
    let words = words(name);
    let is_in = |list: &[String]| words.iter().any(|word| is_one(list, word));
    name == "-j" || is_in(&spellings().like_workers) && !is_in(&spellings().not_of_training)
}

/// Flags that may be of the number of DataLoader workers by their names, and have the number that a loader was seen with.
pub(crate) fn workers_by_number<'a>(arguments: &Arguments<'a>, seen: u32) -> Vec<Hit<'a>> {
    let is_number = |hit: &Hit<'a>| (hit.value).is_some_and(|value| value.text.parse() == Ok(seen));
    arguments
        .all()
        .filter(|hit| is_like_workers(hit.name) && is_number(hit))
        .collect()
}
