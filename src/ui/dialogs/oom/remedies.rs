//! The remedies as a table, and below it what follows from the selection: the next command as a diff, and what happens until
//! something is chosen.

use super::Page;
use crate::command::{CommandLine, Word};
use crate::diagnosis::Finding;
use crate::event::ALLOCATOR_VARIABLES;
use crate::remedy::{self, Availability, Expectation, FitVerdict, Remedy};
use crate::state::{Run, RunOutcome};
use crate::ui::canvas::{self, StyledLine, columns};
use crate::ui::dialog::{Details, OomDialog};
use crate::ui::difference;
use crate::ui::scene::{LaterRun, Scene, ShownRun, Subject};
use crate::ui::theme::Tone;
use crate::units::{Bytes, Moment, clock_face};
use std::time::Duration;

/// Columns of a table in which nothing is cut.
const WIDEST_TABLE: u16 = 400;

/// Columns of pointer, combination mark and key, where there is room and where there is not.
const LEAD: u16 = 6;
const NARROW_LEAD: u16 = 4;

/// Columns of the longest short verdict with the space before it, and of the longest of the shortest.
const SHORT_VERDICT: u16 = 12;
const SHORTEST_VERDICT: u16 = 8;

/// From when on it is said how long ago memory ran out.
const NOT_JUST_NOW: Duration = Duration::from_secs(60);

/// What is to be changed in the code.
const IN_CODE: &str = "in the code  ";

/// Columns of a change that are worth showing; the line below the table has it whole.
const CHANGES: u16 = 24;

/// Columns that the first of a remedy's changes has room in, where nothing else stands there.
const FIRST_CHANGE: u16 = 16;

/// What stands before an allocator's setting; that it is one, its remedy says.
const ALLOCATOR_SETTING: &str = "PYTORCH_CUDA_ALLOC_CONF=";

pub(super) fn lines(page: Page) -> Vec<StyledLine> {
    let all = page.scene.remedies;
    if all.is_empty() {
        if page.scene.waiting.is_some() {
            return Vec::new();
        }
        let words = match page.scene.subject {
            Subject::Own => "No known remedy for this command: press v to edit it.",
            Subject::Recording(replay) if replay.shown == ShownRun::Last => {
                "No known remedy for this command: press v to edit it."
            }
            Subject::Recording(_) => "oomph again starts the command of a recording.",
            Subject::Elsewhere(_) => "Remedies are offered where it runs.",
        };
        return canvas::text(words, page.width, Tone::Dim);
    }
    let remedies = page.dialog.listed(all);
    let widths = Widths::new(page, remedies);
    let code = OomDialog::leads_with_code(page.scene).then(|| code(page));
    let selected = page.dialog.selected(page.scene);
    let each = remedies.iter().enumerate();
    let each = each.map(|(n, remedy)| line(page, remedy, Some(n) == selected, &widths));
    code.into_iter().chain(each).collect()
}

/// Columns in which no cell of the table is cut.
pub(super) fn wanted(page: Page) -> u16 {
    let remedies = page.dialog.listed(page.scene.remedies);
    let widths = Widths::new(
        Page {
            table: WIDEST_TABLE,
            ..page
        },
        remedies,
    );
    LEAD + widths.title + widths.changes + widths.need + widths.verdict + widths.numbers
}

/// How many remedies are not listed.
pub(super) fn hidden(page: Page) -> usize {
    let all = page.scene.remedies;
    all.len() - page.dialog.listed(all).len()
}

/// What is to be changed in the code, or where; without room for either the lines below say it.
fn code(page: Page) -> StyledLine {
    let glyphs = page.theme.glyphs;
    let (pointer, tone) = match page.dialog.selected(page.scene) {
        None => (glyphs.pointer, Tone::Strong),
        Some(_) => (" ", Tone::Text),
    };
    let finding = page.findings().first();
    let place = finding.and_then(|finding| finding.place.clone());
    let words = match finding.and_then(Finding::in_code) {
        Some(words) => {
            let shorter = words.shorter().map(String::from).chain(place);
            let mut all = [words.to_string()].into_iter().chain(shorter);
            all.find(|words| has_room_for_code(page, words))
        }
        None => Some("no remedy here helps: see the details".into()),
    };
    let lead = code_lead(page) - columns(IN_CODE);
    let mut line = StyledLine::default();
    line.column(pointer, lead, Tone::Accent).push(IN_CODE, tone);
    if let Some(words) = words {
        line.push(glyphs.spelled(&words), Tone::Good);
    }
    line
}

