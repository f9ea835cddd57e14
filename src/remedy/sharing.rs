//! Tensors shared by files with names, where a process ran out of file descriptors: torch's usual way keeps one open for each
//! tensor that a worker passes on. Both ways take the same room in /dev/shm, so that it is no help where that is full.

use super::loader::{is_of_host, proposal};
use super::proposal::{Draft, Offering, Proposal};
use super::{NeedFrom, RemedyEffect, RemedyId, RemedySpec};
use crate::diagnosis::{Cause, Help};
use crate::event::Patch;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    comes_before: Some((Help::LessHostMemory, RemedyId::DataloaderWorkers)),
    ..RemedySpec::new(
        'h',
        "shared by named files",
        RemedyEffect::None,
        NeedFrom::Itself,
        propose,
    )
};

fn by_names(offering: &Offering<'_>) -> Result<Draft, String> {
    if offering.inputs.cause() != Some(Cause::OpenFiles) {
        return Err(
            "file descriptors did not run out, and named files take as much of /dev/shm".into(),
        );
    }
    offering.check_patch(Patch::Sharing)?;
    let shown = "torch.multiprocessing shares tensors by file_system";
    Ok(Draft::patching(Patch::Sharing, shown))
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    is_of_host(offering.inputs.cause()).then(|| {
        let cost = [
            "same numerics",
            "files stay in /dev/shm if the program is killed",
        ];
        let saves = "no file descriptor for each tensor that is passed on".into();
        proposal(by_names(offering), cost, saves)
    })
}
