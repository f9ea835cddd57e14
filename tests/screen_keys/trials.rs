//! What pressing a key is to do, action by action.

use crate::harness::{Key as Press, PATIENCE, Terminal, processes, wait_until};
use crate::screen_keys::stage::{DIALOG, Session, Stage};
use nix::unistd::Pid;
use oomph::event::Exit;
use oomph::ui::Move;
use oomph::ui::keymap::{InputMode, Key};
use oomph::ui::{Action, FlameMove, SeekTarget, StepMove};

/// One key's trial: where it is pressed, what comes before it, what is to follow.
pub struct Trial {
    stage: Stage,
    rows: u16,
    before: Vec<(Press, Seen)>,
    after: Seen,
}

/// What is to be seen.
enum Seen {
    /// This text on the screen.
    Text(&'static str),
    /// This text on the screen no more.
    Gone(&'static str),
    /// A screen of which this holds.
    Screen(fn(&str) -> bool),
    /// A screen of which this holds, compared with the one before the key.
    Changed(fn(&str, &str) -> bool),
    /// These bytes, once more than before the key.
    Sent(&'static str),
    /// The program was interrupted.
    Interrupted,
    /// The process is stopped.
    Stopped,
    /// The process ends with this status.
    Ends(fn(Exit) -> bool),
}

use Seen::{Changed, Ends, Gone, Interrupted, Screen, Sent, Stopped, Text};

const CLIPBOARD: &str = "\x1b]52;c;";
const TO_TRAINING: &str = "your keys go to the training";
const QUIT: &str = "Quit? The training is still running";
const HELP: &str = "╭─ keys ─";
const RAN_OUT: &str = "╭─ CUDA out of memory";
const SNAPSHOT: &str = "snapshot saved: ";
const STOP: &str = "Stop the training?";

fn how_many(bytes: &[u8], sequence: &str) -> usize {
    let sequence = sequence.as_bytes();
    let windows = bytes.windows(sequence.len());
    windows.filter(|window| *window == sequence).count()
}

impl Trial {
    /// Presses the key.
    pub fn run(self, key: Key, help: &str) {
        eprintln!("{help}: {key:?}");
        let begin = match self.after {
            Stopped => Session::begin_under_a_shell,
            _ => Session::begin,
        };
        let mut session = begin(self.stage, self.rows, 100);
        for (press, seen) in self.before {
            let before = Before::of(&session.terminal);
            session.terminal.press(press);
            seen.wait(&mut session, &before);
        }
        let before = Before::of(&session.terminal);
        session.press(key);
        self.after.wait(&mut session, &before);
    }
}

/// What was there before a key.
struct Before {
    screen: String,
    bytes: Vec<u8>,
}

impl Before {
    fn of(terminal: &Terminal) -> Before {
        Before {
            screen: terminal.screen(),
            bytes: terminal.raw(),
        }
    }
}

impl Seen {
    fn wait(self, session: &mut Session, before: &Before) {
        if matches!(self, Interrupted) {
            return wait_until("SIGINT", PATIENCE, || session.is_interrupted());
        }
        let terminal = &mut session.terminal;
        match self {
            Interrupted => {}
            Text(text) => drop(terminal.wait_for(text, PATIENCE)),
            Gone(text) => {
                assert!(before.screen.contains(text), "{text} in {}", before.screen);
                terminal.wait_for(|screen: &str| !screen.contains(text), PATIENCE);
            }
            Screen(holds) => drop(terminal.wait_for(holds, PATIENCE)),
            Changed(holds) => {
                terminal.wait_for(|screen: &str| holds(&before.screen, screen), PATIENCE);
            }
            Sent(sequence) => wait_until(&format!("{sequence:?}"), PATIENCE, || {
                how_many(&terminal.raw(), sequence) > how_many(&before.bytes, sequence)
            }),
            Stopped => wait_until("a stopped process", PATIENCE, || {
                let processes = terminal.marker().processes();
                let is_stopped = |pid: &Pid| processes::state(*pid) == Some('T');
                processes.iter().any(is_stopped)
            }),
            Ends(with) => {
                let exit = terminal.exit(PATIENCE);
                assert!(with(exit), "{exit:?}\n{}", terminal.post_mortem());
                assert_eq!(terminal.left_behind(), [""; 0]);
            }
        }
    }
}

fn trial(stage: Stage, before: Vec<(Press, Seen)>, after: Seen) -> Trial {
    Trial {
        stage,
        rows: 30,
        before,
        after,
    }
}

fn live(before: Vec<(&str, Seen)>, after: Seen) -> Trial {
    trial(Stage::Live, typed(before), after)
}

fn oom(before: Vec<(&str, Seen)>, after: Seen) -> Trial {
    trial(Stage::Oom, typed(before), after)
}

fn typed(keys: Vec<(&str, Seen)>) -> Vec<(Press, Seen)> {
    keys.into_iter()
        .map(|(key, seen)| (Press::from(key), seen))
        .collect()
}

/// The number before ` rows up` or ` rows selected`.
fn rows(screen: &str, words: &str) -> Option<usize> {
    let (before, _) = screen.split_once(words)?;
    before.split_whitespace().next_back()?.parse().ok()
}

fn shows_the_oldest_row(screen: &str) -> bool {
    screen.lines().any(|line| line.trim_end() == "row-1")
}

fn up(screen: &str) -> usize {
    rows(screen, " rows up").unwrap_or(0)
}

fn selected(screen: &str) -> usize {
    rows(screen, " rows selected").unwrap_or(usize::from(screen.contains("1 row selected")))
}

/// The chart's time axis.
fn axis(screen: &str) -> Option<&str> {
    screen.lines().find(|line| line.starts_with("GiB └"))
}

/// The column of the chart's cursor: a second upright on the line of the capacity's legend.
fn cursor(screen: &str) -> Option<usize> {
    let mut lines = screen.lines().filter(|line| line.contains("capacity"));
    let uprights = |line: &str| {
        let uprights = line.chars().enumerate();
        let mut columns = uprights.filter(|(_, c)| matches!(c, '│' | '┤'));
        columns.nth(1).map(|(column, _)| column)
    };
    lines.find_map(uprights)
}

/// The seconds of the first minute that the header's clock shows.
fn seconds(screen: &str) -> u32 {
    let header = screen.lines().next().unwrap_or_default();
    let clock = header
        .split_whitespace()
        .find_map(|word| word.strip_prefix("0:"));
    clock.and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

/// A replay holds at each OOM and says why; run two has one as well.
fn to_the_end_of_run_two() -> Vec<(&'static str, Seen)> {
    vec![
        (">>>>", Text(RAN_OUT)),
        ("\x1b", Gone(RAN_OUT)),
        (" ", Text(RAN_OUT)),
        // Gone before the next key, with which Esc would be Alt.
        ("\x1b", Gone(RAN_OUT)),
    ]
}

fn with_last(
    mut keys: Vec<(&'static str, Seen)>,
    last: (&'static str, Seen),
) -> Vec<(&'static str, Seen)> {
    keys.push(last);
    keys
}

/// Seeking in the recording of two runs, each of which ends with an OOM.
fn seeking(target: SeekTarget) -> Trial {
    let at_second_run = || vec![("}", Screen(is_in_run_two))];
    match target {
        SeekTarget::NextOom => trial(Stage::TwoRuns, vec![], Text(RAN_OUT)),
        SeekTarget::End => trial(
            Stage::TwoRuns,
            vec![],
            Screen(|screen| header(screen).contains("run 2") && screen.contains(RAN_OUT)),
        ),
        SeekTarget::NextRun => trial(Stage::TwoRuns, vec![], Screen(is_in_run_two)),
        SeekTarget::PreviousRun => trial(
            Stage::TwoRuns,
            typed(at_second_run()),
            Screen(|screen| header(screen).contains("run 1")),
        ),
        SeekTarget::Forward => trial(
            Stage::TwoRuns,
            typed(vec![(" ", Text("‖ replay"))]),
            Screen(|screen| header(screen).contains("0:08")),
        ),
        SeekTarget::Back => trial(
            Stage::TwoRuns,
            typed(vec![
                (" ", Text("‖ replay")),
                (")", Screen(|screen| header(screen).contains("0:08"))),
                ("\x1b", Gone("Esc back")),
            ]),
            Screen(|screen| header(screen).contains("0:00")),
        ),
    }
}

fn header(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

fn is_in_run_two(screen: &str) -> bool {
    header(screen).contains("run 2")
}

/// Lines of the screen that begin with the frame of a dialog.
fn boxed(screen: &str) -> usize {
    let lines = screen.lines();
    lines
        .filter(|line| line.trim_start().starts_with('│'))
        .count()
}

/// Whether the selected remedy's line holds this.
fn points_at(screen: &str, words: &str) -> bool {
    let mut lines = screen.lines();
    lines.any(|line| line.contains('❯') && line.contains(words))
}

/// What a key of this mode with this action is to do. An action without a trial fails here.
pub fn of(mode: InputMode, action: Action) -> Trial {
    match mode {
        InputMode::Watching => watching(action),
        InputMode::Oom => out_of_memory(action),
        InputMode::Editing => editing(action),
        InputMode::Quitting => question(action, "q", QUIT),
        InputMode::Stopping => question(action, "K", STOP),
        InputMode::Helping => helping(action),
        InputMode::SearchingHelp => searching_help(action),
        InputMode::Searching => finding(action),
        InputMode::Selecting => selecting(action),
        InputMode::Step => step(action),
        InputMode::Typing => typing(action),
    }
}

fn without(mode: InputMode, action: Action) -> ! {
    panic!("{action:?} has a key in {mode:?} and no trial: write one")
}

/// Searched for `row-11`, which eleven rows have; the newest is shown first.
fn searched(after: Seen) -> Trial {
    let before = vec![("/", Text("type to search")), ("row-11", Text(" 11 of 11"))];
    let mut trial = live(before, after);
    trial.before.push((Press::Enter, Text("n next")));
    trial
}

fn watching(action: Action) -> Trial {
    match action {
        Action::NextPane | Action::PreviousPane => live(vec![], Gone("row-120")),
        // The first is there from the start.
        Action::ShowPane(1) => live(vec![("2", Gone("row-120"))], Text("row-120")),
        // Its tab comes with the first reading of the RAM.
        Action::ShowPane(8) => live(vec![("", Text("8 RAM"))], Gone("row-120")),
        // One process has no ranks to compare.
        Action::ShowPane(9) => live(vec![], Text("nothing to show of ranks")),
        Action::ShowPane(_) => live(vec![], Gone("row-120")),
        Action::MaximizePane => live(vec![], Gone("┤")),
        Action::MaximizeChart => live(vec![], Gone("row-120")),
        Action::NextDevice | Action::PreviousDevice => live(vec![], Text("─ GPU 1")),
        Action::NextStandout => trial(
            Stage::Nodes,
            typed(vec![(">>>>", Text("● replay"))]),
            Text("─ b GPU 0 of 4"),
        ),
        Action::Time(Move::PauseOrGoOn) => live(vec![], Text("paused")),
        Action::Time(Move::In) => live(vec![], Changed(|before, now| axis(before) != axis(now))),
        Action::Time(Move::Out) => live(
            vec![("+", Changed(|before, now| axis(before) != axis(now)))],
            Changed(|before, now| axis(before) != axis(now)),
        ),
        Action::Time(Move::CursorBack) => live(vec![], Screen(|screen| cursor(screen).is_some())),
        Action::Time(Move::CursorForward) => live(
            // Later it has somewhere to go.
            vec![(
                ",",
                Screen(|screen| cursor(screen).is_some() && seconds(screen) > 4),
            )],
            Changed(|before, now| cursor(before) < cursor(now)),
        ),
        Action::Compare => trial(
            Stage::TwoRuns,
            typed(to_the_end_of_run_two()),
            // A line of its own, with its name at the right.
            Changed(|before, now| before.matches("run 1").count() < now.matches("run 1").count()),
        ),
        Action::Time(Move::Back) => trial(
            Stage::TwoRuns,
            typed(with_last(
                to_the_end_of_run_two(),
                ("++++", Changed(|before, now| axis(before) != axis(now))),
            )),
            Changed(|before, now| axis(before) != axis(now)),
        ),
        Action::Time(Move::Forward) => {
            let mut trial = live(vec![], Gone("paused"));
            trial.before.push((Press::from(" "), Text("paused")));
            trial
        }
        Action::Time(Move::Reset) => live(vec![("+", Text("0 follow"))], Gone("0 follow")),
        Action::OtherHeight => live(
            vec![],
            Changed(|before, now| before.contains("23.4┤") && !now.contains("23.4┤")),
        ),
        Action::Up => live(vec![], Screen(|screen| up(screen) == 1)),
        Action::Down => live(
            vec![("kk", Screen(|screen| up(screen) == 2))],
            Screen(|screen| up(screen) == 1),
        ),
        Action::PageUp => live(vec![], Screen(|screen| up(screen) > 2)),
        Action::PageDown => live(
            vec![("g", Screen(shows_the_oldest_row))],
            Changed(|before, now| (1..up(before)).contains(&up(now))),
        ),
        Action::ToStart => live(vec![], Screen(shows_the_oldest_row)),
        Action::ToEnd => live(vec![("g", Text("rows up"))], Gone("rows up")),
        Action::SaveSnapshot => trial(Stage::Leaking, vec![], Text(SNAPSHOT)),
        Action::OpenStep => live(vec![], Text("what a step is made of")),
        // It is a key once growth was seen.
        Action::Step(StepMove::WhatLeaks) => trial(
            Stage::Leaking,
            typed(vec![("", Text("w what leaks"))]),
            Text("train.py:5 kept: list of"),
        ),
        Action::OpenOom => {
            let mut trial = oom(vec![], Text(DIALOG));
            trial.before.push((Press::Esc, Gone(DIALOG)));
            trial
        }
        Action::EditCommand => live(vec![], Text("(stops run 1 first)")),
        Action::Search => live(vec![], Text("type to search")),
        Action::SearchOlder => searched(Text(" 10 of 11")),
        Action::SearchNewer => searched(Text(" 1 of 11")),
        Action::EndSearch => searched(Gone("/row-11")),
        Action::Select => live(vec![], Text("1 row selected")),
        Action::TypeToTraining => live(vec![], Text(TO_TRAINING)),
        Action::Copy => live(vec![], Sent(CLIPBOARD)),
        Action::Help => live(vec![], Text(HELP)),
        Action::Quit => live(vec![], Text(QUIT)),
        Action::AskToStop => live(vec![], Text(STOP)),
        Action::Interrupt => live(vec![], Interrupted),
        Action::Suspend => live(vec![], Stopped),
        Action::Redraw => live(vec![], Sent("oomph")),
        // It is on from the start.
        Action::Mouse => live(vec![], Sent("\x1b[?1002l")),
        Action::WriteReport => live(vec![], Text("report: ")),
        Action::NextTheme => live(vec![], Text("theme: light")),
        Action::PlayOrPause => trial(Stage::Replay, vec![], Text("‖ replay")),
        Action::Faster => trial(Stage::Replay, vec![], Text("replay x2")),
        Action::Slower => trial(Stage::Replay, vec![], Text("replay x0.5")),
        Action::Seek(target) => seeking(target),
        action => without(InputMode::Watching, action),
    }
}

/// The recording of a training of which two steps were traced, at its end; then what comes before the
/// key.
fn looking(keys: Vec<(&str, Seen)>, after: Seen) -> Trial {
    let opened = ("s", Text("step 7 of rank 1"));
    let played = (">>>>", Text("● replay"));
    let keys = [played, opened].into_iter().chain(keys);
    trial(Stage::Traced, typed(keys.collect()), after)
}

fn step(action: Action) -> Trial {
    const AT_PEAK: &str = "at the peak";
    const BEGINNING: &str = "before the first allocation";
    const END: &str = "alloc/free 6 of 6";
    match action {
        Action::Step(StepMove::Back | StepMove::EventBack) => {
            looking(vec![], Text("alloc/free 2 of 6"))
        }
        Action::Step(StepMove::Forward | StepMove::EventForward) => {
            looking(vec![], Text("alloc/free 4 of 6"))
        }
        Action::Step(StepMove::ToStart) => looking(vec![], Text(BEGINNING)),
        Action::Step(StepMove::ToEnd) => looking(vec![], Text(END)),
        Action::Step(StepMove::ToPeak) => looking(vec![("g", Text(BEGINNING))], Text(AT_PEAK)),
        Action::Step(StepMove::Regroup) => looking(vec![], Text("Which module allocated what")),
        Action::Step(StepMove::OpenRow) => looking(vec![], Text("train.py, line 1, in main")),
        Action::Step(StepMove::EditLine) => looking(vec![], Text("/home/ada/train.py:1 is not on")),
        Action::Step(StepMove::Reorder) => looking(vec![], Text("sorted by blocks")),
        Action::Step(StepMove::PreviousStep) => looking(vec![], Text("step 5 of rank 1")),
        Action::Step(StepMove::NextStep) => looking(
            vec![("[", Text("step 5 of rank 1"))],
            Text("step 7 of rank 1"),
        ),
        Action::Step(StepMove::FirstStep) => looking(vec![], Text("step 3 of rank 1")),
        Action::Step(StepMove::LargestStep) => looking(vec![], Text("step 5 of rank 1")),
        Action::Step(StepMove::Newest) => looking(
            vec![("[", Text("step 5 of rank 1"))],
            Text("step 7 of rank 1"),
        ),
        Action::Step(StepMove::FailedStep) => {
            let opened = ("s", Text("step 9 of rank 1"));
            let before = vec![(">>>>", Text("● replay")), opened, ("[", Text("step 7 of"))];
            trial(
                Stage::TracedToTheEnd,
                typed(before),
                Text("step 9 of rank 1"),
            )
        }
        Action::Step(StepMove::WhatLeaks) => {
            let opened = ("s", Text("allocations"));
            trial(
                Stage::Leaking,
                typed(vec![opened]),
                Text("train.py:5 kept: list of"),
            )
        }
        Action::WriteReport => few_lines(vec![], Text("/reports/oomph-")),
        Action::Flame(step) => flame(step),
        Action::SaveSnapshot => {
            let opened = ("s", Text("what leaks"));
            trial(Stage::Leaking, typed(vec![opened]), Text(SNAPSHOT))
        }
        Action::Down | Action::PageDown => few_lines(
            vec![],
            Screen(|screen| {
                ["train.py:2 ", "train.py:3 ", "train.py:4 ", "train.py:5 "]
                    .iter()
                    .any(|line| points_at(screen, line))
            }),
        ),
        Action::Up | Action::PageUp => {
            let second = Screen(|screen| points_at(screen, "train.py:2 "));
            few_lines(
                vec![("j", second)],
                Screen(|screen| points_at(screen, "train.py:1 ")),
            )
        }
        Action::NextDevice => looking(vec![], Text("what a step is made of")),
        Action::Help => looking(vec![], Text("cursor to the peak")),
        Action::Back => looking(vec![], Gone(AT_PEAK)),
        Action::Suspend => none_traced(Stopped),
        Action::Redraw => none_traced(Sent("oomph")),
        Action::Interrupt => none_traced(Interrupted),
        action => without(InputMode::Step, action),
    }
}

/// In the flame graph of a step of which lines are known and no modules.
fn flame(step: FlameMove) -> Trial {
    const FILE: &str = "❯ train.py  ";
    const LINE: &str = "❯ train.py → ";
    const ZOOMED: &str = "zoom out";
    let shown = |keys: Vec<(&'static str, Seen)>, after| {
        let by_modules = ("m", Text("Which module allocated what"));
        let opened = [by_modules, ("m", Text(FILE))].into_iter();
        looking(opened.chain(keys).collect(), after)
    };
    let other = |before: &str, now: &str| {
        let selected = |screen: &str| {
            let line = screen.lines().find(|line| line.contains(LINE));
            line.map(String::from)
        };
        selected(now).is_some() && selected(before) != selected(now)
    };
    match step {
        FlameMove::Child => shown(vec![], Text(LINE)),
        FlameMove::Parent => shown(vec![("j", Text(LINE))], Text(FILE)),
        FlameMove::Smaller => shown(vec![("j", Text(LINE))], Changed(other)),
        FlameMove::Larger => shown(
            vec![("j", Text(LINE)), ("l", Changed(other))],
            Changed(other),
        ),
        FlameMove::ZoomIn => shown(vec![], Text(ZOOMED)),
        FlameMove::ZoomOut => {
            let mut trial = shown(vec![], Gone(ZOOMED));
            trial.before.push((Press::Enter, Text(ZOOMED)));
            trial
        }
    }
}

/// While a training runs of which no step was traced.
fn none_traced(after: Seen) -> Trial {
    live(vec![("s", Text("what a step is made of"))], after)
}

/// On a screen on which not all lines of the step fit.
fn few_lines(keys: Vec<(&str, Seen)>, after: Seen) -> Trial {
    Trial {
        rows: 12,
        ..looking(keys, after)
    }
}

/// On a screen on which the details do not fit.
fn detailed(after: Seen) -> Trial {
    Trial {
        rows: 13,
        ..oom(vec![("d", Text("PgUp PgDn: lines 1-"))], after)
    }
}

fn out_of_memory(action: Action) -> Trial {
    match action {
        Action::Relaunch => oom(vec![], Text("this fits")),
        Action::StopAndRelaunch => trial(
            Stage::Hanging,
            typed(vec![
                ("o", Text("b smaller batch")),
                ("b", Screen(|screen| points_at(screen, "smaller batch"))),
            ]),
            Text("this fits"),
        ),
        Action::Combine => oom(vec![], Screen(|screen| points_at(screen, "● b"))),
        Action::EditCommand => oom(vec![], Text("Relaunch with this command")),
        Action::Details => oom(vec![], Changed(|before, now| boxed(before) < boxed(now))),
        Action::Help => oom(vec![], Text("combine the selected remedy")),
        Action::Down => oom(vec![], Screen(|screen| !points_at(screen, "smaller batch"))),
        Action::Up => oom(
            vec![("j", Screen(|screen| !points_at(screen, "smaller batch")))],
            Screen(|screen| points_at(screen, "smaller batch")),
        ),
        Action::PageDown | Action::NextSection => detailed(Gone("PgDn: lines 1-")),
        Action::PageUp => {
            let mut trial = detailed(Text("PgDn: lines 1-"));
            trial.before.push((Press::PageDown, Gone("PgDn: lines 1-")));
            trial
        }
        Action::Copy => oom(vec![], Sent(CLIPBOARD)),
        Action::RelaunchUnchanged => oom(vec![], Text("run 2")),
        Action::WriteReport => oom(vec![], Text("report: ")),
        Action::OpenFailedStep => trial(Stage::RanOut, vec![], Text("where memory ran out")),
        Action::OpenLeak => trial(Stage::Leaked, vec![], Text("kept alive by")),
        Action::Back => oom(vec![], Gone(DIALOG)),
        Action::Suspend => oom(vec![], Stopped),
        Action::Redraw => oom(vec![], Sent("oomph")),
        Action::Quit | Action::Interrupt => oom(vec![], Ends(|exit| exit == Exit::Code(1))),
        action => without(InputMode::Oom, action),
    }
}

fn editing(action: Action) -> Trial {
    let edit = |after| oom(vec![("v", Text("Relaunch with this command"))], after);
    match action {
        Action::Relaunch => edit(Text("this fits")),
        Action::StopAndRelaunch => live(
            vec![("v", Text("(stops run 1 first)"))],
            Screen(|screen| {
                screen
                    .lines()
                    .next()
                    .is_some_and(|header| header.contains("run 2"))
            }),
        ),
        Action::Back => edit(Text(DIALOG)),
        action => without(InputMode::Editing, action),
    }
}

fn question(action: Action, opens: &str, words: &'static str) -> Trial {
    let asked = |after| live(vec![(opens, Text(words))], after);
    match action {
        Action::QuitAndStop | Action::Stop | Action::Kill => asked(Ends(|exit| !exit.is_success())),
        Action::QuitAndLeave => asked(Ends(|exit| exit == Exit::Code(0))),
        Action::Back if words == QUIT => asked(Gone(QUIT)),
        Action::Back => asked(Gone(STOP)),
        Action::Interrupt => asked(Interrupted),
        action => without(InputMode::Quitting, action),
    }
}

fn searching_help(action: Action) -> Trial {
    let searched = |after| {
        let before = vec![
            ("?", Text(HELP)),
            ("/", Text("  /")),
            ("zoom", Gone("view and edit")),
        ];
        live(before, after)
    };
    match action {
        Action::KeepSearch => searched(Text("Esc back  / search")),
        Action::Back => searched(Text("view and edit")),
        action => without(InputMode::SearchingHelp, action),
    }
}

fn helping(action: Action) -> Trial {
    // Nothing of the help of this session is scrolled away.
    const FIRST: &str = "0 above";
    match action {
        Action::Search => live(vec![("?", Text(HELP))], Gone("search the keys")),
        Action::Back => live(vec![("?", Text(HELP))], Gone(HELP)),
        Action::Down => Trial {
            rows: 16,
            ..live(vec![("?", Text(FIRST))], Gone(FIRST))
        },
        Action::Up => Trial {
            rows: 16,
            ..live(vec![("?", Text(FIRST)), ("j", Gone(FIRST))], Text(FIRST))
        },
        Action::Interrupt => live(vec![("?", Text(FIRST))], Interrupted),
        action => without(InputMode::Helping, action),
    }
}

fn finding(action: Action) -> Trial {
    let found = |after| {
        let before = vec![("/", Text("type to search")), ("row-11", Text(" 11 of 11"))];
        live(before, after)
    };
    match action {
        Action::KeepSearch => found(Text("n next")),
        Action::Back => found(Gone("/row-11")),
        action => without(InputMode::Searching, action),
    }
}

fn selecting(action: Action) -> Trial {
    let begun = |after| live(vec![("V", Text("1 row selected"))], after);
    let more = |after| {
        let from = Screen(|screen| selected(screen) > 100);
        live(vec![("V", Text("1 row selected")), ("g", from)], after)
    };
    match action {
        Action::Copy => begun(Sent(CLIPBOARD)),
        Action::Up => begun(Screen(|screen| selected(screen) == 2)),
        Action::Down => live(
            vec![
                ("V", Text("1 row selected")),
                ("kk", Screen(|screen| selected(screen) == 3)),
            ],
            Screen(|screen| selected(screen) == 2),
        ),
        Action::PageUp => begun(Screen(|screen| selected(screen) > 2)),
        Action::PageDown => more(Changed(|before, now| {
            (2..selected(before)).contains(&selected(now))
        })),
        Action::ToStart => begun(Screen(|screen| selected(screen) > 100)),
        Action::ToEnd => more(Screen(|screen| (1..4).contains(&selected(screen)))),
        Action::Back => begun(Gone("1 row selected")),
        Action::Interrupt => begun(Interrupted),
        action => without(InputMode::Selecting, action),
    }
}

fn typing(action: Action) -> Trial {
    match action {
        Action::Back => live(vec![("i", Text(TO_TRAINING))], Gone(TO_TRAINING)),
        action => without(InputMode::Typing, action),
    }
}
