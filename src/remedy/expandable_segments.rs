//! Expandable segments, and how a setting gets into the allocator's variable.

use super::draft::Draft;
use super::edit::edited;
use super::inputs::RemedyInputs;
use super::proposal::{Offering, Proposal};
use crate::command::{CommandLine, Word};
use crate::event::Hello;
use crate::recognize::LaunchEnvironment;
use crate::recognize::alloc_conf::{self, Inherited, TorchVersion};
use crate::recognize::argument::{Arguments, InsertPoint, Name, Value, text};
use crate::recognize::launcher::{Passage, ProgramKind};
use crate::recognize::recognition::{Recognised, recognise};
use crate::units::Uuid;

/// The first version for which expandable segments are safe to offer.
pub(super) const EXPANDABLE_SINCE: (u32, u32) = (2, 1);

/// The edits for expandable segments, or why there are none.
fn expandable(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<Draft, String> {
    if are_in_force(inputs) {
        return Err("expandable segments are already on".into());
    }
    if let Some(component) = outside_the_allocator(inputs) {
        return Err(format!(
            "{component} ran out of memory, not PyTorch's CUDA allocator"
        ));
    }
    if let Some(backend) = backend(inputs) {
        return Err(format!(
            "the allocator is {backend}, which has no expandable segments"
        ));
    }
    draft(command, recognised, inputs, "expandable_segments", "True")
}

/// The edits that give the allocator a setting beside those that it has.
pub(super) fn draft(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
    key: &str,
    value: &str,
) -> Result<Draft, String> {
    match recognised.anatomy.kind {
        ProgramKind::Remote => return Err("it runs on another machine".into()),
        ProgramKind::Missing => return Err("the command has no program".into()),
        ProgramKind::Script
        | ProgramKind::Module
        | ProgramKind::Code
        | ProgramKind::Executable
        | ProgramKind::ShellScript
        | ProgramKind::ShellString
        | ProgramKind::Image => {}
    }
    let set = Set::of(command, recognised, inputs.launch.inherited);
    let merged = alloc_conf::merge(key, value, set.inherited(), torch(inputs))?;
    let mut draft = Draft::default();
    for (name, new) in merged {
        place(&mut draft, command, recognised, &set, name, &new)?;
    }
    draft.shown = vec![format!("{key}:{value}")];
    Ok(draft)
}

/// torch's version: as the run itself said it, else as the disk says it.
pub(super) fn torch(inputs: &RemedyInputs<'_>) -> Option<TorchVersion> {
    hello(inputs)
        .and_then(|hello| TorchVersion::parse(&hello.torch))
        .or_else(|| inputs.launch.torch.and_then(TorchVersion::parse))
}

/// The command with allocator settings of the user's own (`KEY:VALUE[,…]`) beside those that it has
/// or inherits. The error says what is wrong with them and how it is written right.
pub fn with_alloc_conf(
    command: &CommandLine,
    conf: &str,
    inherited: Inherited<'_>,
    torch: Option<&str>,
) -> Result<CommandLine, String> {
    let recognised = recognise(command, &LaunchEnvironment::default());
    let set = Set::of(command, &recognised, inherited);
    let torch = torch.and_then(TorchVersion::parse);
    let mut draft = Draft::default();
    for (name, new) in alloc_conf::merge_user(conf, set.inherited(), torch)? {
        place(&mut draft, command, &recognised, &set, name, &new)?;
    }
    Ok(edited(command, &draft.edits.iter().collect::<Vec<_>>()))
}

/// Where one of the variables is set.
#[derive(Debug, Clone, Copy)]
enum SettingSource<'a> {
    /// Inherited, or typed before the command.
    Environment(&'a str),
    /// By a word of the command.
    Word(Value<'a>),
}

impl<'a> SettingSource<'a> {
    fn text(&self) -> &'a str {
        match self {
            SettingSource::Environment(text) => text,
            SettingSource::Word(value) => value.text,
        }
    }
}

/// The variables as the training will see them.
struct Set<'a> {
    cuda: Option<SettingSource<'a>>,
    hip: Option<SettingSource<'a>>,
    general: Option<SettingSource<'a>>,
}

