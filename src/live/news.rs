//! Being told: what somebody who is elsewhere hears of a session, when, and how. An out-of-memory, the
//! first warning of a leak and an end are news, each once a run, also where one front follows another. It
//! goes out by the terminal, and by the command that the user has named for it.

use crate::config::UserSetting;
use crate::report::news::{News, NewsKind, WhatFollows};
use crate::state::{Run, RunOutcome, State};
use crate::supervise::NotifyHooks;
use crate::ui::terminal::Alert;
use crate::units::{Moment, RunNumber};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;

/// How long the user's command may take: a mail server that is slow to answer.
const LIMIT: Duration = Duration::from_secs(30);

/// How long an end that nobody watches waits for it. It is often the end of a job or of a container,
/// which ends the command as well.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Messenger {
    alert: Option<Alert>,
    notify: Option<NotifyHooks>,
    host: String,
    in_tmux: bool,
}

impl Messenger {
    /// `tell` hears what goes wrong with the user's command.
    pub(crate) fn new(
        alert: Option<Alert>,
        notify: Option<&UserSetting>,
        scaled: u32,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> Messenger {
        let limit = LIMIT / scaled.max(1);
        let hooks = |setting: &UserSetting| {
            let place = setting.place();
            NotifyHooks::new(setting.value.clone(), limit, move |problem| {
                tell(format!("{place}: the notify command {problem}"));
            })
        };
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Messenger {
            alert,
            notify: notify.map(hooks),
            host: host.trim().into(),
            in_tmux: std::env::var_os("TMUX").is_some_and(|value| !value.is_empty()),
        }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether anybody wants to be told.
    pub(crate) fn is_wanted(&self) -> bool {
        self.alert.is_some() || self.notify.is_some()
    }

    /// Gives it to the user's command; returns the bytes for the terminal.
    pub(crate) fn send(&self, news: &News<'_>) -> Option<Vec<u8>> {
        if let Some(hooks) = &self.notify {
            hooks.start(news.json() + "\n");
        }
        let alert = self.alert?;
        Some(alert.sequence(&news.title(), &news.text(), self.in_tmux))
    }

    /// At the end: lets the command end, if nobody waits for us.
    pub(crate) fn finish(&self) {
        if let Some(hooks) = &self.notify {
            hooks.wait(PATIENCE);
        }
    }
}

/// The end of a shorter session is no news: whoever started it is still there.
const LONG: Duration = Duration::from_secs(60);

/// A process that goes on for this long after an OOM, without a step, hangs in it: its peers wait for
/// it, or it waits for them.
const HANGS: Duration = Duration::from_secs(10);

/// What was told already, by the run that it was about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentNotifications {
    oom: Option<RunNumber>,
    leak: Option<RunNumber>,
    #[serde(default)]
    leak_over: Option<RunNumber>,
    end: Option<RunNumber>,
    /// The user has ended it.
    #[serde(default)]
    by_hand: Option<RunNumber>,
}

/// What the decision rests on.
pub(crate) struct NewsInputs<'a> {
    pub state: &'a State,
    /// `None` while that is not decided.
    pub follows: Option<WhatFollows>,
    /// A leak was just warned of.
    pub leak: bool,
    /// What was called one has stopped growing.
    pub leak_over: bool,
    /// The session runs out of memory on purpose.
    pub expects_ooms: bool,
    /// The divisor of all timeouts.
    pub scaled: u32,
}

impl SentNotifications {
    /// The user has ended the current run: no news to them.
    pub(crate) fn ended_by_hand(&mut self, run: RunNumber) {
        self.by_hand = Some(run);
    }

    /// What is to be told now; it counts as told.
    pub(crate) fn due(&mut self, inputs: &NewsInputs<'_>) -> Option<NewsKind> {
        let (run, follows) = (inputs.state.run()?, inputs.follows?);
        let (number, now) = (Some(run.number), inputs.state.now);
        let scaled = |duration: Duration| duration / inputs.scaled.max(1);
        let is_last = match follows {
            WhatFollows::Waits | WhatFollows::Ends => true,
            WhatFollows::Runs | WhatFollows::Relaunches => false,
        };
        if !inputs.expects_ooms {
            if self.oom != number && ran_out(run, follows, now, scaled(HANGS)) {
                self.oom = number;
                if is_last {
                    self.end = number;
                }
                return Some(NewsKind::Oom);
            }
            if inputs.leak && self.leak != number {
                self.leak = number;
                return Some(NewsKind::Leak);
            }
            if inputs.leak_over && self.leak == number && self.leak_over != number {
                self.leak_over = number;
                return Some(NewsKind::LeakOver);
            }
        }
        let is_long = now.since(Moment::ZERO) >= scaled(LONG);
        if is_last && is_long && self.end != number && self.by_hand != number {
            self.end = number;
            return Some(NewsKind::End);
        }
        None
    }
}

