//! What is said beside the screen: the copied diagnosis, and the line that a session leaves.

use crate::frames::cases::{CASES, GPU, STEADY};
use crate::frames::keys::press;
use crate::frames::story::{Shape, Story};
use oomph::event::{EventKind, Exit, Exited};
use oomph::ui::{ChildScreen, Effect, Theme, View};
use oomph::units::RunNumber;
use ratatui::crossterm::event::KeyCode;

/// Another figure than the program's own would only be doubted.
#[test]
fn a_run_that_goes_on_has_the_rate_that_its_program_prints() {
    let slow = || {
        let mut story = Story::new("python train.py --batch-size 32");
        story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
        let shape = Shape {
            rate: 3.0,
            ..STEADY
        };
        story.train(0, GPU, shape, 60.0);
        story
    };
    let story = slow();
    let mut view = story.view(Theme::full(), 160, 45);
    view.output = ChildScreen::new(8, 160);
    let rates = |view: &View| {
        let shown = crate::frames::text(&crate::frames::draw(&story, view, 160, 45));
        let counts = ["3.00/s", "6.31/s"].map(|rate| shown.matches(rate).count());
        (counts, shown)
    };
    press(&story, &mut view, KeyCode::Char('4'));
    let (ours, shown) = rates(&view);
    assert!(ours[0] > 1 && ours[1] == 0, "{shown}");
    story.print_output(&mut view.output);
    let (printed, shown) = rates(&view);
    assert!(printed[0] == 0 && printed[1] > 0, "{shown}");
    assert!(shown.contains("6.31 it/s"), "{shown}");
}

#[test]
fn the_diagnosis_is_copied_as_markdown_and_then_the_command() {
    let case = CASES
        .iter()
        .find(|case| case.name == "oom-capacity")
        .unwrap();
    let (story, mut view) = case.staged(Theme::full(), 120, 40);
    let Some(Effect::Copy(copied)) = press(&story, &mut view, KeyCode::Char('y')) else {
        panic!("nothing copied");
    };
    insta::assert_snapshot!(copied, @r"
    **CUDA out of memory, GPU 0, run 1, in the backward pass of step 88**

    - Command: `python train.py --batch-size 64`
    - On: NVIDIA GeForce RTX 4090 (23.6 GiB), torch 2.11.0+cu130, Python 3.12.3, driver 580.95, oomph 0.1.0
    - Cause (certain): capacity. It does not fit: 22.6 allocated + 1.2 requested = 23.8 > 23.6 GiB. Only 0.3 GiB is cached, so this is not fragmentation; no other process is on the GPU. 20.8 GiB of it are activations, which grow with the batch.
    - Figures: allocated 22.6 GiB, requested 1.20 GiB, cached 307 MiB, capacity 23.6 GiB
    - `train.py:88 forward → modeling_gpt2.py:240 mlp` allocated 11.3 GiB that is still live, in 96 blocks
    - `train.py:97 step` allocated 952 MiB that is still live, in 296 blocks
    - `train.py:41 build` allocated 471 MiB that is still live, in 148 blocks
    - Remedy: smaller batch (14.6 GiB, fits, same numerics): `python train.py --batch-size 32 --grad-accum 2`
    ");
    let again = press(&story, &mut view, KeyCode::Char('y'));
    let next = "python train.py --batch-size 32 --grad-accum 2".to_string();
    assert_eq!(again, Some(Effect::Copy(next)));
}

#[test]
fn a_session_that_ended_says_what_it_was() {
    let case = CASES.iter().find(|case| case.name == "second-run").unwrap();
    let mut story = case.told();
    story.tell(EventKind::Exited(Exited {
        run: RunNumber(2),
        exit: Exit::Code(0),
        left: Vec::new(),
    }));
    insta::assert_snapshot!(oomph::report::summary(&story.state).unwrap(), @"run 2 finished after 1:16 (both runs: 1:36) · run 1 ran out of memory at step 88, run 2 (batch 32 × 2) peaked at 14.6 of 23.6 GiB · 446 steps (predicted 14.6 GiB allocated, off by +0.3 %)");
    let case = CASES.iter().find(|case| case.name == "steady").unwrap();
    let mut story = case.told();
    story.tell(EventKind::Exited(Exited {
        run: RunNumber(1),
        exit: Exit::Code(0),
        left: Vec::new(),
    }));
    insta::assert_snapshot!(oomph::report::summary(&story.state).unwrap(), @"finished after 3:11 · peak 14.7 of 23.6 GiB · 1171 steps");
}

/// Whoever looks for a word need not know in which view its key is.
#[test]
fn the_search_of_the_help_finds_the_keys_of_all_views() {
    let case = CASES.iter().find(|case| case.name == "steady").unwrap();
    let (story, mut view) = case.staged(Theme::full(), 120, 36);
    let mut shown = |text: &str| {
        press(&story, &mut view, KeyCode::Char('?'));
        press(&story, &mut view, KeyCode::Char('/'));
        for c in text.chars() {
            press(&story, &mut view, KeyCode::Char(c));
        }
        let shown = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
        for _ in 0..3 {
            press(&story, &mut view, KeyCode::Esc);
        }
        shown
    };
    let leak = shown("leak");
    for words in [
        "here, but not now",
        "in the view of a step (s)",
        "what grows (a leak?)",
    ] {
        assert!(leak.contains(words), "{words} in\n{leak}");
    }
    let combine = shown("combine");
    assert!(
        combine.contains("in the dialog when memory runs out (o)"),
        "{combine}"
    );
    let smaller = shown("smaller batch");
    assert!(smaller.contains("b             smaller batch"), "{smaller}");
    let of_the_footer = shown("why and what to do");
    assert!(
        of_the_footer.contains("why memory ran out and what to do"),
        "{of_the_footer}"
    );
    assert!(shown("zebra").contains("no key has these words"));
}

/// Without NVML the line below the chart and the pane say the same of what is free.
#[test]
fn what_is_free_is_one_number() {
    let case = CASES.iter().find(|case| case.name == "no-nvml").unwrap();
    let (story, view) = case.staged(Theme::full(), 120, 36);
    let text = crate::frames::text(&crate::frames::draw(&story, &view, 120, 36));
    let below = text
        .split("≈ ")
        .find_map(|rest| rest.split(" GiB free").next().filter(|free| free.len() < 6));
    let row = text
        .lines()
        .find(|line| line.contains(" free  ") && line.contains('≈'));
    let row = row.unwrap_or_else(|| panic!("no row in\n{text}"));
    let pane = row
        .split('≈')
        .next_back()
        .and_then(|figure| figure.split_whitespace().next());
    assert_eq!(below, pane, "{text}");
}
