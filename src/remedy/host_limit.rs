//! A larger limit of the host's memory, where the command itself sets it: `srun --mem`, `docker run --memory` and `--shm-size`,
//! `systemd-run -p MemoryMax`. It is raised to what was needed, as far as that is known, and only where it is the limit that was
//! reached and can be raised: not within a SLURM job that has no more, nor beyond the RAM of this machine.

use super::inputs::RemedyInputs;
use super::loader::is_of_host;
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::ram::RamAtOom;
use super::verify::RejectedThing;
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::{Cause, Help};
use crate::event::{HostMemory, LimitedBy};
use crate::oom::OomSign;
use crate::recognize::argument::{InsertPoint, Value};
use crate::recognize::memory_limit::{LimitedMemory, SizeLimit, SizeStyle};
use crate::recognize::{HostView, Launcher, host_view};
use crate::state::with_headroom;
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::Wait)),
    rejects: Some(RejectedThing::Limit),
    ..RemedySpec::new(
        'M',
        "higher memory limit",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

/// A /dev/shm to ask for where nothing says how much is needed: it takes only what is in it.
const USUAL_SHM: Bytes = Bytes::gib(8);

/// What is asked for at least beyond what was needed: other processes grow, too.
const LEAST_HEADROOM: f64 = 1.05;

/// A reading and an option are of the same limit if they differ by no more than this: systemd and SLURM round to pages.
const SAME: f64 = 0.02;

/// What a raised limit does, and what it needs where that is known.
struct Raised {
    draft: Draft,
    expectation: Expectation,
}

/// A limit of the command that may be the one that was reached.
struct ReachedLimit<'l> {
    limit: &'l SizeLimit,
    size: Bytes,
    /// How often it counts: CPUs or GPUs of an option for each; `None` where that is not known.
    times: Option<u64>,
}

/// What was read of the program's memory when it ran out, and of which machine.
fn seen<'a>(inputs: &RemedyInputs<'a>) -> (HostView, Option<&'a HostMemory>) {
    let host = inputs.forecast.oom.and_then(|oom| oom.host.as_deref());
    let memory = host.and_then(|host| host.memory.as_ref().map(|(_, memory)| memory));
    let run = inputs.forecast.state.and_then(|state| state.run());
    match (run, memory) {
        (Some(run), Some(memory)) => (host_view(&run.command, memory), Some(memory)),
        (None, memory) => (HostView::Whole, memory),
        (Some(_), None) => (HostView::Nothing, None),
    }
}

/// Whether /dev/shm ran out, not RAM.
fn is_of_shm(inputs: &RemedyInputs<'_>) -> bool {
    let Some(oom) = inputs.forecast.oom else {
        return false;
    };
    let by_text = (oom.report.as_ref()).is_some_and(|it| it.sign == Some(OomSign::SharedMemory));
    let is_full = || {
        let host = oom.host.as_deref();
        host.is_some_and(|host| host.full_shm().is_some())
    };
    by_text || seen(inputs).0 == HostView::Whole && is_full()
}

/// All RAM of the machine that the program runs on, where it is this one.
fn ram_of_machine(memory: Option<&HostMemory>) -> Option<Bytes> {
    let memory = memory?;
    match memory.limited_by {
        LimitedBy::Machine => Some(memory.limit),
        LimitedBy::Cgroup | LimitedBy::Slurm | LimitedBy::Container | LimitedBy::Systemd => {
            memory.machine
        }
    }
}

fn is_same(a: Bytes, b: Bytes) -> bool {
    a.0.abs_diff(b.0) as f64 <= b.0 as f64 * SAME
}

/// How often a limit for each CPU or GPU is in the whole one.
fn times(limit: &SizeLimit, size: Bytes, whole: Bytes) -> Option<u64> {
    if limit.what == LimitedMemory::Ram {
        return is_same(size, whole).then_some(1);
    }
    let times = (whole.0 as f64 / size.0 as f64).round();
    (times >= 1.0 && is_same(size.scale(times), whole)).then_some(times as u64)
}

/// The last one of each kind of a launcher: that one counts.
fn in_force(launcher: &Launcher, what: LimitedMemory) -> Option<&SizeLimit> {
    let mut limits = launcher.limits.iter().rev();
    limits.find(|limit| limit.what == what)
}

