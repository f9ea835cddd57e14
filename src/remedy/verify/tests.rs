//! Messages of rejections, what must not be taken for one, and what is said of remedies without effect.

use super::*;
use crate::command::Word;
use crate::event::{Patch, ProbeDevice};
use crate::units::{Bytes, Pid, RunNumber};

fn remedy(id: RemedyId, changes: &str) -> Remedy {
    let edits = match id {
        RemedyId::ExpandableSegments => vec![Edit::Env {
            name: "PYTORCH_CUDA_ALLOC_CONF".into(),
            value: Some(Word::from("expandable_segments:True")),
        }],
        _ => vec![Edit::Insert {
            at: 0,
            words: vec![Word::from("x")],
        }],
    };
    Remedy {
        edits,
        changes: changes.into(),
        ..Remedy::new(id)
    }
}

fn batch() -> Remedy {
    remedy(RemedyId::Batch, "--batch-size 64→32  +--grad-accum 2")
}

fn amp() -> Remedy {
    remedy(RemedyId::Amp, "+--mixed_precision bf16")
}

fn ended(output: &str, code: i32) -> Ended<'_> {
    Ended {
        output,
        exit: Exit::Code(code),
        lasted: Duration::from_secs(3),
        steps: 0,
    }
}

#[test]
fn the_programs_own_words_name_the_remedy() {
    let applied = [batch(), amp(), remedy(RemedyId::ExpandableSegments, "")];
    for (output, code, id) in [
        (
            "usage: t.py [-h]\nt.py: error: unrecognized arguments: --grad-accum 2\n",
            2,
            RemedyId::Batch,
        ),
        (
            "t.py: error: argument --mixed_precision: invalid choice: 'bf16' (choose from 'fp16')",
            2,
            RemedyId::Amp,
        ),
        ("Error: No such option: --mixed-precision", 2, RemedyId::Amp),
        (
            "TypeError: Trainer.__init__() got an unexpected keyword argument 'grad_accum'",
            1,
            RemedyId::Batch,
        ),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--grad_accum', '2']",
            1,
            RemedyId::Batch,
        ),
        (
            "Could not override 'mixed_precision'.\nKey 'mixed_precision' is not in struct",
            1,
            RemedyId::Amp,
        ),
        (
            "ValueError: Unrecognized key 'expandable_segments' in CUDA allocator config.",
            1,
            RemedyId::ExpandableSegments,
        ),
        (
            "RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
            1,
            RemedyId::ExpandableSegments,
        ),
        (
            "ValueError: Your setup doesn't support bf16/gpu.",
            1,
            RemedyId::Amp,
        ),
    ] {
        let found = rejected(&applied, &ended(output, code));
        assert_eq!(found.map(|rejection| rejection.id), Some(id), "{output}");
    }
}

#[test]
fn an_error_of_our_own_code_undoes_the_change_at_runtime() {
    let patched = Remedy {
        edits: vec![Edit::Patch(Patch::Recompute)],
        ..Remedy::new(RemedyId::Recompute)
    };
    let applied = [batch(), patched];
    let trace = |file: &str, error: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    model(x)\n  \
             File \"{file}\", line 9, in call\n    self.look()\n    ^^^^^^^^^^^\n{error}\n"
        )
    };
    let ours = trace(
        "<oomph-probe/patch/recompute.py>",
        "AttributeError: no 'jit'",
    );
    let found = rejected(&applied, &ended(&ours, 1)).expect("ours failed");
    assert_eq!(found.id, RemedyId::Recompute);
    assert_eq!(
        found.why.to_string(),
        "oomph's own part of it failed: AttributeError: no 'jit'"
    );
    for (file, error) in [
        ("model.py", "AttributeError: no 'jit'"),
        (
            "<oomph-probe/patch/chunked.py>",
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
    ] {
        let others = trace(file, error);
        assert!(rejected(&applied, &ended(&others, 1)).is_none(), "{file}");
    }
    assert!(rejected(&[batch()], &ended(&ours, 1)).is_none());
}

