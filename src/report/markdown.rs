//! A session as Markdown, to paste into an issue: what happened, a small chart as text, the runs, and
//! each OOM with its cause, evidence and lines.

use super::comparison::Comparison;
use super::explain::Explained;
use super::growth;
use super::page::{PageOptions, facts};
use super::ram::{HeldRam, held_at_peak};
use super::score;
use super::story::{SessionStory, more_like_it, place_of};
use super::time_axis::TimeAxis;
use crate::anatomy::StepAnatomy;
use crate::command;
use crate::document::markdown::{code, plain};
use crate::document::{self, DocumentBlock, KnownLines, Tree};
use crate::event::displayed;
use crate::state::{DeviceState, Run};
use crate::units::{Bytes, Moment, clock_face};
use std::fmt::Write;
use std::time::Duration;

/// OOMs with a part of their own.
const OOMS: usize = 3;

/// Lines of the program listed for each.
const LINES: usize = 6;

/// Columns and rows of the chart.
const WIDTH: usize = 76;
const HEIGHT: usize = 8;

/// From so long on waits between runs are worth a word.
const NOTICED: Duration = Duration::from_secs(60);

pub fn markdown(story: &SessionStory, options: &PageOptions) -> String {
    let state = &story.state;
    let mut text = String::new();
    // What was typed: what became of it is told run by run.
    let command = (state.session.as_ref().map(|session| &session.command))
        .or(state.run().map(|run| &run.command))
        .map(displayed)
        .unwrap_or_default();
    let _ = writeln!(text, "### {}\n", code(&command));
    for sentence in story.sentences() {
        let _ = writeln!(text, "{}", plain(&sentence));
    }
    if let Some(unused) = options.unused {
        let _ = writeln!(text, "{}", plain(unused));
    }
    if let Some(device) = busiest(story) {
        chart(&mut text, story, device);
    }
    runs(&mut text, story);
    ram(&mut text, story);
    let groups = story.grouped();
    for (oom, alike) in groups.iter().take(OOMS) {
        cause(&mut text, story, oom);
        if let Some(words) = more_like_it(alike) {
            let _ = writeln!(text, "\n{words}.");
        }
    }
    if groups.len() > OOMS {
        let more: usize = groups[OOMS..]
            .iter()
            .map(|(_, alike)| 1 + alike.len())
            .sum();
        let _ = writeln!(text, "\n{more} more OOMs are in the recording.");
    }
    if story.ooms.is_empty() {
        step(&mut text, story);
    }
    if let Some(blocks) = growth::blocks(story) {
        let blocks = document::markdown::markdown(&blocks);
        let _ = write!(text, "\n#### {}\n\n{blocks}", growth::HEADING);
    }
    if !options.relaunch.is_empty() {
        let _ = write!(text, "\n{}", document::markdown::markdown(options.relaunch));
    }
    if let Some(comparison) = options.comparison {
        compared(&mut text, comparison);
    }
    text.push_str("\n<details><summary>Environment</summary>\n\n| | |\n|---|---|\n");
    for (name, value) in facts(story) {
        let _ = writeln!(text, "| {} | {} |", plain(name), plain(&value));
    }
    if let Some(began) = options.began {
        let _ = writeln!(text, "| began | {} |", plain(began));
    }
    let _ = writeln!(text, "| session | {} |\n\n</details>", plain(options.name));
    text
}

/// The device with the highest peak.
fn busiest(story: &SessionStory) -> Option<&DeviceState> {
    let peak = |device: &&DeviceState| {
        (device.allocated).max_between(Moment::ZERO, Moment(story.state.now.0.saturating_add(1)))
    };
    let devices = story.state.devices.iter();
    devices
        .filter(|device| peak(device).is_some())
        .max_by_key(peak)
}

