//! What oomph recognizes in a command before it runs, and what each remedy would change, as a document.
//!
//! No I/O: this is given what was read, and returns blocks.

use crate::command::CommandLine;
use crate::document::{self, DocumentBlock, Figure, Heading};
use crate::recognize::{BatchFinding, HowSure, Recognized};
use crate::remedy::{self, Remedy, RemedyId, RemedyInputs};

/// First what the command is, then what sets its batch and how sure that is, then the remedies.
pub fn plan(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Vec<DocumentBlock> {
    let recognized = inputs.recognize(command);
    of_finding(command, inputs, &recognized.batch_finding())
}

/// A training that a script starts: what sets its batch is told with the script's line.
pub fn of_line(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    found: &BatchFinding,
    starts: &str,
) -> Vec<DocumentBlock> {
    let mut blocks = vec![DocumentBlock::heading(starts)];
    blocks.extend(of_finding(command, inputs, found));
    blocks
}

/// What is told of a script that starts trainings, before these.
pub fn script(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Vec<DocumentBlock> {
    vec![DocumentBlock::Table(about(&inputs.recognize(command)))]
}

fn of_finding(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    found: &BatchFinding,
) -> Vec<DocumentBlock> {
    let recognized = inputs.recognize(command);
    let mut figures = about(&recognized);
    let before = remedy::as_it_ran(command, inputs);
    figures.extend(before.map(|words| Figure::new("before", words)));
    let mut blocks = vec![DocumentBlock::Table(figures)];
    blocks.extend(batch(found));
    let remedies = remedy::remedies(command, inputs);
    blocks.push(DocumentBlock::heading(
        match remedies.iter().any(Remedy::is_offered) {
            true => "What each remedy would change",
            false => "No remedy can be applied to this command",
        },
    ));
    // What nobody has measured takes an OOM.
    let ran = |remedy: &Remedy| match remedy.expectation.ran_before.as_ref() {
        Some(ran) if ran.program_changed => ran.words(),
        Some(_) => remedy.expectation.words.to_string(),
        None => String::new(),
    };
    let ran: Vec<(RemedyId, String)> = (remedies.iter())
        .map(|remedy| (remedy.id, ran(remedy)))
        .collect();
    blocks.extend(document::offers(command, &remedies, |remedy| {
        let ran = ran.iter().find(|(id, _)| *id == remedy.id);
        let ran = ran.map_or("", |(_, words)| words.as_str());
        vec![remedy.changes.as_str(), ran, &remedy.cost]
    }));
    blocks.extend(at_runtime(&remedies, inputs));
    blocks
}

/// What of the remedies that are not offered the dialog of a run may offer, where no run of the program was seen.
pub fn at_runtime(remedies: &[Remedy], inputs: &RemedyInputs<'_>) -> Option<DocumentBlock> {
    let patches = [RemedyId::Amp, RemedyId::Recompute];
    let may_be_patched = |remedy: &Remedy| patches.contains(&remedy.id) && !remedy.is_offered();
    let is_open = inputs.forecast.state.is_none() && remedies.iter().any(may_be_patched);
    is_open.then(|| DocumentBlock::detail(RUNTIME))
}

/// Where what was learned is kept.
const FORGET: &str =
    "delete oomph/learned.json in $OOMPH_STATE_DIR, else $XDG_STATE_HOME, else ~/.local/state";

/// What a plan without a run cannot know.
const RUNTIME: &str = "What the program has no option for may be patched at runtime: what can be is seen when memory runs out.";

/// The program, what starts it, and its torch.
fn about(recognized: &Recognized<'_>) -> Vec<Figure> {
    let program = recognized.command.argv.get(recognized.layout.program);
    let program = program.map_or("none found".to_string(), |word| word.to_string_lossy());
    let known = match recognized.known {
        None => "unknown; its options are recognized by name".to_string(),
        Some(entry) => match &entry.source {
            Some(source) => format!("known as {}, by {source}", entry.name),
            None => format!("known as {}", entry.name),
        },
    };
    let launchers = recognized.launchers().iter();
    let launchers: Vec<&str> = launchers.map(|launcher| launcher.name.as_str()).collect();
    let mut rows = vec![Figure::new("program", format!("{program} ({known})"))];
    if !launchers.is_empty() {
        rows.push(Figure::new("launchers", launchers.join(", ")));
    }
    let torch = recognized.launch.torch.unwrap_or("unknown");
    rows.push(Figure::new("torch", torch));
    let learned = recognized.launch.learned.iter();
    rows.extend(learned.map(|knob| Figure::new("learned", knob)));
    if !recognized.launch.learned.is_empty() {
        rows.push(Figure::new("to forget it", FORGET));
    }
    rows
}

/// What sets the batch: a row for each number, with where it stands.
fn batch(found: &BatchFinding) -> Vec<DocumentBlock> {
    let mut blocks = vec![DocumentBlock::Heading(Heading {
        words: match found.how_sure {
            HowSure::NotSure => "What may set the batch".into(),
            HowSure::Sure | HowSure::Likely | HowSure::Nothing => "What sets the batch".into(),
        },
        aside: Some(found.how_sure.words().into()),
    })];
    if !found.candidates.is_empty() {
        let rows = found.candidates.iter().map(|spot| {
            let name = format!("{} {}", spot.name, spot.value);
            let by = spot
                .arg
                .as_ref()
                .map(|arg| format!("; if it is this: oomph fit --arg {arg}"));
            Figure::new(
                name,
                format!("{}{}", spot.stands_at(), by.unwrap_or_default()),
            )
        });
        blocks.push(DocumentBlock::Table(rows.collect()));
    }
    let why = match found.how_sure {
        HowSure::NotSure => Some("oomph fit tells them apart by number, in its first run".into()),
        HowSure::Sure | HowSure::Likely | HowSure::Nothing => found.why.clone(),
    };
    blocks.extend(why.map(DocumentBlock::detail));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::text::{TextLayout, lines};
    use crate::recognize::{BatchSpot, SpotKind};

    #[test]
    fn a_number_is_told_with_where_it_stands_and_how_sure_that_is() {
        let spot = |name: &str, stands, line| BatchSpot {
            name: name.into(),
            value: 64,
            stands,
            file: Some("/project/train.py".into()),
            line: Some(line),
            arg: None,
        };
        let mut found = BatchFinding {
            how_sure: HowSure::Sure,
            candidates: vec![spot("--batch-size", SpotKind::Default, 40)],
            why: None,
        };
        let said = |found: &BatchFinding| lines(&batch(found), TextLayout::Parts);
        assert_eq!(
            said(&found),
            [
                "\nWhat sets the batch (sure):",
                "  --batch-size 64 default at train.py:40"
            ]
        );
        found.how_sure = HowSure::NotSure;
        found.candidates.push(BatchSpot {
            arg: Some("bs".into()),
            ..spot("bs", SpotKind::Constant, 3)
        });
        assert_eq!(
            said(&found)[2..],
            [
                "  bs 64           constant at train.py:3; if it is this: oomph fit --arg bs",
                "  oomph fit tells them apart by number, in its first run"
            ]
        );
        found = BatchFinding {
            how_sure: HowSure::Nothing,
            candidates: Vec::new(),
            why: Some("no batch size in the command".into()),
        };
        assert_eq!(
            said(&found),
            [
                "\nWhat sets the batch (nothing found):",
                "  no batch size in the command"
            ]
        );
    }
}
