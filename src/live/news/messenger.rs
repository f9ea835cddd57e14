//! How news goes out: by the terminal, and by the command that the user has named for it.

use crate::config::{UserSetting, UserSettings};
use crate::report::news::News;
use crate::supervise::NotifyHooks;
use crate::ui::terminal::Alert;
use std::fs;
use std::time::Duration;

/// How long the user's command may take: a mail server that is slow to answer.
const LIMIT: Duration = Duration::from_secs(30);

/// How long an end that nobody watches waits for it. It is often the end of a job or of a container,
/// which ends the command as well.
const PATIENCE: Duration = Duration::from_secs(5);

pub(in crate::live) struct Messenger {
    alert: Option<Alert>,
    /// The command, and where it is set.
    notify: Option<(NotifyHooks, String)>,
    host: String,
    in_tmux: bool,
}

impl Messenger {
    /// By the option, else by the settings; also returns what is wrong with those.
    pub(in crate::live) fn new(
        alert: Option<Alert>,
        settings: &UserSettings,
        scaled: u32,
    ) -> (Messenger, Option<String>) {
        let named = settings.alert.as_ref().map(|setting| {
            Alert::of_name(&setting.value).map_err(|mend| format!("{}: {mend}", setting.place()))
        });
        let (set, problem) = match named {
            Some(Ok(alert)) => (Some(alert), None),
            Some(Err(problem)) => (None, Some(problem)),
            None => (None, None),
        };
        let limit = LIMIT / scaled.max(1);
        let hooks = |setting: &UserSetting| {
            let hooks = NotifyHooks::new(setting.value.clone(), limit);
            (hooks, setting.place())
        };
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let messenger = Messenger {
            alert: alert.or(set),
            notify: settings.notify.as_ref().map(hooks),
            host: host.trim().into(),
            in_tmux: std::env::var_os("TMUX").is_some_and(|value| !value.is_empty()),
        };
        (messenger, problem)
    }

    pub(in crate::live) fn host(&self) -> &str {
        &self.host
    }

    /// Whether anybody wants to be told.
    pub(in crate::live) fn is_wanted(&self) -> bool {
        self.alert.is_some() || self.notify.is_some()
    }

    /// Gives it to the user's command; returns the bytes for the terminal.
    pub(in crate::live) fn send(&self, news: &News<'_>) -> Option<Vec<u8>> {
        if let Some((hooks, _)) = &self.notify {
            hooks.start(news.json() + "\n");
        }
        let alert = self.alert?;
        Some(alert.sequence(&news.title(), &news.text(), self.in_tmux))
    }

    /// What went wrong since this was asked last, in words.
    pub(in crate::live) fn problems(&self) -> Vec<String> {
        let Some((hooks, place)) = &self.notify else {
            return Vec::new();
        };
        let problems = hooks.problems().into_iter();
        problems
            .map(|problem| format!("{place}: the notify command {problem}"))
            .collect()
    }

    /// At the end: lets the command end, if nobody waits for us.
    pub(in crate::live) fn finish(&self) {
        if let Some((hooks, _)) = &self.notify {
            hooks.wait(PATIENCE);
        }
    }
}
