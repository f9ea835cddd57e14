//! Tells somebody who is elsewhere, once there is news.

use super::Front;
use crate::event::Level;
use crate::live::link::{Departure, SessionPhase};
use crate::live::news::NewsInputs;
use crate::report::news::{News, NewsKind, WhatFollows};

impl Front {
    pub(super) fn tell_news(&mut self) {
        for problem in self.messenger.problems() {
            self.session.note(Level::Warning, problem);
        }
        let leak = self.session.take_leak();
        if !self.messenger.is_wanted() {
            return;
        }
        let follows = self.what_follows();
        let kind = self.session.handover.told.due(&NewsInputs {
            state: &self.session.state,
            follows,
            leak: leak.is_some(),
            expects_ooms: self.policy.expects_ooms(),
            scaled: self.session.handover.scaled,
        });
        let (Some(kind), Some(follows)) = (kind, follows) else {
            return;
        };
        let news = News {
            kind,
            state: &self.session.state,
            finding: match kind {
                NewsKind::Oom => self.session.findings.first(),
                NewsKind::Leak => leak.as_ref(),
                NewsKind::End => None,
            },
            follows,
            host: self.messenger.host(),
            recording: self.session.recording(),
        };
        if let Some(bytes) = self.messenger.send(&news) {
            self.display.alert(&bytes, follows == WhatFollows::Runs);
        }
        // The next front is not to tell it again.
        self.link.hand_over(&self.session.handover);
    }

    /// `None` while that is not decided, or is another front's to tell.
    fn what_follows(&self) -> Option<WhatFollows> {
        match self.link.phase() {
            SessionPhase::Starting | SessionPhase::Running { .. } => Some(WhatFollows::Runs),
            SessionPhase::Settling { .. } => None,
            SessionPhase::Asking {
                decide_by: Some(_), ..
            } => None,
            SessionPhase::Asking { .. } => Some(WhatFollows::Waits),
            SessionPhase::Sweeping { .. }
            | SessionPhase::Proving { .. }
            | SessionPhase::Gating { .. } => Some(WhatFollows::Relaunches),
            SessionPhase::Leaving(_) => match self.link.departure {
                Departure::Ended => Some(WhatFollows::Ends),
                Departure::Released | Departure::Superseded => None,
            },
        }
    }

    /// The user ends the current run, or the session: they need not be told.
    pub(super) fn ended_by_hand(&mut self) {
        let run = self.session.run_number();
        self.session.handover.told.ended_by_hand(run);
    }
}
