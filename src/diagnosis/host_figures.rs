//! Who held the host's memory when it ran out, by the last reading before that. Each cause that names somebody asks here, so that
//! one of them does. Whoever holds most is named for certain; where nobody does, whoever grew most, as likely; where the figures
//! do not tell that either, nobody.

use super::finding::with_figures;
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, Certainty, Finding, Phrase};
use crate::event::{
    HostActivity, HostGrowthSpot, HostMemory, HostProcess, LimitedBy, LoaderSettings, RoleUse,
    ShmUse,
};
use crate::oom::{OomKind, OomSign};
use crate::recognize::{HostView, host_view};
use crate::state::{HostAtOom, HostLeak, HostOomSource, with_headroom};
use crate::units::{Bytes, Pid};
use std::time::Duration;

/// Whoever holds this share of what is used is named.
const MOST_OF_IT: f64 = 0.5;

/// Where nobody held most, whoever grew by this share of what all together grew by is named, if that is this share of the limit.
const MOST_OF_GROWTH: f64 = 0.5;
const GREW_MUCH: f64 = 0.1;

/// An allocation that is refused below this share of the limit is refused for its own size.
const NEARLY_FULL: f64 = 0.7;

/// Figures of processes that share pages may count them twice. Up to this much more than what is used says nothing against them.
const COUNTED_TWICE: f64 = 1.15;

/// A reading that is older says nothing of the end.
const STALE: Duration = Duration::from_secs(70);

/// Whoever has copied less than this share of what is used has not filled it by that.
const COPIED: f64 = 0.3;

/// A place where a process grew fast counts for so long, if it then held this share of what is used.
const LATE: Duration = Duration::from_secs(30);
const MUCH: f64 = 0.2;

/// What the rules need to know, if the host's memory ran out and was read before.
pub(super) struct HostFigures<'a> {
    case: &'a OomContext<'a>,
    host: &'a HostAtOom,
    pub memory: &'a HostMemory,
    /// The program's own /dev/shm.
    shm: Option<ShmUse>,
    age: Duration,
    named: Option<(Holder<'a>, WhyNamed)>,
}

/// Why somebody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhyNamed {
    /// Holds most of it.
    Most,
    /// Workers and the batches that they pass on held most of it together; the larger of both.
    Together,
    /// Grew most, at the end.
    Grew,
}

/// Who filled it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Holder<'a> {
    /// Locked in RAM by the program.
    Pinned(Bytes),
    /// Nothing more fits into /dev/shm.
    FullShm(ShmUse),
    /// Shared memory, within the limit of all.
    Shared(Bytes),
    /// Workers together.
    Workers(RoleUse),
    /// One process that is no worker.
    Process(&'a HostProcess),
}