/// Columns before the words of what is to be changed in the code.
fn code_lead(page: Page) -> u16 {
    lead(page) + columns(IN_CODE)
}

pub(super) fn has_room_for_code(page: Page, words: &str) -> bool {
    code_lead(page) + columns(&page.theme.glyphs.spelled(words)) <= page.table
}

fn lead(page: Page) -> u16 {
    match page.is_narrow() {
        true => NARROW_LEAD,
        false => LEAD,
    }
}

/// Whether the table cuts a remedy's title.
pub(super) fn cuts_title(page: Page, remedy: &Remedy) -> bool {
    let listed = page.dialog.listed(page.scene.remedies);
    columns(&remedy.title) >= Widths::new(page, listed).title
}

/// Those that are not offered, and whose rows have no room for why.
pub(super) fn unexplained(page: Page<'_>) -> impl Iterator<Item = &Remedy> {
    let remedies = page.scene.remedies;
    let mut refused = remedies
        .iter()
        .filter(|remedy| !remedy.is_offered())
        .peekable();
    let title =
        (refused.peek().is_some()).then(|| Widths::new(page, page.dialog.listed(remedies)).title);
    let room = page
        .table
        .saturating_sub(lead(page) + title.unwrap_or_default());
    refused.filter(move |remedy| match &remedy.availability {
        Availability::Offered => false,
        Availability::NotOffered(reason) => {
            columns(&page.theme.glyphs.spelled(reason)) + columns(NOT_OFFERED) > room
        }
    })
}

/// Before the reason.
const NOT_OFFERED: &str = "not offered: ";

/// The widths of the columns; 0 for one that has no room.
struct Widths {
    title: u16,
    changes: u16,
    need: u16,
    verdict: u16,
    words: VerdictLength,
    /// 0 too where one column has both: the change, and before it what a remedy does to the numbers if that is something.
    numbers: u16,
}

/// How much of a verdict has room.
#[derive(Debug, Clone, Copy)]
enum VerdictLength {
    Whole,
    Short,
    Shortest,
}

impl VerdictLength {
    fn of(self, expectation: &Expectation) -> String {
        let verdict = expectation.verdict();
        let said = expectation.verdict_words();
        match self {
            VerdictLength::Whole => said.into_owned(),
            VerdictLength::Short if columns(&said) < SHORT_VERDICT => said.into_owned(),
            VerdictLength::Short => verdict.short().into(),
            VerdictLength::Shortest => verdict.shortest().into(),
        }
    }
}

