//! The table itself: one line a key, so that it reads as a table.

use super::{Binding, Key, Mode, bind};
use crate::ui::action::Action;
use crate::ui::chart::Move;
use ratatui::crossterm::event::KeyCode;

const UP: &[Key] = &[Key::code(KeyCode::Up), Key::plain('k')];
const DOWN: &[Key] = &[Key::code(KeyCode::Down), Key::plain('j')];
const BACK: &[Key] = &[Key::code(KeyCode::Esc)];
const INTERRUPT: &[Key] = &[Key::control('c')];

/// All keys. Within a mode the order is the footer's.
#[rustfmt::skip]
pub static TABLE: &[Binding] = &[
    bind(Mode::Watching, &[Key::plain('n')], Action::SearchOlder, "older", "output: the next older row with what is searched"),
    bind(Mode::Watching, &[Key::plain('N')], Action::SearchNewer, "newer", "output: the next newer one"),
    bind(Mode::Watching, &[Key::code(KeyCode::Esc)], Action::EndSearch, "end search", "output: no search any more, following again"),
    bind(Mode::Watching, &[Key::code(KeyCode::Tab)], Action::NextPane, "panes", "next pane below the chart"),
    bind(Mode::Watching, &[Key::code(KeyCode::BackTab)], Action::PreviousPane, "", "previous pane"),
    bind(Mode::Watching, &[Key::plain('o')], Action::OpenOom, "why and what to do", "why memory ran out and what to do"),
    bind(Mode::Watching, &[Key::plain('r')], Action::EditCommand, "relaunch", "view and edit the command, start it again"),
    bind(Mode::Watching, &[Key::plain(' '), Key::plain('p')], Action::PlayOrPause, "play/pause", "play the recording, or hold it"),
    bind(Mode::Watching, &[Key::plain('>')], Action::Faster, "faster", "play the recording twice as fast"),
    bind(Mode::Watching, &[Key::plain('<')], Action::Slower, "slower", "play the recording half as fast"),
    bind(Mode::Watching, &[Key::plain(' ')], Action::Time(Move::PauseOrGoOn), "pause", "hold the chart; collecting goes on"),
    bind(Mode::Watching, &[Key::plain('0'), Key::code(KeyCode::Esc)], Action::Time(Move::Reset), "follow", "chart back to now, zoom as at the start"),
    bind(Mode::Watching, &[Key::plain('K')], Action::AskToStop, "stop", "stop the training (asks first)"),
    bind(Mode::Watching, &[Key::plain('f')], Action::MaximizePane, "full", "pane alone on the screen, and back"),
    bind(Mode::Watching, &[Key::plain(']')], Action::NextDevice, "next GPU", "next GPU"),
    bind(Mode::Watching, &[Key::plain('+'), Key::plain('=')], Action::Time(Move::In), "zoom in", "chart: a shorter time"),
    bind(Mode::Watching, &[Key::plain('-')], Action::Time(Move::Out), "out", "chart: a longer time"),
    bind(Mode::Watching, &[Key::code(KeyCode::Left), Key::plain('h')], Action::Time(Move::Back), "", "chart: earlier"),
    bind(Mode::Watching, &[Key::code(KeyCode::Right), Key::plain('l')], Action::Time(Move::Forward), "", "chart: later"),
    bind(Mode::Watching, &[Key::plain(',')], Action::Time(Move::CursorBack), "", "chart: the cursor, and what held there; a column earlier"),
    bind(Mode::Watching, &[Key::plain('.')], Action::Time(Move::CursorForward), "", "chart: the cursor a column later"),
    bind(Mode::Watching, &[Key::plain('c')], Action::Compare, "compare", "chart: lay an earlier run over it, from its start on"),
    bind(Mode::Watching, &[Key::plain('z')], Action::OtherHeight, "", "chart: up to the capacity, or up to what is used"),
    bind(Mode::Watching, &[Key::plain('m')], Action::MaximizeChart, "", "chart alone on the screen, and back"),
    bind(Mode::Watching, &[Key::plain('[')], Action::PreviousDevice, "", "previous GPU"),
    bind(Mode::Watching, UP, Action::Up, "", "pane: a row up"),
    bind(Mode::Watching, DOWN, Action::Down, "", "pane: a row down"),
    bind(Mode::Watching, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "pane: a page up"),
    bind(Mode::Watching, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "pane: a page down"),
    bind(Mode::Watching, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "pane: to the beginning"),
    bind(Mode::Watching, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "pane: to the end, following again"),
    bind(Mode::Watching, &[Key::plain('/')], Action::Search, "search", "output: search (small letters stand for capitals too)"),
    bind(Mode::Watching, &[Key::plain('v')], Action::Select, "", "output: select rows, to copy them"),
    bind(Mode::Watching, &[Key::plain('y')], Action::Copy, "", "copy the command"),
    bind(Mode::Watching, &[Key::plain('M')], Action::Mouse, "", "take the mouse (click, drag, wheel), or leave it to the terminal"),
    bind(Mode::Watching, &[Key::plain('t')], Action::NextTheme, "", "next theme: default, dark, light, high contrast"),
    bind(Mode::Watching, INTERRUPT, Action::Interrupt, "", "interrupt the training, as without oomph; quit where it has ended"),
    bind(Mode::Watching, &[Key::control('z')], Action::Suspend, "", "oomph to the background; a training goes on"),
    bind(Mode::Watching, &[Key::control('l')], Action::Redraw, "", "draw the screen anew"),
    bind(Mode::Watching, &[Key::plain('i')], Action::TypeToTraining, "type to the training", "give the keyboard to the training"),
    bind(Mode::Watching, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(Mode::Watching, &[Key::plain('q')], Action::Quit, "quit", "quit (asks while a training runs)"),

    bind(Mode::Oom, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "relaunch with the selected remedies; a remedy's own key does so at once"),
    bind(Mode::Oom, &[Key::plain(' ')], Action::Combine, "combine", "combine the selected remedy with others"),
    bind(Mode::Oom, &[Key::plain('v')], Action::EditCommand, "edit", "view and edit the command first"),
    bind(Mode::Oom, &[Key::plain('d')], Action::Details, "details", "the numbers, the lines that hold the memory, the stack"),
    bind(Mode::Oom, &[Key::plain('?'), Key::code(KeyCode::F(1))], Action::Help, "help", "this help"),
    bind(Mode::Oom, UP, Action::Up, "", "remedy above"),
    bind(Mode::Oom, DOWN, Action::Down, "", "remedy below"),
    bind(Mode::Oom, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "details: a page up"),
    bind(Mode::Oom, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "details: a page down"),
    bind(Mode::Oom, &[Key::plain('y')], Action::Copy, "copy", "copy the diagnosis and the command"),
    bind(Mode::Oom, BACK, Action::Back, "back", "back to the panes, to look around"),
    bind(Mode::Oom, &[Key::control('z')], Action::Suspend, "", "oomph to the background"),
    bind(Mode::Oom, &[Key::control('l')], Action::Redraw, "", "draw the screen anew"),
    bind(Mode::Oom, &[Key::plain('q')], Action::Quit, "quit", "quit"),
    bind(Mode::Oom, INTERRUPT, Action::Interrupt, "", "interrupt the training; quit where it has ended"),

    bind(Mode::Editing, &[Key::code(KeyCode::Enter)], Action::Relaunch, "relaunch", "start this command; a run that goes on is stopped first"),
    bind(Mode::Editing, BACK, Action::Back, "back", "back, nothing changed"),
    bind(Mode::Editing, INTERRUPT, Action::Back, "", "back, nothing changed"),

    bind(Mode::Quitting, &[Key::plain('s'), Key::code(KeyCode::Enter)], Action::QuitAndStop, "stop the training", "quit and stop the training"),
    bind(Mode::Quitting, &[Key::plain('l')], Action::QuitAndLeave, "leave it running", "quit and leave the training running"),
    bind(Mode::Quitting, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "stay here"),
    bind(Mode::Quitting, INTERRUPT, Action::Interrupt, "", "interrupt the training"),

    bind(Mode::Stopping, &[Key::plain('s'), Key::code(KeyCode::Enter)], Action::Stop, "stop", "ask it to end, kill it if it does not"),
    bind(Mode::Stopping, &[Key::plain('k')], Action::Kill, "kill now", "kill it at once"),
    bind(Mode::Stopping, &[Key::code(KeyCode::Esc), Key::plain('q'), Key::plain('c')], Action::Back, "cancel", "let it run"),
    bind(Mode::Stopping, INTERRUPT, Action::Interrupt, "", "interrupt the training"),

    bind(Mode::Helping, &[Key::code(KeyCode::Esc), Key::plain('?'), Key::plain('q')], Action::Back, "back", "back"),
    bind(Mode::Helping, UP, Action::Up, "up", "a row up"),
    bind(Mode::Helping, DOWN, Action::Down, "down", "a row down"),
    bind(Mode::Helping, INTERRUPT, Action::Interrupt, "", "interrupt the training"),

    bind(Mode::Searching, &[Key::code(KeyCode::Enter)], Action::KeepSearch, "keep", "keep what was found; n and N go on from it"),
    bind(Mode::Searching, BACK, Action::Back, "back", "back, nothing searched"),
    bind(Mode::Searching, INTERRUPT, Action::Back, "", "back, nothing searched"),

    bind(Mode::Selecting, &[Key::plain('y'), Key::code(KeyCode::Enter)], Action::Copy, "copy", "copy the selected rows"),
    bind(Mode::Selecting, UP, Action::Up, "more above", "up to the row above"),
    bind(Mode::Selecting, DOWN, Action::Down, "below", "down to the row below"),
    bind(Mode::Selecting, &[Key::code(KeyCode::PageUp), Key::control('b')], Action::PageUp, "", "up by a page"),
    bind(Mode::Selecting, &[Key::code(KeyCode::PageDown), Key::control('f')], Action::PageDown, "", "down by a page"),
    bind(Mode::Selecting, &[Key::plain('g'), Key::code(KeyCode::Home)], Action::ToStart, "", "up to the beginning"),
    bind(Mode::Selecting, &[Key::plain('G'), Key::code(KeyCode::End)], Action::ToEnd, "", "down to the end"),
    bind(Mode::Selecting, &[Key::code(KeyCode::Esc), Key::plain('v'), Key::plain('q')], Action::Back, "back", "nothing selected, following again"),
    bind(Mode::Selecting, INTERRUPT, Action::Interrupt, "", "interrupt the training; quit where it has ended"),

    bind(Mode::Typing, &[Key::control(']')], Action::Back, "keyboard back to oomph", "keyboard back to oomph"),
];
