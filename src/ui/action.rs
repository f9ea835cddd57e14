//! What a key means, and what then is for the loop to do.

use super::chart::Move;
use crate::command::CommandLine;
use crate::remedy::RemedyId;

/// What a key means; what it does to the view or outside is decided in `update`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The next pane below the chart.
    NextPane,
    /// The one before.
    PreviousPane,
    /// The pane alone on the screen, or with the others again.
    MaximizePane,
    /// The chart alone on the screen, or with the others again.
    MaximizeChart,
    /// The next device.
    NextDevice,
    /// The one before.
    PreviousDevice,
    /// Moves the chart in time.
    Time(Move),
    /// Lays an earlier run over the chart, or none.
    Compare,
    /// The chart to the capacity, or to what is used.
    OtherHeight,
    /// Scrolls the pane, or the selection of a dialog.
    Up,
    /// The same, down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    ToStart,
    /// To the end, following again.
    ToEnd,
    /// Opens the dialog of the latest out-of-memory again.
    OpenOom,
    /// Shows the command to edit it and to start it again.
    EditCommand,
    /// Asks for a text to look for in the output.
    Search,
    /// Takes the text that was typed, and what was found.
    KeepSearch,
    /// Goes to the next older row with it.
    SearchOlder,
    /// Goes to the next newer one.
    SearchNewer,
    /// Looks for it no longer.
    EndSearch,
    /// Begins to select rows of the output.
    Select,
    /// Gives the keyboard to the training.
    TypeToTraining,
    /// Copies the command, or the diagnosis.
    Copy,
    /// Shows all keys.
    Help,
    /// Leaves.
    Quit,
    /// Asks whether to stop the training.
    AskToStop,
    /// Sends one SIGINT to the training; quits where it has ended.
    Interrupt,
    /// Puts oomph itself in the background.
    Suspend,
    /// Draws everything anew.
    Redraw,
    /// Takes the mouse, or gives it back to the terminal.
    Mouse,
    /// Puts on the next theme.
    NextTheme,
    /// Plays a recording on, or holds it.
    PlayOrPause,
    /// Plays it twice as fast.
    Faster,
    /// Plays it half as fast.
    Slower,
    /// Takes the selected remedy into the combination, or out of it.
    Combine,
    /// Starts the next run, where none runs.
    Relaunch,
    /// Stops the training that runs, and starts the next run.
    StopAndRelaunch,
    /// More of the diagnosis, or less.
    Details,
    /// Leaves a dialog.
    Back,
    /// Quits and stops the training.
    QuitAndStop,
    /// Quits and leaves the training running.
    QuitAndLeave,
    /// Stops the training: signal, grace, then kill.
    Stop,
    /// Kills it at once.
    Kill,
}

/// What the loop has to carry out.
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
    /// Ask the terminal for mouse events, or no longer.
    CaptureMouse(bool),
    /// Play the recording differently.
    Replay(ReplayControl),
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
}
