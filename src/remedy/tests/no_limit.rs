//! The command without a memory limit: offered where the allocator's settings set it.

use super::{known_of, out_on_the_first_under, outcome};
use crate::diagnosis::{Cause, diagnose};
use crate::event::EventKind;
use crate::recognize::LaunchEnvironment;
use crate::recognize::alloc_conf::Inherited;
use crate::remedy::{RemedyId, RemedyInputs, remedies};
use crate::state::tests::staged::{StagedSession, gib, record};

const LIMIT: &str = "per_process_memory_fraction:0.6";

fn of_settings(general: Option<&str>) -> String {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 12.0, 13.0);
    let mut out = record(100, gib(12.0), gib(13.0), gib(2.0), gib(9.0));
    out.limit = Some(gib(14.0));
    scene.add(3.0, EventKind::Oom(out));
    let findings = diagnose(&scene.state);
    assert_eq!(findings[0].cause, Cause::Limit);
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: Some("2.11.0"),
            inherited: Inherited {
                general,
                ..Inherited::default()
            },
            ..LaunchEnvironment::default()
        },
        ..known_of(&scene, &findings)
    };
    outcome(
        "python train.py --batch-size 64",
        RemedyId::NoLimit,
        &inputs,
    )
}

#[test]
fn a_limit_of_the_environment_is_taken_away_and_the_other_settings_stay() {
    assert_eq!(
        of_settings(Some(LIMIT)),
        "PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:1.0 python train.py --batch-size 64"
    );
    assert_eq!(
        of_settings(Some("max_split_size_mb:64,per_process_memory_fraction:0.6")),
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,per_process_memory_fraction:1.0 python train.py --batch-size 64"
    );
    assert_eq!(of_settings(None), "!the program sets the limit itself");
}

#[test]
fn nobody_takes_a_limit_away_unasked_and_without_one_there_is_none_to_take() {
    assert!(RemedyId::NoLimit.is_never_unasked());
    let scene = out_on_the_first_under(None);
    let findings = diagnose(&scene.state);
    let all = remedies(
        &scene.state.run().expect("a run").command,
        &known_of(&scene, &findings),
    );
    assert!(all.iter().all(|remedy| remedy.id != RemedyId::NoLimit));
}
