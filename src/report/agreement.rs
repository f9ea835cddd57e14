//! One figure for one thing: what the outputs say of a recorded session agrees with itself and with the others.

use super::explain::{Explanation, text};
use super::markdown::markdown;
use super::page::{PageOptions, html};
use super::recorded;
use super::story::SessionStory;
use crate::anatomy::StepAnatomy;
use crate::document::{self, DocumentBlock, RemarkOf};
use crate::event::{Event, EventKind, Phase, PhaseStart, StepTrace};
use crate::units::Bytes;

fn story(name: &str) -> SessionStory {
    SessionStory::new(recorded(name))
}

fn explained(story: &SessionStory) -> String {
    let ended = match story.ooms.as_slice() {
        [] => story.sentences(),
        _ => Vec::new(),
    };
    text(&Explanation {
        source: "the recording",
        length: None,
        ooms: &story.ooms,
        said: &[],
        command: None,
        proofs: Vec::new(),
        followed: Vec::new(),
        again: None,
        ended,
        growth: None,
        room: None,
    })
}

/// A page without its styles and scripts, tags as line breaks.
fn words_of_page(story: &SessionStory) -> String {
    let page = html(story, &PageOptions::default());
    let body = page.split("<main>").nth(1).expect("a body");
    let mut words = String::new();
    for part in body.split('<').filter(|part| !part.starts_with("script")) {
        words.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        words.push('\n');
    }
    words
}

#[test]
fn a_leak_has_one_figure() {
    let story = story("leak-traced");
    let said = explained(&story);
    assert!(
        said.contains("memory leak: +4.12 GiB × 17 steps = 70.1 GiB."),
        "{said}"
    );
    assert!(
        said.contains("70.1 GiB of it is kept from earlier steps, 66.4 GiB the step's activations"),
        "{said}"
    );
    assert!(
        said.contains("Evidence: leak per step 4.12 GiB, kept from earlier steps 70.1 GiB"),
        "{said}"
    );
    // What has grown since a step at which a search or a trace began, counted on from there.
    for other in ["53.6", "57.8"] {
        assert!(!said.contains(other), "{other}\n{said}");
    }
    // What the step that failed kept for its own backward pass is told as that.
    let graph = "Kept for the running step's backward pass by:\n  train.py:114 loss: Tensor: 66.3 GiB in autograd graphs\n";
    assert!(said.contains(graph), "{said}");
    // At the peak of the step before it had one step less, and the module is the one that growth names.
    let earlier = "The peak of step 17: 134.5 GiB in backward (the latest that was traced whole):\n  kept from earlier steps 66.1 GiB";
    assert!(said.contains(earlier), "{said}");
    for module in [
        "in blocks.0–47: +4.12 GiB per step",
        "in blocks.0–47: 66.0 GiB, 48 × 1.38 GiB (kept from earlier steps)",
    ] {
        assert!(said.contains(module), "{module}\n{said}");
    }
    assert!(!said.contains("outside of modules"), "{said}");
}

#[test]
fn every_output_names_the_line_to_change() {
    for (name, change) in [
        ("evaluation", "train.py:134: with torch.inference"),
        ("leak-traced", "scenarios.py:62: .item() or .detach()"),
    ] {
        let story = story(name);
        let finding = &story.ooms[0].findings[0];
        let first = crate::document::advice(finding).next();
        let Some(DocumentBlock::Remark(remark)) = first else {
            panic!("no advice of {name}");
        };
        assert_eq!(remark.of, RemarkOf::Advice);
        assert!(remark.words.starts_with(change), "{}", remark.words);
        for said in [
            explained(&story),
            words_of_page(&story),
            markdown(&story, &PageOptions::default()),
        ] {
            let said = said.replace("\\_", "_");
            assert!(said.contains(change), "{name}\n{said}");
        }
    }
}

#[test]
fn markdown_says_who_keeps_the_memory() {
    let said = markdown(&story("leak-traced"), &PageOptions::default());
    assert!(said.contains("**Kept alive by**"), "{said}");
    assert!(
        said.contains("`scenarios.py:62 Leak.history: list of 17` keeps 70.1 GiB alive"),
        "{said}"
    );
}

#[test]
fn a_page_has_one_figure_outside_of_pytorch() {
    for name in ["leak-traced", "capacity", "evaluation"] {
        let page = words_of_page(&story(name));
        let words: Vec<&str> = page.lines().map(str::trim).collect();
        let mut figures: Vec<&str> = (words.windows(4))
            .filter(|of| of[0] == "non-PyTorch")
            .filter_map(|of| of[1..].iter().find(|word| !word.is_empty()).copied())
            .collect();
        assert!(figures.len() > 1, "{figures:?} of {name}");
        figures.dedup();
        assert_eq!(figures.len(), 1, "{figures:?} of {name}");
    }
}