impl Widths {
    fn new(page: Page, remedies: &[Remedy]) -> Widths {
        let width = page.table;
        let widest = |text: &dyn Fn(&Remedy) -> String, most: u16| {
            let offered = remedies.iter().filter(|remedy| remedy.is_offered());
            let widths = offered.map(|remedy| columns(&text(remedy)));
            widths.max().unwrap_or(0).min(most) + 2
        };
        let titles = remedies.iter().map(|remedy| columns(&remedy.title));
        let title = titles.max().unwrap_or(0);
        if page.is_narrow() {
            let room = |verdict: u16| width.saturating_sub(NARROW_LEAD + verdict - 1);
            let (verdict, words) = match title < room(SHORT_VERDICT) {
                true => (SHORT_VERDICT, VerdictLength::Short),
                false => (SHORTEST_VERDICT, VerdictLength::Shortest),
            };
            return Widths {
                title: (title + 1).min(room(verdict)),
                changes: 0,
                need: 0,
                verdict,
                words,
                numbers: 0,
            };
        }
        let need = widest(&|remedy| need(&remedy.expectation), 14);
        let verdict = widest(&|remedy| VerdictLength::Whole.of(&remedy.expectation), 22);
        let title = title.min(40) + 2;
        let (verdict, words) = match LEAD + title + need + verdict > width {
            true => (SHORT_VERDICT, VerdictLength::Short),
            false => (verdict, VerdictLength::Whole),
        };
        // The line below the table has the need as well.
        let need = match LEAD + title + need + verdict > width {
            true => 0,
            false => need,
        };
        let title = title.min(width.saturating_sub(LEAD + need + verdict));
        let room = width.saturating_sub(LEAD + title + need + verdict);
        let numbers = widest(&|remedy| remedy.numerics(), 40) - 2;
        let changes = widest(&|remedy| remedy.changes.clone(), 70);
        let separator = page.theme.glyphs.separator;
        let says_a_change = |room: u16| {
            let offered = remedies.iter().filter(|remedy| remedy.is_offered());
            let mut said = offered.map(|remedy| both(remedy, separator, room.saturating_sub(1)));
            room >= FIRST_CHANGE && said.any(|words| !words.is_empty())
        };
        let (changes, numbers) = match room.checked_sub(numbers) {
            Some(left) if changes.min(left) >= CHANGES.min(changes) => (changes.min(left), numbers),
            Some(_) if room >= CHANGES => (room, 0),
            None if says_a_change(room) => (room, 0),
            Some(_) => (0, numbers),
            None => (0, 0),
        };
        Widths {
            title,
            changes,
            need,
            verdict,
            words,
            numbers,
        }
    }
}

fn line(page: Page, remedy: &Remedy, selected: bool, widths: &Widths) -> StyledLine {
    let (glyphs, dialog) = (page.theme.glyphs, page.dialog);
    let pointer = if selected { glyphs.pointer } else { " " };
    // Where there is little room, mark and pointer stand side by side.
    let gap = u16::from(!page.is_narrow());
    let mut line = StyledLine::default();
    line.column(pointer, 1 + gap, Tone::Accent);
    match &remedy.availability {
        Availability::Offered => {
            let chosen = dialog.chosen.contains(&remedy.id);
            let (mark, mark_tone) = match (chosen, dialog.chosen.is_empty()) {
                (true, _) => (glyphs.ticked, Tone::Accent),
                (false, true) => (" ", Tone::Dim),
                (false, false) => (glyphs.unticked, Tone::Dim),
            };
            let title_tone = if selected { Tone::Strong } else { Tone::Text };
            let verdict = remedy.expectation.verdict();
            let tone = tone_of(verdict);
            let words = widths.words.of(&remedy.expectation);
            line.column(mark, 1 + gap, mark_tone)
                .column(&remedy.key.to_string(), 2, Tone::Accent);
            let changes = match widths.numbers {
                0 => both(remedy, glyphs.separator, widths.changes.saturating_sub(1)),
                _ => remedy.changes.clone(),
            };
            // A change goes on where no need stands beside it, and is not cut there.
            let need = need(&remedy.expectation);
            let is_cut = widths.changes > 0 && columns(&changes) >= widths.changes;
            let goes_on = need.is_empty() && is_cut;
            let (of_changes, of_need) = match goes_on {
                true => (widths.changes + widths.need, 0),
                false => (widths.changes, widths.need),
            };
            for (text, width, tone) in [
                (remedy.title.as_str(), widths.title, title_tone),
                (&changes, of_changes, Tone::Text),
                (&need, of_need, tone),
                (&words, widths.verdict, tone),
                (&remedy.numerics(), widths.numbers + 1, Tone::Text),
            ] {
                field(&mut line, glyphs.spelled(text), width, tone);
            }
        }
        Availability::NotOffered(reason) => {
            line.column("", lead(page) - 1 - gap, Tone::Dim);
            field(
                &mut line,
                glyphs.spelled(&remedy.title),
                widths.title,
                Tone::Dim,
            );
            // The reason stands below the table, once the row is selected.
            let [whole, brief] = [reason.as_str(), reason.shortest()]
                .map(|why| format!("{NOT_OFFERED}{}", glyphs.spelled(why)));
            let room = page.table.saturating_sub(lead(page) + widths.title);
            let fitting = [whole.as_str(), brief.as_str(), "not offered", "none"];
            let fitting = fitting.into_iter().find(|words| columns(words) <= room);
            line.push(fitting.unwrap_or_default(), Tone::Dim);
        }
    }
    line
}

