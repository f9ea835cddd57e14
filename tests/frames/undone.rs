//! A session whose program did not take the change of its last run.

use crate::frames::cases::oom_capacity;
use crate::frames::story::{Story, command};
use oomph::event::Exit;
use oomph::remedy::{RemedyId, UndoneRemedy, WhyUndone, without_rejected};

/// The second run ended at once, with a message of argparse's.
pub fn rejected() -> Story {
    let said = "train.py: error: unrecognized arguments: --grad-accum 2";
    undone(WhyUndone::Said(said.into()), Exit::Code(2))
}

/// The second run was given the batch of the first.
pub fn without_effect() -> Story {
    let why = "--batch-size 64→32 had no effect: the model is still given 64 × 1024 of 64 × 1024";
    undone(WhyUndone::WithoutEffect(why.into()), Exit::Code(0))
}

fn undone(why: WhyUndone, exit: Exit) -> Story {
    let mut story = oom_capacity();
    let first = command("python train.py --batch-size 64");
    let second = command("python train.py --batch-size 32 --grad-accum 2");
    story.wait(6.0);
    story.start_with(second, &["smaller batch"], Some(14.6));
    story.wait(0.3).exit(exit);
    story.command_again(first);
    let undone = UndoneRemedy {
        id: RemedyId::Batch,
        title: "smaller batch".into(),
        why,
    };
    let remedies = std::mem::take(&mut story.remedies);
    story.remedies = without_rejected(remedies, std::slice::from_ref(&undone), Some(&[]));
    story.undone = Some(undone);
    story
}
