//! The screen, frame by frame: sessions told as events, folded, drawn, and kept as text; README's
//! picture is one of them, and every key of the table is pressed.

mod cases;
mod cost;
mod dialog;
mod editor;
mod epochs;
mod keys;
mod monkey;
mod nodes;
mod offers;
mod picker;
mod picture;
mod steps;
mod story;
mod svg;
mod undone;
mod words;

use cases::CASES;
use oomph::ui::{self, Pane, Theme, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use story::Story;

/// One frame of a session as a view shows it.
fn draw(story: &Story, view: &View, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    story.scene(|scene| {
        terminal.draw(|frame| ui::draw(frame, view, scene)).unwrap();
    });
    terminal.backend().buffer().clone()
}

fn text(buf: &Buffer) -> String {
    let rows = (0..buf.area.height).map(|y| {
        let row: String = (0..buf.area.width).map(|x| buf[(x, y)].symbol()).collect();
        row.trim_end().to_string()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// The output and the chart are in nearly every frame.
#[test]
fn each_pane_has_frames() {
    for pane in Pane::ALL
        .iter()
        .filter(|pane| !matches!(pane, Pane::Memory | Pane::Output))
    {
        let has_one = CASES.iter().any(|case| case.pane == Some(*pane));
        assert!(has_one, "tests/frames/cases.rs has no case of {pane:?}");
    }
}

/// From a quarter of a screen to a whole one.
const SIZES: [(u16, u16); 6] = [
    (40, 12),
    (60, 16),
    (80, 24),
    (120, 36),
    (160, 45),
    (200, 60),
];

#[test]
fn frames_are_as_they_were_accepted() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("frames/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for case in CASES {
            let story = case.told();
            for (width, height) in SIZES {
                let view = case.show(&story, Theme::full(), width, height);
                let buf = draw(&story, &view, width, height);
                keep_picture(case.name, &buf);
                insta::assert_snapshot!(format!("{}-{width}x{height}", case.name), text(&buf));
            }
            // The first of each pane, and what has shares.
            let first = CASES.iter().find(|other| other.pane == case.pane);
            let is_of_panes =
                case.pane.is_some() && first.is_some_and(|first| first.name == case.name);
            if is_of_panes || case.name.starts_with("step") || case.name.starts_with("wide") {
                let view = case.show(&story, without_colours(), 120, 36);
                let name = format!("{}-without-colours-120x36", case.name);
                insta::assert_snapshot!(name, text(&draw(&story, &view, 120, 36)));
            }
        }
    });
}

/// Rows by which the output's pane grows, with one between it and a dialog.
const MOST_BLANK: usize = 9;

/// Rows that have nothing to show are the chart's, whatever stands below it and over it.
#[test]
fn no_frame_with_a_chart_has_many_blank_rows() {
    let mut found = Vec::new();
    for case in CASES {
        let story = case.told();
        for (width, height) in SIZES {
            let view = case.show(&story, Theme::full(), width, height);
            let frame = text(&draw(&story, &view, width, height));
            let has_chart = frame.contains("┤") && frame.contains("1 output");
            let is_blank = frame.lines().map(|row| row.trim().is_empty());
            let is_blank: Vec<bool> = is_blank.collect();
            let most = is_blank.split(|blank| !blank).map(<[bool]>::len).max();
            if has_chart && most.unwrap_or(0) > MOST_BLANK {
                found.push(format!("{} at {width}x{height}:\n{frame}", case.name));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

/// A terminal with UTF-8 and this much colour.
fn of_terminal(term: &str, no_color: bool) -> Theme {
    Theme::of_environment(|name| match name {
        "TERM" => Some(term.to_string()),
        "LANG" => Some("C.UTF-8".to_string()),
        "NO_COLOR" => no_color.then(|| "1".to_string()),
        _ => None,
    })
}

fn without_colours() -> Theme {
    of_terminal("xterm-256color", true)
}

/// On dark, what 16 colours say is what all of them say: no other character is needed, and no other colour is used.
#[test]
fn sixteen_colours_show_the_same_frames() {
    let sixteen = of_terminal("linux", false);
    for case in CASES {
        let story = case.told();
        for (width, height) in [(40, 12), (80, 24), (160, 45)] {
            let frame = |theme| {
                draw(
                    &story,
                    &case.show(&story, theme, width, height),
                    width,
                    height,
                )
            };
            let buf = frame(sixteen);
            let place = format!("{} at {width}x{height}", case.name);
            assert_eq!(text(&buf), text(&frame(Theme::full())), "{place}");
            for cell in buf.content() {
                for colour in [cell.fg, cell.bg] {
                    let is_one = matches!(colour, Color::Reset | Color::Indexed(..16));
                    assert!(is_one, "{place}: {colour:?}");
                }
            }
            keep_picture(&format!("sixteen-{}", case.name), &buf);
        }
    }
}

/// With `OOMPH_PICTURES=DIR` every frame is left there as a picture too, to be looked at.
fn keep_picture(name: &str, buf: &Buffer) {
    if let Some(dir) = std::env::var_os("OOMPH_PICTURES") {
        let file = format!("{name}-{}x{}.svg", buf.area.width, buf.area.height);
        let path = std::path::Path::new(&dir).join(file);
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(path, svg::render(buf, name)).unwrap();
    }
}

#[test]
fn every_size_can_be_drawn() {
    for case in CASES {
        let sizes = [
            (0, 0),
            (1, 1),
            (2, 60),
            (20, 5),
            (40, 12),
            (41, 13),
            (60, 16),
            (109, 30),
            (110, 12),
            (120, 40),
            (200, 60),
            (300, 12),
        ];
        let story = case.told();
        for (width, height) in sizes {
            let view = case.show(&story, Theme::full(), width, height);
            let buf = draw(&story, &view, width, height);
            keep_picture(case.name, &buf);
            if width >= 40 && height >= 12 {
                let text = text(&buf);
                assert!(text.contains("oomph"), "{} at {width}x{height}", case.name);
            }
        }
    }
}

#[test]
fn small_screens_say_what_counts() {
    let steady = CASES.iter().find(|case| case.name == "steady").unwrap();
    let (story, view) = steady.staged(Theme::full(), 20, 5);
    assert!(text(&draw(&story, &view, 20, 5)).starts_with("15.7/23.6 GiB"));
    let (story, view) = steady.staged(Theme::full(), 40, 12);
    let small = text(&draw(&story, &view, 40, 12));
    for words in ["oomph", "GPU 0", "GiB free", "quit"] {
        assert!(small.contains(words), "{words} in\n{small}");
    }
}

#[test]
fn terminals_without_colours_or_utf_8_get_neither() {
    let variable = |name: &str| match name {
        "NO_COLOR" => Some("1".to_string()),
        "LANG" => Some("C".to_string()),
        _ => None,
    };
    let plain = Theme::of_environment(variable);
    for case in CASES {
        let (story, view) = case.staged(plain, 100, 30);
        let buf = draw(&story, &view, 100, 30);
        for cell in buf.content() {
            assert_eq!(cell.fg, Color::Reset, "{}", case.name);
            assert_eq!(cell.bg, Color::Reset, "{}", case.name);
        }
        keep_picture(&format!("plain-{}", case.name), &buf);
        // The program's own words are the program's.
        let ascii = text(&buf);
        let ours = ascii.lines().filter(|line| !line.starts_with("epoch"));
        assert!(ours.clone().count() > 20);
        for line in ours {
            assert!(line.is_ascii(), "{}: {line}", case.name);
        }
    }
}