/// What a remedy does to the numbers, if anything, and its change, as much as there is room for: the first warns, and below the
/// table is the whole change.
fn both(remedy: &Remedy, separator: &str, room: u16) -> String {
    let changes = remedy.changes.as_str();
    let first_change = changes.find(" +").map(|end| changes[..end].trim_end());
    let value = changes.strip_prefix(ALLOCATOR_SETTING);
    // `64→32`: what it is of, the title says.
    let numbers = changes.split(' ').find(|word| word.contains('→'));
    let shorter = [Some(changes), value, first_change, numbers];
    let shorter = shorter.into_iter().flatten();
    let mut words: Vec<String> = shorter.map(String::from).collect();
    if remedy.alters.is_some() {
        let numerics = remedy.numerics();
        let with_changes = words
            .into_iter()
            .map(|words| format!("{numerics}{separator}{words}"));
        words = with_changes.chain([numerics.clone()]).collect();
    }
    let fitting = words.into_iter().find(|words| columns(words) <= room);
    fitting.unwrap_or_default()
}

/// A column with a gap behind it, even if its text is cut.
fn field(line: &mut StyledLine, text: String, width: u16, tone: Tone) {
    line.column(&text, width.saturating_sub(1), tone)
        .column("", width.min(1), tone);
}

pub(in crate::ui::dialogs) fn tone_of(verdict: FitVerdict) -> Tone {
    match verdict {
        FitVerdict::Fits | FitVerdict::LikelyFits => Tone::Good,
        FitVerdict::WontFit | FitVerdict::LikelyWontFit | FitVerdict::OfLittleUse(_) => {
            Tone::Warning
        }
        FitVerdict::MayNotFit | FitVerdict::Unknown => Tone::Text,
    }
}

/// What it needs: a figure, a lower bound, or an interval where that is what is open; of a wide one the end that says something.
pub(super) fn need(expectation: &Expectation) -> String {
    let open = expectation.fits.is_none();
    match (expectation.need, expectation.at_least) {
        (Some(need), _) => match expectation.room {
            Some(room) if open => {
                let [low, high] = [need.low(), need.high()].map(|bytes| round_gib(bytes, room));
                match (need.estimate().is_rough(), need.high() <= room) {
                    (false, _) => format!("{low}–{high} GiB"),
                    (true, true) => format!("≤ {high} GiB"),
                    (true, false) => format!("≥ {low} GiB"),
                }
            }
            Some(room) => need.likely().apart(room)[0].clone(),
            None => need.likely().to_string(),
        },
        (None, Some(least)) => match expectation.room {
            Some(room) => format!("≥ {}", least.apart(room)[0]),
            None => format!("≥ {least}"),
        },
        (None, None) => match expectation.ram {
            Some(ram) if ram.at_least => format!("≥ {}", ram.needs),
            Some(ram) => ram.needs.to_string(),
            None => String::new(),
        },
    }
}

/// A figure of an interval, with a decimal only on small devices.
fn round_gib(bytes: Bytes, room: Bytes) -> String {
    let decimals = usize::from(room < Bytes::gib(10));
    format!("{:.decimals$}", bytes.as_gib())
}

/// Below this width the keys at the bottom have no room to say that a remedy's letter starts it.
const WIDTH_FOR_LETTERS: u16 = 96;

/// From this width on the whole command is shown, below it only the changes.
const WIDTH_FOR_WHOLE: u16 = 60;

pub(super) fn command(page: Page) -> Vec<StyledLine> {
    let Page {
        theme,
        scene,
        dialog,
        width,
        table: _,
    } = page;
    let show = dialog.to_show(scene);
    if show.is_empty() {
        return Vec::new();
    }
    let label = match dialog.to_apply(scene).is_empty() {
        true => "y copies",
        false => "next run",
    };
    let (Some(now), Some(next)) = (scene.command, scene.planned(&show)) else {
        return Vec::new();
    };
    let now = &with_inherited(scene, now, &next);
    let pieces = if width < WIDTH_FOR_WHOLE {
        let (now, next) = (now.without_secrets(), next.without_secrets());
        let changes = crate::command::difference(&now, &next);
        difference::brief(theme, Some(&now), &changes)
    } else {
        difference::whole(theme, now, &next)
    };
    let parts = pieces.into_iter().flat_map(|word| {
        let tone = word.kind.tone();
        [(word.text, tone), (String::from(" "), Tone::Text)]
    });
    page.labelled(label, parts.collect())
}

