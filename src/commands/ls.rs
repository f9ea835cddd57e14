//! `oomph ls`: the sessions that are alive, on this machine and as far as their files tell on others;
//! with `--all` also those that have ended, as their recordings tell them.

mod table;

use super::answer;
use crate::forecast::score::ScoreSheet;
use crate::live::Ending;
use crate::live::display::screen::terminal_size;
use crate::query::{listing, versioned};
use crate::report::score;
use clap::Args;
use table::{ThirdColumn, table};

#[derive(Debug, PartialEq, Args)]
pub(super) struct LsCommand {
    /// Also the sessions that have ended, the latest first
    #[arg(short, long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Lists them on standard output; with `all` also the recorded sessions that have ended, the latest
/// first.
///
/// # Errors
/// It could not be written to.
pub(super) fn run(ls: &LsCommand) -> anyhow::Result<Ending> {
    let LsCommand { all, json } = *ls;
    let (rows, scores) = listing::rows(if all { usize::MAX } else { 0 });
    let third = match all {
        true => ThirdColumn::Took,
        false => ThirdColumn::Screen,
    };
    let text = if json {
        let mut text = serde_json::to_string_pretty(&versioned(serde_json::to_value(&rows)?))?;
        text.push('\n');
        text
    } else if rows.is_empty() {
        match all {
            true => "you have no recorded session on this machine\n".into(),
            false => {
                "you have no running session on this machine; `oomph ls --all` lists those that have ended\n"
                    .into()
            }
        }
    } else {
        let width = terminal_size().map(|size| usize::from(size.cols));
        let kept = score::summary(&ScoreSheet::new(&scores));
        let kept = kept.map_or(String::new(), |words| format!("\npredictions: {words}\n"));
        table(&rows, third, width) + &kept
    };
    answer(&text)
}
