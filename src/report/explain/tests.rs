//! Explanations of constructed reports and incidents.

use super::*;
use crate::anatomy::GrownModule;
use crate::event::{BlockOrigin, MemoryKind, PhaseStart, RetainerKind, Sample, StepTrace};
use crate::event::{GrowingLine, LineText, LineUsage, Phase, Retainer, SourceLine};
use crate::oom::OomReport;
use crate::oom::OtherProcess;
use crate::units::{Moment, Pid};
use serde_json::Value;

fn report(line: u64, outcome: OomOutcome) -> OomReport {
    OomReport {
        line,
        outcome,
        requested: Some(Bytes::mib(640)),
        ..OomReport::default()
    }
}

fn of(report: OomReport) -> Explained {
    Explained::of_log(OomIncident::of_report(Moment::ZERO, report), Vec::new())
}

fn ranked(line: u64, outcome: OomOutcome, rank: Option<u32>) -> Explained {
    of(OomReport {
        rank: rank.map(Rank),
        ..report(line, outcome)
    })
}

fn explanation(ooms: &[Explained]) -> Explanation<'_> {
    Explanation {
        source: "train.log",
        length: Some(9_000),
        ooms,
        said: &[],
        command: None,
        proofs: Vec::new(),
        followed: Vec::new(),
        again: None,
        ended: Vec::new(),
        growth: None,
        room: None,
    }
}

fn parsed(ooms: &[Explained]) -> Value {
    serde_json::from_str(&json(&explanation(ooms))).expect("JSON")
}

#[test]
fn the_one_that_matters() {
    use OomOutcome::{Caught, Fatal, Unknown};
    for (ooms, place) in [
        (&[][..], None),
        (&[(Caught, None)][..], Some(0)),
        (&[(Fatal, None), (Unknown, None), (Caught, None)], Some(0)),
        (&[(Unknown, None), (Unknown, None)], Some(1)),
        (
            &[(Caught, Some(0)), (Fatal, Some(2)), (Fatal, Some(0))],
            Some(1),
        ),
        (
            &[(Fatal, Some(0)), (Fatal, Some(1)), (Fatal, Some(0))],
            Some(1),
        ),
        (
            &[(Fatal, None), (Fatal, Some(1)), (Fatal, Some(0))],
            Some(1),
        ),
    ] {
        let made: Vec<Explained> = (1..)
            .zip(ooms)
            .map(|(line, (outcome, rank))| ranked(line, *outcome, *rank))
            .collect();
        assert_eq!(decisive(&made), place, "{ooms:?}");
    }
}

#[test]
fn a_library_that_finds_no_memory_afterwards_is_a_consequence() {
    let consequence = of(OomReport {
        kind: OomKind::Cublas,
        requested: None,
        ..report(20, OomOutcome::Fatal)
    });
    let made = [of(report(10, OomOutcome::Fatal)), consequence];
    assert_eq!(decisive(&made), Some(0));
    assert_eq!(decisive(&made[1..]), Some(0));
}

#[test]
fn what_a_text_lacks_is_null_and_never_worked_out() {
    let value = parsed(&[of(OomReport {
        reserved: Some(Bytes::gib(9)),
        allocated: Some(Bytes::gib(8)),
        others: vec![OtherProcess {
            pid: Pid(77),
            used: None,
        }],
        ..report(3, OomOutcome::Unknown)
    })]);
    let oom = &value["ooms"][0];
    assert_eq!(oom["kind"], "cuda_oom");
    assert_eq!(oom["outcome"], "unknown");
    assert_eq!(oom["line"], 3);
    assert_eq!(oom["requested"], 640 << 20);
    for lacking in [
        "rank",
        "device",
        "total",
        "free",
        "unallocated",
        "process_used",
        "limit",
        "private_pools",
        "held_by",
    ] {
        assert!(oom.get(lacking).is_some_and(Value::is_null), "{lacking}");
    }
    assert_eq!(
        oom["others"],
        serde_json::json!([{"pid": 77, "used": null}])
    );
    assert_eq!(value["remedies"], serde_json::json!([]));
    let empty = parsed(&[]);
    assert_eq!(
        empty,
        serde_json::json!({"version": 1, "again": null, "ooms": [], "findings": [], "remedies": [], "room": null, "losses": [], "followed": [], "oomph_said": []})
    );
}

