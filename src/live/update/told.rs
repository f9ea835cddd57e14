//! What others are told of a session: somebody who is elsewhere, when there is news, and whoever asks its
//! keeper.

use super::{ScreenState, SessionController};
use crate::collect::probe_socket::ProbeRequest;
use crate::diagnosis::Certainty;
use crate::live::message::SessionEffect;
use crate::live::news::NewsInputs;
use crate::live::phase::{Departure, PhaseName};
use crate::live::session::summary::{Activity, Summary};
use crate::report::news::{NewsKind, WhatFollows};
use crate::state::{RankState, Run, RunOutcome};
use crate::supervise::KeeperOrder;
use std::time::Duration;

/// How often changed figures are published; a change of activity is published at once.
const FIGURES: Duration = Duration::from_secs(2);

impl SessionController {
    pub(super) fn tell_news(&mut self) {
        let leak = self.session.take_leak();
        let is_certain = leak
            .as_ref()
            .map(|leak| leak.certainty == Certainty::Certain);
        if is_certain == Some(false) {
            self.ask_ranks(&ProbeRequest::Trace, |_| true);
        }
        if self.session.take_full_soon() || is_certain == Some(true) {
            let has_no_name = |rank: &RankState| {
                let found = rank.retainers.as_ref();
                !found.is_some_and(|(_, found)| found.has_name())
            };
            self.ask_ranks(&ProbeRequest::Retainers, has_no_name);
        }
        // Of what only grows so far nobody elsewhere is told.
        let leak = leak.filter(|leak| leak.certainty == Certainty::Certain);
        let over = self.session.take_leak_over();
        if !self.place.tells_news {
            return;
        }
        let follows = self.what_follows();
        let kind = self.session.handover.told.due(&NewsInputs {
            state: &self.session.state,
            follows,
            leak: leak.is_some(),
            leak_over: over.is_some(),
            expects_ooms: self.policy.expects_ooms(),
            scaled: self.session.handover.config.scaled,
        });
        let (Some(kind), Some(follows)) = (kind, follows) else {
            return;
        };
        let growth = match kind {
            NewsKind::Leak => leak,
            NewsKind::LeakOver => over,
            NewsKind::Oom | NewsKind::End => None,
        };
        self.session.push(SessionEffect::Tell {
            kind,
            follows,
            growth: growth.map(Box::new),
        });
        // The next front is not to tell it again.
        self.session.hand_over();
    }

    /// Asks the processes of the run that are here. Which lines grow is known from two traced steps, and the next one may be
    /// minutes away. Who keeps the memory takes a search that the training waits for, usually well below a second: only a
    /// run that is about to end by its growth is held up for that, and no longer once there is a name. Memory runs out in the
    /// middle of a step, when there is more to search and often no time.
    fn ask_ranks(&mut self, request: &ProbeRequest, is_asked: impl Fn(&RankState) -> bool) {
        let run = self.session.state.run();
        let ranks = run.into_iter().flat_map(Run::alive);
        let asked = ranks.filter(|rank| rank.hello.pid.is_here() && is_asked(rank));
        for pid in asked.map(|rank| rank.hello.pid).collect::<Vec<_>>() {
            self.session
                .push(SessionEffect::AskProbe(pid, request.clone()));
        }
    }

    /// `None` while that is not decided, or is another front's to tell.
    fn what_follows(&self) -> Option<WhatFollows> {
        match self.phase.name() {
            PhaseName::Starting | PhaseName::Running => Some(WhatFollows::Runs),
            PhaseName::Settling | PhaseName::Deciding => None,
            PhaseName::Asking => Some(WhatFollows::Waits),
            PhaseName::Sweeping | PhaseName::Proving | PhaseName::Gating | PhaseName::Preparing => {
                Some(WhatFollows::Relaunches)
            }
            PhaseName::Leaving(Departure::Ended) => Some(WhatFollows::Ends),
            PhaseName::Leaving(Departure::Released | Departure::Superseded) => None,
        }
    }

    /// Gives the keeper the public summary, if it has changed.
    pub(super) fn describe(&mut self) {
        let now = self.session.now;
        let activity = match self.phase.name() {
            PhaseName::Starting => Activity::Starting,
            PhaseName::Running if self.session.waiting().is_some() => Activity::Stopping,
            PhaseName::Running => Activity::Running,
            PhaseName::Deciding | PhaseName::Asking => {
                match self.session.state.run().map(|run| run.outcome()) {
                    Some(RunOutcome::OutOfMemory) | None => Activity::Waiting,
                    Some(_) => Activity::Held,
                }
            }
            PhaseName::Sweeping | PhaseName::Proving | PhaseName::Gating | PhaseName::Preparing => {
                Activity::Relaunching
            }
            PhaseName::Settling | PhaseName::Leaving(_) => Activity::Ending,
        };
        let attached = self.screen == ScreenState::Up;
        let said = self.described.as_ref();
        let same = said.is_some_and(|(at, said)| {
            (said.activity, said.attached) == (activity, attached) && now < *at + FIGURES
        });
        if same {
            return;
        }
        let summary = Summary::new(
            &self.session.state,
            &self.session.findings,
            activity,
            attached,
        );
        if said.is_none_or(|(_, said)| *said != summary) {
            self.session.order(KeeperOrder::Describe(summary.text()));
        }
        self.described = Some((now, summary));
    }
}
