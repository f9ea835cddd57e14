//! The list of sessions, which `oomph` alone shows.

use crate::frames::{SIZES, text};
use oomph::ui::Theme;
use oomph::ui::picker::{self, Opening, Picker, PickerEffect, PickerRow, SessionGroup};
use oomph::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use std::time::Duration;

fn row(id: &str, group: SessionGroup, state: &str, minutes: u64, command: &str) -> PickerRow {
    PickerRow {
        id: format!("20261124-{id}-python"),
        group,
        state: state.into(),
        brief: state.split(':').next().unwrap_or_default().into(),
        told: match state.starts_with("out of memory") {
            true => vec![
                "Memory leak: +345 MiB × 49 steps = 16.5 GiB.".into(),
                "scenarios.py:70: .item() or .detach() on what you keep from each step".into(),
            ],
            false => Vec::new(),
        },
        has_failed: state.starts_with("out") || state.starts_with("exit"),
        took: Some(Duration::from_secs(60 * minutes)),
        peak: (minutes > 1).then(|| Bytes::mib(1_024 * 11 + 97 * minutes)),
        since: format!("Nov 24 {}:{}", &id[..2], &id[2..4]),
        began: id.parse().expect("an hour, a minute and a second"),
        device: match group {
            SessionGroup::Running => "8 × NVIDIA H100 80GB HBM3".into(),
            SessionGroup::Waiting | SessionGroup::Ended => "NVIDIA RTX 4090".into(),
        },
        command: command.into(),
    }
}

/// As they are read: those that run, then those that have ended.
fn rows() -> Vec<PickerRow> {
    let mut rows = vec![
        row(
            "071502",
            SessionGroup::Running,
            "running",
            623,
            "torchrun --nproc-per-node 8 pretrain.py --config configs/llama-1b.yaml --seq-len 4096",
        ),
        row(
            "173011",
            SessionGroup::Waiting,
            "waiting at OOM, run 2",
            14,
            "python train.py --model vit_large --batch-size 96",
        ),
    ];
    for n in 0..40_u64 {
        let (state, minutes) = match n % 4 {
            0 => ("finished", 41),
            1 => ("out of memory", 3),
            2 => ("exit 1", 1),
            _ => ("stopped", 88),
        };
        let id = format!("{:02}{:02}00", 16 - n / 4, 59 - n);
        let command = format!("python train.py --lr 3e-4 --batch-size {}", 8 + 8 * n);
        rows.push(row(&id, SessionGroup::Ended, state, minutes, &command));
    }
    rows
}

fn listed(width: u16, height: u16) -> Picker {
    let mut picker = Picker::new(width, height);
    picker.take(rows(), true);
    picker
}

fn press(picker: &mut Picker, code: KeyCode) -> Option<PickerEffect> {
    picker.key(code.into())
}

fn type_in(picker: &mut Picker, text: &str) {
    for c in text.chars() {
        press(picker, KeyCode::Char(c));
    }
}

fn frame(picker: &Picker, theme: Theme, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| picker::draw(frame, picker, &theme))
        .unwrap();
    text(terminal.backend().buffer())
}

#[test]
fn the_list_of_sessions_is_as_it_was_accepted() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (width, height) in SIZES {
            let mut picker = listed(width, height);
            let at = |name: &str| format!("sessions{name}-{width}x{height}");
            insta::assert_snapshot!(at(""), frame(&picker, Theme::full(), width, height));
            type_in(&mut picker, "/out of");
            insta::assert_snapshot!(
                at("-filtered"),
                frame(&picker, Theme::full(), width, height)
            );
        }
    });
}

#[test]
fn one_that_waits_is_first_and_enter_opens_what_is_selected() {
    let mut picker = listed(80, 24);
    let open = |id: &str, how| {
        Some(PickerEffect::Open {
            id: format!("20261124-{id}-python"),
            how,
        })
    };
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("173011", Opening::Screen)
    );
    press(&mut picker, KeyCode::Char('j'));
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("071502", Opening::Screen)
    );
    press(&mut picker, KeyCode::Down);
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("165900", Opening::End)
    );
    press(&mut picker, KeyCode::End);
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("072000", Opening::End)
    );
    assert!(frame(&picker, Theme::full(), 80, 24).contains("❯ stopped"));
    // What is selected stays so when others come and go, and in sight.
    let fewer: Vec<_> = rows().into_iter().skip(4).collect();
    picker.take(fewer, true);
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("072000", Opening::End)
    );
    assert!(frame(&picker, Theme::full(), 80, 24).contains("❯ stopped"));
    picker.take(rows().into_iter().take(3).collect(), true);
    assert_eq!(
        press(&mut picker, KeyCode::Enter),
        open("173011", Opening::Screen)
    );
}

