//! Carries actions out: most change the view alone, some ask the loop for an effect.

use super::{Keyboard, Mouse, Said, Spread, View};
use crate::state::Outcome;
use crate::ui::action::{Action, Effect, Find, ReplayControl, Scroll, Select};
use crate::ui::chart;
use crate::ui::dialog::{Details, Dialog, HelpDialog, OomDialog};
use crate::ui::editor::Editor;
use crate::ui::pane::{self, Pane};
use crate::ui::panes;
use crate::ui::scene::Scene;
use ratatui::layout::Rect;

impl View {
    pub(super) fn carry_out(&mut self, action: Action, scene: &Scene) -> Option<Effect> {
        match action {
            Action::NextPane => self.step_pane(1, scene),
            Action::PreviousPane => self.step_pane(Pane::BELOW.len(), scene),
            Action::Spread => self.spread = toggled(self.spread, Spread::Pane),
            Action::SpreadChart => self.spread = toggled(self.spread, Spread::Chart),
            Action::NextDevice => self.step_device(1, scene),
            Action::PreviousDevice => {
                self.step_device(scene.state.devices.len().saturating_sub(1), scene);
            }
            Action::Time(step) => {
                let columns = self.plot_columns(scene);
                self.time.apply(step, scene.state.now, columns);
            }
            Action::Compare => self.compare_next(scene),
            Action::OtherHeight => self.height = self.height.other(),
            Action::Up => return self.scroll(Scroll::Up(1), scene),
            Action::Down => return self.scroll(Scroll::Down(1), scene),
            Action::PageUp => return self.scroll(Scroll::Up(self.page(scene)), scene),
            Action::PageDown => return self.scroll(Scroll::Down(self.page(scene)), scene),
            Action::ToStart => return self.scroll(Scroll::Start, scene),
            Action::ToEnd => return self.scroll(Scroll::End, scene),
            Action::OpenOom => self.open_oom(scene),
            Action::EditCommand => self.open_editor(scene),
            Action::TypeToTraining => {
                self.bring_output();
                self.keyboard = Keyboard::Training;
                return Some(Effect::Scroll(Scroll::End));
            }
            Action::Find => self.ask_for_text(),
            Action::FindOlder => return Some(Effect::Find(Find::Older)),
            Action::FindNewer => return Some(Effect::Find(Find::Newer)),
            Action::TakeFind => return self.take_find(),
            Action::EndFind => return Some(Effect::Find(Find::End)),
            Action::Select => return self.begin_selecting(None),
            Action::Copy if self.keyboard == Keyboard::Selection => {
                return self.copy_selected(scene);
            }
            Action::Copy => {
                let text = self.copy(scene)?;
                self.say(Said::Copied, scene);
                return Some(Effect::Copy(text));
            }
            Action::Help => self.open_help(),
            Action::Quit => return self.quit(scene),
            Action::AskToStop => self.dialog = Some(Dialog::Stop),
            Action::Interrupt => return Some(interrupt(scene)),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Redraw => return Some(Effect::Redraw),
            Action::NextTheme => {
                self.theme = self.theme.next();
                self.say(Said::Theme, scene);
            }
            Action::Mouse => return Some(self.hand_over_mouse()),
            Action::PlayOrPause => return Some(Effect::Replay(ReplayControl::PlayOrPause)),
            Action::Faster => return Some(Effect::Replay(ReplayControl::Faster)),
            Action::Slower => return Some(Effect::Replay(ReplayControl::Slower)),
            Action::Combine => {
                if let Some(Dialog::Oom(dialog)) = &mut self.dialog {
                    dialog.combine(scene.remedies);
                }
            }
            Action::Details => {
                if let Some(Dialog::Oom(dialog)) = &mut self.dialog {
                    dialog.details = match dialog.details {
                        Details::Brief => Details::Full { scrolled: 0 },
                        Details::Full { .. } => Details::Brief,
                    };
                }
            }
            Action::Relaunch => return self.relaunch(scene),
            Action::Back => return self.back(scene),
            Action::QuitAndStop => {
                return Some(Effect::Quit {
                    stop_training: true,
                });
            }
            Action::QuitAndLeave => {
                return Some(Effect::Quit {
                    stop_training: false,
                });
            }
            Action::Stop => {
                self.dialog = None;
                return Some(Effect::Stop);
            }
            Action::Kill => {
                self.dialog = None;
                return Some(Effect::Kill);
            }
        }
        None
    }

