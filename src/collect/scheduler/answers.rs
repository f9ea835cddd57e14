//! Reads what SLURM's commands print, in the formats that they are asked for. Pure.

/// A step number from here on is none of srun's: the batch script, an interactive shell (`slurm.h`).
const NO_STEP: u32 = 0xffff_fff0;

/// Parts of a node's state (`sinfo`'s `%T`) that leave open what runs there. `*` stands behind the state
/// of a node that does not answer.
const SILENT: [&str; 6] = ["*", "down", "fail", "unknown", "power", "reboot"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct AboutJob {
    /// As its steps are shown: `12`, or `10_3` in an array.
    pub(super) shown: String,
    pub(super) state: String,
    /// `n[1-4]`.
    pub(super) nodes: String,
}

/// The job's line: for the first job of an array there are those of the whole array.
pub(super) fn about(text: &str, job: &str) -> Option<AboutJob> {
    text.lines().find_map(|line| {
        let mut parts = line.split('|').map(str::trim);
        let mut next = || parts.next().map(str::to_string);
        let (id, shown, state, nodes) = (next()?, next()?, next()?, next()?);
        (id == job).then_some(AboutJob {
            shown,
            state,
            nodes,
        })
    })
}

pub(super) fn steps(text: &str, job: &str, shown: &str) -> Vec<u32> {
    let step = |line: &str| {
        let (of, step) = line.trim().rsplit_once('.')?;
        let number: u32 = step.parse().ok()?;
        ((of == job || of == shown) && number < NO_STEP).then_some(number)
    };
    text.lines().filter_map(step).collect()
}

pub(super) fn silent_nodes(text: &str) -> Vec<String> {
    let silent = |line: &str| {
        let (node, state) = line.trim().split_once(' ')?;
        let state = state.to_ascii_lowercase();
        let is_silent = SILENT.iter().any(|part| state.contains(part));
        is_silent.then(|| node.to_string())
    };
    let mut nodes: Vec<String> = text.lines().filter_map(silent).collect();
    // A node stands there once for each of its partitions.
    nodes.dedup();
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_found_among_those_of_its_array() {
        let text = "41|40_1|RUNNING|n1\n40|40_3|COMPLETING|n[1-2]\n";
        let job = about(text, "40").unwrap();
        let expected = ("40_3", "COMPLETING", "n[1-2]");
        assert_eq!(
            (job.shown.as_str(), job.state.as_str(), job.nodes.as_str()),
            expected
        );
        for other in ["", "41|40_1|RUNNING\n", "slurm_load_jobs error"] {
            assert_eq!(about(other, "40"), None);
        }
    }

    #[test]
    fn only_steps_of_srun_in_this_job_count() {
        let text = "40_3.0\n40_3.batch\n40_3.extern\n40_1.7\n40.2\n40.4294967291\n40_3.12\n";
        assert_eq!(steps(text, "40", "40_3"), [0, 2, 12]);
        assert_eq!(steps("", "40", "40"), [0_u32; 0]);
    }

    #[test]
    fn a_node_that_does_not_answer_is_no_witness() {
        let text = "n1 mixed\nn2 allocated*\nn2 allocated*\nn3 down\nn4 idle\nn5 draining\nn6 powered_down\n";
        assert_eq!(silent_nodes(text), ["n2", "n3", "n6"]);
    }
}
