//! A batch that no word of the command says: the program's text is read for it, once.

use super::*;
use crate::recognize::WorkloadKey;
use crate::recognize::text::{ProgramSource, ProgramText, SourceRole};

/// The default of an argument is 64.
fn text() -> ProgramText {
    let text = "import argparse, torch\n\
                parser = argparse.ArgumentParser()\n\
                parser.add_argument('--batch-size', type=int, default=64)\n\
                args = parser.parse_args()\n\
                loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)\n\
                for x in loader:\n    model(x).backward()\n";
    let source = ProgramSource {
        path: "/nowhere/train.py".into(),
        text: text.into(),
        role: SourceRole::Script,
    };
    ProgramText::read(&[source], &[])
}

/// The tasks of this name that the first so many steps begin.
fn of_steps(told: &mut DrivenSession, steps: std::ops::RangeInclusive<u64>) -> Vec<TaskId> {
    let peak = gib(3.0);
    let steps = steps.flat_map(|n| told.happen(step(PID, n, gib(1.0), peak)));
    begun(&steps.collect::<Vec<_>>(), "text")
}

#[test]
fn a_default_in_the_text_is_the_batch_of_a_run_that_goes_well() {
    let mut told = DrivenSession::running(OnOom::Ask);
    told.happen(hello(1, PID, None));
    let reading = of_steps(&mut told, 1..=3);
    assert_eq!(reading.len(), 1, "it is read once");
    let text = Some(Box::new(text()));
    told.tell(Message::Done((reading[0], Some(TaskResult::Text(text)))));
    let session = &told.controller.session;
    let of = WorkloadKey::new(session.command(), &session.launch());
    assert_eq!(of.batch, Some(64));
    assert!(of_steps(&mut told, 4..=60).is_empty());
}

#[test]
fn the_text_is_not_read_for_a_batch_that_the_command_says() {
    let mut handover = handover(Some(OnOom::Ask));
    let batch = ["--batch-size", "64"].map(Into::into);
    handover.config.command.argv.extend(batch);
    let mut told = DrivenSession::of(OnOom::Ask, handover);
    told.start(1);
    told.happen(hello(1, PID, None));
    assert!(of_steps(&mut told, 1..=60).is_empty());
}
