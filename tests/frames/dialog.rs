//! The OOM dialog on small screens: whatever the cause, its sentences are whole, and the keys to decide
//! with are shown. And what is copied from it reads as sentences.

use crate::frames::cases::CASES;
use crate::frames::keys::press;
use crate::frames::story::{Story, parted};
use crate::frames::{draw, keep_picture, text};
use oomph::diagnosis::{Cause, Finding, diagnose_incident};
use oomph::remedy::RemedyId;
use oomph::state::{OomIncident, State};
use oomph::ui::{Effect, Theme, View};
use oomph::units::Moment;
use ratatui::crossterm::event::KeyCode;
use std::collections::BTreeSet;
use std::path::Path;

const SIZES: [(u16, u16); 3] = [(40, 12), (60, 16), (80, 24)];

/// Every case of the frames that ran out of memory.
fn told() -> impl Iterator<Item = (String, Story)> {
    let is_oom = |name: &str| {
        let of_it = ["oom", "recorded", "gate", "hanging", "elsewhere-oom"];
        of_it.iter().any(|begin| name.starts_with(begin))
    };
    let cases = CASES.iter().filter(move |case| is_oom(case.name));
    cases.map(|case| (case.name.to_string(), case.told()))
}

/// The messages of `tests/messages`, each as the only thing that is known.
fn of_messages() -> Vec<(String, Vec<Finding>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let files = std::fs::read_dir(directory).unwrap();
    let mut all = Vec::new();
    for file in files.map(|file| file.unwrap().path()) {
        let content = std::fs::read_to_string(&file).unwrap();
        for record in content.split("=== ").skip(1) {
            let (head, message) = record.split_once('\n').unwrap();
            let message = message.replace('␛', "\x1b").replace('␍', "\r");
            let report = oomph::oom::read(message.as_bytes()).into_iter().next();
            let incident = report.map(|report| OomIncident::of_report(Moment::ZERO, report));
            let incident = incident.as_ref();
            let findings =
                incident.map(|incident| diagnose_incident(&State::default(), None, incident));
            all.extend(findings.map(|findings| (head.to_string(), findings)));
        }
    }
    all
}

/// The words of every constructed OOM, which the diagnosis' tests keep: each with the advice that may
/// stand over the remedies.
fn of_the_words() -> Vec<(String, Vec<Finding>)> {
    const WORDS: &str =
        include_str!("../../src/diagnosis/snapshots/oomph__diagnosis__tests__the_words.snap");
    let mut all = Vec::new();
    for words in WORDS.split("\n# ").skip(1) {
        let (name, findings) = words.split_once('\n').unwrap();
        let mut lines = findings.lines().peekable();
        let mut found = Vec::new();
        while let Some(line) = lines.next() {
            let cause = Cause::ALL
                .iter()
                .find_map(|cause| Some((*cause, line.split_once(&format!(" ({cause:?}) "))?)));
            let Some((cause, (_, headline))) = cause else {
                continue;
            };
            let explanation = lines.next().unwrap_or_default().trim();
            let mut finding = Story::new("python train.py")
                .find(cause, headline, explanation)
                .findings
                .remove(0);
            finding.advice.clear();
            while let Some(advice) = lines.next_if(|line| line.starts_with("    > ")) {
                let mut words = parted(&advice[6..], " (");
                if !advice.ends_with(')') {
                    words = advice[6..].into();
                }
                finding.advice.push(words);
            }
            found.push(finding);
        }
        all.push((name.to_string(), found));
    }
    // A cause that only stands beside another one has a dialog of its own here too.
    let only_beside = |cause: &&Cause| {
        let mut first = all.iter().filter_map(|(_, findings)| findings.first());
        !first.any(|finding| finding.cause == **cause)
    };
    let beside = Cause::ALL.iter().filter(only_beside).map(|cause| {
        let mut findings = all.iter().flat_map(|(_, findings)| findings);
        let found = findings.find(|finding| finding.cause == *cause);
        let found = found.unwrap_or_else(|| panic!("no words of {cause:?} in src/diagnosis/tests"));
        (format!("{cause:?} alone"), vec![found.clone()])
    });
    let beside: Vec<_> = beside.collect();
    all.extend(beside);
    all
}

/// The words of a cause, whatever its figures.
fn without_figures(findings: &[Finding]) -> String {
    let first = findings.first();
    let words = first.map(|finding| format!("{}{}", finding.headline, finding.explanation));
    let letters = words.unwrap_or_default();
    letters
        .split(|c: char| c.is_ascii_digit() || c == '.')
        .collect()
}

/// Each case, and each wording once: most messages differ in their figures alone.
fn of_all(mut check: impl FnMut(&str, &Story)) {
    told().for_each(|(name, story)| check(&name, &story));
    let case = CASES.iter().find(|case| case.name == "oom-capacity");
    let mut story = case.expect("the case").told();
    let mut seen = BTreeSet::new();
    for (name, findings) in of_the_words().into_iter().chain(of_messages()) {
        if seen.insert(without_figures(&findings)) {
            story.findings = findings;
            check(&name, &story);
        }
    }
    assert!(seen.len() > 50, "{} wordings", seen.len());
}

/// The dialog, opened if need be.
fn opened(story: &Story, width: u16, height: u16) -> Option<View> {
    let mut view = story.view(Theme::full(), width, height);
    if dialog_of(story, &view, width, height).is_empty() {
        press(story, &mut view, KeyCode::Char('o'));
    }
    let is_there = !dialog_of(story, &view, width, height).is_empty();
    is_there.then_some(view)
}