    pub(super) fn say(&mut self, said: Said, scene: &Scene) {
        self.said = Some((said, scene.state.now));
    }

    /// The run before is laid over the chart, then the one before that, then none.
    fn compare_next(&mut self, scene: &Scene) {
        let mut runs = scene.state.runs.iter().rev().skip(1);
        self.compared = match self.compared {
            None => runs.next().map(|run| run.number),
            Some(number) => runs.find(|run| run.number < number).map(|run| run.number),
        };
    }

    /// How many columns of time the chart has.
    pub(in crate::ui) fn plot_columns(&self, scene: &Scene) -> u16 {
        let chart = self.layout(scene).chart();
        chart.map_or(1, |area| chart::plot_of(area).width)
    }

    pub(super) fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.list = super::List::default();
    }

    fn step_pane(&mut self, by: usize, scene: &Scene) {
        // What has a table of its own on this screen needs no pane.
        let tabs = self.layout(scene).tabs();
        let by = by.min(tabs.len().saturating_sub(1));
        self.show(pane::step(&tabs, self.pane, by));
    }

    fn step_device(&mut self, by: usize, scene: &Scene) {
        let devices = scene.state.devices.len().max(1);
        self.device = (self.device + by) % devices;
    }

    /// Opens the dialog of the remedies.
    pub fn open_remedies(&mut self, scene: &Scene) {
        self.open_oom(scene);
    }

    fn open_oom(&mut self, scene: &Scene) {
        if let Some(run) = scene.state.run() {
            self.dialog = Some(Dialog::Oom(OomDialog::of(run.number, scene.remedies)));
        }
    }

    fn open_help(&mut self) {
        let over = match self.dialog.take() {
            Some(Dialog::Oom(dialog)) => Some(dialog),
            Some(
                Dialog::Edit(_) | Dialog::Quit | Dialog::Stop | Dialog::Help(_) | Dialog::Find(_),
            )
            | None => None,
        };
        self.dialog = Some(Dialog::Help(HelpDialog::over(over)));
    }

    fn open_editor(&mut self, scene: &Scene) {
        let remedies = match &self.dialog {
            Some(Dialog::Oom(dialog)) => dialog.to_apply(scene.remedies),
            Some(
                Dialog::Edit(_) | Dialog::Quit | Dialog::Stop | Dialog::Help(_) | Dialog::Find(_),
            )
            | None => Vec::new(),
        };
        if let Some(command) = (scene.plan)(&remedies) {
            self.dialog = Some(Dialog::Edit(Editor::of(command, remedies)));
        }
    }

    fn quit(&mut self, scene: &Scene) -> Option<Effect> {
        let run = scene.state.run();
        let running = run.is_some_and(|run| run.outcome() == Outcome::Running);
        if running && scene.replay.is_none() {
            self.dialog = Some(Dialog::Quit);
            return None;
        }
        Some(Effect::Quit {
            stop_training: true,
        })
    }

    fn relaunch(&mut self, scene: &Scene) -> Option<Effect> {
        let effect = match &mut self.dialog {
            Some(Dialog::Oom(dialog)) => {
                let remedies = dialog.to_apply(scene.remedies);
                // Nothing selected that could be done: the command as it is would fail again.
                if remedies.is_empty() {
                    return None;
                }
                (scene.plan)(&remedies)?;
                Effect::Relaunch {
                    remedies,
                    command: None,
                }
            }
            Some(Dialog::Edit(editor)) => match editor.read() {
                Ok(command) => Effect::Relaunch {
                    remedies: editor.remedies().to_vec(),
                    command,
                },
                Err(error) => {
                    editor.error = Some(error);
                    return None;
                }
            },
            Some(Dialog::Quit | Dialog::Stop | Dialog::Help(_) | Dialog::Find(_)) | None => {
                return None;
            }
        };
        self.dialog = None;
        Some(effect)
    }

    /// One step back: out of the details to the brief dialog, out of the editor to the dialog
    /// that it was opened from, as out of the help, out of a dialog to the panes.
    fn back(&mut self, scene: &Scene) -> Option<Effect> {
        let keyboard = std::mem::take(&mut self.keyboard);
        match (&self.dialog, keyboard) {
            (None, Keyboard::Selection) => return Some(Effect::Select(Select::End)),
            (Some(Dialog::Find(_)), _) => {
                self.dialog = None;
                return Some(Effect::Find(Find::End));
            }
            (_, _) => {}
        }
        if let Some(Dialog::Oom(dialog)) = &mut self.dialog
            && dialog.details != Details::Brief
        {
            dialog.details = Details::Brief;
            return None;
        }
        let ended_by_oom = scene
            .state
            .run()
            .filter(|run| run.outcome() == Outcome::OutOfMemory);
        self.dialog = match (self.dialog.take(), ended_by_oom) {
            (Some(Dialog::Edit(editor)), Some(run)) if !editor.remedies().is_empty() => {
                let mut dialog = OomDialog::of(run.number, scene.remedies);
                dialog.choose(editor.remedies(), scene.remedies);
                Some(Dialog::Oom(dialog))
            }
            (Some(Dialog::Help(help)), _) => help.closed().map(Dialog::Oom),
            (_, _) => None,
        };
        None
    }

    fn hand_over_mouse(&mut self) -> Effect {
        self.mouse = match self.mouse {
            Mouse::Terminal => Mouse::Oomph,
            Mouse::Oomph => Mouse::Terminal,
        };
        Effect::CaptureMouse(self.mouse == Mouse::Oomph)
    }

    fn copy(&self, scene: &Scene) -> Option<String> {
        match &self.dialog {
            Some(Dialog::Oom(dialog)) => Some(dialog.as_text(scene)),
            Some(
                Dialog::Edit(_) | Dialog::Quit | Dialog::Stop | Dialog::Help(_) | Dialog::Find(_),
            )
            | None => Some(scene.state.run()?.command.shown()),
        }
    }

    fn page(&self, scene: &Scene) -> usize {
        self.layout(scene).pane_rows().saturating_sub(1).max(1)
    }

    fn scroll(&mut self, scroll: Scroll, scene: &Scene) -> Option<Effect> {
        match &mut self.dialog {
            Some(Dialog::Oom(dialog)) => dialog.scroll(scroll, scene.remedies),
            Some(Dialog::Help(help)) => help.scroll(scroll),
            Some(Dialog::Edit(_) | Dialog::Quit | Dialog::Stop | Dialog::Find(_)) => {}
            None if self.keyboard == Keyboard::Selection => {
                return View::extend_selection(scroll);
            }
            None => match self.pane {
                Pane::Output => return Some(Effect::Scroll(scroll)),
                Pane::Devices => match scroll {
                    Scroll::Up(_) => self.device = self.device.saturating_sub(1),
                    Scroll::Down(_) => {
                        let last = scene.state.devices.len().saturating_sub(1);
                        self.device = (self.device + 1).min(last);
                    }
                    Scroll::Start => self.device = 0,
                    Scroll::End => self.device = scene.state.devices.len().saturating_sub(1),
                },
                Pane::Memory | Pane::MakeUp | Pane::Allocator => {}
                Pane::Runs | Pane::Events => {
                    let shown = self.pane_shown(scene);
                    self.list.scroll(scroll, self.pane_length(scene), shown);
                }
            },
        }
        None
    }

    /// How many entries of the pane's list are seen at once.
    pub(super) fn pane_shown(&self, scene: &Scene) -> usize {
        let layout = self.layout(scene);
        match (self.pane, layout.pane) {
            (Pane::Runs, Some(pane)) => panes::runs::shown(Rect {
                height: pane.height.saturating_sub(1),
                ..pane
            }),
            (_, _) => layout.pane_rows(),
        }
    }

    pub(super) fn pane_length(&self, scene: &Scene) -> usize {
        match self.pane {
            Pane::Memory | Pane::MakeUp | Pane::Output | Pane::Devices | Pane::Allocator => 0,
            Pane::Runs => panes::runs::length(scene.state),
            Pane::Events => panes::events::length(scene),
        }
    }
}

/// Ctrl-C goes to a training that runs; where there is none it means what it means everywhere.
fn interrupt(scene: &Scene) -> Effect {
    let run = scene.state.run();
    if scene.replay.is_none() && run.is_some_and(|run| run.outcome() == Outcome::Running) {
        Effect::Interrupt
    } else {
        Effect::Quit {
            stop_training: true,
        }
    }
}

fn toggled(now: Spread, alone: Spread) -> Spread {
    if now == alone {
        Spread::Together
    } else {
        alone
    }
}