impl<'a> Set<'a> {
    fn of(
        command: &'a CommandLine,
        recognised: &Recognised<'_>,
        inherited: Inherited<'a>,
    ) -> Set<'a> {
        let passage = passage(recognised);
        let find = |name: &str, inherited: Option<&'a str>| {
            if let Some(value) = of_words(command, recognised, name) {
                return Some(SettingSource::Word(value));
            }
            if passage != Passage::Inherited {
                return None;
            }
            let said = command.env.iter().rev().find(|change| change.name == *name);
            match said {
                Some(change) => change.value.as_ref().and_then(Word::as_str),
                None => inherited,
            }
            .map(SettingSource::Environment)
        };
        Set {
            cuda: find(alloc_conf::CUDA, inherited.cuda),
            hip: find(alloc_conf::HIP, inherited.hip),
            general: find(alloc_conf::GENERAL, inherited.general),
        }
    }

    fn inherited(&self) -> Inherited<'a> {
        Inherited {
            cuda: self.cuda.map(|s| s.text()),
            hip: self.hip.map(|s| s.text()),
            general: self.general.map(|s| s.text()),
        }
    }

    fn source(&self, name: &str) -> Option<SettingSource<'a>> {
        match name {
            alloc_conf::CUDA => self.cuda,
            alloc_conf::HIP => self.hip,
            _ => self.general,
        }
    }
}

/// A `NAME=VALUE` word of the command that sets the variable, the innermost one.
fn of_words<'a>(
    command: &'a CommandLine,
    recognised: &Recognised<'_>,
    name: &str,
) -> Option<Value<'a>> {
    let in_container = recognised.launchers().iter().rev().find_map(|launcher| {
        let Passage::Option(option) = launcher.environment else {
            return None;
        };
        let words = &command.argv[launcher.words.clone()];
        let options = Arguments::of_words(words, launcher.words.start);
        let hits = [Name::new(option), Name::new("--env")].map(|name| options.find(name));
        hits.into_iter()
            .flatten()
            .filter_map(|hit| hit.value)
            .rfind(|value| value.text.split_once('=').is_some_and(|(n, _)| n == name))
    });
    let assigned = recognised.anatomy.assignments.iter().rev().find_map(|at| {
        let word = text(&command.argv[*at]);
        word.split_once('=').filter(|(n, _)| *n == name)?;
        Some(Value {
            text: word,
            at: *at,
            from: 0,
        })
    });
    let whole = assigned.or(in_container)?;
    Some(Value {
        text: &whole.text[name.len() + 1..],
        at: whole.at,
        from: whole.from + name.len() + 1,
    })
}

/// How a variable gets to the training.
fn passage(recognised: &Recognised<'_>) -> Passage {
    recognised
        .launchers()
        .iter()
        .map(|launcher| launcher.environment)
        .find(|passage| *passage != Passage::Inherited)
        .unwrap_or(Passage::Inherited)
}

fn place(
    draft: &mut Draft,
    command: &CommandLine,
    recognised: &Recognised<'_>,
    set: &Set<'_>,
    name: &'static str,
    new: &str,
) -> Result<(), String> {
    if let Some(SettingSource::Word(value)) = set.source(name) {
        draft.set(name, value, new);
        return Ok(());
    }
    // An `env NAME=…` in the middle would hide what stands in front of it; it is a word then.
    for launcher in recognised.launchers() {
        match launcher.environment {
            Passage::Inherited => {}
            Passage::Cut => {
                return Err(format!(
                    "{} does not pass environment variables on",
                    launcher.name
                ));
            }
            Passage::Option(option) => {
                draft.insert(
                    InsertPoint::Before(launcher.options),
                    &[option.to_string(), format!("{name}={new}")],
                );
                return Ok(());
            }
        }
    }
    if recognised
        .launchers()
        .iter()
        .any(|l| clears(command, l.words.clone(), name))
    {
        return Err(
            "the command clears its environment (env -i, --cleanenv, --export=NONE)".into(),
        );
    }
    let old = match set.source(name) {
        Some(SettingSource::Environment(text)) => Some(text),
        _ => None,
    };
    draft.set_env(name, old, new);
    Ok(())
}