/// Its lines, the title first.
fn dialog_of(story: &Story, view: &View, width: u16, height: u16) -> Vec<String> {
    let screen = text(&draw(story, view, width, height));
    let lines = screen.lines().skip_while(|line| !line.starts_with('╭'));
    let lines = lines.take_while(|line| line.starts_with(['╭', '│']));
    let inner = lines.map(|line| line.trim_matches(['╭', '─', '│', '╮', ' ']).to_string());
    inner.collect()
}

/// One text, however it is wrapped.
fn joined(lines: &[String]) -> String {
    lines
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn no_sentence_of_the_dialog_is_cut() {
    of_all(|name, story| {
        for (width, height) in SIZES {
            let Some(mut view) = opened(story, width, height) else {
                continue;
            };
            let said =
                |lines: &[String]| format!("{name} at {width}x{height}:\n{}", lines.join("\n"));
            let brief = dialog_of(story, &view, width, height);
            let is_cut = brief.iter().any(|line| line.contains('…'));
            assert!(!is_cut, "{}", said(&brief));
            if let Some(finding) = story.findings.first() {
                let whole = finding.headline.as_str();
                let first = finding.headline.shortest();
                let words = joined(&brief);
                assert!(
                    words.contains(whole) || words.contains(&format!("{first}.")),
                    "{}",
                    said(&brief)
                );
            }
            // All of the details can be scrolled to.
            press(story, &mut view, KeyCode::Char('d'));
            let (mut details, mut before) = (String::new(), Vec::new());
            loop {
                let lines = dialog_of(story, &view, width, height);
                let is_cut = lines.iter().any(|line| line.contains('…'));
                assert!(!is_cut, "{}", said(&lines));
                let text = lines
                    .iter()
                    .skip(1)
                    .take_while(|line| !line.starts_with("PgUp"));
                details.push_str(&text.cloned().collect::<Vec<_>>().join(" "));
                details.push(' ');
                press(story, &mut view, KeyCode::PageDown);
                if std::mem::replace(&mut before, lines.clone()) == lines {
                    break;
                }
            }
            let details = joined(&[details]);
            for finding in story.findings.iter().take(1) {
                for words in [finding.headline.as_str(), &finding.explanation] {
                    for sentence in words.split_inclusive(". ").map(str::trim) {
                        assert!(
                            details.contains(&joined(&[sentence.to_string()])),
                            "{sentence:?} in the details of {name} at {width}x{height}: {details}"
                        );
                    }
                }
            }
        }
    });
}

/// A row of the smallest screen has so many columns for it, beside its key and its verdict.
#[test]
fn every_remedys_title_has_room_on_the_smallest_screen() {
    for id in RemedyId::all() {
        assert!(id.spec().title.len() <= 24, "{}", id.spec().title);
    }
}

#[test]
fn the_keys_to_decide_with_are_shown_on_small_screens() {
    of_all(|name, story| {
        for (width, height) in SIZES {
            let Some(view) = opened(story, width, height) else {
                continue;
            };
            let buf = draw(story, &view, width, height);
            keep_picture(
                &format!("dialog-{}", name.replace([' ', '/', ':'], "-")),
                &buf,
            );
            let screen = text(&buf);
            let footer = screen.lines().last().unwrap_or_default();
            for key in [" d details", "Esc back"] {
                assert!(footer.contains(key), "{key} of {name} at {width}: {footer}");
            }
            let lines = dialog_of(story, &view, width, height).join("\n");
            let selects = lines.contains("❯   b") || lines.contains("❯ b");
            if selects && story.waiting.is_none() {
                let starts = ["Enter relaunch", "Ctrl-X stop"];
                assert!(
                    starts.iter().any(|start| footer.contains(start)),
                    "{name} at {width}: {footer}"
                );
            }
        }
    });
}

#[test]
fn every_sentence_that_is_copied_begins_with_a_capital() {
    let mut small = Vec::new();
    of_all(|name, story| {
        let Some(mut view) = opened(story, 120, 40) else {
            return;
        };
        let Some(Effect::Copy(copied)) = press(story, &mut view, KeyCode::Char('y')) else {
            panic!("nothing copied of {name}");
        };
        let items = copied.lines().filter_map(|line| line.strip_prefix("- "));
        let sentences = items.flat_map(|item| item.split(". "));
        for sentence in sentences {
            // Names: cuBLAS has its capital later, bitsandbytes none.
            let word = sentence.split(' ').next().unwrap_or_default();
            let begins = |c: char| c.is_uppercase() || c.is_ascii_digit() || c == '`';
            let is_name = word == "bitsandbytes" || word.contains(char::is_uppercase);
            if !word.starts_with(begins) && !is_name {
                small.push(format!("{name}: {sentence}"));
            }
        }
    });
    assert!(small.is_empty(), "{}", small.join("\n"));
}

/// A row may have room for "not offered" alone.
#[test]
fn the_details_say_why_a_remedy_is_not_offered_and_do_not_advise_it_first() {
    let (_, mut story) = (told().find(|(name, _)| name == "oom-capacity")).expect("the case");
    story.findings[0].advice = vec![
        "automatic mixed precision (bf16)".into(),
        "half the batch size, with gradient accumulation to keep the effective batch".into(),
    ];
    let mut view = opened(&story, 60, 200).expect("a dialog");
    press(&story, &mut view, KeyCode::Char('d'));
    let said = joined(&dialog_of(&story, &view, 60, 200));
    let at = |words: &str| {
        said.find(words)
            .unwrap_or_else(|| panic!("{words}: {said}"))
    };
    assert!(
        at("half the batch size")
            < at("automatic mixed precision (bf16); not offered here: train.py has no such option")
    );
    assert!(
        at("what is not offered, and why")
            < at("AMP (bf16): not offered: train.py has no such option")
    );
}