/// The limit of the command that was reached.
fn reached<'l>(
    limits: &[&'l SizeLimit],
    view: HostView,
    memory: Option<&HostMemory>,
) -> Result<ReachedLimit<'l>, String> {
    let sized = limits
        .iter()
        .filter_map(|limit| Some((*limit, limit.size()?)));
    let sized: Vec<(&SizeLimit, Bytes)> = sized.collect();
    let Some((smallest, size)) = sized.iter().copied().min_by_key(|(_, size)| *size) else {
        let shown = limits.first().map_or(String::new(), |limit| limit.shown());
        return Err(format!("{shown} is no limit that could be raised"));
    };
    let Some(memory) = memory.filter(|_| view != HostView::Nothing) else {
        let is_whole = smallest.what == LimitedMemory::Ram;
        return Ok(ReachedLimit {
            limit: smallest,
            size,
            times: is_whole.then_some(1),
        });
    };
    let mut matching = sized
        .iter()
        .filter_map(|(limit, size)| Some((*limit, *size, times(limit, *size, memory.limit)?)));
    let found = matching.next().map(|(limit, size, times)| ReachedLimit {
        limit,
        size,
        times: Some(times),
    });
    found.ok_or_else(|| {
        format!(
            "RAM ran out at {} ({}), not at {}",
            memory.limit,
            memory.limited_by.words(),
            smallest.shown()
        )
    })
}

/// Why a limit cannot be so high, if it cannot.
fn check_room(
    offering: &Offering<'_>,
    reached: &ReachedLimit<'_>,
    new: Bytes,
    memory: Option<&HostMemory>,
) -> Result<(), String> {
    if reached.limit.style != SizeStyle::Slurm {
        return match ram_of_machine(memory) {
            Some(all) if new > all => Err(format!(
                "{new} would be asked for, and this machine has {all} of RAM"
            )),
            Some(_) | None => Ok(()),
        };
    }
    let launch = &offering.inputs.launch;
    let Some(job) = launch.inherited_value("SLURM_JOB_ID") else {
        return Ok(());
    };
    let number = |name: &str| launch.inherited_value(name)?.trim().parse::<u64>().ok();
    let mib = |name: &str| number(name).filter(|mib| *mib > 0).map(Bytes::mib);
    let of_all = |each: &str, count: &str| Some(Bytes(mib(each)?.0 * number(count)?));
    let allocated = mib("SLURM_MEM_PER_NODE")
        .or_else(|| of_all("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"))
        .or_else(|| of_all("SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"));
    let wanted = reached
        .times
        .map(|times| Bytes(new.0.saturating_mul(times)));
    match (wanted, allocated) {
        (Some(wanted), Some(allocated)) if wanted <= allocated => Ok(()),
        (Some(wanted), Some(allocated)) => Err(format!(
            "SLURM job {job} has {allocated} on a node, and {wanted} would be asked for: the job itself needs more (sbatch or salloc --mem={}G)",
            wanted.as_gib().ceil()
        )),
        (_, None) | (None, _) => Err(format!(
            "it is within SLURM job {job}, and whether that has more memory on a node is not known here: ask for more of the job (sbatch or salloc --mem)"
        )),
    }
}

/// The new size as it is written, and in bytes.
fn raised(limit: &SizeLimit, least: Bytes) -> Result<(String, Bytes), String> {
    let cannot = || format!("{} isn't a size that can be raised", limit.shown());
    let text = limit.raised(least).ok_or_else(cannot)?;
    let size = limit.with(text.clone()).size().ok_or_else(cannot)?;
    Ok((text, size))
}

fn set(draft: &mut Draft, limit: &SizeLimit, new: &str) {
    let value = Value {
        text: &limit.text,
        at: limit.at,
        from: limit.from,
    };
    draft.set(limit.option.trim_end_matches('='), value, new);
}

/// More RAM.
fn more_ram(offering: &Offering<'_>) -> Result<Option<Raised>, String> {
    let launchers = offering.recognized.launchers().iter();
    let kinds = [LimitedMemory::Ram, LimitedMemory::RamOfEach];
    let of_launcher = |one| kinds.iter().filter_map(move |what| in_force(one, *what));
    let limits: Vec<&SizeLimit> = launchers.clone().flat_map(of_launcher).collect();
    if limits.is_empty() {
        return Ok(None);
    }
    if offering.inputs.cause() == Some(Cause::HostLeak) {
        return Err("a leak fills any limit".into());
    }
    let (view, memory) = seen(offering.inputs);
    let reached = reached(&limits, view, memory)?;
    let host = offering
        .inputs
        .forecast
        .oom
        .and_then(|oom| oom.host.as_deref());
    let needed = host.filter(|_| view != HostView::Nothing);
    let needed = needed.and_then(|host| host.needed_ram());
    let times = reached.times.unwrap_or(1);
    // Of what was not seen only this is known, that it was more than the limit. Where there is no room for a margin, less will do.
    let amounts = match needed {
        Some(needed) => [with_headroom(needed), needed.scale(LEAST_HEADROOM)],
        None => [reached.size.scale(2.0), with_headroom(reached.size)],
    };
    let mut tried = amounts.map(|amount| {
        let (text, new) = raised(reached.limit, Bytes(amount.0.div_ceil(times)))?;
        check_room(offering, &reached, new, memory)?;
        Ok::<_, String>((text, new))
    });
    tried.sort_by_key(Result::is_err);
    let [best, _] = tried;
    let (text, new) = best?;
    let mut draft = Draft::default();
    set(&mut draft, reached.limit, &text);
    // Docker refuses less of both together than of RAM alone; what is swap stays as it is.
    let both = launchers
        .filter(|one| one.limits.contains(reached.limit))
        .find_map(|one| in_force(one, LimitedMemory::RamAndSwap));
    if let Some((both, size)) = both.and_then(|both| Some((both, both.size()?))) {
        let (text, _) = raised(both, new + (size - reached.size))?;
        set(&mut draft, both, &text);
    }
    let ram = RamAtOom::of(offering.inputs);
    let expectation = match (ram, needed) {
        (Some(ram), Some(needed)) => ram.with_limit(Bytes(new.0.saturating_mul(times)), needed),
        _ => Expectation::unknown(format!(
            "{} was not enough, and what it needs cannot be seen from here",
            reached.limit.shown()
        )),
    };
    Ok(Some(Raised { draft, expectation }))
}

