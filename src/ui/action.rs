//! Actions that keys stand for, and effects that the loop carries out.

use super::chart::Move;
use crate::command::CommandLine;
use crate::remedy::RemedyId;
use crate::units::Pid;

/// What a key stands for; `update` decides what follows. The key's words are in `keymap/table.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    NextPane,
    PreviousPane,
    /// The pane with this number among the tabs, from 1.
    ShowPane(u8),
    MaximizePane,
    MaximizeChart,
    NextDevice,
    PreviousDevice,
    /// Selects the device of the fullest rank, then of the slowest, then of the odd one out.
    NextStandout,
    Time(Move),
    /// Overlays an earlier run on the chart, or none.
    Compare,
    /// Scales the chart to the capacity or to what is used.
    OtherHeight,
    /// Scrolls the pane, or moves the selection of a dialog.
    Up,
    Down,
    PageUp,
    PageDown,
    ToStart,
    /// Scrolls to the end of the pane, which is followed from then on.
    ToEnd,
    /// Shows what a traced step is made of.
    OpenStep,
    Step(StepMove),
    Flame(FlameMove),
    /// Saves PyTorch's own snapshot of this moment.
    SaveSnapshot,
    /// Shows what the step that ran out of memory is made of.
    OpenFailedStep,
    /// Shows what grew until memory ran out, and who keeps it alive.
    OpenLeak,
    /// Writes the report of the session to a file.
    WriteReport,
    /// Opens the dialog of the latest OOM again.
    OpenOom,
    /// Shows the command to edit it and relaunch.
    EditCommand,
    Search,
    /// Closes the search line and keeps its matches.
    KeepSearch,
    /// Scrolls to the next older match of the search.
    SearchOlder,
    /// Scrolls to the next newer match of the search.
    SearchNewer,
    EndSearch,
    /// Starts selecting rows of the output.
    Select,
    TypeToTraining,
    /// Copies the selected rows, the diagnosis or the command.
    Copy,
    Help,
    Quit,
    AskToStop,
    /// Sends one SIGINT to the training; quits if it has ended.
    Interrupt,
    /// Stops oomph itself, as Ctrl-Z does in a shell.
    Suspend,
    Redraw,
    /// Takes the mouse, or leaves it to the terminal.
    Mouse,
    NextTheme,
    PlayOrPause,
    Faster,
    Slower,
    /// Goes elsewhere in the recording.
    Seek(SeekTarget),
    /// Adds the selected remedy to the combination, or takes it out.
    Combine,
    /// Starts the next run if none is running.
    Relaunch,
    /// Starts the same command again.
    RelaunchUnchanged,
    /// Stops the running training first.
    StopAndRelaunch,
    /// Shows more or less of the diagnosis.
    Details,
    /// Scrolls the diagnosis to its next section.
    NextSection,
    Back,
    QuitAndStop,
    QuitAndLeave,
    /// SIGTERM, a grace period, then SIGKILL.
    Stop,
    Kill,
}

/// How far an action reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionReach {
    /// Moves within what is shown: at the end of a list, or of time, it finds nothing to do, and that is seen.
    Moves,
    /// Shows something else, and does nothing that takes more than another key to undo.
    Shows,
    /// Anything more.
    Does,
}

