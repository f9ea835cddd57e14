//! Machines that nobody has at hand: each broken in one way, and what is said of it.

use super::*;
use crate::command::CommandLine;
use crate::event::{DeviceProcess, DeviceReading};
use crate::units::{Bytes, Pid, Uuid};

fn gpu(index: u32, processes: &[(&str, u64)]) -> GpuFacts {
    let process = |(name, gib): &(&str, u64)| DeviceProcess {
        pid: Pid(41),
        used: Some(Bytes::gib(*gib)),
        name: Some(name.to_string()),
        user: Some("ada".into()),
        orphaned: false,
    };
    GpuFacts {
        reading: DeviceReading {
            uuid: Uuid::new(&format!("GPU-{index}{index}")),
            index,
            name: "NVIDIA H100".into(),
            total: Some(Bytes::gib(80)),
            used: Some(Bytes::gib(1)),
            free: None,
            driver_reserved: None,
            processes: Some(processes.iter().map(process).collect()),
            utilization: None,
            temperature: None,
            power: None,
            lost: None,
        },
        mig: MigFacts::Off,
        exclusive: false,
        prohibited: false,
    }
}

fn place(path: &str, problem: Option<&str>) -> PlaceFacts {
    PlaceFacts {
        path: path.into(),
        problem: problem.map(str::to_string),
        free: Some(Bytes::gib(100)),
    }
}

/// A machine on which all is well.
fn sound() -> Facts {
    Facts {
        nvml: NvmlFacts::Answered(DriverFacts {
            version: Some("570.133.20".into()),
            cuda: Some((12, 8)),
            gpus: vec![gpu(0, &[]), gpu(1, &[])],
            unreadable: Vec::new(),
        }),
        command: CommandFacts {
            given: Some(CommandLine::typed("python train.py")),
            python: python(),
        },
        state: vec![place("/home/ada/.local/state/oomph", None)],
        runtime: vec![
            place("/run/user/7/oomph", None),
            place("/tmp/oomph-7", None),
        ],
        terminal: TerminalFacts {
            headless: None,
            size: Some((120, 40)),
            colors: Some("24-bit colors"),
            utf8: true,
            term: Some("xterm-256color".into()),
        },
        slurm: SlurmFacts::default(),
        probe_errors: None,
        variables: Vec::new(),
    }
}

fn asked() -> AskedPython {
    AskedPython {
        version: (3, 12, Some(1)),
        not_run: None,
        reads_pythonpath: true,
        imports_site: true,
        torch: Some(TorchFacts {
            directory: "/venv/lib/python3.12/site-packages/torch".into(),
            version: Some("2.8.0+cu128".into()),
            cuda: Some("12.8".into()),
            rocm: None,
        }),
    }
}

fn answering(asked: AskedPython) -> PythonFacts {
    PythonFacts::Found {
        path: "/venv/bin/python".into(),
        asked: Ok(asked),
    }
}

fn python() -> PythonFacts {
    answering(asked())
}

/// The checks that are not ok, as `subject: finding -> advice`.
fn complaints(facts: &Facts) -> Vec<(Verdict, String)> {
    let checks = examine(facts).into_iter();
    let bad = checks.filter(|check| check.verdict != Verdict::Ok);
    bad.map(|check| {
        let advice = check.advice.expect("what is not ok says what to do");
        let words = format!("{}: {} -> {advice}", check.subject, check.finding);
        assert!(!words.contains('\n') && !words.contains("  "), "{words}");
        (check.verdict, words)
    })
    .collect()
}

#[test]
fn errors_of_the_probes_own_are_told_of_the_latest_session() {
    let (verdict, words) = complaint(|facts| {
        facts.probe_errors = Some(ProbeErrorFacts {
            session: "20261123-040000-7".into(),
            count: 3,
            latest: "take a reading: KeyError (sampler.py:131)".into(),
        });
    });
    assert_eq!(verdict, Verdict::Warning);
    assert_eq!(
        words,
        "probe errors: 3 internal errors in the latest session, 20261123-040000-7; the latest: take a reading: KeyError \
         (sampler.py:131) -> the training was not touched by them; with OOMPH_PROBE_DEBUG=FILE each process writes them to \
         FILE.PID, for a report of the bug"
    );
}

