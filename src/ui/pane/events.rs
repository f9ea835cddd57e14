//! The list of events: runs, their phases, OOMs, retries, notes, the newest last. Text is made only
//! for the rows shown: there may be hundreds.

use crate::event::{Level, Note, NvmlState, ProbeErrors};
use crate::state::{ENDING, EpochMark, Epochs, OomIncident, RankState, Run, RunOutcome, State};
use crate::ui::canvas::{self, Canvas};
use crate::ui::chart::axis::round_numbers;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec, Scrolling};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::count;
use crate::ui::words::outcome_words;
use crate::units::{Moment, clock_face};
use std::path::Path;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    own_rows: |_, _, _, rest| rest,
    scrolling: Scrolling::List {
        length,
        shown: |area| area.height.into(),
    },
    rows: PaneRows::Growing(|_, scene, _| length(scene) as u16),
    ..PaneSpec::plain("events", draw)
};

#[derive(Clone, Copy)]
enum LoggedEvent<'a> {
    Recording(&'a Path),
    Started(&'a Run),
    /// The first process of a run initialised CUDA.
    Joined(&'a Run),
    /// The first optimizer step of a run ended.
    Stepped,
    /// cudaMalloc failed and was retried after the cache was given back.
    Retried(&'a RankState, u64),
    /// The probe of a process caught errors of its own.
    ProbeErrors(&'a RankState, &'a ProbeErrors),
    ProbeGone(&'a RankState),
    OutOfMemory(&'a Run, &'a OomIncident),
    /// The program's output named another epoch.
    Epoch(u64),
    StopRequested(&'a Run),
    Ended(&'a Run),
    Note(&'a Note),
}

/// All events, not in order.
fn entries<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (Moment, LoggedEvent<'a>)> {
    let recording = scene
        .recording
        .map(|path| (Moment::ZERO, LoggedEvent::Recording(path)));
    let now = scene.state.now;
    let runs = scene
        .state
        .runs
        .iter()
        .flat_map(move |run| of_run(run, now));
    let unwanted = unwanted_note(scene.state);
    let notes = scene.state.notes.iter();
    let notes = notes.filter(move |(_, note)| Some(&note.text) != unwanted.as_ref());
    let notes = notes.map(|(at, note)| (*at, LoggedEvent::Note(note)));
    recording.into_iter().chain(runs).chain(notes)
}

/// A simulated GPU has no driver that could be installed.
fn unwanted_note(state: &State) -> Option<String> {
    let mut devices = state.devices.iter().peekable();
    devices.peek()?;
    match &state.nvml {
        Some(NvmlState::Unavailable { reason })
            if devices.all(|device| device.uuid.is_simulated()) =>
        {
            Some(format!("no NVML: {reason}"))
        }
        Some(_) | None => None,
    }
}

fn of_run(run: &Run, now: Moment) -> impl Iterator<Item = (Moment, LoggedEvent<'_>)> {
    let joined = run.ranks.iter().map(|rank| rank.joined).min();
    let stepped = run.ranks.iter().filter_map(|rank| rank.steps.first).min();
    let once = [
        Some((run.started, LoggedEvent::Started(run))),
        joined.map(|at| (at, LoggedEvent::Joined(run))),
        stepped.map(|at| (at, LoggedEvent::Stepped)),
        run.stop_requested
            .map(|at| (at, LoggedEvent::StopRequested(run))),
        run.ended.map(|(at, _)| (at, LoggedEvent::Ended(run))),
    ];
    let running = run.ended.is_none();
    let of_ranks = run.ranks.iter().flat_map(move |rank| {
        let gone = rank.disconnected;
        let gone = gone.filter(|at| running && now.since(*at) >= ENDING);
        let gone = gone.map(|at| (at, LoggedEvent::ProbeGone(rank)));
        let retried = rank.retries.iter();
        let retried = retried.map(move |(at, all)| (*at, LoggedEvent::Retried(rank, *all)));
        let errors = rank.probe_errors.iter();
        let errors = errors.map(move |(at, errors)| (*at, LoggedEvent::ProbeErrors(rank, errors)));
        retried.chain(errors).chain(gone)
    });
    let ooms = run
        .ooms
        .iter()
        .map(move |oom| (oom.at, LoggedEvent::OutOfMemory(run, oom)));
    let epochs = listed(&run.epochs).map(|mark| (mark.at, LoggedEvent::Epoch(mark.number)));
    let once = once.into_iter().flatten();
    once.chain(of_ranks).chain(ooms).chain(epochs)
}

/// Epochs listed of a run, at most; of many only round numbers, so that rarer events are not lost
/// among them.
const EPOCHS: u64 = 12;

fn listed(epochs: &Epochs) -> impl Iterator<Item = &EpochMark> {
    let known = epochs.marks().len() as u64;
    let few = |step: &u64| known / step <= EPOCHS;
    epochs.every(round_numbers().find(few).unwrap_or(1))
}

impl LoggedEvent<'_> {
    /// Figures come first, since the column may be narrow.
    fn words(self, state: &State) -> (String, Tone) {
        match self {
            LoggedEvent::Recording(path) => {
                (format!("recording as {}", session_of(path)), Tone::Dim)
            }
            LoggedEvent::Started(run) => {
                let with = match run.remedies.is_empty() {
                    true => String::new(),
                    false => format!(" with {}", run.remedies.join(", ")),
                };
                (format!("run {} started{with}", run.number), Tone::Strong)
            }
            LoggedEvent::Joined(run) => {
                let torch = run.ranks.first().map_or("", |rank| &rank.hello.torch);
                let words = match run.ranks.len() {
                    1 => format!("CUDA initialised, torch {torch}"),
                    n => format!("CUDA initialised, {n} processes, torch {torch}"),
                };
                (words, Tone::Text)
            }
            LoggedEvent::Stepped => ("first optimizer step done".to_string(), Tone::Text),
            LoggedEvent::Retried(rank, all) => {
                let who = rank.hello.rank.map(|number| format!("rank {number} "));
                let who = who.unwrap_or_default();
                let times = count(all);
                let words = format!("{who}allocator flushed its cache and retried ({times}×)");
                (words, Tone::Warning)
            }
            LoggedEvent::ProbeErrors(rank, errors) => {
                let who = rank.hello.rank.map(|number| format!(" in rank {number}"));
                let who = who.unwrap_or_default();
                (format!("{}{who}", errors.words()), Tone::Warning)
            }
            LoggedEvent::ProbeGone(rank) => {
                let words = format!("probe in process {} disconnected", rank.hello.pid);
                (words, Tone::Warning)
            }
            LoggedEvent::OutOfMemory(run, oom) => {
                let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
                let place = device.map_or(String::new(), |d| format!(" on {}", d.label()));
                let requested = oom.requested();
                let requested =
                    requested.map_or(String::new(), |bytes| format!(": {bytes} requested"));
                match run.survived_oom(oom) {
                    true => (format!("OOM caught{place}{requested}"), Tone::Warning),
                    false => (format!("OOM{place}{requested}"), Tone::Wrong),
                }
            }
            LoggedEvent::Epoch(number) => (format!("epoch {number}"), Tone::Dim),
            LoggedEvent::StopRequested(run) => (format!("stopping run {}", run.number), Tone::Text),
            LoggedEvent::Ended(run) => {
                let outcome = run.outcome();
                let (words, tone) = outcome_words(run);
                let exit = run.ended.map(|(_, exit)| format!(" ({exit})"));
                let how = match outcome {
                    RunOutcome::Failed(_)
                    | RunOutcome::Running
                    | RunOutcome::Finished
                    | RunOutcome::TrainedNothing => None,
                    RunOutcome::OutOfMemory | RunOutcome::Stopped => exit,
                };
                let how = how.unwrap_or_default();
                (format!("run {} ended: {words}{how}", run.number), tone)
            }
            LoggedEvent::Note(note) => {
                let tone = match note.level {
                    Level::Info => Tone::Text,
                    Level::Warning => Tone::Warning,
                };
                (note.text.clone(), tone)
            }
        }
    }
}

/// The session's name by its recording; of a file elsewhere its own name.
fn session_of(path: &Path) -> String {
    let named = match path.file_name() {
        Some(name) if name == "events.jsonl" => path.parent().and_then(Path::file_name),
        name => name,
    };
    named.map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn length(scene: &Scene) -> usize {
    entries(scene).count()
}

/// Rows of one event, at most: in a narrow column its end would be cut.
const ROWS_EACH: usize = 2;

/// The same in a narrow column with rows to spare.
const NARROW: usize = 3;

/// From this width on an event is shown whole where rows are free. A narrower column is for a glance: one that took half of it would hide the
/// others, and the pane below has it whole.
const WHOLE: u16 = 72;

/// Columns of the time before the words.
const TIME: u16 = 9;

fn draw(canvas: &mut Canvas, _: &View, scene: &Scene, list: ListScroll) {
    let glyphs = canvas.theme.glyphs;
    let mut entries: Vec<(Moment, LoggedEvent)> = entries(scene).collect();
    entries.sort_by_key(|(at, _)| *at);
    let shown = usize::from(canvas.area.height);
    let first = list.first(entries.len(), shown);
    let room = canvas.area.width.saturating_sub(TIME).max(1);
    let in_view = entries.iter().skip(first).take(shown);
    let in_view: Vec<(String, String, Tone)> = in_view
        .map(|(at, entry)| {
            let time = time_of(scene.state, *at);
            let (words, tone) = entry.words(scene.state);
            (time, glyphs.spelled(&words), tone)
        })
        .collect();
    // At the end of the list the newest are shown whole, and for that perhaps fewer; where it is scrolled, a row is an event.
    let is_at_end = first + shown >= entries.len();
    let most = if is_at_end { ROWS_EACH } else { 1 };
    let is_whole = is_at_end && canvas.area.width >= WHOLE;
    let mut free = shown;
    let mut newest: Vec<(String, String, Tone)> = Vec::new();
    for (time, words, tone) in in_view.into_iter().rev() {
        // The newest is read first: the oldest make room for it.
        let most = match newest.is_empty() && is_whole {
            true => most.max(shown / 2),
            false => most,
        };
        let lines = wrapped(&words, room, most);
        let Some(left) = free.checked_sub(lines.len()) else {
            break;
        };
        free = left;
        newest.push((time, words, tone));
    }
    // Where rows are free, nothing is cut.
    let mut rows: Vec<(String, String, Tone)> = Vec::new();
    for (place, (time, words, tone)) in newest.into_iter().enumerate() {
        let most = match place == 0 && is_whole {
            true => most.max(shown / 2),
            false => most,
        };
        let usual = wrapped(&words, room, most).len();
        let at_most = match (is_at_end, is_whole) {
            (true, true) => usual + free,
            (true, false) => (usual + free).min(NARROW),
            (false, _) => most,
        };
        let lines = wrapped(&words, room, at_most.max(usual));
        free = (free + usual).saturating_sub(lines.len());
        let times = std::iter::once(time).chain(std::iter::repeat(String::new()));
        let lines = times.zip(lines).map(|(time, line)| (time, line, tone));
        rows.splice(0..0, lines);
    }
    for (row, (time, words, tone)) in (0..).zip(rows) {
        let mut pen = canvas.pen(row);
        pen.text(&format!("{time:>7}  "), Tone::Dim);
        pen.rest(&words, tone);
    }
}

/// The time since its run began, behind the run's number where there are several.
fn time_of(state: &State, at: Moment) -> String {
    let time = clock_face(state.since_start(at));
    let runs = state.runs.iter().rev();
    let run = runs
        .filter(|_| state.runs.len() > 1)
        .find(|run| run.started <= at);
    let numbered = run.map(|run| format!("#{} {time}", run.number));
    let fitting = numbered.filter(|time| canvas::columns(time) <= TIME - 2);
    fitting.unwrap_or(time)
}

/// The words in at most so many rows of so many columns: up to the end of the last clause that has room, and a sign that there is more.
fn wrapped(words: &str, room: u16, most: usize) -> Vec<String> {
    let rows = canvas::rows(words, room);
    if rows.len() <= most {
        return rows;
    }
    let ends = words.char_indices().filter_map(|(at, c)| match c {
        ';' | ',' | ':' => words[at + 1..].starts_with(' ').then_some(at),
        ' ' => words[at + 1..].starts_with('(').then_some(at),
        _ => None,
    });
    let clauses = ends.map(|end| canvas::rows(&format!("{} …", &words[..end]), room));
    // A clause that leaves half of the rows empty says too little.
    let filled = |rows: &[String]| {
        rows.iter()
            .map(|row| usize::from(canvas::columns(row)))
            .sum::<usize>()
    };
    let enough = usize::from(room) * most / 2;
    let mut fitting = clauses.filter(|rows| rows.len() <= most && filled(rows) >= enough);
    if let Some(longest) = fitting.next_back() {
        return longest;
    }
    let mut rows = rows;
    rows.truncate(most - 1);
    let before = rows.iter();
    let rest = before.fold(words, |rest, row| {
        rest.strip_prefix(row.as_str()).unwrap_or(rest).trim_start()
    });
    rows.push(rest.to_string());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::state::tests::staged::StagedSession;
    use crate::units::Pid;

    #[test]
    fn what_is_wider_than_the_column_has_a_second_row_and_no_third() {
        let rows = |words| wrapped(words, 20, ROWS_EACH);
        assert_eq!(rows("run 1 started"), ["run 1 started"]);
        assert_eq!(
            rows("OOM on GPU 0: 288 MiB requested"),
            ["OOM on GPU 0: 288", "MiB requested"]
        );
        assert_eq!(
            rows("a b c d e f g h i j k l m n o p q r s t u"),
            ["a b c d e f g h i j", "k l m n o p q r s t u"]
        );
    }

    #[test]
    fn a_message_is_not_cut_behind_its_first_words() {
        let message = "run 2 (activation checkpointing + mixed precision) needs more memory than was expected of it";
        let rows = wrapped(message, 27, ROWS_EACH);
        assert_eq!(rows[0], "run 2 (activation");
        assert!(rows[1].starts_with("checkpointing + mixed"), "{rows:?}");
    }

    #[test]
    fn an_event_of_several_runs_has_its_runs_number() {
        let mut scene = StagedSession::training();
        let at = |seconds: f64| Moment::from_secs_f64(seconds);
        let first = scene.state.runs[0].started;
        let three = first + std::time::Duration::from_secs(3);
        assert_eq!(time_of(&scene.state, three), "0:03");
        scene.add(
            9.0,
            crate::state::tests::staged::exited(1, crate::event::Exit::Code(1)),
        );
        scene.add(
            20.0,
            crate::state::tests::staged::started(2, 200, "train.py"),
        );
        assert_eq!(time_of(&scene.state, three), "#1 0:03");
        assert_eq!(time_of(&scene.state, at(24.0)), "#2 0:04");
        let hours = time_of(&scene.state, at(9_999.0));
        assert!(!hours.contains('#'), "{hours}");
    }

    #[test]
    fn a_narrow_column_has_the_beginning_a_wide_one_all_and_a_simulated_gpu_needs_no_driver() {
        use ratatui::buffer::Buffer;
        use ratatui::layout::Rect;
        let mut scene = StagedSession::default();
        scene.add(
            0.0,
            crate::state::tests::staged::started(1, 100, "train.py"),
        );
        let reason = String::from("install the NVIDIA driver");
        scene.add(0.1, EventKind::Nvml(NvmlState::Unavailable { reason }));
        let note = "batch up to 106 fits (now 24), with inputs like those so far: the allocations of step 3 replayed";
        let note = crate::event::Note::new(Level::Info, note);
        scene.add(1.0, EventKind::Note(note));
        let drawn = |scene: &StagedSession, width, height| {
            let theme = crate::ui::theme::Theme::full();
            let area = Rect::new(0, 0, width, height);
            let mut buffer = Buffer::empty(area);
            let mut canvas = Canvas {
                buf: &mut buffer,
                theme: &theme,
                area,
            };
            let view = View::new(theme, width, height);
            draw(
                &mut canvas,
                &view,
                &Scene::of(&scene.state),
                ListScroll::default(),
            );
            let cells = buffer.content().chunks(width.into());
            let rows = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
            let all: Vec<String> = rows.collect();
            all.join(" ")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let wide = drawn(&scene, 80, 9);
        assert!(wide.contains("of step 3 replayed"), "{wide}");
        let high = drawn(&scene, 36, 9);
        assert!(high.contains("with inputs like those so far …"), "{high}");
        assert!(high.contains("NVIDIA driver"), "{high}");
        let low = drawn(&scene, 36, 3);
        assert!(!low.contains("replayed"), "{low}");
        let EventKind::Hello(mut hello) = crate::state::tests::staged::hello(1, 100, None) else {
            panic!("a hello");
        };
        hello.devices.truncate(1);
        hello.devices[0].uuid = Some(crate::units::Uuid::new("SIM-24"));
        scene.add(2.0, EventKind::Hello(hello));
        let sample = crate::state::tests::staged::sample;
        let gib = crate::state::tests::staged::gib;
        scene.add(2.1, EventKind::Sample(sample(100, 0, gib(1.0), gib(2.0))));
        assert!(!drawn(&scene, 36, 9).contains("NVIDIA driver"));
    }

    /// The count of a process replaces its earlier one.
    #[test]
    fn errors_of_the_probes_own_are_one_line() {
        let mut scene = StagedSession::training();
        for (at, count) in [(2.0, 1), (3.0, 3)] {
            let errors = ProbeErrors {
                pid: Pid(100),
                count,
                latest: "take a reading: KeyError (sampler.py:131)".into(),
            };
            scene.add(at, EventKind::ProbeErrors(errors));
        }
        let state = &scene.state;
        let lines = of_run(state.run().unwrap(), state.now).map(|(_, entry)| entry.words(state).0);
        let lines: Vec<String> = lines.filter(|line| line.contains("probe")).collect();
        assert_eq!(lines, ["probe: 3 internal errors"]);
    }
}