fn ran_out(run: &Run, follows: WhatFollows, now: Moment, hangs: Duration) -> bool {
    match follows {
        WhatFollows::Runs => {
            let oom = run.oom().filter(|_| run.ended.is_none());
            oom.is_some_and(|oom| now.since(oom.at) >= hangs)
        }
        WhatFollows::Waits | WhatFollows::Relaunches | WhatFollows::Ends => {
            run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, StopRequested};
    use crate::oom::OomReport;
    use crate::state::tests::staged::{StagedSession, exited, gib, hello, record, started, step};
    use NewsKind::{End, Leak, LeakOver, Oom};
    use WhatFollows::{Ends, Relaunches, Runs, Waits};

    #[derive(Default)]
    struct ToldSession {
        told: SentNotifications,
        scene: StagedSession,
        expects_ooms: bool,
    }

    impl ToldSession {
        fn new() -> ToldSession {
            let mut watched = ToldSession::default();
            watched.add(0.0, started(1, 100, "python train.py"));
            watched
        }

        fn add(&mut self, at: f64, what: EventKind) {
            self.scene.add(at, what);
        }

        fn oom(&mut self, at: f64) {
            self.add(at, EventKind::OomText(OomReport::default()));
        }

        fn exit(&mut self, at: f64, run: u32, code: i32) {
            self.add(at, exited(run, Exit::Code(code)));
        }

        fn due(&mut self, follows: Option<WhatFollows>, leak: bool) -> Option<NewsKind> {
            self.told.due(&NewsInputs {
                state: &self.scene.state,
                follows,
                leak,
                leak_over: false,
                expects_ooms: self.expects_ooms,
                scaled: 1,
            })
        }

        fn due_over(&mut self) -> Option<NewsKind> {
            self.told.due(&NewsInputs {
                state: &self.scene.state,
                follows: Some(Runs),
                leak: false,
                leak_over: true,
                expects_ooms: self.expects_ooms,
                scaled: 1,
            })
        }
    }

    #[test]
    fn an_oom_is_told_once_a_run_and_its_end_is_not_told_again() {
        let mut it = ToldSession::new();
        it.oom(100.0);
        assert_eq!(it.due(Some(Runs), false), None, "it may be caught");
        it.exit(101.0, 1, 1);
        assert_eq!(it.due(None, false), None, "not decided yet");
        assert_eq!(it.due(Some(Relaunches), false), Some(Oom));
        assert_eq!(it.due(Some(Relaunches), false), None);
        it.add(110.0, started(2, 200, "python train.py"));
        assert_eq!(it.due(Some(Runs), false), None);
        it.oom(120.0);
        it.exit(121.0, 2, 1);
        assert_eq!(it.due(Some(Waits), false), Some(Oom));
        it.add(500.0, EventKind::Unknown);
        assert_eq!(it.due(Some(Ends), false), None, "q at the dialog");
    }

    #[test]
    fn one_that_hangs_in_an_oom_is_told_before_it_ends() {
        let mut it = ToldSession::new();
        it.oom(5.0);
        it.add(16.0, EventKind::Unknown);
        assert_eq!(it.due(Some(Runs), false), Some(Oom));
        it.add(900.0, EventKind::Unknown);
        assert_eq!(it.due(Some(Runs), false), None);
        it.exit(1800.0, 1, 1);
        assert_eq!(it.due(Some(Ends), false), Some(End));
    }

    #[test]
    fn one_that_was_survived_is_not_told() {
        let mut it = ToldSession::new();
        it.add(1.0, hello(1, 100, None));
        let oom = record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0));
        it.add(5.0, EventKind::Oom(oom));
        it.add(6.0, step(100, 1, gib(3.0), gib(9.0)));
        it.add(60.0, EventKind::Unknown);
        assert_eq!(it.due(Some(Runs), false), None);
    }

    #[test]
    fn an_end_is_told_after_a_minute_unless_the_user_ended_it() {
        let mut it = ToldSession::new();
        it.exit(59.0, 1, 0);
        assert_eq!(it.due(Some(Ends), false), None);
        let mut it = ToldSession::new();
        it.exit(61.0, 1, 3);
        assert_eq!(it.due(Some(Relaunches), false), None);
        assert_eq!(it.due(Some(Waits), false), Some(End));
        assert_eq!(it.due(Some(Ends), false), None, "--hold, then q");
        let mut it = ToldSession::new();
        let stop = StopRequested {
            signal: 2,
            from_keyboard: true,
        };
        it.add(70.0, EventKind::StopRequested(stop));
        it.told.ended_by_hand(RunNumber(1));
        it.exit(71.0, 1, 1);
        assert_eq!(it.due(Some(Ends), false), None);
    }

    #[test]
    fn a_leak_is_told_once_and_nothing_of_a_search_but_its_end() {
        let mut it = ToldSession::new();
        assert_eq!(it.due(Some(Runs), true), Some(Leak));
        assert_eq!(it.due(Some(Runs), true), None);
        assert_eq!(it.due_over(), Some(LeakOver), "and that it was none");
        assert_eq!(it.due_over(), None);
        let mut it = ToldSession::new();
        assert_eq!(it.due_over(), None, "of no leak anybody was told");
        it.expects_ooms = true;
        it.oom(100.0);
        assert_eq!(it.due(Some(Runs), true), None);
        it.exit(101.0, 1, 1);
        assert_eq!(it.due(Some(Relaunches), false), None);
        assert_eq!(it.due(Some(Ends), false), Some(End));
    }
}
