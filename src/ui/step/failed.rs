//! The step that ran out of memory, where it was not traced: no curve, but where it stood, what it asked for, and which lines held
//! the memory; and what grew up to it.

use super::holdings;
use super::traced::{StepKey, StepView};
use super::{WIDEST, choice, facts_on_a_rule, growth};
use crate::anatomy::{Category, StepAnatomy};
use crate::document::{self, KnownLines, MadeByLine, MemoryHolder};
use crate::event::{OomRecord, SourceLine};
use crate::state::{OomIncident, Run, SourceTexts};
use crate::ui::canvas::{self, Canvas, StyledLine, columns};
use crate::ui::dialogs::oom::{is_in_step, phase_of};
use crate::ui::scene::Scene;
use crate::ui::theme::{Glyphs, Tone};
use crate::ui::view::View;
use crate::units::Bytes;
use ratatui::layout::Rect;

/// Rows of the stack from which on it is shown, with its title.
const WORTH_BEGINNING: usize = 4;

/// Rows above the table: the head, what was asked for and where, and one without anything.
const ABOVE: u16 = 4;

/// Below this share of what is allocated a row of what is left says nothing.
const WORTH_A_ROW: f64 = 0.001;

/// Lines of a step that was traced whole, at most.
const LINES_OF_A_STEP: usize = 5;

/// Draws it instead of chart and panes.
pub(super) fn draw(canvas: &mut Canvas, key: StepKey, view: &View, scene: &Scene) {
    let found = choice::untraced(scene).filter(|(of, _)| *of == key);
    let Some((_, oom)) = found else { return };
    let (Some(record), Some(run)) = (&oom.record, scene.state.run()) else {
        return;
    };
    let allocated = record.sample.allocated;
    // Between two steps there is no next one yet.
    let step = is_in_step(record).then(|| format!("step {}", super::count(key.step)));
    let facts = [
        step.map(|step| (step, Tone::Strong)),
        Some((String::from("out of memory"), Tone::Wrong)),
        Some((format!("{allocated} allocated"), Tone::Text)),
        Some((phase_of(record), Tone::Text)),
        Some((String::from("not traced: what was alive then"), Tone::Dim)),
    ];
    let facts = facts.into_iter().flatten();
    facts_on_a_rule(canvas, facts);
    asked_for(canvas, record);
    let mut lines = document::lines_of(oom, &run.source);
    let leaked = scene.findings.iter().find_map(|finding| finding.leaked);
    let traced = view.peak.as_ref().and_then(StepView::read);
    let traced = traced.filter(|read| (read.key.run, read.key.pid) == (key.run, key.pid));
    let made = traced.map(|read| MadeByLine::new(&read.anatomy));
    lines = document::told_apart(lines, oom, leaked, &made.unwrap_or_default());
    lines.extend(rest(&lines, oom));
    let mut grew = how_much_is_known(canvas.area.width, run, oom, canvas.theme.glyphs);
    let of_search = growth::grew(view, scene, canvas.area.width, canvas.theme.glyphs);
    grew.extend(of_search);
    let room = canvas.area.height.saturating_sub(ABOVE);
    // With the row of its titles, and one without anything below it.
    let uncut = holdings::rows_uncut(canvas.area.width, &lines) + 1;
    let wanted = match uncut + grew.len() as u16 <= room {
        true => uncut,
        false => lines.len() as u16 + 2,
    };
    let height = wanted.min(room - (grew.len() as u16).min(room / 3));
    let table = Rect {
        y: canvas.area.y + ABOVE.min(canvas.area.height),
        height,
        ..canvas.area
    };
    holdings::draw_lines(&mut canvas.at(table), &lines, allocated);
    let below = Rect {
        y: table.bottom(),
        height: room - height,
        ..canvas.area
    };
    let mut lines = grew;
    let stack = stack_lines(record, &run.source, canvas.theme.glyphs);
    if !record.stack.is_empty() && lines.len() + WORTH_BEGINNING < usize::from(below.height) {
        lines.extend(stack);
    }
    growth::lines(&mut canvas.at(below), &lines);
}

fn asked_for(canvas: &mut Canvas, record: &OomRecord) {
    let arrow = canvas.theme.glyphs.arrow;
    let asked = format!("{} more", record.requested);
    let mut pen = canvas.pen(1);
    pen.skip(1)
        .text("requested  ", Tone::Dim)
        .text(&asked, Tone::Strong)
        .rest(&format!(" ({} free on the GPU)", record.free), Tone::Dim);
    let mut pen = canvas.pen(2);
    pen.skip(1).text("at         ", Tone::Dim);
    let paths = paths(&record.stack).into_iter();
    let mut paths = paths.map(|lines| lines.join(&format!(" {arrow} ")));
    if let Some(path) = paths.find(|path| columns(path) <= pen.room()) {
        pen.text(&path, Tone::Text);
    }
}

