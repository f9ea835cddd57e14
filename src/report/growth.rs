//! What grew in a session that ended before it ran out of memory: a leak that nobody sees in its outcome.

use super::story::SessionStory;
use crate::anatomy::StepGrowth;
use crate::diagnosis;
use crate::document::{self, DocumentBlock, Sentence, Tree, Voice};
use crate::state::{RunOutcome, State};

/// The heading of it in a report.
pub(super) const HEADING: &str = "Memory grew from step to step";

/// "what is allocated after each step grew: +171 MiB × 58 steps = 9.69 GiB: …", of a last run that ended before it ran out of
/// memory.
pub fn growth(state: &State) -> Option<String> {
    let run = state.run()?;
    let went_on = matches!(run.outcome(), RunOutcome::Finished | RunOutcome::Stopped);
    if !went_on || run.oom_count > 0 {
        return None;
    }
    let grew = run.ranks.iter().filter_map(|rank| {
        let capacity = state
            .device(rank.device.as_ref()?)
            .and_then(|device| device.capacity);
        Some((rank, diagnosis::baseline_growth(&rank.steps, capacity)?))
    });
    let (rank, most) =
        grew.max_by(|(_, one), (_, other)| one.per_step.total_cmp(&other.per_step))?;
    let grown = most.so_far(&rank.steps);
    let mut kept = run.ranks.iter().filter_map(|rank| {
        let (_, found) = rank.retainers.as_ref()?;
        Some((found.step, found.main()?))
    });
    // What it kept when it was found would be a second size of the same.
    let by = match kept.next() {
        Some((step, retainer)) => format!("{} kept it alive after step {step}", retainer.words()),
        None if run.ranks.iter().any(|rank| rank.retainers.is_some()) => {
            "who keeps it was looked for and not found".into()
        }
        None => "who keeps it was not looked for: w does while the training runs".into(),
    };
    Some(format!(
        "what is allocated after each step grew: {}: a leak, or a list that is not full yet; {by}",
        grown.sum()
    ))
}

/// It for a report: the sentence, who keeps the memory, and the lines that grew between two traced steps.
pub(super) fn blocks(story: &SessionStory) -> Option<Vec<DocumentBlock>> {
    let words = growth(&story.state)?;
    let ranks = story.state.run().into_iter().flat_map(|run| &run.ranks);
    let mut blocks = vec![DocumentBlock::Sentence(Sentence {
        voice: Voice::Detail,
        words: format!("{}.", diagnosis::capitalized(&words)).into(),
    })];
    for rank in ranks.clone() {
        let found = rank.retainers.as_ref().map(|(_, found)| found);
        blocks.extend(
            found
                .into_iter()
                .flat_map(|found| document::kept_alive(found, "Kept alive by")),
        );
    }
    if let Some(grew) = ranks
        .into_iter()
        .find_map(|rank| StepGrowth::new(&rank.traces))
    {
        let heading = format!("Grew from step {} to step {}", grew.from, grew.to);
        blocks.push(DocumentBlock::heading(heading));
        blocks.push(DocumentBlock::Tree(Tree::Growing(document::grown(
            &grew, true,
        ))));
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, Exited, Retainer, RetainerKind, Retainers};
    use crate::state::tests::staged::{StagedSession, gib, step};
    use crate::units::{Bytes, Pid, RunNumber};

    #[test]
    fn growth_that_did_not_last_to_be_certain_is_told_at_the_end() {
        let ended = |per_step: f64| {
            let mut scene = StagedSession::training();
            for n in 1..=60_u32 {
                let floor = 1.0 + per_step * f64::from(n);
                let at = 2.0 + f64::from(n);
                scene.add(at, step(100, u64::from(n), gib(floor), gib(floor + 4.0)));
                scene.sampled(at + 0.1, floor, floor + 4.0);
            }
            assert_eq!(growth(&scene.state), None, "it still runs");
            let left = Vec::new();
            let (run, exit) = (RunNumber(1), Exit::Code(0));
            scene.add(70.0, EventKind::Exited(Exited { run, exit, left }));
            growth(&scene.state)
        };
        assert_eq!(ended(0.0), None);
        let said = ended(0.125).expect("words");
        assert!(
            said.contains("grew: +128 MiB × 60 steps = 7.50 GiB"),
            "{said}"
        );
    }

    #[test]
    fn where_the_list_was_found_the_leak_has_one_size() {
        let mut scene = StagedSession::training();
        for n in 1..=60_u32 {
            let floor = 1.0 + 0.125 * f64::from(n);
            let at = 2.0 + f64::from(n);
            scene.add(at, step(100, u64::from(n), gib(floor), gib(floor + 4.0)));
            scene.sampled(at + 0.1, floor, floor + 4.0);
        }
        let found = Retainers {
            pid: Pid(100),
            step: 59,
            retainers: vec![Retainer {
                name: "losses".into(),
                kind: RetainerKind::Local,
                class: "list".into(),
                length: Some(59),
                bytes: Bytes::gib(7),
                ..Retainer::default()
            }],
            looked_for: Bytes::gib(8),
            ..Retainers::default()
        };
        scene.add(69.0, EventKind::Retainers(Box::new(found)));
        let left = Vec::new();
        let (run, exit) = (RunNumber(1), Exit::Code(0));
        scene.add(70.0, EventKind::Exited(Exited { run, exit, left }));
        assert_eq!(
            growth(&scene.state).expect("words"),
            "what is allocated after each step grew: +128 MiB × 60 steps = 7.50 GiB: a leak, or a list that is not full yet; losses: list of 59 kept it alive after step 59"
        );
    }
}