/// The largest `allocated` of each column, in eighths of a row: what its steps reached, where they are too short to be told apart.
fn chart(text: &mut String, story: &SessionStory, device: &DeviceState) {
    let end = Moment(story.state.now.0.saturating_add(1));
    let axis = TimeAxis::of_runs(&story.state);
    let width = axis.seconds(end).max(1e-6) / WIDTH as f64;
    let bounds: Vec<Moment> = (0..=WIDTH).map(|n| axis.moment(n as f64 * width)).collect();
    let columns = axis.allocated(&story.state, device, &bounds, WIDTH as f64);
    let highest = columns.iter().flatten().map(|bucket| bucket.max).max();
    let highest = highest.unwrap_or_default();
    let top = match device.capacity {
        Some(capacity) if highest.0 > capacity.0 / 2 => capacity,
        Some(_) | None => highest,
    };
    if top == Bytes::ZERO {
        return;
    }
    let label = top.to_string();
    let name = format!("{} {}", device.label(), device.name).replace('`', "'");
    let _ = writeln!(
        text,
        "\n```text\nallocated on {}",
        command::without_secrets(&name)
    );
    for row in (0..HEIGHT).rev() {
        let margin = match row {
            _ if row == HEIGHT - 1 => format!("{label:>10} ┤"),
            0 => format!("{:>10} ┤", "0"),
            _ => format!("{:>10} │", ""),
        };
        let cells = columns.iter().map(|bucket| {
            let Some(bucket) = bucket else { return ' ' };
            let eighths = bucket.max.fraction_of(top).unwrap_or(0.0) * HEIGHT as f64 * 8.0;
            let here = (eighths.ceil() as usize).saturating_sub(row * 8).min(8);
            [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][here]
        });
        let line = margin + &cells.collect::<String>();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let mut marks = vec![' '; WIDTH];
    let column = |at: Moment| ((axis.seconds(at) / width) as usize).min(WIDTH - 1);
    for run in story.state.runs.iter().skip(1) {
        marks[column(run.started)] = '╎';
    }
    for oom in &story.ooms {
        marks[column(oom.incident.at)] = '✗';
    }
    let marks: String = marks.into_iter().collect();
    if !marks.trim().is_empty() {
        let _ = writeln!(text, "{:>10}  {}", "", marks.trim_end());
    }
    let starts: Vec<usize> = (story.state.runs.iter())
        .map(|run| column(run.started))
        .collect();
    let _ = writeln!(text, "{:>10}  {}", "", times(story, &starts));
    let waits: Duration = story.state.runs.windows(2).map(wait).sum();
    if waits >= NOTICED {
        let waits = clock_face(waits);
        let _ = writeln!(text, "{:>10}  {waits} between the runs left out", "");
    }
    text.push_str("```\n");
}

/// The time between two runs.
fn wait(pair: &[Run]) -> Duration {
    let ended = pair[0].ended.map_or(pair[1].started, |(at, _)| at);
    pair[1].started.since(ended)
}

/// How long each run took, below its beginning; where runs are short, of those after which there is room for it.
fn times(story: &SessionStory, starts: &[usize]) -> String {
    let runs = &story.state.runs;
    let took = |run: &Run| {
        let ended = run.ended.map_or(story.state.now, |(at, _)| at);
        clock_face(ended.since(run.started))
    };
    if let [only] = runs.as_slice() {
        return format!("0:00{:>width$}", took(only), width = WIDTH - 4);
    }
    let mut row = vec![' '; WIDTH];
    let mut free_to = WIDTH;
    for (run, start) in runs.iter().zip(starts).rev() {
        let number = run.number;
        let words = [
            format!("run {number} {}", took(run)),
            format!("run {number}"),
            number.to_string(),
        ];
        let fits = |words: &&String| start + words.len() <= free_to;
        if let Some(words) = words.iter().find(fits) {
            for (cell, character) in row[*start..].iter_mut().zip(words.chars()) {
                *cell = character;
            }
        }
        free_to = start.saturating_sub(1);
    }
    let row: String = row.into_iter().collect();
    row.trim_end().to_string()
}

fn runs(text: &mut String, story: &SessionStory) {
    text.push_str("\n| run | outcome | took | peak | reserved | predicted | RAM in use | steps | command |\n|---:|---|---:|---:|---:|---|---:|---:|---|\n");
    for run in &story.state.runs {
        let ended = run.ended.map_or(story.state.now, |(at, _)| at);
        let reserved = run.ranks.iter().map(|rank| rank.reserved_peak).max();
        let shown = |bytes: Option<Bytes>| bytes.map_or("–".into(), |bytes| bytes.to_string());
        let predicted = score::beside(run).unwrap_or_else(|| "–".into());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            run.number,
            plain(&run.outcome_words()),
            clock_face(ended.since(run.started)),
            shown(run.peak()),
            shown(reserved),
            predicted,
            shown(run.host_peak),
            run.steps(),
            code(&displayed(&run.command).replace('|', "¦")),
        );
    }
}

/// Who held the RAM where the last run used most of it.
fn ram(text: &mut String, story: &SessionStory) {
    let Some((_, memory)) = story.ram_at_peak() else {
        return;
    };
    let _ = writeln!(
        text,
        "\n<details><summary>RAM in use{}: at most {} of {} ({})</summary>\n\n| held then by | RAM |\n|---|---:|",
        story.of_last_run(),
        memory.used,
        memory.limit,
        memory.limited_by.words()
    );
    for HeldRam { who, held } in held_at_peak(memory) {
        let _ = writeln!(text, "| {} | {held} |", plain(&who));
    }
    text.push_str("\n</details>\n");
}

