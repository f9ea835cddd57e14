//! The keys of a step: groupings, the line at the pointer, which step is shown.

use super::*;

/// Line, layer and leak are one key each, and the screen says which, however small it is.
#[test]
fn the_step_tells_the_keys_of_its_groupings() {
    for width in [40, 80, 120] {
        let (story, mut view) = CASES
            .iter()
            .find(|case| case.name == "step")
            .unwrap()
            .staged(Theme::full(), width, 12);
        let leaks = if width == 40 {
            "w leaks"
        } else {
            "w what leaks"
        };
        for next in ["m modules", "m flame", "m growth", "m lines", "m modules"] {
            let text = crate::frames::text(&crate::frames::draw(&story, &view, width, 12));
            let footer = text.lines().last().unwrap();
            for words in [next, leaks, "Esc back"] {
                assert!(footer.contains(words), "{width}: {words} in {footer}");
            }
            press(&story, &mut view, KeyCode::Char('m'));
        }
    }
}

/// The traced step is not the largest: its title says so.
#[test]
fn a_peak_above_that_of_the_step_is_told() {
    let said = |peak: f64| {
        let mut story = crate::frames::steps::two_steps();
        story.sample(0, peak, peak, peak);
        let mut view = story.view(Theme::full(), 120, 36);
        press(&story, &mut view, KeyCode::Char('s'));
        let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
        text.lines().nth(1).unwrap().to_string()
    };
    let above = said(20.0);
    let title = above.find("the run peaked at 20.0 GiB");
    assert!(
        title.is_some() && title < above.find("peak 14.5 GiB"),
        "{above}"
    );
    assert!(!said(14.7).contains("the run's peak"));
}

/// A sum of a search that was cut short is no figure of how much somebody keeps.
#[test]
fn a_search_that_was_cut_short_shows_lower_bounds() {
    let said = |left: Option<&str>| {
        let mut story = crate::frames::steps::leaking();
        story.retained_as_far_as(0, left);
        let mut view = story.view(Theme::full(), 120, 36);
        for key in ['s', 'w'].map(KeyCode::Char) {
            press(&story, &mut view, key);
        }
        crate::frames::text(&crate::frames::draw(&story, &view, 120, 36))
    };
    let cut = said(Some("the search ran out of time after 9 objects"));
    assert!(cut.contains("≥ 8.25 GiB train.py:93 outputs"), "{cut}");
    assert!(cut.contains("≥ 410 MiB"), "{cut}");
    let whole = said(None);
    assert!(
        whole.contains("8.25 GiB train.py:93 outputs") && !whole.contains('≥'),
        "{whole}"
    );
}

#[test]
fn the_line_at_the_pointer_is_shown_in_full() {
    let story = crate::frames::steps::two_steps();
    let mut view = story.view(Theme::full(), 80, 24);
    for key in [KeyCode::Char('s'), KeyCode::Down, KeyCode::Enter] {
        press(&story, &mut view, key);
    }
    let text = |view: &View| crate::frames::text(&crate::frames::draw(&story, view, 80, 24));
    let open = text(&view);
    for words in [
        "model.py, line 74, in mlp",
        "return self.c_proj(F.gelu(self.c_fc(x)))",
        "3.02 GiB in 48 blocks (21%): activations",
    ] {
        assert!(open.contains(words), "{words} in\n{open}");
    }
    press(&story, &mut view, KeyCode::Esc);
    assert!(!text(&view).contains("line 74, in mlp"));
    assert!(text(&view).contains("step 352"), "still open");
}

#[test]
fn where_no_step_was_traced_it_says_why() {
    for (name, words) in [
        ("waiting", "waits until the program uses PyTorch"),
        ("no-probe", "The probe is off"),
        ("steady", "more than 20,000 of them"),
    ] {
        let (story, mut view) = staged(name);
        press(&story, &mut view, KeyCode::Char('s'));
        let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 30));
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