/// The one complaint about a sound machine that was changed in one way.
fn complaint(change: impl FnOnce(&mut Facts)) -> (Verdict, String) {
    let mut facts = sound();
    change(&mut facts);
    let all = complaints(&facts);
    let [one] = &all[..] else {
        panic!("one complaint: {all:?}")
    };
    one.clone()
}

fn driver(facts: &mut Facts) -> &mut DriverFacts {
    match &mut facts.nvml {
        NvmlFacts::Answered(driver) => driver,
        NvmlFacts::Unavailable { .. } | NvmlFacts::Silent(_) => panic!("the driver answers"),
    }
}

fn expect(found: (Verdict, String), verdict: Verdict, words: &[&str]) {
    assert_eq!(found.0, verdict, "{}", found.1);
    for part in words {
        assert!(found.1.contains(part), "{part}: {}", found.1);
    }
}

#[test]
fn a_sound_machine_has_nothing_to_complain_of() {
    assert_eq!(complaints(&sound()), []);
    assert_eq!(worst(&examine(&sound())), Verdict::Ok);
    let subjects: Vec<String> = (examine(&sound()).into_iter())
        .map(|check| check.subject)
        .collect();
    assert_eq!(
        subjects,
        [
            "driver",
            "GPU 0",
            "GPU 1",
            "python",
            "torch",
            "probe",
            "allocator",
            "recordings",
            "sockets",
            "terminal",
            "SLURM"
        ]
    );
}

#[test]
fn a_machine_without_a_gpu_says_so_once() {
    let found = complaint(|facts| {
        facts.nvml = NvmlFacts::Unavailable {
            finding: "libnvidia-ml.so.1 cannot be loaded: x".into(),
            advice: "install the NVIDIA driver",
        };
    });
    expect(
        found,
        Verdict::Error,
        &[
            "driver: libnvidia-ml.so.1 cannot be loaded: x",
            "-> install the NVIDIA driver",
        ],
    );
    let found = complaint(|facts| facts.nvml = NvmlFacts::Silent(6));
    expect(found, Verdict::Error, &["within 6 s", "nvidia-smi"]);
    let found = complaint(|facts| driver(facts).gpus.clear());
    expect(found, Verdict::Error, &["has no GPU", "--gpus all"]);
}

#[test]
fn a_gpu_that_cannot_be_used_is_an_error() {
    let found = complaint(|facts| driver(facts).gpus[1].reading.lost = Some("GPU is lost".into()));
    expect(
        found,
        Verdict::Error,
        &["GPU 1: NVIDIA H100: GPU is lost", "reset"],
    );
    let found = complaint(|facts| driver(facts).gpus[0].mig = MigFacts::Empty);
    expect(found, Verdict::Error, &["no instance", "nvidia-smi -mig 0"]);
    let found = complaint(|facts| driver(facts).gpus[0].prohibited = true);
    expect(found, Verdict::Error, &["Prohibited", "-c DEFAULT"]);
    let found = complaint(|facts| {
        driver(facts).gpus[0] = GpuFacts {
            exclusive: true,
            ..gpu(0, &[("python3 eval.py", 0)])
        };
    });
    expect(
        found,
        Verdict::Error,
        &["one process", "python3 eval.py (pid 41, ada"],
    );
    let found = complaint(|facts| driver(facts).unreadable = vec!["GPU 2 cannot be read".into()]);
    expect(found, Verdict::Error, &["GPU 2 cannot be read"]);
}

#[test]
fn who_else_is_on_a_gpu_is_named() {
    let found = complaint(|facts| {
        let crowd = [("a", 30), ("b", 1), ("c", 2), ("d", 3), ("Xorg", 0)];
        driver(facts).gpus[0] = gpu(0, &crowd);
    });
    let words = [
        "a (pid 41, ada, 30.0 GiB), b",
        "1 more",
        "CUDA_VISIBLE_DEVICES",
    ];
    expect(found, Verdict::Warning, &words);
}