/// They are read by when they were last written to.
#[test]
fn the_latest_begun_is_first_and_the_one_come_back_from_is_selected() {
    let mut picker = Picker::new(120, 36);
    picker.await_session("20261124-130000-python".into());
    let ended = |id| {
        row(
            id,
            SessionGroup::Ended,
            "out of memory: memory leak",
            3,
            "python t.py",
        )
    };
    picker.take(
        vec![row(
            "160000",
            SessionGroup::Running,
            "running",
            3,
            "python t.py",
        )],
        false,
    );
    picker.take(
        vec![ended("120000"), ended("140000"), ended("130000")],
        true,
    );
    let shown = frame(&picker, Theme::full(), 120, 36);
    let began: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split("Nov 24 ").nth(1))
        .collect();
    let began: Vec<&str> = began.iter().map(|rest| &rest[..5]).collect();
    assert_eq!(began, ["14:00", "13:00", "12:00"], "{shown}");
    let selected = shown
        .lines()
        .find(|line| line.contains('❯'))
        .unwrap_or_default();
    assert!(selected.contains("13:00"), "{shown}");
    assert!(shown.contains(" scenarios.py:70: .item()"), "{shown}");
    // A key goes before what is waited for.
    picker.await_session("20261124-120000-python".into());
    press(&mut picker, KeyCode::Char('k'));
    picker.take(
        vec![ended("120000"), ended("140000"), ended("130000")],
        true,
    );
    let shown = frame(&picker, Theme::full(), 120, 36);
    let selected = shown
        .lines()
        .find(|line| line.contains('❯'))
        .unwrap_or_default();
    assert!(selected.contains("14:00"), "{shown}");
}

#[test]
fn a_filter_is_typed_kept_and_ended() {
    let mut picker = listed(80, 24);
    type_in(&mut picker, "/LLAMA");
    let shown = frame(&picker, Theme::full(), 80, 24);
    assert!(shown.contains("/LLAMA  1 of 42"), "{shown}");
    press(&mut picker, KeyCode::Enter);
    // Letters are keys again.
    assert_eq!(press(&mut picker, KeyCode::Char('j')), None);
    let opened = press(&mut picker, KeyCode::Enter);
    assert!(matches!(opened, Some(PickerEffect::Open { id, .. }) if id.contains("071502")));
    assert_eq!(press(&mut picker, KeyCode::Esc), None);
    assert!(!frame(&picker, Theme::full(), 80, 24).contains("1 of"));
    // Enter opens what was selected before the filter that was given up.
    let opened = press(&mut picker, KeyCode::Enter);
    assert!(matches!(opened, Some(PickerEffect::Open { id, .. }) if id.contains("173011")));
    type_in(&mut picker, "/nothing has this");
    assert!(frame(&picker, Theme::full(), 80, 24).contains("no session has this text"));
    assert_eq!(press(&mut picker, KeyCode::Enter), None);
    assert_eq!(press(&mut picker, KeyCode::Enter), None);
    assert_eq!(press(&mut picker, KeyCode::Esc), None);
    assert_eq!(press(&mut picker, KeyCode::Esc), Some(PickerEffect::Quit));
    assert_eq!(
        press(&mut picker, KeyCode::Char('q')),
        Some(PickerEffect::Quit)
    );
}

#[test]
fn a_click_selects_and_another_opens() {
    let mut picker = listed(80, 24);
    let click = |row| MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 30,
        row,
        modifiers: KeyModifiers::NONE,
    };
    assert_eq!(picker.mouse(click(4)), None);
    let opened = picker.mouse(click(4));
    assert!(matches!(opened, Some(PickerEffect::Open { id, .. }) if id.contains("165900")));
    assert_eq!(picker.mouse(click(0)), None);
    assert_eq!(picker.mouse(click(23)), None);
}

#[test]
fn every_size_of_the_list_can_be_drawn_without_colours_and_utf_8() {
    let plain = Theme::of_environment(|name| match name {
        "NO_COLOR" => Some("1".into()),
        "LANG" => Some("C".into()),
        _ => None,
    });
    for (width, height) in [(0, 0), (1, 1), (2, 60), (20, 5), (40, 3), (300, 12)] {
        let mut picker = listed(width, height);
        type_in(&mut picker, "/train");
        press(&mut picker, KeyCode::PageDown);
        press(&mut picker, KeyCode::Char('G'));
        let shown = frame(&picker, plain, width, height);
        let ours = shown.lines().filter(|line| !line.contains('×'));
        ours.for_each(|line| assert!(line.is_ascii(), "{line}"));
    }
}
