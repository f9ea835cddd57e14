//! DeepSpeed's ZeRO: what its own parts are, and what its configuration would change. The sums are computed from the parts
//! that were there when memory ran out, and are estimates: buffers that a setting adds are not in them.

use super::Phrase;
use super::finding::because;
use super::oom_context::OomContext;
use super::situation::{CallStack, Situation};
use crate::event::ZeroLedger;
use crate::units::Bytes;

/// The part of a bucket that is saved by one of a tenth.
const TENTH_SAVES: f64 = 0.9;
/// What a limit on live parameters may save of what is gathered.
const HALF: f64 = 0.5;

/// The ledger, if ZeRO was at work.
pub(super) fn ledger<'a>(case: &OomContext<'a>) -> Option<&'a ZeroLedger> {
    case.record()?.zero.as_deref()
}

/// Settings of its configuration, and about what each would take off this GPU.
pub(super) fn suggestions(zero: &ZeroLedger) -> Vec<(String, Bytes)> {
    let mut found = Vec::new();
    let others = 1.0 - 1.0 / f64::from(zero.world.max(1));
    if !zero.offloads_optimizer {
        found.push((
            r#""offload_optimizer": {"device": "cpu"} in DeepSpeed's configuration (its fp32 copy and state go to RAM; estimated)"#.into(),
            zero.master + zero.state,
        ));
    }
    let gradients = zero.gradients.scale(others);
    if zero.stage < 2 {
        found.push((
            format!(
                "ZeRO stage 2 instead of {} (gradients sharded; estimated)",
                zero.stage
            ),
            gradients,
        ));
    }
    if zero.stage < 3 {
        let more = if zero.stage < 2 {
            gradients
        } else {
            Bytes::ZERO
        };
        found.push((
            format!(
                "ZeRO stage 3 instead of {} (parameters sharded; estimated)",
                zero.stage
            ),
            zero.parameters.scale(others) + more,
        ));
    }
    if zero.stage == 3 && !zero.offloads_parameters {
        found.push((
            r#""offload_param": {"device": "cpu"} (shards go to RAM; estimated)"#.into(),
            zero.parameters,
        ));
    }
    if zero.gathered > Bytes::ZERO {
        found.push((
            "a smaller stage3_max_live_parameters and stage3_prefetch_bucket_size (less is gathered at once; estimated)".into(),
            zero.gathered.scale(HALF),
        ));
    }
    if let Some(elements) = zero.bucket_elements.filter(|_| zero.buckets > Bytes::ZERO) {
        found.push((
            format!(
                "\"reduce_bucket_size\": {} instead of {elements} (more and smaller reductions; estimated)",
                elements / 10
            ),
            zero.buckets.scale(TENTH_SAVES),
        ));
    }
    found
}

/// What helps by the calls of a traceback, where ZeRO's own communication ran out and its parts are unknown.
pub(super) fn by_traceback(stack: &CallStack<'_>) -> Option<Vec<Phrase>> {
    let does = |situation| stack.doing(situation).is_some();
    let offloads = || {
        because(
            "the parameters' shards in RAM",
            r#""offload_param": {"device": "cpu"}"#,
        )
    };
    let smaller = || because("a smaller batch", "train_micro_batch_size_per_gpu");
    // The gradients of a module whose parameters are gathered in the backward pass are reduced behind that.
    if does(Situation::ZeroReduce) {
        Some(vec![
            because(
                "smaller buckets for the gradients",
                "\"reduce_bucket_size\": 5e7, a tenth of what DeepSpeed takes by itself",
            ),
            because(
                "one bucket at a time instead of two",
                "\"overlap_comm\": false",
            ),
            because(
                "the optimizer's state in RAM",
                r#""offload_optimizer": {"device": "cpu"}"#,
            ),
            smaller(),
        ])
    } else if does(Situation::ZeroGather) {
        Some(vec![
            because(
                "fewer gathered parameters at once",
                "\"stage3_max_live_parameters\": 1e8, \"stage3_max_reuse_distance\": 1e8, a tenth of what DeepSpeed takes by itself",
            ),
            because(
                "less gathered in advance",
                "\"stage3_prefetch_bucket_size\": 5e6",
            ),
            because(
                "fewer small parameters kept whole",
                "\"stage3_param_persistence_threshold\": 1e4",
            ),
            offloads(),
            smaller(),
        ])
    } else if does(Situation::ZeroUpdate) {
        Some(vec![
            because(
                "updated parameters gathered in smaller parts",
                "\"allgather_bucket_size\": 5e7, a tenth of what DeepSpeed takes by itself",
            ),
            because(
                "the optimizer's state in RAM",
                r#""offload_optimizer": {"device": "cpu"}"#,
            ),
        ])
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(stage: u8, world: u32) -> ZeroLedger {
        ZeroLedger {
            stage,
            world,
            parameters: Bytes::gib(14),
            whole: Bytes::gib(14),
            master: Bytes::gib(7),
            state: Bytes::gib(14),
            gradients: Bytes::gib(14),
            buckets: Bytes::gib(2),
            bucket_elements: Some(500_000_000),
            ..ZeroLedger::default()
        }
    }

    fn said(zero: &ZeroLedger) -> Vec<(String, Bytes)> {
        let words = |(words, saved): (String, Bytes)| {
            let first: Vec<&str> = words.split(' ').take(3).collect();
            (first.join(" "), saved)
        };
        suggestions(zero).into_iter().map(words).collect()
    }

    #[test]
    fn each_setting_has_the_sum_of_what_it_moves() {
        let gib = Bytes::gib;
        assert_eq!(
            said(&ledger(1, 2)),
            [
                (
                    r#""offload_optimizer": {"device": "cpu"}"#.to_string(),
                    gib(21)
                ),
                ("ZeRO stage 2".to_string(), gib(7)),
                ("ZeRO stage 3".to_string(), gib(14)),
                (
                    r#""reduce_bucket_size": 50000000 instead"#.to_string(),
                    gib(2).scale(0.9)
                ),
            ]
        );
    }

    #[test]
    fn what_is_set_already_is_not_suggested_and_one_rank_shards_nothing() {
        let zero = ZeroLedger {
            offloads_optimizer: true,
            ..ledger(2, 1)
        };
        let said = said(&zero);
        assert_eq!(said[0], ("ZeRO stage 3".to_string(), Bytes::ZERO));
        assert_eq!(said.len(), 2, "{said:?}");
    }

    #[test]
    fn stage_three_can_move_its_shards_and_gather_less() {
        let zero = ZeroLedger {
            gathered: Bytes::gib(4),
            buckets: Bytes::ZERO,
            ..ledger(3, 8)
        };
        let saved: Vec<Bytes> = said(&zero).into_iter().map(|(_, saved)| saved).collect();
        assert_eq!(saved, [Bytes::gib(21), Bytes::gib(14), Bytes::gib(2)]);
    }

    #[test]
    fn the_parts_add_up() {
        assert_eq!(ledger(2, 4).total(), Bytes::gib(51));
    }
}
