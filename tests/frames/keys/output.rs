//! The keys of the output: scrolling, looking for a text, selecting and copying rows.

use super::*;

#[test]
fn a_copy_is_said_for_two_seconds() {
    let (mut story, mut view) = staged("steady");
    let footer = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().last().unwrap().to_string()
    };
    press(&story, &mut view, KeyCode::Char('y'));
    assert!(footer(&story, &view).contains("copied"));
    story.state.now = story.state.now + std::time::Duration::from_secs(2);
    assert!(!footer(&story, &view).contains("copied"));
}

#[test]
fn output_is_scrolled() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    assert_eq!(press(&story, &mut view, KeyCode::Char('k')), None);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("1 rows up"), "{text}");
}

#[test]
fn a_text_is_looked_for_as_it_is_typed() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    let type_in = |story: &Story, view: &mut View, keys: &[KeyCode]| {
        for key in keys {
            press(story, view, *key);
        }
    };
    use KeyCode::{Backspace, Char, Enter, Esc};
    let footer = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().last().unwrap().to_string()
    };
    type_in(
        &story,
        &mut view,
        &[Char('/'), Char('e'), Char(' '), Char('7')],
    );
    assert!(footer(&story, &view).contains("/e 7  11 of 11"));
    type_in(&story, &mut view, &[Char('x'), Backspace, Char('7')]);
    assert!(footer(&story, &view).contains("/e 77  1 of 1"));
    assert_eq!(view.mode(), InputMode::Searching);
    type_in(&story, &mut view, &[Backspace, Enter, Char('N')]);
    assert_eq!(view.mode(), InputMode::Watching);
    let line = footer(&story, &view);
    for words in ["/e 7  10 of 11", "n next", "N previous", "Esc end search"] {
        assert!(line.contains(words), "{words} in {line}");
    }
    assert!(crate::frames::text(&crate::frames::draw(&story, &view, 100, 30)).contains("line 78"));
    type_in(&story, &mut view, &[Esc]);
    assert_eq!(view.output.search(), None);
    assert_eq!(
        press(&story, &mut view, Char('n')),
        None,
        "nothing to go to"
    );
    type_in(&story, &mut view, &[Char('/'), Char('z'), Esc]);
    assert_eq!(
        (view.mode(), view.output.scrolled()),
        (InputMode::Watching, 0)
    );
}

#[test]
fn rows_of_the_output_are_selected_and_copied() {
    let (story, mut view) = staged("steady");
    for n in 0..100 {
        view.output.feed(format!("line {n}\r\n").as_bytes());
    }
    for key in ['V', 'k', 'k'] {
        press(&story, &mut view, KeyCode::Char(key));
    }
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.ends_with("back"), "{text}");
    assert!(text.contains("3 rows selected"), "{text}");
    assert_eq!(
        press(&story, &mut view, KeyCode::Char('y')),
        Some(Effect::Copy("line 97\nline 98\nline 99\n".into()))
    );
    assert_eq!(view.mode(), InputMode::Watching);
}
