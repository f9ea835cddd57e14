//! An OOM that a run's outcome does not show, in words: a training that ended with 0 may have failed, and
//! one that failed may have done so for another reason than the OOM in its output.

use super::story::place_of;
use crate::recognize::{CommandLayout, ProgramKind};
use crate::state::{Doubt, HiddenOom, Run, State};
use crate::units::clock_face;

/// What happened in the latest run, if its outcome does not show an OOM.
pub fn notice(state: &State) -> Option<String> {
    let run = state.run()?;
    let hidden = run.hidden_oom().filter(|hidden| may_hide(run, *hidden))?;
    let what = what(run, hidden);
    Some(match hidden {
        HiddenOom::Fatal(_) => format!(
            "{what}, though the command ended with exit 0: of a pipe that is the last command's status \
             (`set -o pipefail` in bash changes that), of a script the last line's"
        ),
        HiddenOom::Possible(_) => format!(
            "{what}, and the command ended with exit 0: the program caught it, or a pipe or a script \
             hid its status"
        ),
        HiddenOom::Doubtful(_, doubt) => {
            let why = match doubt {
                Doubt::WentOn => "training went on after it",
                Doubt::Unseen => "only the output has it, and the probe saw none",
                Doubt::AnotherError => "the program's last error is another one",
                Doubt::KilledLater => "its process went on for a while and was killed later",
            };
            format!("possibly {what}, but {why}: it is not taken for the end of this run")
        }
    })
}

/// Of an OOM that only the output tells of the process is not known. A program that ended with 0 has
/// survived it; one that a shell has started may not have.
fn may_hide(run: &Run, hidden: HiddenOom<'_>) -> bool {
    let kind = || CommandLayout::new(&run.command).kind;
    matches!(hidden, HiddenOom::Doubtful(..))
        || hidden.incident().pid.is_some()
        || matches!(kind(), ProgramKind::ShellScript | ProgramKind::ShellString)
}

/// "memory ran out after 0:03 in the forward pass of step 25"
fn what(run: &Run, hidden: HiddenOom<'_>) -> String {
    let oom = hidden.incident();
    let after = clock_face(oom.at.since(run.started));
    format!("memory ran out after {after}{}", place_of(oom))
}