impl<'a> HostFigures<'a> {
    pub fn of(case: &'a OomContext<'a>) -> Option<HostFigures<'a>> {
        let host = case
            .oom
            .host
            .as_deref()
            .filter(|_| case.kind == OomKind::HostOom)?;
        let (at, memory) = host.memory.as_ref()?;
        let age = case.oom.at.since(*at);
        let shm = match host_view_of(case, memory) {
            HostView::Whole => memory.shm,
            HostView::ButShm => None,
            HostView::Nothing => return None,
        };
        let mut figures = HostFigures {
            case,
            host,
            memory,
            shm,
            age,
            named: None,
        };
        if figures.is_refused_early() {
            return (age <= STALE).then_some(figures);
        }
        let most = figures.most().map(|holder| (holder, WhyNamed::Most));
        let together = || {
            figures
                .together()
                .map(|holder| (holder, WhyNamed::Together))
        };
        let grower = || figures.grower().map(|holder| (holder, WhyNamed::Grew));
        figures.named = most.or_else(together).or_else(grower);
        (age <= STALE).then_some(figures)
    }

    /// Whether an allocation was refused long before all was in use: it was too large, whoever holds what there is.
    fn is_refused_early(&self) -> bool {
        let is_refused = matches!(
            self.case.host_sign(),
            Some(OomSign::Refused | OomSign::Fork | OomSign::Mappings)
        );
        is_refused && self.memory.used < self.memory.limit.scale(NEARLY_FULL)
    }

    pub fn holder(&self) -> Option<Holder<'a>> {
        self.named.map(|(holder, _)| holder)
    }

    /// How sure it is that this one filled it.
    pub fn certainty(&self) -> Certainty {
        match self.named {
            Some((_, WhyNamed::Most)) => Certainty::Certain,
            Some((_, WhyNamed::Together | WhyNamed::Grew)) | None => Certainty::Likely,
        }
    }

    /// Workers and what they have fetched, where neither is most of it and both are.
    fn together(&self) -> Option<Holder<'a>> {
        let workers = self.workers().filter(|workers| workers.exact)?;
        let shared = self.memory.shared?;
        let is_most = workers.held + shared >= self.memory.used.scale(MOST_OF_IT);
        // Of two parts the larger one, unless it is next to nothing itself.
        is_most.then_some(match shared >= workers.held {
            true => Holder::Shared(shared),
            false => Holder::Workers(workers),
        })
    }

    /// Whoever grew most in the last minute, where that is most of all growth.
    fn grower(&self) -> Option<Holder<'a>> {
        let least =
            (self.host.all_grew.scale(MOST_OF_GROWTH)).max(self.memory.limit.scale(GREW_MUCH));
        let role = self.host.grew.filter(|grew| grew.by >= least);
        let shared = self.host.shared_grew.map(|(by, _)| by);
        let shared = shared.filter(|by| *by >= least);
        match (role, shared) {
            (Some(role), shared) if shared.is_none_or(|by| role.by >= by) => {
                if role.role.is_worker() {
                    return self.workers().map(Holder::Workers);
                }
                let mut of_role = self.memory.processes.iter();
                of_role
                    .find(|process| process.role == role.role)
                    .map(Holder::Process)
            }
            (_, Some(_)) => self.memory.shared.map(Holder::Shared),
            (_, None) => None,
        }
    }

    /// Who held most of it.
    fn most(&self) -> Option<Holder<'a>> {
        let memory = self.memory;
        let used = memory.used;
        let is_most = |bytes: Bytes| bytes >= used.scale(MOST_OF_IT);
        if let Some(shm) = self.host.full_shm().filter(|_| self.shm.is_some()) {
            return Some(Holder::FullShm(shm));
        }
        let locked: Bytes = memory
            .processes
            .iter()
            .filter_map(|process| process.locked)
            .sum();
        let ranks = self.case.run.into_iter().flat_map(|run| &run.ranks);
        let by_torch: Bytes = ranks.filter_map(|rank| rank.host.pinned).sum();
        let locked = locked.max(by_torch);
        if is_most(locked) {
            return Some(Holder::Pinned(locked));
        }
        if let Some(shared) = memory.shared.filter(|shared| is_most(*shared)) {
            return Some(Holder::Shared(shared));
        }
        let held: Bytes = memory.roles.iter().map(|role| role.held).sum();
        if held > used.scale(COUNTED_TWICE) {
            // Pages that are shared count in each of them.
            return None;
        }
        let workers = self.workers();
        if let Some(workers) = workers.filter(|workers| is_most(workers.held)) {
            return Some(Holder::Workers(workers));
        }
        let mut others = memory
            .processes
            .iter()
            .filter(|process| !process.role.is_worker());
        others
            .find(|process| is_most(process.held()))
            .map(Holder::Process)
    }

    /// A finding with the figures of the last second; without them if there are none.
    pub fn of_or_text(
        case: &OomContext,
        cause: Cause,
        certainty: Certainty,
        what: &str,
    ) -> Finding {
        match HostFigures::of(case) {
            Some(figures) => figures.finding(cause, certainty, what),
            None => {
                let finding = Finding {
                    // The GPU's numbers are irrelevant here.
                    evidence: Vec::new(),
                    ..case.finding(cause, certainty, format!("{what}."))
                };
                finding.says_if(out_of_sight(case))
            }
        }
    }

    /// The DataLoader whose batches may take most.
    pub fn loader(&self) -> Option<&'a LoaderSettings> {
        let loaders = self.case.run?.loaders();
        loaders.max_by_key(|loader| loader.waiting())
    }

    /// "8 workers × prefetch_factor 2: 16 batches may wait in it."
    pub fn queue(&self) -> Option<String> {
        let loader = self.loader()?;
        Some(format!(
            "{} workers × prefetch_factor {}: {} batches may wait in it.",
            loader.workers,
            loader.prefetch.unwrap_or(2),
            loader.waiting()
        ))
    }

    /// What /dev/shm needed, at least.
    pub fn needed_shm(&self, shm: ShmUse) -> Bytes {
        (self.host).needed_shm(shm, self.case.requested, self.loader())
    }

    /// What one kind of process has leaked.
    pub fn leak(&self) -> Option<HostLeak> {
        self.host.leak
    }

    /// What /dev/shm needs for all batches that may wait, where one's size is known.
    pub fn needed_of_batches(&self) -> Option<Bytes> {
        self.case.requested.or(self.memory.batch)?;
        Some(self.needed_shm(self.shm?))
    }

    /// What workers have copied of what they shared, if that is much of what is used.
    pub fn copied(&self) -> Option<Bytes> {
        self.host
            .copied
            .filter(|copied| *copied >= self.memory.used.scale(COPIED))
    }

    /// The last place where a process of the training grew fast, shortly before: of the one that held most, if one did.
    pub fn spot(&self, doing: Option<HostActivity>) -> Option<&'a HostGrowthSpot> {
        let ranks = self.case.run?.ranks.iter();
        let holder = self.holder();
        let is_of_holder = |pid: Pid| match holder {
            Some(Holder::Process(process)) => process.pid == pid,
            Some(_) => false,
            None => true,
        };
        let spots = ranks.filter_map(|rank| {
            let (at, spot) = rank.host.growth.as_ref()?;
            let is_late = self.case.oom.at.since(*at) <= LATE;
            let is_much = spot.held >= self.memory.used.scale(MUCH);
            (is_late && is_much && is_of_holder(rank.hello.pid)).then_some((*at, spot))
        });
        let spots = spots.filter(|(_, spot)| doing.is_none() || spot.doing == doing);
        spots.max_by_key(|(at, _)| *at).map(|(_, spot)| spot)
    }

    /// A finding about what the training did where it grew fast, if it did this.
    pub fn grown_by(&self, doing: HostActivity, cause: Cause, what: &str) -> Option<Finding> {
        let spot = self.spot(Some(doing))?;
        Some(
            self.finding(cause, Certainty::Likely, what)
                .says_if(grown(spot))
                .shows_first([("process", spot.held), ("grew by", spot.grew)])
                .at(spot.line.as_ref()),
        )
    }

    /// The workers of the data's loading, together.
    pub fn workers(&self) -> Option<RoleUse> {
        let roles = self
            .memory
            .roles
            .iter()
            .filter(|role| role.role.is_worker());
        roles.copied().reduce(|all, more| RoleUse {
            role: all.role.max(more.role),
            count: all.count + more.count,
            held: all.held + more.held,
            exact: all.exact && more.exact,
            mapped: all.mapped + more.mapped,
        })
    }

    /// A finding of this cause: its headline, who was killed, and the figures of the last second.
    pub fn finding(&self, cause: Cause, certainty: Certainty, what: &str) -> Finding {
        let memory = self.memory;
        // Nobody saw it end.
        let certainty = match self.host.told_by {
            HostOomSource::BrokenOff => certainty.min(Certainty::Likely),
            HostOomSource::Told | HostOomSource::BusError | HostOomSource::NoSpace => certainty,
        };
        let headline: Phrase =
            with_figures(what, format!("RAM {} of {}", memory.used, memory.limit));
        let finding = Finding {
            // The GPU's numbers are irrelevant here.
            evidence: Vec::new(),
            ..self.case.finding(cause, certainty, headline)
        };
        finding
            .says_if(self.killed())
            .says(self.looked())
            .says_if(self.grew())
            .says_if(self.ground())
            .shows([("RAM used", memory.used), ("RAM limit", memory.limit)])
            .shows(memory.shared.map(|shared| ("shared memory", shared)))
            .shows(memory.cache.map(|cache| ("cache of files", cache)))
            .shows(memory.swap.map(|swap| ("swap", swap)))
    }

    /// "The kernel killed process 4711 (python, 5.1 GiB) at the container's limit."
    fn killed(&self) -> Option<String> {
        let Some(kill) = &self.host.kill else {
            return self.host.told_by.words().map(str::to_string);
        };
        let at = match self.memory.limited_by {
            LimitedBy::Machine => "because no RAM was left on this machine".to_string(),
            by => format!("at {}", by.words()),
        };
        Some(match self.host.victim() {
            Some(process) => format!(
                "The kernel killed process {} ({}, {}) {at}.",
                process.pid, process.name, process.resident
            ),
            None if kill.count == 1 => format!("The kernel killed a process {at}."),
            None => format!("The kernel killed {} processes {at}.", kill.count),
        })
    }

    /// "The last look was 0.4 s before: 4 data loader workers held 22.0 GiB, …"
    fn looked(&self) -> String {
        let roles = self
            .memory
            .roles
            .iter()
            .filter(|role| role.held >= Bytes::mib(16));
        let held: Vec<String> = roles
            .take(3)
            .map(|role| {
                let most = if role.exact { "" } else { "at most " };
                format!("{} held {most}{}", role.role.words(role.count), role.held)
            })
            .collect();
        let shared = self
            .memory
            .shared
            .filter(|shared| *shared >= Bytes::mib(16));
        let shared = shared.map(|shared| format!("shared memory was {shared}"));
        let parts: Vec<String> = held.into_iter().chain(shared).collect();
        let parts = match parts.is_empty() {
            true => String::new(),
            false => format!(": {}", parts.join(", ")),
        };
        format!(
            "The last look was {:.1} s before{parts}.",
            self.age.as_secs_f64()
        )
    }

    /// Why this one is named, where it did not hold most.
    fn ground(&self) -> Option<String> {
        match self.named?.1 {
            WhyNamed::Most => None,
            WhyNamed::Together => {
                let (workers, shared) = (self.workers()?, self.memory.shared?);
                Some(format!(
                    "Nobody alone held half of it; workers and the shared memory that they pass batches on in held {} together.",
                    workers.held + shared
                ))
            }
            WhyNamed::Grew => Some("Nobody held half of it; this one grew most.".into()),
        }
    }

    fn grew(&self) -> Option<String> {
        let roles = self.host.grew.map(|grew| (grew.by, grew.over));
        let (by, over) = roles.max(self.host.shared_grew)?;
        let who = match self.host.grew.filter(|grew| grew.by == by) {
            Some(grew) => grew.role.words(grew.count),
            None => "shared memory".into(),
        };
        (by >= self.memory.limit.scale(0.02)).then(|| {
            let seconds = over.as_secs().max(1);
            format!("In the {seconds} s before that, {who} grew by {by}.")
        })
    }

    /// What to ask for: more than there was.
    pub fn more_memory(&self) -> Phrase {
        let limit = self.memory.limit;
        let needed = self.host.needed_ram().unwrap_or(limit);
        match self.memory.limited_by {
            LimitedBy::Slurm => format!("--mem of the job above {limit}: sbatch --mem={}G", more(needed)),
            LimitedBy::Container => format!(
                "a larger memory limit of the container: docker run --memory={}g, or resources.limits.memory",
                more(needed)
            ),
            LimitedBy::Systemd => format!("MemoryMax={}G of the unit, which has {limit}", more(needed)),
            LimitedBy::Cgroup => format!("a memory limit above {limit}"),
            LimitedBy::Machine => format!("a machine with more than {limit} of RAM"),
        }
        .into()
    }
}