impl Action {
    pub fn reach(self) -> ActionReach {
        match self {
            Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::ToStart
            | Action::ToEnd
            | Action::Flame(_) => ActionReach::Moves,
            Action::Time(step) if step.only_moves() => ActionReach::Moves,
            Action::Step(step) => step.reach(),
            Action::Time(_)
            | Action::NextPane
            | Action::PreviousPane
            | Action::ShowPane(_)
            | Action::MaximizePane
            | Action::MaximizeChart
            | Action::NextDevice
            | Action::PreviousDevice
            | Action::NextStandout
            | Action::Compare
            | Action::OtherHeight
            | Action::OpenStep
            | Action::OpenFailedStep
            | Action::OpenLeak
            | Action::OpenOom
            | Action::Help
            | Action::Redraw
            | Action::NextTheme
            | Action::Details
            | Action::NextSection => ActionReach::Shows,
            Action::SaveSnapshot
            | Action::WriteReport
            | Action::EditCommand
            | Action::Search
            | Action::KeepSearch
            | Action::SearchOlder
            | Action::SearchNewer
            | Action::EndSearch
            | Action::Select
            | Action::TypeToTraining
            | Action::Copy
            | Action::Quit
            | Action::AskToStop
            | Action::Interrupt
            | Action::Suspend
            | Action::Mouse
            | Action::PlayOrPause
            | Action::Faster
            | Action::Slower
            | Action::Seek(_)
            | Action::Combine
            | Action::Relaunch
            | Action::RelaunchUnchanged
            | Action::StopAndRelaunch
            | Action::Back
            | Action::QuitAndStop
            | Action::QuitAndLeave
            | Action::Stop
            | Action::Kill => ActionReach::Does,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Start the next run, after the current one has ended or been stopped.
    Relaunch {
        /// The remedies that make its command.
        remedies: Vec<RemedyId>,
        /// The command as the user edited it, where it differs from what the remedies make. Masked
        /// values in it stand for those of the command before: [`super::restore_masked`].
        command: Option<CommandLine>,
    },
    /// Work out what the command in the editor would need.
    Foresee(CommandLine),
    /// Send SIGINT to the training's foreground group, once.
    Interrupt,
    /// Stop the training: signal, grace, then kill.
    Stop,
    /// Kill the training.
    Kill,
    /// Leave.
    Quit {
        /// Whether the training is stopped first; otherwise it runs on without a screen.
        stop_training: bool,
    },
    /// Put a text into the clipboard (OSC 52).
    Copy(String),
    /// Stop oomph's own process until it is brought to the foreground again.
    Suspend,
    /// Forget what the terminal shows and draw everything.
    Redraw,
    /// Bytes for the training's terminal.
    Input(Vec<u8>),
    /// Open a file at a line in the user's editor.
    EditSource { file: String, line: u32 },
    /// Ask a process who keeps its memory alive: it pauses for that.
    LookForRetainers(Pid),
    /// Ask a process to trace its next step.
    TraceNext(Pid),
    /// Ask a process to save PyTorch's own snapshot.
    SaveSnapshot(Pid),
    /// Write the session's report to a file.
    WriteReport,
    /// Play the recording differently.
    Replay(ReplayControl),
}

/// A way to look about in the traced steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepMove {
    /// The cursor, by a column of the chart.
    Back,
    Forward,
    /// The cursor, by one allocation or free.
    EventBack,
    EventForward,
    ToStart,
    ToEnd,
    ToPeak,
    PreviousStep,
    NextStep,
    /// The first step that was traced.
    FirstStep,
    /// The traced step with the highest peak.
    LargestStep,
    /// The latest traced step, followed from now on; while the training runs its next step is traced.
    Newest,
    /// The traced step that ran out of memory.
    FailedStep,
    /// By lines, by modules, as a flame graph, by what grows.
    Regroup,
    /// The rows by another column.
    Reorder,
    /// Shows all that is known of the row at the pointer, or no longer.
    OpenRow,
    /// Opens the line of that row in the user's editor.
    EditLine,
    /// Shows what grows and who keeps it alive, and looks for that while the training runs.
    WhatLeaks,
}

impl StepMove {
    fn reach(self) -> ActionReach {
        match self {
            StepMove::Back
            | StepMove::Forward
            | StepMove::EventBack
            | StepMove::EventForward
            | StepMove::ToStart
            | StepMove::ToEnd
            | StepMove::ToPeak => ActionReach::Moves,
            StepMove::PreviousStep
            | StepMove::NextStep
            | StepMove::FirstStep
            | StepMove::LargestStep
            | StepMove::Newest
            | StepMove::FailedStep
            | StepMove::Regroup
            | StepMove::Reorder
            | StepMove::OpenRow
            | StepMove::WhatLeaks => ActionReach::Shows,
            StepMove::EditLine => ActionReach::Does,
        }
    }
}

/// A way to look about in the flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlameMove {
    /// To the part that contains the selected one.
    Parent,
    /// To the largest part of the selected one.
    Child,
    /// To the part beside it.
    Larger,
    Smaller,
    /// The selected part takes the whole width.
    ZoomIn,
    ZoomOut,
}

/// A way to scroll the program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scroll {
    /// So many rows into the past.
    Up(usize),
    /// So many rows back towards now.
    Down(usize),
    /// To the oldest row that is kept.
    Start,
    /// To now.
    End,
}

/// A way to play a recording differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayControl {
    /// Go on, or hold.
    PlayOrPause,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
    /// Go elsewhere.
    Seek(SeekTarget),
}

/// Where to go in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTarget {
    /// Back by what is played in ten seconds.
    Back,
    /// Forward by what is played in ten seconds.
    Forward,
    /// To the end of the next run that memory runs out in.
    NextOom,
    NextRun,
    PreviousRun,
    /// To how it ended.
    End,
}