/// What grew is in the record of the OOM too, and the text of its line in the recording.
#[test]
fn without_a_traced_step_what_grew_is_told_by_the_oom() {
    let mut story = crate::frames::steps::two_steps();
    let line = story.state.run().unwrap().ranks[0].traces.last().unwrap();
    let line = line.origins.iter().find_map(|of| of.line.clone()).unwrap();
    story.state.runs[0].ranks[0].traces = Default::default();
    story.oom(|record| {
        record.growing = vec![oomph::event::GrowingLine {
            line,
            inside: None,
            bytes: oomph::units::Bytes::gib(3),
            per_step: oomph::units::Bytes::mib(96),
            from_step: 4,
            to_step: 36,
        }];
    });
    let mut view = story.view(Theme::full(), 120, 36);
    press(&story, &mut view, KeyCode::Esc);
    press(&story, &mut view, KeyCode::Char('s'));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
    assert!(text.contains("by line, seen in steps 4–36"), "{text}");
    let row = "+96 MiB  train.py:41 build  model = GPT(config).to(device)";
    assert!(text.contains(row), "{text}");
    assert!(
        !text.contains("3.00 GiB"),
        "what grew over some steps is a second size:\n{text}"
    );
}

/// The screen follows the traces until somebody looks about in one: that one stays, and says that there is a newer one.
#[test]
fn a_step_is_followed_by_the_newest_until_it_is_looked_at() {
    let (mut story, mut view) = staged("step");
    let shown = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 100, 30));
        text.lines().nth(1).unwrap().to_string()
    };
    let before = shown(&story, &view);
    assert!(before.contains("step 352"), "{before}");
    press(&story, &mut view, KeyCode::Char('t'));
    story.traced(0, crate::frames::steps::made(528, 0.8));
    story.scene(|scene| view.sync(scene));
    assert!(shown(&story, &view).contains("step 528 "));
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 100, 30));
    assert!(text.contains("sorted by blocks"), "as it was: {text}");
    press(&story, &mut view, KeyCode::Down);
    story.traced(0, crate::frames::steps::made(704, 0.8));
    story.scene(|scene| view.sync(scene));
    let stays = shown(&story, &view);
    assert!(
        stays.starts_with("─ step 528 ") && stays.contains("] shows step 704, which is newer"),
        "{stays}"
    );
    press(&story, &mut view, KeyCode::Char(']'));
    assert!(shown(&story, &view).contains("step 704"));
    // The largest stays as well.
    for step in ["step 352 ", "step 3 "] {
        press(&story, &mut view, KeyCode::Char('['));
        assert!(shown(&story, &view).contains(step), "{step}");
    }
    story.start();
    story.scene(|scene| view.sync(scene));
    let other = shown(&story, &view);
    assert!(
        other.contains("what a step is made of"),
        "another run: {other}"
    );
}

/// A step that is far behind says so, and a key has the next one traced and followed.
#[test]
fn the_next_step_is_traced_on_a_key() {
    let (mut story, mut view) = staged("step");
    let title = |story: &Story, view: &View| {
        let text = crate::frames::text(&crate::frames::draw(story, view, 120, 36));
        text.lines().nth(1).unwrap().to_string()
    };
    let effect = press(&story, &mut view, KeyCode::Char('n'));
    assert!(matches!(effect, Some(Effect::TraceNext(_))), "{effect:?}");
    let waits = title(&story, &view);
    assert!(
        waits.contains("step 352 · tracing the next step"),
        "{waits}"
    );
    story.traced(0, crate::frames::steps::made(704, 0.8));
    story.scene(|scene| view.sync(scene));
    let came = title(&story, &view);
    assert!(
        came.contains("step 704 ") && !came.contains("tracing"),
        "{came}"
    );
}

/// The pane below the chart has no title to say it in, at any size: its first row says which step it shows, and after an
/// out-of-memory that it is another one.
#[test]
fn the_pane_of_the_step_says_which_it_shows() {
    for (width, height) in [(40, 12), (60, 16), (80, 24), (120, 36), (160, 45)] {
        let first_row = |story: &Story| {
            let mut view = story.view(Theme::full(), width, height);
            story.scene(|scene| view.sync(scene));
            press(story, &mut view, KeyCode::Esc);
            press(story, &mut view, KeyCode::Char('6'));
            let text = crate::frames::text(&crate::frames::draw(story, &view, width, height));
            // The tabs are the last row but one; the rule before them is above the pane.
            let rows: Vec<&str> = text.lines().take(usize::from(height) - 2).collect();
            let above = rows.iter().rposition(|row| row.starts_with('─'));
            rows[above.expect("the line above the pane") + 1].to_string()
        };
        let mut story = crate::frames::steps::two_steps();
        let shown = first_row(&story);
        assert!(
            shown.contains("step 352 · peak 14.5 GiB"),
            "{width}: {shown}"
        );
        story.oom(|_| {});
        let after = first_row(&story);
        let both = after.contains("step 352 · 353 ran out of memory: s");
        assert!(both, "{width}: {after}");
    }
}
