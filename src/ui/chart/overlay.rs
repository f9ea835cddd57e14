//! An earlier run's allocated memory, moved in time so that both runs start at the same column.

use super::window::Window;
use crate::state::{DeviceState, Run, SeriesBucket, State};
use crate::units::Moment;

/// What an earlier run had allocated at the same ages as the current run's columns; empty if it is
/// the current run.
pub(super) fn columns(
    state: &State,
    device: &DeviceState,
    earlier: &Run,
    known: &Window,
) -> Vec<Option<SeriesBucket>> {
    let Some(current) = state.run().filter(|run| run.number != earlier.number) else {
        return Vec::new();
    };
    let ended = earlier.ended.map_or(state.now, |(at, _)| at);
    let column_us = known.column_us();
    let mut columns = vec![None; usize::from(known.columns)];
    for (place, column) in (0..).zip(&mut columns) {
        let begin = known.begin_of(place);
        if begin + std::time::Duration::from_micros(column_us) <= current.started {
            continue;
        }
        let age = begin.since(current.started);
        let from = earlier.started + age;
        let to = Moment(from.0.saturating_add(column_us)).min(ended);
        if from < to {
            *column = device.allocated.columns(from, to, 1).pop().flatten();
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Exit, Exited, Started, What};
    use crate::state::staged::StagedSession;
    use crate::units::{Bytes, Pid, RunNumber};

    #[test]
    fn both_runs_begin_at_the_same_place() {
        let mut scene = StagedSession::training();
        for second in 0..10 {
            scene.sampled(2.0 + f64::from(second), f64::from(second), 12.0);
        }
        let run = RunNumber(1);
        let exit = Exit::Code(1);
        let left = Vec::new();
        scene.add(12.0, What::Exited(Exited { run, exit, left }));
        let second = Started {
            run: RunNumber(2),
            pid: Pid(200),
            command: scene.state.runs[0].command.clone(),
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
        };
        scene.add(100.0, What::Started(second));
        let known = Window {
            from: Moment(90_000_000),
            to: Moment(120_000_000),
            columns: 30,
        };
        let state = &scene.state;
        let laid = columns(state, &state.devices[0], &state.runs[0], &known);
        let most = |column: usize| laid[column].map(|bucket| bucket.max);
        assert_eq!(most(9), None, "before the second run");
        assert_eq!(
            most(11),
            None,
            "the first run's second second: no sample yet"
        );
        assert_eq!(most(12), Some(Bytes::ZERO));
        assert_eq!(most(15), Some(Bytes::gib(3)));
        assert_eq!(most(22), None, "after its end");
        let itself = columns(state, &state.devices[0], &state.runs[1], &known);
        assert!(itself.is_empty());
    }
}