/// The command with the allocator's settings that it inherited, where the next one has them typed: what was set is no change.
fn with_inherited(scene: &Scene, now: &CommandLine, next: &CommandLine) -> CommandLine {
    let mut now = now.clone();
    let ranks = scene.state.run().map_or(&[][..], |run| &run.ranks);
    let inherited = ranks
        .iter()
        .find_map(|rank| rank.hello.alloc_conf.as_deref());
    let is_set = |name| now.env_value(name).is_some();
    if let Some(inherited) = inherited.filter(|settings| !settings.is_empty())
        && !ALLOCATOR_VARIABLES.into_iter().any(is_set)
    {
        let set_next = ALLOCATOR_VARIABLES.into_iter();
        for name in set_next.filter(|name| next.env_value(*name).is_some()) {
            now.set_env(name, Some(Word::from(inherited)));
        }
    }
    now
}

/// What the details have that the brief dialog has not.
fn behind(page: Page) -> String {
    match (page.dialog.details, hidden(page)) {
        (Details::Full { .. }, _) => String::new(),
        (Details::Brief, 0) => format!("{}d: evidence", page.theme.glyphs.separator),
        (Details::Brief, hidden) => {
            let separator = page.theme.glyphs.separator;
            format!("{separator}d: evidence, {hidden} not offered")
        }
    }
}

/// What the next run would keep of a remedy that did not help, and how to leave it out.
pub(super) fn kept(page: Page) -> Vec<StyledLine> {
    let scene = page.scene;
    let Some(next) = scene.planned(&page.dialog.to_show(scene)) else {
        return Vec::new();
    };
    let found = scene.state.kept_of_failed();
    let words = found.iter().map(|kept| {
        format!(
            "{} of run {}, which ran out of memory anyway",
            kept.names, kept.run
        )
    });
    let words: Vec<String> = words.collect();
    let is_kept = scene.command.is_some_and(|now| {
        let mut brought = now.env.iter().filter(|change| change.value.is_some());
        brought.any(|change| next.env.contains(change))
    });
    match words.is_empty() || !is_kept {
        true => Vec::new(),
        false => {
            let words = format!("{}: v edits it out", words.join(", "));
            page.labelled("still set", vec![(words, Tone::Warning)])
        }
    }
}

/// The last run of a recording of which an earlier one is shown.
pub(super) fn later_run(scene: &Scene) -> Option<LaterRun> {
    match scene.subject {
        Subject::Recording(replay) => match replay.shown {
            ShownRun::Earlier(last) => Some(last),
            ShownRun::Last | ShownRun::Unknown => None,
        },
        Subject::Own | Subject::Elsewhere(_) => None,
    }
}

/// What a recording has behind the run that ran out of memory.
pub(super) fn later(page: Page) -> Vec<StyledLine> {
    let Some(last) = later_run(page.scene) else {
        return Vec::new();
    };
    let tone = if last.ran.is_some() {
        Tone::Good
    } else {
        Tone::Text
    };
    let rest = format!("{}}} shows it", page.theme.glyphs.separator);
    page.labelled("then", vec![(last.words(), tone), (rest, Tone::Dim)])
}