#[test]
fn visible_devices_are_checked_against_those_that_exist() {
    for (value, verdict, words) in [
        ("", Verdict::Error, "hides every GPU"),
        ("-1", Verdict::Error, "hides every GPU"),
        ("7", Verdict::Error, "does not exist"),
        ("0,7,1", Verdict::Warning, "7 does not exist"),
        ("GPU-9", Verdict::Error, "does not exist"),
    ] {
        let found = complaint(|facts| {
            facts.variables = vec![("CUDA_VISIBLE_DEVICES".into(), value.into())];
        });
        expect(found, verdict, &[words]);
    }
    for value in ["1", "1,0", "GPU-11", "MIG-GPU-x/1/0"] {
        let mut facts = sound();
        facts.variables = vec![("CUDA_VISIBLE_DEVICES".into(), value.into())];
        assert_eq!(complaints(&facts), [], "{value}");
    }
}

#[test]
fn a_torch_that_cannot_use_the_gpu_is_an_error() {
    let with = |change: fn(&mut TorchFacts)| {
        complaint(|facts| {
            let mut asked = asked();
            change(asked.torch.as_mut().expect("torch"));
            facts.command.python = answering(asked);
        })
    };
    let found = with(|torch| torch.cuda = None);
    expect(found, Verdict::Error, &["CPUs only", "pytorch.org"]);
    let found = with(|torch| torch.cuda = Some("13.0".into()));
    expect(
        found,
        Verdict::Error,
        &[
            "built for CUDA 13.0",
            "runs CUDA 12 at most",
            "update the driver",
        ],
    );
    let found = with(|torch| (torch.cuda, torch.rocm) = (None, Some("6.3".into())));
    expect(found, Verdict::Warning, &["ROCm 6.3"]);
    let found = with(|torch| torch.version = None);
    expect(found, Verdict::Warning, &["its version cannot be read"]);
    // CUDA runs newer minor versions on older drivers.
    let mut facts = sound();
    driver(&mut facts).cuda = Some((12, 2));
    assert_eq!(complaints(&facts), []);
}

#[test]
fn a_python_that_is_not_there_or_out_of_sight_is_said_with_what_follows() {
    let of = |python: PythonFacts| {
        let mut facts = sound();
        facts.command.python = python;
        let all: Vec<String> = complaints(&facts)
            .into_iter()
            .map(|(_, words)| words)
            .collect();
        all.join("\n")
    };
    let away = |by: &str, keeps| PythonFacts::OutOfSight {
        by: by.into(),
        keeps,
    };
    let said = of(away("docker run", Keeps::Nothing));
    assert!(said.contains("not be loaded: docker run"), "{said}");
    assert!(said.contains("put oomph inside"), "{said}");
    let said = of(away("apptainer exec", Keeps::Environment));
    assert!(said.contains("loaded if the container has"), "{said}");
    let said = of(away("run.sh is a shell script", Keeps::Both));
    assert!(
        said.contains("cannot be seen") && !said.contains("probe"),
        "{said}"
    );
    let said = of(PythonFacts::NotFound("uv run".into()));
    assert!(said.contains("uv sync"), "{said}");
    let said = of(PythonFacts::NotFound("python4".into()));
    assert!(
        said.contains("for python4") && !said.contains("probe"),
        "{said}"
    );
    let said = of(PythonFacts::Found {
        path: "/venv/bin/python".into(),
        asked: Err("exit status: 1: No module named 'encodings'".into()),
    });
    assert!(
        said.contains("does not run") && said.contains("recreate"),
        "{said}"
    );
    let mut without = asked();
    without.torch = None;
    let said = of(answering(without));
    assert!(said.contains("not installed for this Python"), "{said}");
}

