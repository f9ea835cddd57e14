//! A recording that stops in the middle of a run where the RAM was nearly gone: whether anybody goes on with it. If nobody does, what
//! ended the run ended oomph too, and the recording is all that says why.

use crate::recording::{self, BaseDirs, Life};
use crate::state::State;
use jiff::Timestamp;

/// Where nobody can tell whether a session is alive, one that has written nothing for so many seconds is not: with the RAM nearly
/// gone every change of it is written, and there is one within a minute.
const SILENT: f64 = 300.0;

/// Takes it for the end of the run if nobody goes on.
pub(super) fn settle(state: &mut State) {
    if state.may_break_off() && is_over(state) {
        state.breaks_off();
    }
}

fn is_over(state: &State) -> bool {
    let Some(session) = &state.session else {
        return false;
    };
    let sessions = recording::find(&BaseDirs::of_this_user());
    let found = sessions.into_iter().find(|found| found.id == session.id);
    match found.map(|found| found.life) {
        Some(Life::Alive) => false,
        Some(Life::Dead) => true,
        Some(Life::Unknown) | None => {
            let last = session.wall + state.now.as_secs_f64();
            Timestamp::now().as_second() as f64 - last > SILENT
        }
    }
}
