//! Clicks, the wheel and dragging.

use super::*;

fn mouse(story: &Story, view: &mut View, kind: MouseEventKind, column: u16, row: u16) {
    let event = MouseEvent {
        kind,
        column,
        row,
        modifiers: KeyModifiers::NONE,
    };
    story.scene(|scene| view.mouse(event, scene));
}

/// Clicks in the middle of words, in the last row that has them.
fn click_on(story: &Story, view: &mut View, words: &str) -> Option<Effect> {
    let text = crate::frames::text(&crate::frames::draw(story, view, 120, 40));
    let lines: Vec<&str> = text.lines().collect();
    let row = lines.iter().rposition(|line| line.contains(words)).unwrap();
    let before = lines[row].split(words).next().unwrap().chars().count();
    let event = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: (before + words.chars().count() / 2) as u16,
        row: row as u16,
        modifiers: KeyModifiers::NONE,
    };
    story.scene(|scene| view.mouse(event, scene))
}

#[test]
fn tabs_panes_and_the_footer_are_clicked() {
    let case = CASES.iter().find(|case| case.name == "steady").unwrap();
    let (story, mut view) = case.staged(Theme::full(), 120, 40);
    let shown = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 120, 40));
    let rows_of = |view: &View, words: &str| shown(view).matches(words).count();
    assert_eq!(rows_of(&view, "first optimizer step done"), 1);
    click_on(&story, &mut view, "5 events");
    assert_eq!(
        rows_of(&view, "first optimizer step done"),
        2,
        "beside and below"
    );
    click_on(&story, &mut view, "1 output");
    assert_eq!(rows_of(&view, "first optimizer step done"), 1);
    click_on(&story, &mut view, "CUDA initialised");
    assert_eq!(
        rows_of(&view, "first optimizer step done"),
        2,
        "the pane itself"
    );
    click_on(&story, &mut view, "help");
    assert_eq!(view.mode(), InputMode::Helping);
    press(&story, &mut view, KeyCode::Esc);
    click_on(&story, &mut view, "quit");
    assert_eq!(view.mode(), InputMode::Quitting);
    let effect = click_on(&story, &mut view, "Ctrl-X stop the training");
    assert_eq!(
        (effect, view.mode()),
        (None, InputMode::Quitting),
        "only by its key"
    );
    let effect = click_on(&story, &mut view, "l leave it running");
    assert_eq!(
        effect,
        Some(Effect::Quit {
            stop_training: false
        })
    );
}

#[test]
fn a_click_selects_a_remedy_and_the_wheel_zooms() {
    let (story, mut view) = staged("oom-capacity");
    let frame = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
    let before = frame(&view);
    let row = before
        .lines()
        .position(|line| line.contains("e expandable"));
    let row = row.unwrap() as u16;
    mouse(
        &story,
        &mut view,
        MouseEventKind::Down(MouseButton::Left),
        30,
        row,
    );
    let effect = press(&story, &mut view, KeyCode::Enter);
    let remedies = vec![RemedyId::ExpandableSegments];
    let command = None;
    assert_eq!(effect, Some(Effect::Relaunch { remedies, command }));

    let (story, mut view) = staged("steady");
    let chart = |view: &View| {
        let text = crate::frames::text(&crate::frames::draw(&story, view, 100, 30));
        text.lines().take(17).collect::<Vec<_>>().join("\n")
    };
    let before = chart(&view);
    mouse(&story, &mut view, MouseEventKind::ScrollUp, 30, 5);
    assert_ne!(chart(&view), before);
    mouse(&story, &mut view, MouseEventKind::ScrollDown, 30, 5);
    assert_eq!(chart(&view), before);
}

#[test]
fn dragging_over_the_output_selects_its_rows() {
    let (story, mut view) = staged("steady");
    let rows: Vec<String> = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30))
        .lines()
        .map(String::from)
        .collect();
    let row = rows
        .iter()
        .position(|row| row.starts_with("epoch 1"))
        .unwrap() as u16;
    let left = MouseButton::Left;
    for (kind, row) in [
        (MouseEventKind::Down(left), row),
        (MouseEventKind::Drag(left), row),
        (MouseEventKind::Drag(left), row + 1),
        (MouseEventKind::Up(left), row + 1),
    ] {
        let event = MouseEvent {
            kind,
            column: 10,
            row,
            modifiers: KeyModifiers::NONE,
        };
        story.scene(|scene| view.mouse(event, scene));
    }
    assert_eq!(view.mode(), InputMode::Selecting);
    let selected = view.output.selected_text().unwrap();
    assert!(
        selected.starts_with("epoch 1") && selected.lines().count() == 2,
        "{selected}"
    );
}

/// Whoever reads the evidence has no remedy selected by it.
#[test]
fn the_wheel_scrolls_the_evidence() {
    let case = CASES.iter().find(|case| case.name == "oom-capacity");
    let (story, mut view) = case.unwrap().staged(Theme::full(), 60, 16);
    let shown = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 60, 16));
    let (down, up) = (MouseEventKind::ScrollDown, MouseEventKind::ScrollUp);
    let brief = shown(&view);
    mouse(&story, &mut view, down, 30, 12);
    assert_ne!(shown(&view), brief, "the next remedy");
    mouse(&story, &mut view, up, 30, 12);
    assert_eq!(shown(&view), brief);
    press(&story, &mut view, KeyCode::Char('d'));
    let first = shown(&view);
    assert!(first.contains("lines 1-"), "{first}");
    mouse(&story, &mut view, down, 30, 6);
    let scrolled = shown(&view);
    assert!(scrolled.contains("lines 4-"), "{scrolled}");
    mouse(&story, &mut view, up, 30, 6);
    assert_eq!(shown(&view), first);
}

/// Whatever pane is chosen, and whatever it shows, a second click at the same place meets the same tab.
#[test]
fn the_tabs_stay_where_they_are() {
    for name in ["waiting", "steady", "second-run", "eight-nodes"] {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let story = case.told();
        for (width, height) in [(40, 12), (60, 16), (80, 24), (120, 36), (200, 60)] {
            let mut view = case.show(&story, Theme::full(), width, height);
            let places = |view: &View| {
                let text = crate::frames::text(&crate::frames::draw(&story, view, width, height));
                let rows: Vec<&str> = text.lines().collect();
                let row = rows.iter().rposition(|row| row.starts_with('─'));
                let row = row.expect("the row of the tabs");
                let numbers = ('1'..='8').map(|number| rows[row].find(number));
                (row, numbers.collect::<Option<Vec<usize>>>())
            };
            let before = places(&view);
            assert!(before.1.is_some(), "{name} at {width}x{height}");
            for key in '1'..='8' {
                press(&story, &mut view, KeyCode::Char(key));
                assert_eq!(places(&view), before, "{key}: {name} at {width}x{height}");
            }
        }
    }
}
