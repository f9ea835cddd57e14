//! Expandable segments, and how a setting gets into the allocator's variable.

use super::device::VISIBLE;
use super::inputs::RemedyInputs;
use super::plan::edited;
use super::proposal::{Draft, Offering, Proposal};
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::command::CommandLine;
use crate::diagnosis::Help;
use crate::event::{Hello, NOT_IN_WSL, NOT_ON_MIG};
use crate::forecast::Allocator;
use crate::recognize::alloc_conf::{self, AllocConf, Inherited, TorchVersion};
use crate::recognize::argument::{InsertPoint, text};
use crate::recognize::layout::{EnvPropagation, ProgramKind, Variable};
use crate::recognize::{CommandLayout, Recognized};
use crate::units::Uuid;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::NoFragmentation, RemedyId::Batch)),
    verify: Some(verify),
    rejects: Some(RejectedThing::Allocator),
    ..RemedySpec::new(
        'e',
        "expandable segments",
        RemedyEffect::LessFragmentation,
        NeedFrom::Forecast(|_, target| target.allocator = Allocator::Expandable),
        propose,
    )
};

/// The first version in which expandable segments are safe to offer.
pub(super) const EXPANDABLE_SINCE: (u32, u32) = (2, 1);

/// The edits for expandable segments, or why there are none.
fn expandable(
    command: &CommandLine,
    recognized: &Recognized<'_>,
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
    if let Some(why) = breaks(command, &recognized.layout, inputs) {
        return Err(why.into());
    }
    if let Some(backend) = backend(inputs) {
        return Err(format!(
            "the allocator is {backend}, which has no expandable segments"
        ));
    }
    draft(
        command,
        recognized,
        inputs,
        &[("expandable_segments", "True")],
    )
}

/// Why PyTorch's own allocator has no segments that grow and none can be added; `None` where they are in force or can be.
pub(super) fn why_not_expandable(offering: &Offering<'_>) -> Option<String> {
    let inputs = offering.inputs;
    let is_another = are_in_force(inputs)
        || outside_the_allocator(inputs).is_some()
        || backend(inputs).is_some();
    match is_another {
        true => None,
        false => expandable(offering.command, offering.recognized, inputs).err(),
    }
}

/// The edits that add allocator settings to those in force.
pub(super) fn draft(
    command: &CommandLine,
    recognized: &Recognized<'_>,
    inputs: &RemedyInputs<'_>,
    settings: &[(&str, &str)],
) -> Result<Draft, String> {
    let kind = recognized.layout.kind;
    if matches!(kind, ProgramKind::Remote | ProgramKind::Missing) {
        recognized.check_open()?;
    }
    let inherited = inputs.launch.inherited;
    let layout = &recognized.layout;
    let set = in_training(command, layout, inherited);
    let merged = alloc_conf::merge(settings, set, inputs.torch())?;
    let mut draft = Draft::default();
    for (name, new) in merged {
        place(&mut draft, command, layout, inherited, name, &new)?;
    }
    let shown = settings.iter().map(|(key, value)| format!("{key}:{value}"));
    draft.shown = vec![shown.collect::<Vec<_>>().join(",")];
    Ok(draft)
}

/// The allocator's settings as the training will see them.
pub(super) fn settings_in_training(
    command: &CommandLine,
    recognized: &Recognized<'_>,
    inputs: &RemedyInputs<'_>,
) -> Result<AllocConf, String> {
    let set = in_training(command, &recognized.layout, inputs.launch.inherited);
    alloc_conf::in_force(set, inputs.torch()).map(|(_, conf)| conf)
}

/// These settings behind those that the process told of, as the replay takes them; `None` without a probe.
pub(super) fn beside_own(offering: &Offering<'_>, settings: &str) -> Option<String> {
    let own = offering.inputs.hello()?.alloc_conf.as_deref();
    Some(match own.filter(|own| !own.is_empty()) {
        Some(own) => format!("{own},{settings}"),
        None => settings.into(),
    })
}

/// The command with a user's own allocator settings (`KEY:VALUE[,…]`) beside those that it has or
/// inherits. The error says what is wrong with them and how to write them.
pub fn with_alloc_conf(
    command: &CommandLine,
    conf: &str,
    inherited: Inherited<'_>,
    torch: Option<&str>,
) -> Result<CommandLine, String> {
    let layout = CommandLayout::new(command);
    let set = in_training(command, &layout, inherited);
    let torch = torch.and_then(TorchVersion::parse);
    let mut draft = Draft::default();
    for (name, new) in alloc_conf::merge_user(conf, set, torch)? {
        place(&mut draft, command, &layout, inherited, name, &new)?;
    }
    Ok(edited(command, &draft.edits.iter().collect::<Vec<_>>()))
}

/// One of the allocator's variables as the training will see it.
fn variable<'a>(
    command: &'a CommandLine,
    layout: &CommandLayout,
    inherited: Inherited<'a>,
    name: &str,
) -> Option<Variable<'a>> {
    let inherited = match name {
        alloc_conf::CUDA => inherited.cuda,
        alloc_conf::HIP => inherited.hip,
        _ => inherited.general,
    };
    Variable::find(command, layout, name, inherited)
}