#[test]
fn a_small_allocations_segment_is_called_one() {
    let small = || OomReport {
        requested: Some(Bytes::mib(2)),
        ..report(1, OomOutcome::Unknown)
    };
    let of_mps = OomReport {
        kind: OomKind::MpsOom,
        ..small()
    };
    for (report, is_small) in [
        (small(), true),
        (of_mps, false),
        (report(1, OomOutcome::Unknown), false),
    ] {
        let made = [of(report)];
        assert_eq!(parsed(&made)["ooms"][0]["small_segment"], is_small);
        let said = text(&explanation(&made)).contains("segment of a small allocation");
        assert_eq!(said, is_small);
    }
}

#[test]
fn nothing_found_is_said() {
    let nothing = |length| Explanation {
        length,
        ..explanation(&[])
    };
    for (length, said) in [
        (Some(0), "train.log is empty"),
        (Some(9_000), "No OOM found in train.log (8.8 KiB)"),
        (None, "No OOM in train.log."),
    ] {
        let text = text(&nothing(length));
        assert!(text.starts_with(said), "{text}");
    }
    let grew = Explanation {
        growth: Some("what stays between steps grew".into()),
        ..nothing(None)
    };
    assert!(text(&grew).ends_with("\nBut what stays between steps grew.\n"));
    let ended = Explanation {
        ended: vec!["The command finished.".into(), "3.20 GiB unused.".into()],
        ..nothing(None)
    };
    assert_eq!(
        text(&ended),
        "No OOM in train.log.\nThe command finished.\n3.20 GiB unused.\n"
    );
}

