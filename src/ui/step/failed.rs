//! The step that ran out of memory, where it was not traced: no curve, but where it stood, what it asked for, and which lines held
//! the memory; and what grew up to it.

use super::holdings;
use super::traced::StepKey;
use super::{choice, facts_on_a_rule};
use crate::anatomy::Category;
use crate::document::{self, MemoryHolder};
use crate::event::{OomRecord, SourceLine};
use crate::state::SourceTexts;
use crate::ui::canvas::{Canvas, StyledLine, columns};
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
    lines.extend(unknown(&lines, allocated));
    lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
    let grew = super::grew(view, scene, canvas.area.width, canvas.theme.glyphs);
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
    super::lines(&mut canvas.at(below), &lines);
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

/// What no line is known of, so that the rows add up.
fn unknown(lines: &[MemoryHolder], allocated: Bytes) -> Option<MemoryHolder> {
    let known = lines.iter().map(|line| line.bytes).sum();
    let rest = allocated - known;
    (rest > allocated.scale(0.001)).then(|| MemoryHolder {
        place: String::from("line not known"),
        place_is_unknown: true,
        inside: None,
        says: None,
        category: None::<Category>,
        bytes: rest,
        blocks: 0,
        alike: 1,
    })
}
