//! The list of sessions as a table that fits the terminal.

use crate::live::print;
use crate::query::listing::SessionRow;
use crate::units::{Bytes, clock_face};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// What stands in the third column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThirdColumn {
    /// Whether a screen is attached.
    Screen,
    /// How long it took.
    Took,
}

/// The second column, which is there if any session is of a job.
const JOB: usize = 1;
/// The one that is there if the RAM was short for any session.
const RAM: usize = 7;
/// From this part of its limit on the RAM is worth a column: less says nothing of a session, since it is all that the machine uses.
const SHORT: f64 = 0.8;
/// Blanks between two columns.
const GAP: usize = 2;
/// A command cut to less than this says little.
const LEAST_COMMAND: usize = 30;
const LEAST_DEVICE: usize = 6;

pub(super) fn table(rows: &[SessionRow], third: ThirdColumn, width: Option<usize>) -> String {
    let head = match third {
        ThirdColumn::Screen => "SCREEN",
        ThirdColumn::Took => "TOOK",
    };
    let mut lines = vec![
        [
            "ID", "JOB", "STATE", head, "SINCE", "DEVICE", "PEAK", "RAM", "COMMAND",
        ]
        .map(String::from),
    ];
    lines.extend(rows.iter().map(|row| {
        [
            row.id.clone(),
            row.job.clone().unwrap_or_else(unknown),
            row.state_words(),
            match (third, row.seconds) {
                (ThirdColumn::Screen, _) if row.elsewhere.is_some() => unknown(),
                (ThirdColumn::Screen, _) if row.attached => "yes".into(),
                (ThirdColumn::Screen, _) => "no".into(),
                (ThirdColumn::Took, Some(seconds)) => {
                    clock_face(Duration::from_secs_f64(seconds.max(0.0)))
                }
                (ThirdColumn::Took, None) => unknown(),
            },
            row.since.as_deref().map(local).unwrap_or_else(unknown),
            row.device_words().unwrap_or_else(unknown),
            row.peak
                .map_or_else(unknown, |peak| Bytes(peak).to_string()),
            ram(row).unwrap_or_else(unknown),
            row.command.clone().unwrap_or_else(unknown),
        ]
        .map(|cell| print::line(&cell).into_owned())
    }));
    let mut lines: Vec<Vec<String>> = lines.into_iter().map(Vec::from).collect();
    if rows.iter().all(|row| ram(row).is_none()) {
        for line in &mut lines {
            line.remove(RAM);
        }
    }
    if rows.iter().all(|row| row.job.is_none()) {
        for line in &mut lines {
            line.remove(JOB);
        }
    }
    let place = |name| lines[0].iter().position(|cell| cell == name);
    let mut command = lines[0].len() - 1;
    let mut device = place("DEVICE").unwrap_or(command);
    let state = place("STATE").unwrap_or(command);
    let since = place("SINCE");
    let widest = |lines: &[Vec<String>], column: usize| {
        let widths = lines.iter().map(|line| line[column].width());
        widths.max().unwrap_or(0)
    };
    let before_command = |lines: &[Vec<String>]| -> usize {
        (0..command).map(|column| widest(lines, column) + GAP).sum()
    };
    // A command that would be cut to nothing stands on a line of its own: it tells sessions apart.
    let apart = width.is_some_and(|width| before_command(&lines) + LEAST_COMMAND > width);
    if apart {
        let all = width.unwrap_or(usize::MAX);
        for line in lines.iter_mut().skip(1) {
            say_why_below(line, state, command);
        }
        // When it began stands in its ID, too.
        let needed = before_command(&lines) - widest(&lines, device) + LEAST_DEVICE;
        if let Some(since) = since.filter(|_| needed > all) {
            lines.iter_mut().for_each(|line| drop(line.remove(since)));
            command -= 1;
            device -= 1;
        }
        let before_command = |lines: &[Vec<String>]| -> usize {
            (0..command).map(|column| widest(lines, column) + GAP).sum()
        };
        let others = before_command(&lines) - widest(&lines, device) - GAP;
        let room = all.saturating_sub(others).max(LEAST_DEVICE);
        for line in &mut lines {
            line[device] = cut(&line[device], room);
        }
        lines[0][command].clear();
    }
    let mut text = String::new();
    for line in &lines {
        let mut shown = String::new();
        for (column, cell) in line.iter().enumerate().take(command) {
            shown.push_str(cell);
            shown.push_str(&" ".repeat(widest(&lines, column) - cell.width() + GAP));
        }
        let whole = match (apart, line[command].is_empty()) {
            (true, false) => vec![shown, format!("  {}", line[command])],
            (true, true) => vec![shown],
            (false, _) => vec![shown + &line[command]],
        };
        for line in whole {
            text.push_str(&cut(line.trim_end(), width.unwrap_or(usize::MAX)));
            text.push('\n');
        }
    }
    text
}