pub(super) const MORE_RAM: &str = "more RAM, or a larger limit for the job or container";

/// An allocation on the host that an error of the program's own tells of, by what its traceback shows it was doing: where
/// nobody saw the host's memory.
pub(super) fn refused_while(
    case: &OomContext<'_>,
    doing: Situation,
    cause: Cause,
    what: &str,
) -> Option<Finding> {
    if case.kind != OomKind::HostOom {
        return None;
    }
    let call = case.stack.doing(doing)?;
    let headline = match case.asked() {
        Some(asked) => with_figures(what, asked),
        None => Phrase::from(format!("{what}.")),
    };
    let finding = case.finding(cause, Certainty::Certain, headline);
    let finding = Finding {
        // The GPU's numbers are irrelevant here.
        evidence: Vec::new(),
        ..finding
    };
    let own = case.stack.own().map(|call| call.source());
    Some(
        finding
            .says(format!("It is {}.", call.shown()))
            .at(own.as_ref()),
    )
}

/// "It grew by 12.0 GiB in 3.1 s at train.py:88 save → serialization.py:850 save."
pub(super) fn grown(spot: &HostGrowthSpot) -> Option<String> {
    let line = spot.line.as_ref()?;
    Some(format!(
        "It grew by {} in {:.1} s at {}.",
        spot.grew,
        spot.over_ms as f64 / 1e3,
        line.path_to(spot.inside.as_ref(), "→")
    ))
}

/// A quarter more, in whole GiB.
pub(super) fn more(limit: Bytes) -> u64 {
    (with_headroom(limit).as_gib().ceil() as u64).max(1)
}

/// What a reading is of, for the command that ran out.
fn host_view_of(case: &OomContext<'_>, memory: &HostMemory) -> HostView {
    case.run
        .map_or(HostView::Whole, |run| host_view(&run.command, memory))
}

/// Why there are no figures, where what starts the program is no parent of it.
pub(super) fn out_of_sight(case: &OomContext<'_>) -> Option<String> {
    let (_, memory) = case.oom.host.as_deref()?.memory.as_ref()?;
    (host_view_of(case, memory) == HostView::Nothing)
        .then(|| "oomph does not see what that command starts as its own processes, so nothing is known of their memory.".to_string())
}