#[test]
fn what_the_change_does_not_explain_is_no_refusal() {
    let applied = [batch(), amp()];
    for (output, code) in [
        ("ok", 0),
        ("t.py: error: unrecognized arguments: --nonsense", 1),
        (
            "t.py: error: unrecognized arguments: --grad-accumulation-mode",
            1,
        ),
        ("FileNotFoundError: data.csv", 1),
        ("the --grad-accum of 2 is used", 1),
        ("anything", 2),
    ] {
        assert_eq!(rejected(&applied, &ended(output, code)), None, "{output}");
    }
    let mut later = ended("error: unrecognized arguments: --grad-accum", 2);
    later.steps = 3;
    assert_eq!(rejected(&applied, &later), None, "it has trained");
    assert_eq!(rejected(&[], &ended("unrecognized arguments", 2)), None);
    let killed = Ended {
        exit: Exit::Signal(9),
        ..ended("", 0)
    };
    assert_eq!(rejected(&[batch()], &killed), None);
}

#[test]
fn wrong_usage_at_once_is_the_one_change_of_words() {
    let found = rejected(&[batch()], &ended("see --help", 2)).unwrap();
    assert_eq!(found.id, RemedyId::Batch);
    assert_eq!(found.why.to_string(), "the program said: see --help");
    let silent = rejected(&[batch()], &ended("", 2)).unwrap();
    let words = silent.words();
    assert!(words.contains("with code 2"), "{words}");
    let segments = remedy(RemedyId::ExpandableSegments, "");
    assert_eq!(
        rejected(&[segments], &ended("", 2)),
        None,
        "no word was changed"
    );
    let mut slow = ended("", 2);
    slow.lasted = Duration::from_secs(60);
    assert_eq!(rejected(&[batch()], &slow), None);
}

fn hello(expandable: Option<bool>, conf: Option<&str>) -> Hello {
    Hello {
        pid: Pid(7),
        run: RunNumber::FIRST,
        rank: None,
        local_rank: None,
        world_size: None,
        nodes: None,
        node: None,
        slurm_step: None,
        python: "3.12.3".into(),
        torch: "2.11.0".into(),
        devices: vec![ProbeDevice {
            ordinal: 0,
            uuid: Some(Uuid::new("aa")),
            name: "card".into(),
            total: Bytes::gib(24),
        }],
        backend: Some("native".into()),
        alloc_conf: conf.map(str::to_string),
        expandable_segments: expandable,
        resting: None,
        wsl: false,
        rocm: false,
    }
}

#[test]
fn what_did_not_take_effect_is_said() {
    let said = |id, hello: &Hello, failed: &str| {
        not_in_force(&[Remedy::new(id)], hello, Some(&Uuid::new(failed))).join("; ")
    };
    let segments = RemedyId::ExpandableSegments;
    assert_eq!(said(segments, &hello(Some(true), None), ""), "");
    assert_eq!(said(segments, &hello(None, None), ""), "", "not known");
    let off = said(
        segments,
        &hello(Some(false), Some("max_split_size_mb:64")),
        "",
    );
    assert!(
        off.contains("set the allocator to max_split_size_mb:64"),
        "{off}"
    );
    let platform = hello(Some(false), Some("expandable_segments:True"));
    assert!(said(segments, &platform, "").contains("platform"));
    let split = RemedyId::MaxSplitSize;
    assert_eq!(
        said(split, &hello(None, Some("max_split_size_mb:128")), ""),
        ""
    );
    assert!(said(split, &hello(None, Some("")), "").contains("max_split_size_mb"));
    assert!(said(RemedyId::Device, &hello(None, None), "aa").contains("same GPU"));
    assert_eq!(said(RemedyId::Device, &hello(None, None), "bb"), "");
    assert_eq!(said(RemedyId::Batch, &platform, "aa"), "");
}