#[test]
fn what_held_the_memory_is_named_line_by_line() {
    let at = |file: &str, line, function: &str| SourceLine {
        file: file.into(),
        line,
        function: function.into(),
    };
    let mut incident = OomIncident::of_report(Moment::ZERO, report(8, OomOutcome::Fatal));
    incident.record = Some(OomRecord {
        zero: None,
        lines_known: None,
        lines_alike: None,
        limit_line: None,
        pid: Pid(5),
        device: 3,
        requested: Bytes::mib(512),
        total: Bytes::gib(16),
        free: Bytes::mib(80),
        sample: Sample {
            allocated: Bytes::gib(14),
            reserved: Bytes::gib(15),
            ..Sample::default()
        },
        limit: None,
        largest_free: None,
        free_blocks: Vec::new(),
        private_pools: Vec::new(),
        lines: vec![
            LineUsage {
                line: at("/w/fit.py", 31, "forward"),
                inside: Some(at("/l/torch/nn/linear.py", 117, "")),
                bytes: Bytes::gib(7),
                blocks: 24,
                kind: None,
            },
            LineUsage {
                line: at("/w/fit.py", 40, "keep"),
                inside: None,
                bytes: Bytes::mib(96),
                blocks: 1,
                kind: Some(MemoryKind::Parameters),
            },
        ],
        growing: vec![GrowingLine {
            line: at("/w/fit.py", 40, "keep"),
            inside: Some(at("/l/torch/functional.py", 9, "cat")),
            bytes: Bytes::mib(96),
            per_step: Bytes::mib(12),
            from_step: 4,
            to_step: 8,
        }],
        stack: Vec::new(),
        phase: Phase::Forward,
        grad_enabled: Some(true),
        progress: None,
        operands: None,
        before: None,
        gathering: None,
        loading: None,
        model: None,
        step: 4,
        gradients: Some(Bytes::gib(2)),
        structure: Some(Box::new(Structure {
            pid: Pid(5),
            device: 3,
            parameters: Bytes::gib(2),
            gradients: Bytes::gib(2),
            optimizer_state: Bytes::gib(4),
            whole: None,
        })),
        optimizer: None,
    });
    let mut explained = Explained::of_log(incident, Vec::new());
    explained.retainers = Some(
        Retainers {
            retainers: vec![Retainer {
                name: "outputs".into(),
                kind: RetainerKind::Local,
                class: "list".into(),
                length: Some(4),
                line: Some(at("/w/fit.py", 52, "fit")),
                bytes: Bytes::gib(3),
                graph: Bytes::gib(2),
                above: vec!["Loop object".into(), "loop of __main__".into()],
                ..Retainer::default()
            }]
            .into_iter()
            .chain([Retainer {
                name: "self".into(),
                kind: RetainerKind::Local,
                class: "Tensor".into(),
                bytes: Bytes::gib(7),
                graph: Bytes::gib(7),
                ..Retainer::default()
            }])
            .collect(),
            left: Some("the search ran out of time after 9 objects".into()),
            ..Retainers::default()
        }
        .bounded(),
    );
    explained.growth = Some(StepGrowth {
        from: 3,
        to: 5,
        lines: Vec::new(),
        modules: vec![GrownModule {
            module: Some("h.0–11".into()),
            alike: 12,
            bytes: Bytes::mib(24),
        }],
    });
    let made = [explained];
    let said = text(&explanation(&made));
    for line in [
        "Out of memory in train.log: line 8, device 3: PyTorch's CUDA allocator; the program ended with it.",
        "  requested       512 MiB",
        "  cached          1.00 GiB",
        "  parameters 2.00 GiB, gradients 2.00 GiB, optimizer state 4.00 GiB, activations + other 6.00 GiB",
        "  fit.py:31 forward → linear.py:117: 7.00 GiB in 24 blocks",
        "  fit.py:40 keep: 96 MiB in 1 block (parameters)",
        "Growing allocations, from step 4 to step 8:",
        "  fit.py:40 keep → functional.py:9 cat: +12 MiB per step",
        "  fit.py:52 outputs: list of 4: ≥ 3.00 GiB (2.00 GiB of it in autograd graphs) ← Loop object ← loop of __main__",
        "Grew from step 3 to step 5:",
        "  in h.0–11: +12 MiB per step",
        "  not all was searched: the search ran out of time after 9 objects",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
    assert!(
        !said.contains("self: Tensor"),
        "of a method that runs\n{said}"
    );
    let oom = &parsed(&made)["ooms"][0];
    assert_eq!(oom["unallocated"], 1u64 << 30);
    assert_eq!(oom["phase"], "forward");
    assert_eq!(oom["held_by"][0]["line"]["line"], 31);
    assert_eq!(oom["held_by"][1]["kind"], "parameters");
    assert_eq!(oom["growing"][0]["per_step"], 12u64 << 20);
    assert_eq!(oom["kept_by"][0]["name"], "outputs");
    assert_eq!(oom["grown"]["modules"][0]["alike"], 12);
}

#[test]
fn hundreds_are_counted_and_some_listed() {
    let made: Vec<Explained> = (1..=300)
        .map(|line| of(report(line, OomOutcome::Caught)))
        .collect();
    let said = text(&explanation(&made));
    assert!(said.contains("299 more:"), "{said}");
    assert!(said.contains("and 279 more"), "{said}");
    assert!(said.lines().count() < 40);
    assert_eq!(parsed(&made)["ooms"].as_array().map(Vec::len), Some(300));
}

#[test]
fn another_error_that_ended_the_program_is_named() {
    for (outcome, words) in [
        (
            OomOutcome::Caught,
            "and ended with another error later (KeyError)",
        ),
        (
            OomOutcome::Unknown,
            "the program ended with another error (KeyError)",
        ),
        (OomOutcome::Fatal, "the program ended with it"),
    ] {
        let report = OomReport {
            later_error: Some("KeyError".into()),
            ..report(3, outcome)
        };
        let said = text(&explanation(&[of(report)]));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_peak_is_named_with_its_categories_and_its_five_largest_lines() {
    let origin = |line: u32| BlockOrigin {
        line: Some(SourceLine {
            file: "/w/model.py".into(),
            line,
            function: "forward".into(),
        }),
        ..BlockOrigin::default()
    };
    let start = |phase, from| PhaseStart { phase, from };
    let trace = StepTrace {
        step: 3,
        failed: true,
        trace: "512 | 1024 2048 3072 4096 5120 -5".into(),
        phases: vec![start(Phase::Forward, 0)],
        origins: (1..=5).map(origin).collect(),
        blocks: "0 1 2 3 4 5".into(),
        ..StepTrace::default()
    };
    let step = StepAnatomy::new(&trace).expect("a step");
    let said = |source: &SourceTexts| lines(&of_step(&step, source, false), TextLayout::Parts);
    let expected = [
        "\nThe peak of step 3, which ran out of memory: 15.5 KiB in forward:",
        "  activations 14.0 KiB, temporaries 1.0 KiB, kept from earlier steps 512 B",
        "  model.py:5 forward: 5.0 KiB in 1 block (activations)",
        "  model.py:4 forward: 4.0 KiB in 1 block (activations)",
        "  model.py:3 forward: 3.0 KiB in 1 block (activations)",
        "  model.py:2 forward: 2.0 KiB in 1 block (activations)",
        "  model.py:1 forward: 1.0 KiB in 1 block (temporaries)",
    ];
    assert_eq!(said(&SourceTexts::default()), expected);
    let mut source = SourceTexts::default();
    source.keep(&[LineText {
        file: "/w/model.py".into(),
        line: 4,
        text: "return self.mlp(x)".into(),
    }]);
    let lines = said(&source);
    assert_eq!(lines.len(), expected.len() + 1);
    assert_eq!(lines[4], "      return self.mlp(x)", "below its line");
    let told = |step: &StepAnatomy| {
        let blocks = of_step(step, &SourceTexts::default(), true);
        super::lines(&blocks, TextLayout::Parts).len()
    };
    assert_eq!(told(&step), 2, "the lines of the record are not told again");
    // Where it ended well below its peak, other lines held the memory when it ran out.
    let well_below = StepTrace {
        trace: "512 | 1024 2048 3072 4096 5120 -1".into(),
        ..trace
    };
    let step = StepAnatomy::new(&well_below).expect("a step");
    assert_eq!(told(&step), expected.len());
}

#[test]
fn the_latest_traced_step_is_not_taken_for_the_one_that_failed() {
    let trace = StepTrace {
        step: 3,
        trace: "512 | 1024".into(),
        blocks: "0 0".into(),
        ..StepTrace::default()
    };
    let step = StepAnatomy::new(&trace).expect("a step");
    let said = lines(
        &of_step(&step, &SourceTexts::default(), false),
        TextLayout::Parts,
    );
    assert_eq!(
        said[0],
        "\nThe peak of step 3: 1.5 KiB (the latest that was traced whole):"
    );
}

#[test]
fn what_the_optimizer_has_in_blocks_is_told_beside_its_tensors() {
    use crate::event::EventKind;
    use crate::report::page::{self, PageOptions};
    use crate::report::{markdown, story::SessionStory};
    use crate::state::tests::staged::{StagedSession, gib, record};
    let structure = Structure {
        pid: Pid(100),
        device: 0,
        parameters: Bytes::mib(164),
        gradients: Bytes::ZERO,
        optimizer_state: Bytes::mib(327),
        whole: None,
    };
    let said = |mebibytes| {
        let mut record = record(100, gib(18.0), gib(19.0), gib(2.0), gib(0.4));
        record.lines = vec![LineUsage {
            line: SourceLine {
                file: "adamw.py".into(),
                line: 20,
                function: "step".into(),
            },
            inside: None,
            bytes: Bytes::mib(mebibytes),
            blocks: 298,
            kind: Some(MemoryKind::OptimizerState),
        }];
        record.structure = Some(Box::new(structure));
        record
    };
    let words = "lines are measured in the allocator's blocks: the optimizer state's tensors, 327 MiB, take 349 MiB of them";
    let block = document::in_blocks(&said(349));
    assert_eq!(block, Some(DocumentBlock::detail(words)));
    let mut session = StagedSession::training();
    session.add(20.0, EventKind::Oom(said(349)));
    let story = SessionStory::new(session.events);
    let page = page::html(&story, &PageOptions::default());
    assert!(page.contains("take 349 MiB of them"), "{page}");
    let text = markdown::markdown(&story, &PageOptions::default());
    assert!(text.contains("take 349 MiB of them"), "{text}");
    let block = document::in_blocks(&said(328));
    assert_eq!(block, None, "the same to the eye");
}
