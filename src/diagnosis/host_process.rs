//! One process of the program, no worker, held most of the host's memory.

use super::host_figures::{Holder, HostFigures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Finding};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("the program's own RAM", examine).of_host("the program itself fills the RAM");

fn examine(case: &OomContext) -> Option<Finding> {
    let figures = HostFigures::of(case)?;
    let Some(Holder::Process(process)) = figures.holder() else {
        return None;
    };
    let what = format!(
        "Process {} ({}), no worker, filled the RAM with {}",
        process.pid,
        process.name,
        process.held()
    );
    let place = figures.spot(None).and_then(|spot| spot.line.as_ref());
    let finding = figures.finding(Cause::HostProcess, figures.certainty(), &what);
    let advice = [
        "look for what is kept in RAM: a data set that is read whole, outputs of an evaluation moved to the CPU, a checkpoint gathered on one rank".into(),
        figures.more_memory(),
    ];
    Some(
        finding
            .says_if(figures.spot(None).and_then(super::host_figures::grown))
            .at(place)
            .shows_first([("process", process.held())])
            .advises(advice),
    )
}
