//! Errors of the probe's own: the training does not notice them, the front counts them, and a file has them.

use crate::probe::front::{Front, Place};
use crate::probe::program::Program;
use oomph::event::EventKind;
use oomph::units::Pid;

/// A training whose probe breaks down: its readings are gone.
const BROKEN: &str = "\
import sys, torch
keep = torch.empty(1 << 20)
optimizer = torch.optim.Adam([keep])
optimizer.step()
sys.modules['_oomph_probe'].here.attached.sampler.sources.readings = None
sys.stdin.readline()
optimizer.step()
print('done')
";

#[test]
fn they_are_counted_and_written_and_the_training_goes_on() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let file = place.path().join("errors");
    let mut program = Program::new(["-c", BROKEN])
        .env("OOMPH_PROBE_DEBUG", &file)
        .start(&place);
    front.wait_until(|seen| {
        seen.iter()
            .any(|what| matches!(what, EventKind::ProbeErrors(_)))
    });
    program.tell("go on");
    program.end().expect("done");
    front.wait_for_end_of(1);
    let pid = front.hellos()[0].pid;
    let counted = front.probe_errors();
    let (first, last) = (counted[0], counted[counted.len() - 1]);
    assert_eq!((first.pid, first.count), (pid, 1));
    assert!(last.count > 1, "{counted:?}");
    let words = &first.latest;
    assert!(
        words.starts_with("take a reading: AttributeError (sampler.py:"),
        "{words}"
    );
    let Pid(number) = pid;
    let written = std::fs::read_to_string(format!("{}.{number}", file.display())).unwrap();
    assert!(
        written.contains(&format!("take a reading, process {number}:\nTraceback")),
        "{written}"
    );
    assert!(written.contains("AttributeError: 'NoneType'"), "{written}");
}

/// Without the variable nothing is written anywhere, and a sound probe counts nothing.
#[test]
fn a_probe_without_errors_says_nothing_of_them() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let text = "import torch\ntorch.empty(1 << 20)\nprint('done')";
    Program::new(["-c", text]).run(&place).expect("done");
    front.wait_for_end_of(1);
    assert!(front.probe_errors().is_empty());
}
