//! One figure for one thing: what the outputs say of a recorded session agrees with itself and with the others.

use super::explain::{Explanation, text};
use super::markdown::markdown;
use super::page::{PageOptions, html};
use super::recorded;
use super::story::SessionStory;
use crate::document::{DocumentBlock, RemarkOf};

fn story(name: &str) -> SessionStory {
    SessionStory::new(recorded(name))
}

fn explained(story: &SessionStory) -> String {
    text(&Explanation {
        source: "the recording",
        length: None,
        ooms: &story.ooms,
        command: None,
        proofs: Vec::new(),
        followed: Vec::new(),
        again: None,
        growth: None,
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
        said.contains("memory leak: +4.12 GiB per step, 70.1 GiB in 17 steps."),
        "{said}"
    );
    assert!(said.contains("what has leaked (70.1 GiB)"), "{said}");
    assert!(said.contains("leaked 70.1 GiB"), "{said}");
    // What has grown since a step at which a search or a trace began, counted on from there.
    for other in ["53.6", "57.8", "66.0"] {
        assert!(!said.contains(other), "{other}\n{said}");
    }
    // What the step that failed kept for its own backward pass is told as that.
    let graph = "Kept for the running step's backward pass by:\n  train.py:114 loss: Tensor: 66.3 GiB in autograd graphs\n";
    assert!(said.contains(graph), "{said}");
    assert!(
        said.contains("  from before this step: 66.1 GiB (other)"),
        "{said}"
    );
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
