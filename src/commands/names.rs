//! The sessions that an argument may name, for the shells' completions. It changes nothing and waits
//! for nobody for long: a key was pressed.

use crate::cli::NamedSessions;
use crate::live::print;
use crate::live::session::summary::Summary;
use crate::session::{self, BaseDirs, Life};
use crate::supervise;
use std::time::Duration;

/// How long a keeper may take to say what it runs.
const PATIENCE: Duration = Duration::from_millis(200);

/// Ended sessions that are named, latest first.
const ENDED: usize = 20;

/// Their IDs, each with a few words.
pub(super) fn session_names(which: NamedSessions) -> Vec<(String, String)> {
    let places = BaseDirs::of_this_user();
    let running = session::find(&places)
        .into_iter()
        .filter(|found| found.life != Life::Dead && found.socket().exists());
    let mut names: Vec<(String, String)> = running
        .map(|found| {
            let status = supervise::look(&found.socket(), PATIENCE).ok();
            let summary: Option<Summary> = status
                .and_then(|status| status.described)
                .and_then(|text| serde_json::from_str(&text).ok());
            let about = summary.map_or("running".into(), |summary| {
                format!("{}: {}", summary.activity.word(), summary.command)
            });
            (found.id, print::line(&about).into_owned())
        })
        .collect();
    if which == NamedSessions::All {
        let ended: Vec<String> = session::list(&places)
            .into_iter()
            .map(|stored| stored.id)
            .filter(|id| names.iter().all(|(name, _)| name != id))
            .take(ENDED)
            .collect();
        names.extend(ended.into_iter().map(|id| (id, "ended".into())));
    }
    names
}
