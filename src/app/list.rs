//! `oomph ls`: the sessions that are alive on this machine.

use super::display::screen::terminal_size;
use super::session::Activity;
use super::sessions::{self, Living};
use super::{Ending, print};
use crate::supervise::{RunStage, SessionStatus};
use crate::units::Bytes;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// One session, as a program reads it.
#[derive(Debug, Serialize)]
struct Row {
    id: String,
    /// `starting`, `running`, `stopping`, `waiting at OOM`, `relaunching`, `ending`, `not answering`.
    state: &'static str,
    /// Whether somebody sees its screen.
    attached: bool,
    /// RFC 3339.
    since: Option<String>,
    run: Option<u32>,
    /// The training's direct child, while a run goes on.
    pid: Option<i32>,
    keeper: Option<i32>,
    devices: Vec<String>,
    /// Bytes.
    peak: Option<u64>,
    steps: Option<u64>,
    /// Secrets masked.
    command: Option<String>,
    recording: Option<String>,
    log: Option<String>,
}

/// Lists them on standard output.
///
/// # Errors
/// It could not be written to.
pub fn list(json: bool) -> anyhow::Result<Ending> {
    let rows: Vec<Row> = sessions::living().iter().map(row).collect();
    let text = if json {
        let mut text = serde_json::to_string_pretty(&rows)?;
        text.push('\n');
        text
    } else if rows.is_empty() {
        "you have no running session on this machine\n".into()
    } else {
        table(&rows, terminal_size().map(|size| usize::from(size.cols)))
    };
    match print::out().write_all(text.as_bytes()) {
        // Who closed the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        done => done?,
    }
    Ok(Ending::Code(0))
}

fn row(living: &Living) -> Row {
    let file = living.found.file.as_ref();
    let summary = living.summary.as_ref();
    let run = (living.status.as_ref()).and_then(|status| status.run.as_ref());
    Row {
        id: living.found.id.clone(),
        state: state(living),
        attached: living.status.as_ref().is_some_and(|status| status.front)
            && summary.is_some_and(|summary| summary.attached),
        since: summary
            .and_then(|summary| Timestamp::from_second(summary.since as i64).ok())
            .map(|since| since.to_string()),
        run: run.map(|run| run.run.0),
        pid: run.and_then(|run| match run.stage {
            RunStage::Running { pid, .. } => Some(pid.0),
            RunStage::Starting | RunStage::Ended { .. } | RunStage::Failed { .. } => None,
        }),
        keeper: file.map(|file| file.keeper.0),
        devices: summary
            .map(|summary| summary.devices.clone())
            .unwrap_or_default(),
        peak: summary.and_then(|summary| summary.peak).map(|peak| peak.0),
        steps: summary.map(|summary| summary.steps),
        command: summary.map(|summary| summary.command.clone()),
        recording: file
            .and_then(|file| file.recording.as_ref())
            .map(|word| word.to_string_lossy()),
        log: file
            .and_then(|file| file.log.as_ref())
            .map(|word| word.to_string_lossy()),
    }
}

/// The front knows best while it is there; without one the keeper knows whether anything runs.
fn state(living: &Living) -> &'static str {
    let Some(status) = &living.status else {
        return "not answering";
    };
    let said = living.summary.as_ref().map(|summary| summary.activity);
    match (status.front, said) {
        (_, Some(Activity::Running)) if status.stopping => "stopping",
        (true, Some(said)) => said.word(),
        (false, _) | (true, None) => without_front(status),
    }
}

fn without_front(status: &SessionStatus) -> &'static str {
    match status.run.as_ref().map(|run| &run.stage) {
        Some(RunStage::Running { .. }) if status.stopping => "stopping",
        Some(RunStage::Running { .. }) => "running",
        None | Some(RunStage::Starting) => "starting",
        Some(RunStage::Ended { .. } | RunStage::Failed { .. }) => "ending",
    }
}

/// Columns of the table, counted from 0; between two of them there are so many blanks.
const DEVICE: usize = 4;
const COMMAND: usize = 6;
const GAP: usize = 2;
/// A command cut to less than this says little.
const LEAST_COMMAND: usize = 30;
const LEAST_DEVICE: usize = 6;