/// Whether a launcher's own words say that the variable is not inherited.
fn clears(command: &CommandLine, words: std::ops::Range<usize>, variable: &str) -> bool {
    let words = &command.argv[words];
    let name = words.first().map_or("", text);
    words.iter().map(text).any(|word| {
        let exported = word.strip_prefix("--export=").map(|names| {
            let mut names = names.split(',');
            names.any(|passed| passed == "ALL" || passed == variable)
        });
        matches!(word, "--ignore-environment" | "--cleanenv" | "--containall")
            || exported == Some(false)
            || name.ends_with("env")
                && (word == "-i"
                    || word == variable
                    || word.strip_prefix("--unset=") == Some(variable))
    })
}

/// Whether the allocator itself said that they are in force.
fn are_in_force(inputs: &RemedyInputs<'_>) -> bool {
    hello(inputs).is_some_and(|hello| hello.expandable_segments == Some(true))
}

/// Who ran out of memory, where the text alone says it and it was not PyTorch's allocator on a GPU
/// that has expandable segments.
fn outside_the_allocator(inputs: &RemedyInputs<'_>) -> Option<&'static str> {
    let oom = inputs.forecast.oom.filter(|oom| oom.record.is_none())?;
    let spec = oom.report.as_ref()?.kind.spec();
    (!spec.has_segments).then_some(spec.component)
}

/// The allocator's back end, where it is not PyTorch's own.
fn backend<'a>(inputs: &RemedyInputs<'a>) -> Option<&'a str> {
    hello(inputs)?
        .backend
        .as_deref()
        .filter(|backend| *backend != "native")
}

fn hello<'a>(inputs: &RemedyInputs<'a>) -> Option<&'a crate::event::Hello> {
    inputs
        .forecast
        .state?
        .run()?
        .ranks
        .first()
        .map(|rank| &rank.hello)
}

/// Sentences of the allocator about its settings.
pub(super) const REJECTIONS: &[&str] = &[
    "unrecognized cachingallocator option",
    "in cuda allocator config",
    "in accelerator allocator config",
    "in configtokenizer",
    "cachingallocator option",
    "argument for expandable_segments",
    "max_split_size_mb too small",
    "expandable_segments not supported",
    "doesn't currently support expandable_segments",
];

pub(super) fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let draft = expandable(offering.command, offering.recognised, offering.inputs);
    let cost = match offering.inputs.launch.torch {
        Some(_) => "same numerics; sharing tensors between processes may fail",
        None => "same numerics; needs torch 2.1 or later (version unknown here)",
    };
    Some(Proposal::of(draft, cost))
}

/// Says so where segments are not expandable all the same.
pub(super) fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
    (hello.expandable_segments == Some(false)).then(|| segments_off(hello))
}

fn segments_off(hello: &Hello) -> String {
    let why = match hello.backend.as_deref() {
        Some(backend) if backend != "native" => {
            format!("the program has switched to the allocator {backend}")
        }
        Some(_) | None => match &hello.alloc_conf {
            Some(conf) if conf.contains("expandable_segments:True") => {
                "this platform does not support them".into()
            }
            Some(conf) if !conf.is_empty() => {
                format!("something in the program has set the allocator to {conf}")
            }
            Some(_) | None => {
                "something in the program configures the allocator itself, or the platform does not support them"
                    .into()
            }
        },
    };
    format!("expandable segments have no effect: {why}")
}