/// What a state comes of goes to the line of the command, which has room.
fn say_why_below(line: &mut [String], state: usize, command: usize) {
    let whole = std::mem::take(&mut line[state]);
    match whole.split_once(": ") {
        Some((words, why)) => {
            line[command] = format!("{why}: {}", line[command]);
            line[state] = words.to_string();
        }
        None => line[state] = whole,
    }
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

/// `31.6 of 32.0 GiB`, where little of it is free.
fn ram(row: &SessionRow) -> Option<String> {
    let (used, limit) = (row.ram?, row.ram_limit?);
    if (used as f64) < limit as f64 * SHORT {
        return None;
    }
    let used = Bytes(used).to_string();
    let limit = Bytes(limit).to_string();
    let unit = limit.rsplit(' ').next()?;
    let used = used.strip_suffix(unit).map_or(used.as_str(), str::trim_end);
    Some(format!("{used} of {limit}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(id: &str, command: &str) -> SessionRow {
        SessionRow {
            id: id.into(),
            state: "running".into(),
            attached: true,
            seconds: Some(3_700.0),
            run: Some(1),
            devices: vec!["NVIDIA H200".into(), "NVIDIA H200".into()],
            peak: Some(3 << 30),
            command: Some(command.into()),
            ..SessionRow::default()
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
        let whole = table(&rows, ThirdColumn::Screen, None);
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
        let narrow = table(&rows, ThirdColumn::Screen, Some(60));
        assert!(narrow.lines().all(|line| line.width() <= 60), "{narrow}");
        // When it began stands in its ID.
        assert!(!narrow.contains("SINCE"), "{narrow}");
        assert!(
            narrow.lines().nth(1).unwrap().ends_with("3.00 GiB"),
            "{narrow}"
        );
    }

    #[test]
    fn an_ended_session_says_how_long_it_took_and_in_which_run() {
        let ended = SessionRow {
            state: "finished".into(),
            run: Some(2),
            ..sample("20261121-110512-python3", "python3 train.py")
        };
        let whole = table(&[ended], ThirdColumn::Took, None);
        assert!(whole.contains("finished, run 2  1:01:40"), "{whole}");
    }

    #[test]
    fn the_hosts_memory_has_a_column_where_it_is_short() {
        let loads = SessionRow {
            ram: Some((63 << 30) / 2),
            ram_limit: Some(32 << 30),
            ..sample("a", "python3 train.py")
        };
        let small = SessionRow {
            ram: Some(512 << 20),
            ram_limit: Some(32 << 30),
            ..sample("c", "python3 train.py")
        };
        let whole = table(
            &[loads, sample("b", "sh"), small],
            ThirdColumn::Screen,
            None,
        );
        let lines: Vec<&str> = whole.lines().collect();
        assert!(
            lines[0].contains("PEAK      RAM               COMMAND"),
            "{whole}"
        );
        assert!(lines[1].contains("3.00 GiB  31.5 of 32.0 GiB"), "{whole}");
        assert!(lines[2].contains("3.00 GiB  –  "), "{whole}");
        assert!(lines[3].contains("3.00 GiB  –  "), "{whole}");
        let plenty = SessionRow {
            ram: Some(512 << 20),
            ram_limit: Some(32 << 30),
            ..sample("c", "python3 train.py")
        };
        for row in [sample("b", "sh"), plenty] {
            let without = table(&[row], ThirdColumn::Screen, None);
            assert!(!without.contains("RAM"), "{without}");
        }
    }

    #[test]
    fn jobs_have_a_column_and_sessions_elsewhere_their_place() {
        let of_job = SessionRow {
            job: Some("1230_7-r2".into()),
            elsewhere: Some(" on gpu-7, heard 3 s ago".into()),
            ..sample("20261121-110512-python3", "python3 train.py")
        };
        let whole = table(&[of_job, sample("b", "sh")], ThirdColumn::Screen, None);
        let lines: Vec<&str> = whole.lines().collect();
        assert!(lines[0].starts_with("ID                       JOB        STATE"));
        assert!(
            lines[1].contains("1230_7-r2  running on gpu-7, heard 3 s ago  –"),
            "{whole}"
        );
        assert!(lines[2].contains("  –          running"), "{whole}");
    }

    #[test]
    fn the_command_is_there_however_narrow_the_terminal() {
        let rows = [sample(
            "20261121-110512-python3",
            "python3 train.py --batch-size 64",
        )];
        let narrow = table(&rows, ThirdColumn::Screen, Some(80));
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!(lines.len(), 3, "{narrow}");
        assert!(lines.iter().all(|line| line.width() <= 80), "{narrow}");
        assert!(lines[1].ends_with("3.00 GiB"), "{narrow}");
        assert_eq!(lines[2], "  python3 train.py --batch-size 64");
        let waits = SessionRow {
            state: "waiting at OOM for 15:31: evaluation with gradients enabled".into(),
            run: None,
            ..sample(
                "20261121-110512-python3",
                "python3 train.py --batch-size 64",
            )
        };
        let narrow = table(&[waits], ThirdColumn::Took, Some(80));
        let lines: Vec<&str> = narrow.lines().collect();
        assert!(
            lines[0].contains("TOOK") && lines[0].ends_with("PEAK"),
            "{narrow}"
        );
        assert!(
            lines[1].contains("waiting at OOM for 15:31  1:01:40"),
            "{narrow}"
        );
        assert!(lines[1].ends_with("3.00 GiB"), "{narrow}");
        assert_eq!(
            lines[2],
            "  evaluation with gradients enabled: python3 train.py --batch-size 64"
        );
        let tiny = table(&rows, ThirdColumn::Screen, Some(20));
        assert!(tiny.lines().all(|line| line.width() <= 20), "{tiny}");
    }
}