/// All of the allocator's variables.
fn in_training<'a>(
    command: &'a CommandLine,
    layout: &CommandLayout,
    inherited: Inherited<'a>,
) -> Inherited<'a> {
    let text = |name| variable(command, layout, inherited, name).map(|set| set.text());
    Inherited {
        cuda: text(alloc_conf::CUDA),
        hip: text(alloc_conf::HIP),
        general: text(alloc_conf::GENERAL),
    }
}

fn place(
    draft: &mut Draft,
    command: &CommandLine,
    layout: &CommandLayout,
    inherited: Inherited<'_>,
    name: &'static str,
    new: &str,
) -> Result<(), String> {
    let set = variable(command, layout, inherited, name);
    set_in_training(draft, command, layout, set, name, new)
}

/// Sets a variable of the training's environment, where it is set already or in front of the program.
pub(super) fn set_in_training(
    draft: &mut Draft,
    command: &CommandLine,
    layout: &CommandLayout,
    set: Option<Variable<'_>>,
    name: &'static str,
    new: &str,
) -> Result<(), String> {
    if let Some(Variable::Word(_)) = set {
        draft.set_variable(name, set, new);
        return Ok(());
    }
    // An `env NAME=…` in the middle overrides what precedes it, so that word is edited instead.
    for launcher in &layout.launchers {
        match launcher.environment {
            EnvPropagation::Inherited => {}
            EnvPropagation::Cut => {
                return Err(format!(
                    "{} does not pass environment variables on",
                    launcher.name
                ));
            }
            EnvPropagation::Option(option) => {
                draft.insert(
                    InsertPoint::Before(launcher.options),
                    &[option.to_string(), format!("{name}={new}")],
                );
                return Ok(());
            }
        }
    }
    if layout
        .launchers
        .iter()
        .any(|l| clears(command, l.words.clone(), name))
    {
        return Err(
            "the command clears its environment (env -i, --cleanenv, --export=NONE)".into(),
        );
    }
    draft.set_variable(name, set, new);
    Ok(())
}

/// Whether a launcher's options keep the variable from being inherited.
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

/// Whether the allocator reported that they are in force.
fn are_in_force(inputs: &RemedyInputs<'_>) -> bool {
    inputs
        .hello()
        .is_some_and(|hello| hello.expandable_segments == Some(true))
}

/// The component that ran out of memory, if only the text tells and it wasn't a PyTorch allocator
/// that has expandable segments.
fn outside_the_allocator(inputs: &RemedyInputs<'_>) -> Option<&'static str> {
    let oom = inputs.forecast.oom.filter(|oom| oom.record.is_none())?;
    let spec = oom.kind().spec();
    (!spec.has_segments).then_some(spec.component)
}

/// Why they would do harm or nothing here.
pub(super) fn breaks(
    command: &CommandLine,
    layout: &CommandLayout,
    inputs: &RemedyInputs<'_>,
) -> Option<&'static str> {
    let shares = inputs.patchable().is_some_and(|found| found.shares_cuda);
    match inputs.hello().map(Hello::no_segments) {
        Some(Some(why)) => Some(why),
        Some(None) | None if inputs.is_wsl() => Some(NOT_IN_WSL),
        // Without a probe nobody has said which device it is.
        None if names_an_instance(command, layout, inputs) => Some(NOT_ON_MIG),
        Some(None) | None => shares.then_some(
            "the program shares CUDA tensors between processes, which expandable segments break",
        ),
    }
}

/// Whether the program sees an instance of a divided GPU, by the name that it is given.
fn names_an_instance(
    command: &CommandLine,
    layout: &CommandLayout,
    inputs: &RemedyInputs<'_>,
) -> bool {
    let inherited = inputs.launch.inherited_value(VISIBLE);
    let visible = Variable::find(command, layout, VISIBLE, inherited);
    visible.is_some_and(|visible| {
        let mut names = visible.text().split(',');
        names.any(|name| Uuid::new(name.trim()).is_mig_instance())
    })
}

/// The allocator's backend, if it isn't PyTorch's native one.
fn backend<'a>(inputs: &RemedyInputs<'a>) -> Option<&'a str> {
    inputs
        .hello()?
        .backend
        .as_deref()
        .filter(|backend| *backend != "native")
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let draft = expandable(offering.command, offering.recognized, offering.inputs);
    let cost = match offering.inputs.launch.torch {
        Some(_) => [
            "same numerics",
            "sharing tensors between processes may fail",
        ],
        None => [
            "same numerics",
            "needs torch 2.1 or later (version unknown here)",
        ],
    };
    Some(Proposal::new(draft, cost))
}

/// Reports segments that are still not expandable.
fn verify(hello: &Hello, _: Option<&Uuid>) -> Option<String> {
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