/// The ways to the allocation, the longest first: the program's innermost line with its caller in the program and what it called,
/// or less of it.
fn paths(stack: &[SourceLine]) -> Vec<Vec<String>> {
    // The innermost one comes first in the record.
    let own = (stack.iter()).position(|line| !line.is_librarys());
    let at = own.unwrap_or(0);
    let Some(line) = stack.get(at) else {
        return Vec::new();
    };
    let word = |line: &SourceLine| line.path_to(None, "");
    let mut callers = stack[at + 1..].iter();
    let caller = callers.find(|line| !line.is_librarys()).map(word);
    let called = at.checked_sub(1).map(|called| word(&stack[called]));
    let of = |parts: [Option<String>; 3]| parts.into_iter().flatten().collect();
    vec![
        of([caller, Some(word(line)), called.clone()]),
        of([None, Some(word(line)), called]),
        of([None, Some(word(line)), None]),
    ]
}

/// The whole stack, for rows that would be empty: the program's own lines stand out, with what they say.
fn stack_lines(record: &OomRecord, source: &SourceTexts, glyphs: &Glyphs) -> Vec<StyledLine> {
    let title = StyledLine::of(" where it was requested, the innermost first", Tone::Dim);
    let frames = record.stack.iter().map(|frame| {
        let own = !frame.is_librarys();
        let tone = if own { Tone::Text } else { Tone::Dim };
        let mut line = StyledLine::of(format!("  {}", frame.path_to(None, "")), tone);
        if let Some(text) = source.of(frame).filter(|_| own) {
            line.push(format!("  {}", glyphs.spelled(text)), Tone::Dim);
        }
        line
    });
    [StyledLine::default(), title]
        .into_iter()
        .chain(frames)
        .collect()
}

/// What the lines above leave of all that was allocated, so that the rows add up: smaller lines, and blocks without a recorded line.
fn rest(lines: &[MemoryHolder], oom: &OomIncident) -> Vec<MemoryHolder> {
    let Some(known) = KnownLines::at(oom) else {
        return Vec::new();
    };
    let named: Bytes = lines.iter().map(|line| line.bytes).sum();
    let parts = [
        ("smaller lines", known.known() - named),
        ("no line recorded", known.unknown()),
    ];
    let shown = parts.into_iter().filter(|(_, bytes)| {
        let share = bytes.fraction_of(known.all()).unwrap_or(0.0);
        share > WORTH_A_ROW
    });
    shown
        .map(|(place, bytes)| MemoryHolder {
            place: place.into(),
            place_is_unknown: true,
            inside: None,
            says: None,
            category: None::<Category>,
            bytes,
            blocks: 0,
            alike: 1,
        })
        .collect()
}

/// How much of the memory has a line and why not all; where that is less than half, the lines of a step of this process that was
/// traced whole.
fn how_much_is_known(
    width: u16,
    run: &Run,
    oom: &OomIncident,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let Some(known) = KnownLines::at(oom) else {
        return Vec::new();
    };
    let Some(words) = known.words() else {
        return Vec::new();
    };
    let said = |text: &str, tone| {
        let lines = canvas::text(
            &glyphs.spelled(text),
            width.saturating_sub(2).min(WIDEST),
            tone,
        );
        lines.into_iter().map(|line| line.behind(" ", Tone::Dim))
    };
    let why = format!("{}.", document::why_not_all(&words));
    let mut all: Vec<StyledLine> = said(&why, Tone::Dim).collect();
    let rank = run.rank_of(oom).filter(|_| !known.is_most());
    let Some(step) = rank.and_then(|rank| StepAnatomy::of_oom(&rank.traces)) else {
        return all;
    };
    let peak = step.peak();
    let traced = document::traced_instead(&step);
    all.extend(said(&traced, Tone::Text));
    let held = document::main_lines_at(&step, peak, &run.source, LINES_OF_A_STEP);
    all.extend(held.into_iter().map(|held| {
        let mut line = StyledLine::of(format!("{:>9}  ", held.bytes.to_string()), Tone::Text);
        let category = held.category.map_or("", Category::title);
        line.push(format!("{category:<16}"), Tone::Dim);
        line.push(glyphs.spelled(&held.place), Tone::Text);
        if let Some(says) = held.says {
            line.push(format!("  {}", glyphs.spelled(&says)), Tone::Dim);
        }
        line
    }));
    all
}