#[test]
fn gradients_that_were_not_there_yet_are_counted_nowhere() {
    let mut events = recorded("capacity");
    let is_oom = |event: &Event| matches!(event.what, EventKind::Oom(_));
    let at = events.iter().position(is_oom).expect("an OOM");
    let EventKind::Oom(record) = &mut events[at].what else {
        unreachable!();
    };
    // As in a later step: the optimizer tells of the gradients that it last saw.
    let structure = record.structure.as_mut().expect("an optimizer");
    structure.gradients = Bytes::mib(512);
    assert_eq!(record.phase, Phase::Forward);
    let pid = record.pid;
    let moment = events[at].at;
    let trace = StepTrace {
        pid,
        step: 1,
        trace: "512 | 1024 2048".into(),
        phases: vec![PhaseStart {
            phase: Phase::Forward,
            from: 0,
        }],
        blocks: "0 0 0".into(),
        ..StepTrace::default()
    };
    events.insert(
        at,
        Event {
            at: moment,
            what: EventKind::StepTrace(Box::new(trace)),
        },
    );
    let said = explained(&SessionStory::new(events));
    assert!(said.contains("gradients 0 B, "), "{said}");
    assert!(!said.contains("gradients 512 MiB"), "{said}");
}

#[test]
fn gradients_fit_in_what_the_lines_leave() {
    for (name, said) in [
        (
            "capacity",
            "parameters 582 MiB, gradients 0 B, optimizer state",
        ),
        (
            "evaluation",
            "parameters 579 MiB, gradients 0 B, optimizer state",
        ),
        // In a backward pass some may be there.
        (
            "leak-traced",
            "parameters 580 MiB, optimizer state 1.13 GiB, kept from earlier steps 70.1 GiB, gradients, activations + other 66.4",
        ),
    ] {
        let story = story(name);
        let text = explained(&story);
        assert!(text.contains(said), "{text}");
        assert!(
            !text.contains("Evidence: parameters 580 MiB, gradients"),
            "{text}"
        );
        let page = words_of_page(&story);
        let at = page.find("memory at that moment").expect("a bar");
        let bar = page[at..]
            .split("Lines that held")
            .next()
            .unwrap_or_default();
        assert!(!bar.contains("gradients"), "{bar}");
    }
}

#[test]
fn the_same_leak_is_as_large_with_and_without_its_holder() {
    for name in ["leak", "leak-traced"] {
        let said = explained(&story(name));
        assert!(said.contains("+4.12 GiB × 17 steps = 70.1 GiB."), "{said}");
        assert!(
            said.contains("70.1 GiB of it is kept from earlier steps"),
            "{said}"
        );
        assert!(!said.contains("53.6"), "{said}");
    }
}

#[test]
fn what_is_unlikely_to_help_is_not_advised() {
    let said = explained(&story("evaluation"));
    assert!(
        said.contains("- torch.inference_mode() around the evaluation"),
        "{said}"
    );
    assert!(!said.contains("- a smaller batch in evaluation"), "{said}");
}

#[test]
fn the_peak_of_a_traced_step_is_that_of_the_counter() {
    // The counter has whole blocks where only a part was asked for: 12.6 GiB were.
    let page = words_of_page(&story("encoder-lengths"));
    assert!(page.contains("the peak is 12.7 GiB in backward"), "{page}");
    assert!(!page.contains("by PyTorch's counter"), "{page}");
}

#[test]
fn a_step_whose_counter_says_more_says_both() {
    let mut events = recorded("encoder-lengths");
    for event in &mut events {
        if let EventKind::StepTrace(step) = &mut event.what {
            // As where segments grow in place, and in recordings of earlier versions.
            step.layout.clear();
        }
    }
    let page = words_of_page(&SessionStory::new(events));
    assert!(
        page.contains("12.6 GiB in backward (12.7 GiB by PyTorch"),
        "{page}"
    );
}

#[test]
fn what_is_allocated_after_a_step_is_told_with_what_it_is() {
    let said = explained(&story("capacity"));
    assert!(
        said.contains("134.6 GiB on top of the 5.18 GiB allocated after a step"),
        "{said}"
    );
    let why = "Right after a step there are the gradients (582 MiB) beside the 1.70 GiB of parameters and optimizer state, and 2.91 GiB of other tensors";
    assert!(said.contains(why), "{said}");
    // Samples alone do not say that steps were alike.
    assert!(
        !said.contains("were alike") && !said.contains("Half of the"),
        "{said}"
    );
}

#[test]
fn gradients_that_the_probe_has_counted_are_those() {
    let mut events = recorded("leak-traced");
    for event in &mut events {
        if let EventKind::Oom(record) = &mut event.what {
            record.gradients = Some(Bytes::mib(96));
        }
    }
    let said = explained(&SessionStory::new(events));
    assert!(
        said.contains("gradients 96 MiB, optimizer state 1.13 GiB, kept from earlier steps 70.1"),
        "{said}"
    );
    assert!(
        said.contains("Evidence: parameters 580 MiB, gradients 96 MiB"),
        "{said}"
    );
}

