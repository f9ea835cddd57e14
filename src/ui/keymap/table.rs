//! Every key: its mode, its action and its words. Within a mode the order is the footer's.

use super::{Binding, InputMode, Key, bind};
use crate::ui::action::{Action, FlameMove, SeekTarget, StepMove};
use crate::ui::chart::Move;
use crate::ui::pane::Pane;
use ratatui::crossterm::event::KeyCode;

const UP: &[Key] = &[Key::code(KeyCode::Up), Key::plain('k')];
const DOWN: &[Key] = &[Key::code(KeyCode::Down), Key::plain('j')];
const BACK: &[Key] = &[Key::code(KeyCode::Esc)];
const INTERRUPT: &[Key] = &[Key::control('c')];
/// Ends or restarts a running training: no text contains this key, so that a line meant for a shell
/// cannot do it.
const END: &[Key] = &[Key::control('x')];

/// The words of all digits, which the help lists as one row. A digit that no pane has is no key: [`bindings`] leaves it out.
const PANE: &str = "the pane with this number";

/// There are nine digits for the panes below the chart.
const _: () = assert!(Pane::ALL.len() <= 10);

/// All keys. Within a mode the order is the footer's.
#[rustfmt::skip]
pub static TABLE: &[Binding] = &[
    bind(InputMode::Watching, &[Key::plain('n')], Action::SearchNewer, "next", "next match, further down"),
    bind(InputMode::Watching, &[Key::plain('N')], Action::SearchOlder, "previous", "previous match, further up"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Esc)], Action::EndSearch, "end search", "clear the search, follow"),
    bind(InputMode::Watching, &[Key::plain('o')], Action::OpenOom, "why and what to do", "why memory ran out and what to do"),
    bind(InputMode::Watching, &[Key::plain('s'), Key::plain('S')], Action::OpenStep, "step", "what a step is made of, line by line"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Tab)], Action::NextPane, "panes", "next pane below the chart"),
    bind(InputMode::Watching, &[Key::code(KeyCode::BackTab)], Action::PreviousPane, "", "previous pane"),
    bind(InputMode::Watching, &[Key::plain('1')], Action::ShowPane(1), "", PANE),
    bind(InputMode::Watching, &[Key::plain('2')], Action::ShowPane(2), "", PANE),
    bind(InputMode::Watching, &[Key::plain('3')], Action::ShowPane(3), "", PANE),
    bind(InputMode::Watching, &[Key::plain('4')], Action::ShowPane(4), "", PANE),
    bind(InputMode::Watching, &[Key::plain('5')], Action::ShowPane(5), "", PANE),
    bind(InputMode::Watching, &[Key::plain('6')], Action::ShowPane(6), "", PANE),
    bind(InputMode::Watching, &[Key::plain('7')], Action::ShowPane(7), "", PANE),
    bind(InputMode::Watching, &[Key::plain('8')], Action::ShowPane(8), "", PANE),
    bind(InputMode::Watching, &[Key::plain('9')], Action::ShowPane(9), "", PANE),
    bind(InputMode::Watching, &[Key::plain('v')], Action::EditCommand, "relaunch", "view and edit the command, then relaunch"),
    bind(InputMode::Watching, &[Key::plain('P')], Action::SaveSnapshot, "", "save PyTorch's own snapshot of now (pytorch.org/memory_viz)"),
    bind(InputMode::Watching, &[Key::plain(' '), Key::plain('p')], Action::PlayOrPause, "play/pause", "play or pause the recording"),
    bind(InputMode::Watching, &[Key::plain('>')], Action::Faster, "faster", "play the recording twice as fast"),
    bind(InputMode::Watching, &[Key::plain('<')], Action::Slower, "slower", "play the recording half as fast"),
    bind(InputMode::Watching, &[Key::plain('O')], Action::Seek(SeekTarget::NextOom), "next OOM", "to the next OOM"),
    bind(InputMode::Watching, &[Key::plain(')')], Action::Seek(SeekTarget::Forward), "forward", "forward by 10 s of playing"),
    bind(InputMode::Watching, &[Key::plain('(')], Action::Seek(SeekTarget::Back), "back", "back by 10 s of playing"),
    bind(InputMode::Watching, &[Key::plain('}')], Action::Seek(SeekTarget::NextRun), "", "to the next run"),
    bind(InputMode::Watching, &[Key::plain('{')], Action::Seek(SeekTarget::PreviousRun), "", "to the run before"),
    bind(InputMode::Watching, &[Key::plain(' ')], Action::Time(Move::PauseOrGoOn), "pause", "freeze the chart (recording continues)"),
    bind(InputMode::Watching, &[Key::plain('0'), Key::code(KeyCode::Esc)], Action::Time(Move::Reset), "follow", "back to now, default zoom"),
    bind(InputMode::Watching, &[Key::plain('K')], Action::AskToStop, "stop", "stop the training (asks first)"),
    bind(InputMode::Watching, &[Key::plain('f')], Action::MaximizePane, "full", "maximize the pane, and back"),
    bind(InputMode::Watching, &[Key::plain(']')], Action::NextDevice, "next GPU", "next GPU"),
    bind(InputMode::Watching, &[Key::plain('w')], Action::NextStandout, "fullest rank", "chart of the fullest, the slowest, the odd rank"),
    bind(InputMode::Watching, &[Key::plain('+'), Key::plain('=')], Action::Time(Move::In), "zoom in", "zoom in"),
    bind(InputMode::Watching, &[Key::plain('-')], Action::Time(Move::Out), "out", "zoom out"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Time(Move::Back), "", "pan to earlier"),
    bind(InputMode::Watching, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Time(Move::Forward), "", "pan to later"),
    bind(InputMode::Watching, &[Key::plain(',')], Action::Time(Move::CursorBack), "", "cursor left, shows its values"),
    bind(InputMode::Watching, &[Key::plain('.')], Action::Time(Move::CursorForward), "", "cursor right"),
    bind(InputMode::Watching, &[Key::plain('c')], Action::Compare, "compare", "overlay an earlier run"),
    bind(InputMode::Watching, &[Key::plain('z')], Action::OtherHeight, "", "scale to capacity / to usage"),
    bind(InputMode::Watching, &[Key::plain('m')], Action::MaximizeChart, "", "maximize the chart, and back"),
    bind(InputMode::Watching, &[Key::plain('[')], Action::PreviousDevice, "", "previous GPU"),
    bind(InputMode::Watching, UP, Action::Up, "", "up one row"),
    bind(InputMode::Watching, DOWN, Action::Down, "", "down one row"),
    bind(InputMode::Watching, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "up one page"),
    bind(InputMode::Watching, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "down one page"),
    bind(InputMode::Watching, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "to the start"),
    bind(InputMode::Watching, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "to the end, follow"),
    bind(InputMode::Watching, &[Key::plain('/')], Action::Search, "search", "search (lowercase ignores case)"),
    bind(InputMode::Watching, &[Key::plain('V')], Action::Select, "", "select rows to copy"),
    bind(InputMode::Watching, &[Key::plain('y')], Action::Copy, "", "copy the command"),
    bind(InputMode::Watching, &[Key::plain('R')], Action::WriteReport, "report", "write the report of this session: a page to keep or to send"),
    bind(InputMode::Watching, &[Key::plain('M')], Action::Mouse, "", "the mouse: for this screen, or left to the terminal"),
    bind(InputMode::Watching, &[Key::plain('t')], Action::NextTheme, "", "next theme (default/dark/light/contrast)"),
    bind(InputMode::Watching, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),
    bind(InputMode::Watching, &[Key::control('z')], Action::Suspend, "", "suspend oomph; the training continues"),
    bind(InputMode::Watching, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Watching, &[Key::plain('i')], Action::TypeToTraining, "type to the training", "type to the training"),
    bind(InputMode::Watching, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Watching, &[Key::plain('q')], Action::Quit, "quit", "quit (asks while the training runs)"),

    bind(InputMode::Step, &[Key::plain('m')], Action::Step(StepMove::Regroup), "modules", "by lines, by modules, as a flame graph, by what grows"),
    bind(InputMode::Step, &[Key::plain('w')], Action::Step(StepMove::WhatLeaks), "what leaks", "what grows and who keeps it alive (the training waits, up to 1 s)"),
    bind(InputMode::Step, &[Key::plain('n')], Action::Step(StepMove::Newest), "newest", "the newest traced step, and trace the next one now (it takes a little longer)"),
    bind(InputMode::Step, &[Key::code(KeyCode::Enter)], Action::Flame(FlameMove::ZoomIn), "zoom in", "the selected part over the whole width"),
    bind(InputMode::Step, &[Key::code(KeyCode::Backspace)], Action::Flame(FlameMove::ZoomOut), "zoom out", "back to what contains it"),
    bind(InputMode::Step, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Flame(FlameMove::Smaller), "beside", "select the next part"),
    bind(InputMode::Step, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Flame(FlameMove::Larger), "", "select the part before it"),
    bind(InputMode::Step, DOWN, Action::Flame(FlameMove::Child), "into it", "select its largest part"),
    bind(InputMode::Step, UP, Action::Flame(FlameMove::Parent), "", "select what contains it"),
    bind(InputMode::Step, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Step(StepMove::Back), "", "cursor left"),
    bind(InputMode::Step, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Step(StepMove::Forward), "cursor", "cursor right"),
    bind(InputMode::Step, &[Key::plain('p')], Action::Step(StepMove::ToPeak), "peak", "cursor to the peak"),
    bind(InputMode::Step, &[Key::code(KeyCode::Enter)], Action::Step(StepMove::OpenRow), "the line", "all that is known of the one at the pointer, and back"),
    bind(InputMode::Step, &[Key::plain('v')], Action::Step(StepMove::EditLine), "edit", "the line at the pointer in $EDITOR (the training goes on)"),
    bind(InputMode::Step, UP, Action::Up, "", "up one row"),
    bind(InputMode::Step, DOWN, Action::Down, "lines", "down one row"),
    bind(InputMode::Step, &[Key::plain('t')], Action::Step(StepMove::Reorder), "sort", "sort by bytes, by blocks, by name"),
    bind(InputMode::Step, &[Key::plain('[')], Action::Step(StepMove::PreviousStep), "previous step", "the traced step before"),
    bind(InputMode::Step, &[Key::plain(']')], Action::Step(StepMove::NextStep), "next step", "the traced step after"),
    bind(InputMode::Step, &[Key::plain('f')], Action::Step(StepMove::FirstStep), "first", "the first traced step"),
    bind(InputMode::Step, &[Key::plain('L')], Action::Step(StepMove::LargestStep), "largest", "the traced step with the highest peak"),
    bind(InputMode::Step, &[Key::plain('o')], Action::Step(StepMove::FailedStep), "ran out", "the step that ran out of memory"),
    bind(InputMode::Step, &[Key::plain('P')], Action::SaveSnapshot, "", "save PyTorch's own snapshot of now (pytorch.org/memory_viz)"),
    bind(InputMode::Step, &[Key::plain(',')], Action::Step(StepMove::EventBack), "", "cursor back by one allocation or free"),
    bind(InputMode::Step, &[Key::plain('.')], Action::Step(StepMove::EventForward), "", "cursor on by one allocation or free"),
    bind(InputMode::Step, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::Step(StepMove::ToStart), "", "cursor to the step's beginning"),
    bind(InputMode::Step, &[Key::plain('G'), Key::code(KeyCode::End)], Action::Step(StepMove::ToEnd), "", "cursor to the step's end"),
    bind(InputMode::Step, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "up one page"),
    bind(InputMode::Step, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "down one page"),
    bind(InputMode::Step, &[Key::code(KeyCode::Tab)], Action::NextDevice, "", "next GPU"),
    bind(InputMode::Step, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Step, &[Key::code(KeyCode::Esc), Key::plain('s'), Key::plain('S'), Key::plain('q')], Action::Back, "back", "back to the chart"),
    bind(InputMode::Step, &[Key::control('z')], Action::Suspend, "", "suspend oomph; the training continues"),
    bind(InputMode::Step, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Step, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Oom, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "relaunch with the selected remedies (or press a remedy's key)"),
    bind(InputMode::Oom, END, Action::StopAndRelaunch, "stop and relaunch", "stop the running training, relaunch with the selected remedies"),
    bind(InputMode::Oom, &[Key::plain(' ')], Action::Combine, "combine", "combine the selected remedy with others"),
    bind(InputMode::Oom, &[Key::plain('v')], Action::EditCommand, "edit", "edit the command first"),
    bind(InputMode::Oom, &[Key::plain('d')], Action::Details, "details", "the evidence, the lines with the most live memory, what is not offered"),
    bind(InputMode::Oom, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(InputMode::Oom, &[Key::plain('U')], Action::RelaunchUnchanged, "unchanged", "relaunch the same command, unchanged"),
    bind(InputMode::Oom, &[Key::plain('S')], Action::OpenFailedStep, "the step", "what the step that ran out of memory is made of"),
    bind(InputMode::Oom, &[Key::plain('R')], Action::WriteReport, "report", "write the report: a page to keep or to send"),
    bind(InputMode::Oom, UP, Action::Up, "", "previous remedy"),
    bind(InputMode::Oom, DOWN, Action::Down, "", "next remedy"),
    bind(InputMode::Oom, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "details: up one page"),
    bind(InputMode::Oom, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "details: down one page"),
    bind(InputMode::Oom, &[Key::code(KeyCode::Tab)], Action::NextSection, "", "details: to the next section"),
    bind(InputMode::Oom, &[Key::plain('y')], Action::Copy, "copy", "copy the diagnosis as Markdown; again: the next command"),
    bind(InputMode::Oom, BACK, Action::Back, "back", "close this dialog (o opens it again)"),
    bind(InputMode::Oom, &[Key::control('z')], Action::Suspend, "", "suspend oomph"),
    bind(InputMode::Oom, &[Key::control('l')], Action::Redraw, "", "redraw"),
    bind(InputMode::Oom, &[Key::plain('q')], Action::Quit, "quit", "quit"),
    bind(InputMode::Oom, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Editing, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "start this command"),
    bind(InputMode::Editing, END, Action::StopAndRelaunch, "stop and relaunch", "stop the running training, start this command"),
    bind(InputMode::Editing, BACK, Action::Back, "back", "back without changes"),
    bind(InputMode::Editing, INTERRUPT, Action::Back, "", "back without changes"),

    bind(InputMode::Quitting, END, Action::QuitAndStop, "stop the training", "quit and stop the training"),
    bind(InputMode::Quitting, &[Key::plain('l')], Action::QuitAndLeave, "leave it running", "quit and leave the training running"),
    bind(InputMode::Quitting, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "keep watching"),
    bind(InputMode::Quitting, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::Stopping, END, Action::Stop, "stop", "SIGTERM, then SIGKILL"),
    bind(InputMode::Stopping, &[Key::control('k')], Action::Kill, "kill now", "SIGKILL now"),
    bind(InputMode::Stopping, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "let it run"),
    bind(InputMode::Stopping, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::Helping, &[Key::code(KeyCode::Esc), Key::plain('?'), Key::plain('q')], Action::Back, "back", "back"),
    bind(InputMode::Helping, &[Key::plain('/')], Action::Search, "search", "search the keys by their words"),
    bind(InputMode::Helping, UP, Action::Up, "up", "up one row"),
    bind(InputMode::Helping, DOWN, Action::Down, "down", "down one row"),
    bind(InputMode::Helping, INTERRUPT, Action::Interrupt, "", "send SIGINT to the training"),

    bind(InputMode::SearchingHelp, &[Key::code(KeyCode::Enter)], Action::KeepSearch, "keep", "keep what was found"),
    bind(InputMode::SearchingHelp, BACK, Action::Back, "back", "all keys"),
    bind(InputMode::SearchingHelp, INTERRUPT, Action::Back, "", "all keys"),

    bind(InputMode::Searching, &[Key::code(KeyCode::Enter)], Action::KeepSearch, "keep", "keep the matches; n and N step through them"),
    bind(InputMode::Searching, BACK, Action::Back, "back", "cancel the search"),
    bind(InputMode::Searching, INTERRUPT, Action::Back, "", "cancel the search"),

    bind(InputMode::Selecting, &[Key::plain('y'), Key::code(KeyCode::Enter)], Action::Copy, "copy", "copy the selected rows"),
    bind(InputMode::Selecting, UP, Action::Up, "extend up", "extend up one row"),
    bind(InputMode::Selecting, DOWN, Action::Down, "extend down", "extend down one row"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "extend up one page"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "extend down one page"),
    bind(InputMode::Selecting, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "extend to the start"),
    bind(InputMode::Selecting, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "extend to the end"),
    bind(InputMode::Selecting, &[Key::code(KeyCode::Esc), Key::plain('V'), Key::plain('q')], Action::Back, "back", "clear the selection, follow"),
    bind(InputMode::Selecting, INTERRUPT, Action::Interrupt, "", "SIGINT to the training; quit if it ended"),

    bind(InputMode::Typing, &[Key::control(']')], Action::Back, "keyboard back to oomph", "keyboard back to oomph"),
];
