//! Remedies inside the process, as far as a stand-in for torch has what they need: nothing of them is
//! there unless they were chosen, and one that finds nothing to work with declines.

use crate::probe::front::{Front, Place};
use crate::probe::program::{Program, TRAINING};
use oomph::event::{EventKind, PatchOutcome, Patched};

fn patches(seen: &[EventKind]) -> Vec<&Patched> {
    seen.iter()
        .filter_map(|what| match what {
            EventKind::Patch(patched) => Some(patched),
            _ => None,
        })
        .collect()
}

#[test]
fn what_cannot_be_applied_declines_and_the_training_is_as_ever() {
    let place = Place::new();
    let mut front = Front::listen(&place);
    let program = Program::script(&place, "train.py", TRAINING)
        .env("OOMPH_PATCHES", "recompute, batch=64:32,sorcery");
    program.run(&place).expect("done");
    front.wait_for_end_of(1);
    front.expect_nothing_lost();
    let said = patches(&front.seen);
    let mut names: Vec<&str> = said.iter().map(|said| said.patch.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["batch", "recompute", "sorcery"], "{said:#?}");
    for patched in said {
        assert_eq!(patched.outcome, PatchOutcome::Declined, "{patched:?}");
        assert!(!patched.words.is_empty(), "{patched:?}");
    }
}

#[test]
fn nothing_is_touched_that_was_not_chosen() {
    let place = Place::new();
    let text = "\
import torch
print(torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl, torch.__version__)
";
    let program = Program::script(&place, "look.py", text);
    assert_eq!(program.run(&place), program.run_bare());
    let unset = program.env("OOMPH_PATCHES", "");
    assert_eq!(unset.run(&place), unset.run_bare());
}

/// A library that is no part of torch is patched when the program imports it, whichever of the two comes first.
#[test]
fn a_library_is_patched_once_it_is_imported() {
    let place = Place::new();
    let library = place.path().join("transformers");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("__init__.py"), "").unwrap();
    let trainer = "\
import torch

class Trainer:
    class args:
        pass

    def __init__(self):
        self.args = Trainer.args()
        self.args.eval_accumulation_steps = None

    def evaluation_loop(self):
        return self.args.eval_accumulation_steps
";
    std::fs::write(library.join("trainer.py"), trainer).unwrap();
    for first in ["import torch", "import transformers.trainer"] {
        let text = format!(
            "{first}\nfrom transformers.trainer import Trainer\none = Trainer()\nprint(one.evaluation_loop(), one.args.eval_accumulation_steps)\n"
        );
        let program = Program::script(&place, "evaluate.py", &text).with_path(place.path());
        program.run(&place).expect("None None");
        let patched = program.env("OOMPH_PATCHES", "eval_outputs=3");
        patched.run(&place).expect("3 None");
    }
}