/// What happens until a key is pressed.
pub(super) fn meanwhile(page: Page) -> Vec<StyledLine> {
    let scene = page.scene;
    if let Some(waiting) = scene.waiting {
        return page.labelled("waiting", vec![(waiting.to_string(), Tone::Accent)]);
    }
    let run = match (scene.subject, scene.state.run()) {
        (Subject::Own, Some(run)) => run,
        (Subject::Elsewhere(session), _) => {
            let words = format!(
                "to choose what follows: {}{}",
                session.command,
                behind(page)
            );
            return page.labelled("now", vec![(words, Tone::Dim)]);
        }
        (Subject::Recording(replay), Some(_)) if replay.shown == ShownRun::Last => {
            let key = match page.dialog.to_apply(scene).is_empty() {
                true => "the key of a remedy",
                false => "Enter",
            };
            let words = format!(
                "this session has ended: {key} goes on in a new one{}",
                behind(page)
            );
            return page.labelled("now", vec![(words, Tone::Dim)]);
        }
        (Subject::Recording(replay), Some(_)) => match replay.shown {
            ShownRun::Earlier(_) => return Vec::new(),
            ShownRun::Last | ShownRun::Unknown => return again(page),
        },
        (Subject::Own | Subject::Recording(_), None) => return Vec::new(),
    };
    // On a wide screen the keys below say it.
    let letters = match page.width < WIDTH_FOR_LETTERS {
        true => ", by Enter or a letter",
        false => "",
    };
    let words = match run.outcome() {
        RunOutcome::Running => format!(
            "run {} keeps running; a relaunch stops it first",
            run.number
        ),
        RunOutcome::OutOfMemory
        | RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => {
            format!(
                "nothing runs until you choose{letters}{}{}",
                of_device(scene),
                how_long_ago(run, scene.state.now)
            )
        }
    };
    let words = format!("{words}{}", behind(page));
    page.labelled("now", vec![(words, Tone::Dim)])
}

/// Somebody who comes back in the morning asks when it was.
fn how_long_ago(run: &Run, now: Moment) -> String {
    let since = run.oom().map(|oom| now.since(oom.at));
    let long = since.filter(|since| *since >= NOT_JUST_NOW);
    long.map_or(String::new(), |since| {
        format!(", memory ran out {} ago", clock_face(since))
    })
}

/// What starts the recorded command with the selected remedy, once the replay is left.
fn again(page: Page) -> Vec<StyledLine> {
    let session = page.scene.state.session.as_ref();
    let apply = page.dialog.to_apply(page.scene);
    // `oomph again` goes on behind a session's last run.
    let ran_out = page
        .scene
        .state
        .run()
        .is_some_and(|run| run.outcome() == RunOutcome::OutOfMemory);
    let Some(session) = session.filter(|_| ran_out && !apply.is_empty()) else {
        return Vec::new();
    };
    let recommended = remedy::recommended(page.scene.remedies, page.scene.cause());
    let is_recommended = recommended.is_some_and(|at| [page.scene.remedies[at].id] == apply[..]);
    let named = match is_recommended {
        true => String::new(),
        false => {
            let names: Vec<String> = apply.iter().map(|id| id.name()).collect();
            format!(" --remedy {}", names.join(","))
        }
    };
    let words = format!("oomph again {}{named}{}", session.id, behind(page));
    page.labelled("to start", vec![(words, Tone::Dim)])
}

/// How much of the device is in use since the run ended, if NVML says it.
fn of_device(scene: &Scene) -> String {
    let state = scene.state;
    let oom = state.oom().and_then(|oom| oom.device.as_ref());
    let device = oom.and_then(|uuid| state.device(uuid));
    let ended = state.run().and_then(|run| Some(run.ended?.0));
    let since = device.zip(ended).and_then(|(device, ended)| {
        let (at, reading) = device.reading.as_ref()?;
        let used = reading.used.filter(|_| *at > ended)?;
        let of = device.capacity.map(|all| format!(" of {all}"));
        let of = of.unwrap_or_default();
        Some(format!("; {used}{of} in use on {}", device.label()))
    });
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{Estimate, Need};

    #[test]
    fn of_a_wide_interval_there_is_one_end() {
        let of = |low, high| {
            let needs = Estimate::new(Bytes::gib(low), Bytes::gib(low), Bytes::gib(high));
            need(&Expectation {
                need: Some(Need::of(needs)),
                room: Some(Bytes::gib(24)),
                ..Expectation::default()
            })
        };
        assert_eq!(of(12, 21), "12–21 GiB");
        assert_eq!(of(4, 31), "≥ 4 GiB");
        assert_eq!(of(9, 20), "≤ 20 GiB");
    }
}