fn cause(text: &mut String, story: &SessionStory, oom: &Explained) {
    let run = match &oom.run {
        Some((run, _)) if story.state.runs.len() > 1 => format!(" in run {run}"),
        Some(_) | None => String::new(),
    };
    let _ = writeln!(
        text,
        "\n#### Out of memory{run}{}\n",
        plain(&place_of(&oom.incident))
    );
    let findings = oom.findings.iter().enumerate();
    let mut blocks: Vec<DocumentBlock> = findings
        .flat_map(|(n, finding)| match n {
            0 => document::finding(finding, true),
            _ => vec![document::headline(finding, false)],
        })
        .collect();
    if KnownLines::at(&oom.incident).is_some_and(KnownLines::is_most) {
        let mut held = oom.lines();
        held.truncate(LINES);
        blocks.push(DocumentBlock::Tree(Tree::Lines(held)));
    } else {
        blocks.extend(document::largest_lines_or_of_step(
            &oom.incident,
            &oom.source,
            LINES,
            oom.step.as_ref(),
            oom.leaked(),
        ));
    }
    let record = oom.incident.record.as_ref();
    blocks.extend(record.and_then(document::in_blocks));
    let found = oom.retainers.iter();
    blocks.extend(found.flat_map(|found| document::kept_alive(found, "Kept alive by")));
    text.push_str(&document::markdown::markdown(&blocks));
}

/// The lines of the latest traced step, where nothing ran out.
fn step(text: &mut String, story: &SessionStory) {
    let Some(run) = story.state.run() else {
        return;
    };
    let steps =
        (run.ranks.iter()).filter_map(|rank| Some((rank, StepAnatomy::of_oom(&rank.traces)?)));
    let Some((rank, step)) = steps.max_by_key(|(_, step)| step.allocated[step.peak()]) else {
        return;
    };
    let peak = step.peak();
    let (number, bytes) = (step.step, step.allocated[peak]);
    let _ = writeln!(
        text,
        "\n#### Step {number}, allocation by allocation: {bytes}{} at its peak{}\n",
        step.in_phase(peak),
        document::counted(rank, &step)
    );
    let held = document::main_lines_at(&step, peak, &run.source, LINES);
    let blocks = [
        document::parts_at(&step, peak),
        DocumentBlock::Tree(Tree::Lines(held)),
    ];
    text.push_str(&document::markdown::markdown(&blocks));
}

fn compared(text: &mut String, comparison: &Comparison) {
    let _ = writeln!(
        text,
        "\n#### Compared\n\n| | {} | {} | |\n|---|---|---|---|",
        plain(&comparison.names.0),
        plain(&comparison.names.1)
    );
    for row in comparison.rows.iter().filter(|row| !row.is_same()) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.name,
            plain(&row.before),
            plain(&row.after),
            plain(&row.change)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the allocator fall on any part of a step: the training's curve is what its steps reached.
    #[test]
    fn the_curve_is_that_of_the_steps_and_not_of_the_looks() {
        use crate::event::EventKind;
        use crate::state::tests::staged::{StagedSession, gib, hello, sample, started, step};
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 100, "python train.py"));
        scene.add(0.5, hello(1, 100, None));
        for count in 1..=400_u64 {
            let at = 1.0 + count as f64 * 0.1;
            let looked = 3.0 + (count * 7 % 11) as f64;
            let reading = sample(100, 0, gib(looked), gib(15.0));
            scene.add(at - 0.05, EventKind::Sample(reading));
            scene.add(at, step(100, count, gib(3.0), gib(14.0)));
        }
        let story = SessionStory::new(scene.events);
        let mut text = String::new();
        chart(&mut text, &story, busiest(&story).expect("a device"));
        let rows = text.lines().filter_map(|row| row.split(['┤', '│']).nth(1));
        let highest = rows.map(str::trim).find(|row| !row.is_empty());
        let highest = highest.expect("a curve");
        // All of the run's columns but those before its first steps.
        assert!(highest.chars().count() > WIDTH * 9 / 10, "{text}");
        assert!(!highest.contains(' '), "{text}");
    }

    #[test]
    fn a_night_at_the_dialog_is_left_out_of_the_chart() {
        let mut story = SessionStory::new(crate::report::recorded("capacity"));
        let columns_of = |story: &SessionStory| {
            let mut text = String::new();
            chart(&mut text, story, busiest(story).expect("a device"));
            let rows: Vec<String> = text.lines().map(str::to_string).collect();
            let filled = rows.iter().map(|row| row.matches('█').count()).max();
            (filled.unwrap_or_default(), text)
        };
        let (alone, _) = columns_of(&story);
        let mut second = story.state.runs[0].clone();
        let (ended, exit) = second.ended.expect("an end");
        second.number = second.number.next();
        second.started = ended + Duration::from_secs(9 * 3_600);
        story.state.now = second.started + Duration::from_secs(4);
        second.ended = Some((story.state.now, exit));
        story.state.runs.push(second);
        let (beside, text) = columns_of(&story);
        assert!(beside > alone / 3, "{text}");
        assert!(
            text.contains("  9:00:00 between the runs left out\n"),
            "{text}"
        );
        assert!(text.contains("  run 1 0:08"), "{text}");
        assert!(text.contains(" run 2 0:04"), "{text}");
    }
}
