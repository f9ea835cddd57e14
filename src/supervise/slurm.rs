//! Whether SLURM has signalled the trainer already.

use std::ffi::OsStr;

/// The step that is the batch script itself, `SLURM_BATCH_SCRIPT` in slurm.h.
const BATCH_STEP: u32 = 0xffff_fffb;

/// Whether we run inside an `srun` step, given `SLURM_STEP_ID`'s value.
///
/// slurmstepd signals every process of a step, so the trainer has already received what we received.
/// Passing it on would deliver it twice: Lightning's USR1 handler would checkpoint and requeue twice.
/// In the batch step only the script itself is signalled.
pub fn step_is_signalled(step_id: Option<&OsStr>) -> bool {
    step_id
        .and_then(OsStr::to_str)
        .and_then(|text| text.trim().parse::<u32>().ok())
        .is_some_and(|step| step != BATCH_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_of_srun_count() {
        for (value, expected) in [
            (None, false),
            (Some("0"), true),
            (Some("17"), true),
            (Some("4294967291"), false),
            (Some(""), false),
            (Some("batch"), false),
        ] {
            assert_eq!(
                step_is_signalled(value.map(OsStr::new)),
                expected,
                "{value:?}"
            );
        }
    }
}