/// Why the size of /dev/shm is not the launcher's to set, if it isn't.
fn shm_of_others(offering: &Offering<'_>, launcher: &Launcher) -> Option<String> {
    let words = &offering.command.argv[launcher.words.clone()];
    let texts: Vec<&str> = words.iter().filter_map(|word| word.as_str()).collect();
    let is_shared =
        texts.contains(&"--ipc=host") || texts.windows(2).any(|pair| pair == ["--ipc", "host"]);
    if is_shared {
        return Some("with --ipc=host the container has the /dev/shm of this machine".into());
    }
    let mounted = texts.iter().find(|text| text.contains("/dev/shm"))?;
    Some(format!("/dev/shm is mounted: {mounted}"))
}

/// A larger /dev/shm.
fn more_shm(offering: &Offering<'_>) -> Result<Option<Raised>, String> {
    let launchers = offering.recognized.launchers().iter();
    let Some((launcher, option)) = launchers
        .rev()
        .find_map(|launcher| Some((launcher, launcher.shm_option?)))
    else {
        return Ok(None);
    };
    if let Some(why) = shm_of_others(offering, launcher) {
        return Err(why);
    }
    let (view, memory) = seen(offering.inputs);
    let oom = offering.inputs.forecast.oom;
    let typed = in_force(launcher, LimitedMemory::Shm);
    let old = typed.and_then(SizeLimit::size);
    let size_of_batches = oom.and_then(|oom| {
        let requested = oom.requested().or(memory?.batch)?;
        let waiting = offering.loader().map_or(1, |loader| loader.waiting());
        Some(Bytes(requested.0.saturating_mul(waiting)))
    });
    let by_reading = oom.filter(|_| view == HostView::Whole).and_then(|oom| {
        let host = oom.host.as_deref()?;
        Some(host.needed_shm(host.full_shm()?, oom.requested(), offering.loader()))
    });
    let needed = by_reading
        .or(size_of_batches)
        .map(|needed| needed.max(old.unwrap_or_default()));
    let least = match needed {
        Some(needed) => with_headroom(needed),
        None => USUAL_SHM.max(old.map_or(Bytes::ZERO, |old| old.scale(2.0))),
    };
    let plain = SizeLimit {
        option: option.into(),
        what: LimitedMemory::Shm,
        style: SizeStyle::Docker,
        at: 0,
        from: 0,
        text: if least < Bytes::gib(1) { "0m" } else { "0g" }.into(),
    };
    let (text, new) = raised(typed.unwrap_or(&plain), least)?;
    if let Some(ram) = in_force(launcher, LimitedMemory::Ram)
        && ram.size().is_some_and(|ram| new >= ram)
    {
        return Err(format!(
            "{new} of /dev/shm would be asked for, which counts against {}",
            ram.shown()
        ));
    }
    if let Some(all) = ram_of_machine(memory).filter(|all| new >= *all) {
        return Err(format!(
            "{new} of /dev/shm would be asked for, and this machine has {all} of RAM"
        ));
    }
    let mut draft = Draft::default();
    match typed {
        Some(limit) => set(&mut draft, limit, &text),
        None => draft.insert(
            InsertPoint::Before(launcher.options),
            &[format!("{option}={text}")],
        ),
    }
    let expectation = Expectation::unknown(match needed {
        Some(needed) => format!("at least {needed} of /dev/shm was needed"),
        None => "what /dev/shm needs cannot be seen from here".into(),
    });
    Ok(Some(Raised { draft, expectation }))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let cause = offering.inputs.cause();
    if !is_of_host(cause) || cause == Some(Cause::OpenFiles) {
        return None;
    }
    let of_shm = is_of_shm(offering.inputs);
    let found = match of_shm {
        true => more_shm(offering),
        false => more_ram(offering),
    };
    let cost = ["same numerics", "takes more of the machine's RAM"];
    let proposal = match found {
        Ok(raised) => {
            let Raised { draft, expectation } = raised?;
            Proposal::new(Ok(draft), cost).expecting(expectation)
        }
        Err(why) => Proposal::new(Err(why), cost),
    };
    Some(Proposal {
        title: of_shm.then(|| "larger /dev/shm".into()),
        ..proposal
    })
}
