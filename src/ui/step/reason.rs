//! Why no step has been traced yet, in a sentence.

use crate::event::Hello;
use crate::state::{ProbeState, RankState, State};
use crate::ui::view::View;
use crate::ui::words::rank_on;

/// The step that is traced first: those before it allocate what stays.
const FIRST: u64 = 3;

/// The first version of torch with which allocations have their lines.
const TORCH: (u32, u32) = (2, 1);

pub(super) fn of(view: &View, state: &State) -> String {
    let rank = view
        .device(state)
        .and_then(|device| rank_on(state, device))
        .filter(|rank| rank.hello.resting.is_none());
    let Some(rank) = rank else {
        return without_process(state);
    };
    let (major, minor) = TORCH;
    if is_too_old(&rank.hello) {
        return format!(
            "No step is traced with torch {}: it takes torch {major}.{minor} or later.",
            rank.hello.torch
        );
    }
    match rank.disconnected {
        Some(_) if rank.steps.count < FIRST => {
            String::from("This process ended before its third step, the first one that is traced.")
        }
        Some(_) | None => of_steps(rank),
    }
}

fn of_steps(rank: &RankState) -> String {
    let so_far = match rank.steps.count {
        0 => String::from("none has ended"),
        1 => String::from("1 has ended"),
        n if n < FIRST => format!("{n} have ended"),
        _ => {
            return String::from(
                "No step of this process could be traced. That is so with --no-lines, if the program \
                 records its allocations itself, if a step has more than 20,000 of them, and in \
                 recordings of earlier versions.",
            );
        }
    };
    format!("No step has been traced yet: the third step is traced when it ends ({so_far} so far).")
}

fn without_process(state: &State) -> String {
    let ended = state.run().is_some_and(|run| run.ended.is_some());
    let text = match state.probe() {
        ProbeState::Off => {
            "The probe is off (--no-probe), and only it sees what a step is made of."
        }
        ProbeState::Resting(reason) => return format!("No step is traced here: {reason}."),
        ProbeState::Lost => "The probe is gone, and none of its process's steps was traced.",
        ProbeState::Waiting | ProbeState::Live(_) if ended => {
            "The program ended, and the probe never saw PyTorch use the GPU."
        }
        ProbeState::Waiting | ProbeState::Live(_) => {
            "No step has been traced yet: the probe waits until the program uses PyTorch on this GPU."
        }
    };
    String::from(text)
}

fn is_too_old(hello: &Hello) -> bool {
    let mut numbers = hello.torch.split(['.', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < TORCH,
        (_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_torch_is_too_old_or_not() {
        for (torch, old) in [
            ("1.13.1", true),
            ("2.0.1+cu118", true),
            ("2.1.0", false),
            ("2.11.0+cu130", false),
            ("3.0", false),
            ("unknown", false),
        ] {
            let hello = Hello {
                torch: torch.into(),
                ..Hello::default()
            };
            assert_eq!(is_too_old(&hello), old, "{torch}");
        }
    }
}