fn table(rows: &[Row], width: Option<usize>) -> String {
    let mut lines = vec![
        [
            "ID", "STATE", "SCREEN", "SINCE", "DEVICE", "PEAK", "COMMAND",
        ]
        .map(String::from),
    ];
    lines.extend(rows.iter().map(|row| {
        [
            row.id.clone(),
            row.state.to_string(),
            if row.attached { "yes" } else { "no" }.into(),
            row.since.as_deref().map(local).unwrap_or_else(unknown),
            devices(&row.devices).unwrap_or_else(unknown),
            row.peak
                .map_or_else(unknown, |peak| Bytes(peak).to_string()),
            row.command.clone().unwrap_or_else(unknown),
        ]
        .map(|cell| print::line(&cell).into_owned())
    }));
    let widest = |lines: &[[String; 7]], column: usize| {
        let widths = lines.iter().map(|line| line[column].width());
        widths.max().unwrap_or(0)
    };
    let before_command = |lines: &[[String; 7]]| -> usize {
        (0..COMMAND).map(|column| widest(lines, column) + GAP).sum()
    };
    // A command that would be cut to nothing stands on a line of its own: it tells sessions apart.
    let apart = width.is_some_and(|width| before_command(&lines) + LEAST_COMMAND > width);
    if apart {
        let all = width.unwrap_or(usize::MAX);
        let others = before_command(&lines) - widest(&lines, DEVICE) - GAP;
        let room = all.saturating_sub(others).max(LEAST_DEVICE);
        for line in &mut lines {
            line[DEVICE] = cut(&line[DEVICE], room);
        }
        lines[0][COMMAND].clear();
    }
    let mut text = String::new();
    for line in &lines {
        let mut shown = String::new();
        for (column, cell) in line.iter().enumerate().take(COMMAND) {
            shown.push_str(cell);
            shown.push_str(&" ".repeat(widest(&lines, column) - cell.width() + GAP));
        }
        let whole = match (apart, line[COMMAND].is_empty()) {
            (true, false) => vec![shown, format!("  {}", line[COMMAND])],
            (true, true) => vec![shown],
            (false, _) => vec![shown + &line[COMMAND]],
        };
        for line in whole {
            text.push_str(&cut(line.trim_end(), width.unwrap_or(usize::MAX)));
            text.push('\n');
        }
    }
    text
}

/// A text in so many columns, with a sign where something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn unknown() -> String {
    "–".into()
}

fn local(since: &str) -> String {
    let zoned = since
        .parse::<Timestamp>()
        .map(|at| at.to_zoned(TimeZone::system()));
    zoned.map_or_else(
        |_| since.to_string(),
        |at| at.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// `NVIDIA H200`, `8 × NVIDIA H200`, `NVIDIA L4 + NVIDIA T4`.
fn devices(names: &[String]) -> Option<String> {
    let mut kinds: Vec<(&String, usize)> = Vec::new();
    for name in names {
        match kinds.iter_mut().find(|(kind, _)| *kind == name) {
            Some((_, count)) => *count += 1,
            None => kinds.push((name, 1)),
        }
    }
    let words: Vec<String> = (kinds.iter())
        .map(|(kind, count)| match count {
            1 => kind.to_string(),
            n => format!("{n} × {kind}"),
        })
        .collect();
    (!words.is_empty()).then(|| words.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(id: &str, command: &str) -> Row {
        Row {
            id: id.into(),
            state: "running",
            attached: true,
            since: None,
            run: Some(1),
            pid: Some(7),
            keeper: Some(6),
            devices: vec!["NVIDIA H200".into(), "NVIDIA H200".into()],
            peak: Some(3 << 30),
            steps: Some(4),
            command: Some(command.into()),
            recording: None,
            log: None,
        }
    }

    #[test]
    fn columns_stand_below_each_other_and_end_with_the_terminal() {
        let rows = [
            sample(
                "20261121-110512-python3",
                "python3 train.py --batch-size 64",
            ),
            sample("b", "ß"),
        ];
        let whole = table(&rows, None);
        let lines: Vec<&str> = whole.lines().collect();
        let column = lines[0].find("STATE").unwrap();
        assert!(
            lines
                .iter()
                .skip(1)
                .all(|line| line[column..].starts_with("running"))
        );
        assert!(lines[1].contains("2 × NVIDIA H200  3.00 GiB"), "{whole}");
        assert!(lines[1].ends_with("--batch-size 64"));
        let narrow = table(&rows, Some(60));
        assert!(narrow.lines().all(|line| line.width() <= 60), "{narrow}");
        assert!(narrow.lines().nth(1).unwrap().ends_with('…'));
    }

    #[test]
    fn the_command_is_there_however_narrow_the_terminal() {
        let rows = [sample(
            "20261121-110512-python3",
            "python3 train.py --batch-size 64",
        )];
        let narrow = table(&rows, Some(80));
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!(lines.len(), 3, "{narrow}");
        assert!(lines.iter().all(|line| line.width() <= 80), "{narrow}");
        assert!(lines[1].ends_with("3.00 GiB"), "{narrow}");
        assert_eq!(lines[2], "  python3 train.py --batch-size 64");
        let tiny = table(&rows, Some(20));
        assert!(tiny.lines().all(|line| line.width() <= 20), "{tiny}");
    }
}