#[test]
fn what_keeps_the_probe_out_is_named() {
    for (change, words) in [
        (
            (|asked: &mut AskedPython| asked.reads_pythonpath = false) as fn(&mut AskedPython),
            "-I, -E",
        ),
        (|asked| asked.imports_site = false, "(-S)"),
    ] {
        let found = complaint(|facts| {
            let mut asked = asked();
            change(&mut asked);
            facts.command.python = answering(asked);
        });
        expect(
            found,
            Verdict::Warning,
            &["probe: it will not be loaded", words, "device memory only"],
        );
    }
}

#[test]
fn the_allocators_settings_are_those_that_this_torch_reads() {
    let with = |name: &str, value: &str| {
        let (name, value) = (name.to_string(), value.to_string());
        complaint(|facts| facts.variables = vec![(name, value)])
    };
    let cuda = "PYTORCH_CUDA_ALLOC_CONF";
    let found = with(cuda, "expandable_segment:True");
    expect(
        found,
        Verdict::Error,
        &["did you mean expandable_segments?"],
    );
    let found = with(cuda, "expandable_segments=True");
    expect(
        found,
        Verdict::Error,
        &["cannot be read", "expandable_segments:True"],
    );
    let found = with(cuda, "per_process_memory_fraction:0.5");
    expect(found, Verdict::Error, &["needs torch 2.10"]);
    let found = with(cuda, "backend:cudaMallocAsync");
    expect(found, Verdict::Warning, &["device memory only"]);
    let found = with("PYTORCH_ALLOC_CONF", "expandable_segments:True");
    expect(
        found,
        Verdict::Warning,
        &["PYTORCH_ALLOC_CONF is set, and has no effect"],
    );
    let found = with(cuda, "expandable_segments:True,max_split_size_mb:128");
    expect(
        found,
        Verdict::Warning,
        &["cannot be combined", "serve no smaller request"],
    );

    let mut facts = sound();
    facts.variables = vec![(cuda.into(), "garbage_collection_threshold:0.8".into())];
    assert_eq!(complaints(&facts), []);
    let meaning = examine(&facts)
        .into_iter()
        .find(|check| check.subject == "allocator");
    let meaning = meaning.expect("the setting").finding;
    assert!(
        meaning.contains("garbage_collection_threshold:0.8: "),
        "{meaning}"
    );
}

#[test]
fn directories_that_cannot_be_used_are_passed_over_or_are_errors() {
    let full = |facts: &mut Facts| facts.state[0].free = Some(Bytes::mib(3));
    expect(
        complaint(full),
        Verdict::Warning,
        &["3.0 MiB free", "OOMPH_STATE_DIR"],
    );
    let found = complaint(|facts| facts.runtime[0].problem = Some("denied".into()));
    expect(
        found,
        Verdict::Warning,
        &[
            "/tmp/oomph-7",
            "/run/user/7/oomph: denied",
            "OOMPH_RUNTIME_DIR",
        ],
    );
    let found = complaint(|facts| facts.state[0].problem = Some("read-only".into()));
    expect(
        found,
        Verdict::Error,
        &["nothing will be recorded", "read-only"],
    );
    let mut facts = sound();
    for place in &mut facts.runtime {
        place.problem = Some("denied".into());
    }
    let all = complaints(&facts);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].1.contains("probe"), "{all:?}");
}

#[test]
fn terminals_and_jobs_are_said_as_they_are() {
    let found = complaint(|facts| facts.terminal.utf8 = false);
    expect(found, Verdict::Warning, &["ASCII", "LANG=C.UTF-8"]);
    let found = complaint(|facts| {
        facts.terminal.colors = None;
        facts.terminal.size = Some((60, 10));
    });
    expect(found, Verdict::Warning, &["60 x 10", "enlarge", "NO_COLOR"]);
    let mut facts = sound();
    facts.terminal.headless = Some("CI is set");
    facts.slurm.job = Some("12".into());
    assert_eq!(complaints(&facts), []);
    let found = complaint(|facts| {
        facts.slurm = SlurmFacts {
            job: Some("12".into()),
            is_signalled: true,
            part_of: Some("SLURM_NTASKS=4".into()),
        };
    });
    expect(
        found,
        Verdict::Warning,
        &["one of several tasks (SLURM_NTASKS=4)"],
    );
}