#[test]
fn a_run_that_oomph_has_measured_was_stopped_by_it() {
    for (name, steps) in [
        ("decoder", 4),
        ("encoder-lengths", 6),
        ("unet-workspaces", 6),
    ] {
        let story = story(name);
        let why = format!("was ended by oomph after {steps} steps, which were enough");
        let page = words_of_page(&story);
        for said in [
            &explained(&story),
            &page,
            &markdown(&story, &PageOptions::default()),
        ] {
            assert!(said.contains(&why), "{said}");
            assert!(!said.contains("SIGTERM"), "{said}");
        }
    }
}

#[test]
fn ram_that_others_have_is_not_the_trainings() {
    let story = story("encoder-lengths");
    let said = story.sentences().join(" ");
    assert!(
        said.ends_with("with a peak of 12.7 GiB and at most 798 MiB of RAM of its own."),
        "{said}"
    );
    assert!(
        !said.contains("4.64 GiB"),
        "what everything on the machine had: {said}"
    );
}

#[test]
fn what_has_no_line_says_why_and_comes_last() {
    for name in ["unet", "lora", "decoder"] {
        let story = story(name);
        let run = story.state.run().expect("a run");
        let step = StepAnatomy::of_oom(&run.ranks[0].traces).expect("a step");
        let lines = document::lines_at(&step, step.peak(), &run.source);
        let places: Vec<&str> = lines.iter().map(|held| held.place.as_str()).collect();
        let by_autograd = "made by autograd in the backward pass, where no line of Python runs";
        assert!(places.contains(&by_autograd), "{places:?}");
        assert!(!lines[0].place_is_unknown, "{places:?}");
        let known = lines
            .iter()
            .take_while(|held| !held.place_is_unknown)
            .count();
        assert!(
            lines[known..].iter().all(|held| held.place_is_unknown),
            "{places:?}"
        );
    }
}

#[test]
fn where_few_lines_are_known_those_of_a_traced_step_stand_in() {
    let mut story = story("leak-traced");
    let oom = &mut story.ooms[0];
    let record = oom.incident.record.as_mut().expect("a record");
    record.lines.truncate(1);
    record.lines[0].bytes = Bytes::gib(1);
    record.lines_known = Some(Bytes::gib(1));
    let said = markdown(&story, &PageOptions::default());
    assert!(
        said.contains("- Lines known for 1.0 of 138.2 GiB: oomph records them in the first steps"),
        "{said}"
    );
    let step = "- Step 17 was traced whole; of its peak of 134.5 GiB most was allocated by:\n- `models.py:32 forward`";
    assert!(said.contains(step), "{said}");
}

/// Blocks from before stacks were recorded have the lines of those of their size that came later: then most of it is known.
#[test]
fn lines_by_the_sizes_of_blocks_are_told_as_that() {
    let mut story = story("leak-traced");
    let oom = &mut story.ooms[0];
    let record = oom.incident.record.as_mut().expect("a record");
    record.lines_known = Some(Bytes::gib(130));
    record.lines_alike = Some(Bytes::gib(100));
    let said = explained(&story);
    assert!(
        said.contains("Lines known for 30.0 of 138.2 GiB, 100.0 GiB more inferred from blocks of the same size; each line has both: oomph records"),
        "{said}"
    );
    let said = markdown(&story, &PageOptions::default());
    assert!(!said.contains("was traced whole; of its peak"), "{said}");
}

#[test]
fn how_full_the_gpu_is_is_told_by_one_sum() {
    let said = explained(&story("evaluation"));
    let sum = "138.97 allocated + 0.08 requested + 0.73 non-PyTorch = 139.78 of 139.80 GiB";
    assert_eq!(said.matches(sum).count(), 2, "{said}");
    assert!(!said.contains("needed, "), "{said}");
    // What is cached lies in pieces: one figure with one name.
    assert!(!said.contains("inactive split"), "{said}");
}

#[test]
fn the_peak_of_one_process_is_not_taken_for_that_of_the_gpu() {
    let said = story("two-ranks").sentences().join(" ");
    assert_eq!(
        said,
        "The command finished after 0:09 with a peak of 451 MiB in one of its 2 processes, 838 MiB together on GPU 0."
    );
}

#[test]
fn markdown_of_a_run_that_went_well_has_the_lines_of_its_traced_step() {
    let said = markdown(&story("lora"), &PageOptions::default());
    let step = "#### Step 3, allocation by allocation: 6.62 GiB in backward at its peak\n";
    assert!(said.contains(step), "{said}");
    let lines = said.lines().filter(|line| line.starts_with("- `grid.py:"));
    assert!(lines.count() >= 3, "{said}");
}
