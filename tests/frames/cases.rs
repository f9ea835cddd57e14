//! The sessions that frames are kept of, each told up to one instant, and the keys pressed then.

use crate::frames::epochs;
use crate::frames::nodes;
use crate::frames::offers::{candidates, in_ram, ran_before, remedies, with_samples};
use crate::frames::steps;
use crate::frames::story::{Shape, Story, clauses};
use crate::frames::undone;
use oomph::diagnosis::{Cause, LittleUse, RequestPlace};
use oomph::event::{
    EventKind, Exit, HostKill, HostProcess, HostRole, Level, LoaderSettings, Note, ProbeGone,
    ProcessHost,
};
use oomph::forecast::{BatchRoom, RoomBasis};
use oomph::forecast::{Estimate, Need};
use oomph::remedy::{Expectation, Remedy};
use oomph::ui::{
    ChildScreen, Elsewhere, Pace, Pane, RecordedOutput, Replay, ShownRun, Subject, Theme, View,
};
use oomph::units::{Bytes, Moment};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// A session up to an instant.
pub struct Case {
    /// Its name, and that of its frames.
    pub name: &'static str,
    tell: fn() -> Story,
    keys: &'static [KeyCode],
    /// The pane to go to after them, wherever Tab has it; where it stands beside the chart there is nothing
    /// to go to.
    pub pane: Option<Pane>,
}

impl Case {
    /// The session on a screen, after its keys.
    pub fn staged(&self, theme: Theme, width: u16, height: u16) -> (Story, View) {
        let story = (self.tell)();
        let view = self.show(&story, theme, width, height);
        (story, view)
    }

    /// The session alone.
    pub fn told(&self) -> Story {
        (self.tell)()
    }

    /// A session of this case on a screen, after its keys; may be called with one screen after the
    /// other.
    pub fn show(&self, story: &Story, theme: Theme, width: u16, height: u16) -> View {
        let pressed = |view: &mut View| {
            for key in self.keys {
                press(view, story, *key);
            }
            if let Some(wanted) = self.pane {
                go_to(view, story, wanted);
            }
        };
        // The program's terminal has the size that it has after the keys.
        let mut sized = story.view(theme, width, height);
        pressed(&mut sized);
        let (rows, cols) = story.scene(|scene| sized.child_size(scene));
        let mut view = story.view(theme, width, height);
        view.output = ChildScreen::new(rows, cols);
        story.print_output(&mut view.output);
        pressed(&mut view);
        view
    }
}

/// An OOM that the program caught, without anything to relaunch with.
fn caught() -> Story {
    let mut story = Story::recorded("caught");
    story.remedies.clear();
    story
}

fn press(view: &mut View, story: &Story, key: KeyCode) {
    let key = KeyEvent::new(key, KeyModifiers::NONE);
    story.scene(|scene| view.key(key, scene));
}

/// Tab until the pane is reached, or the first one again.
fn go_to(view: &mut View, story: &Story, wanted: Pane) {
    let is_at =
        |view: &View, pane: Pane| format!("{view:?}").contains(&format!(" pane: {pane:?},"));
    let first = Pane::ALL.iter().find(|pane| is_at(view, **pane));
    for _ in Pane::ALL {
        if is_at(view, wanted) {
            return;
        }
        press(view, story, KeyCode::Tab);
        if first.is_some_and(|first| is_at(view, *first)) {
            return;
        }
    }
}

const fn case(name: &'static str, tell: fn() -> Story, keys: &'static [KeyCode]) -> Case {
    Case {
        name,
        tell,
        keys,
        pane: None,
    }
}

/// One of a pane, to which it goes after the keys.
const fn of_pane(
    name: &'static str,
    tell: fn() -> Story,
    pane: Pane,
    keys: &'static [KeyCode],
) -> Case {
    Case {
        pane: Some(pane),
        ..case(name, tell, keys)
    }
}

/// All cases.
pub const CASES: &[Case] = &[
    case("waiting", waiting, &[]),
    case("no-device", no_device, &[]),
    case("steady", steady, &[]),
    case("finished", finished, &[]),
    case("climbing", climbing, &[]),
    case("ram-matters", ram_matters, &[]),
    of_pane("ram-pane", ram_matters, Pane::Host, &[]),
    case("ram-killed", ram_killed, &[]),
    case("recorded-capacity", || Story::recorded("capacity"), &[]),
    case("recorded-leak", || Story::recorded("leak"), &[]),
    case(
        "recorded-evaluation",
        || Story::recorded("evaluation"),
        &[KeyCode::Esc],
    ),
    of_pane(
        "recorded-leak-devices",
        || Story::recorded("leak"),
        Pane::Devices,
        &[KeyCode::Esc],
    ),
    of_pane(
        "recorded-two-ranks",
        || Story::recorded("two-ranks"),
        Pane::Devices,
        &[KeyCode::Esc],
    ),
    case(
        "step-recorded-vit",
        || Story::recorded("vit"),
        &[KeyCode::Char('s')],
    ),
    case(
        "step-recorded-lora",
        || Story::recorded("lora"),
        &[KeyCode::Char('s'), KeyCode::Char('m')],
    ),
    case(
        "step-recorded-unet",
        || Story::recorded("unet"),
        &[KeyCode::Char('s'), KeyCode::Char('m'), KeyCode::Char('m')],
    ),
    of_pane(
        "step-recorded-pane",
        || Story::recorded("vit"),
        Pane::Step,
        &[],
    ),
    case(
        "step-recorded-leak",
        || Story::recorded("leak-traced"),
        &[KeyCode::Esc, KeyCode::Char('s'), KeyCode::Char('w')],
    ),
    case(
        "step-untraced-failure",
        || Story::recorded("leak-traced"),
        &[KeyCode::Esc, KeyCode::Char('s')],
    ),
    case(
        "step-untraced-unknown",
        few_lines_known,
        &[KeyCode::Esc, KeyCode::Char('s')],
    ),
    case(
        "step-untraced-modules",
        || Story::recorded("leak-traced"),
        &[KeyCode::Esc, KeyCode::Char('s'), KeyCode::Char('m')],
    ),
    case(
        "recorded-leak-growth",
        || Story::recorded("leak-traced"),
        &[KeyCode::Char('w')],
    ),
    case("oom-capacity", oom_capacity, &[]),
    case("oom-kept", oom_kept, &[]),
    case("oom-candidates", oom_candidates, &[]),
    case("oom-candidate-chosen", oom_candidates, &[KeyCode::Down]),
    case("oom-details", oom_capacity, &[KeyCode::Char('d')]),
    case("oom-ran-before", oom_ran_before, &[]),
    case("oom-in-ram", oom_in_ram, &[KeyCode::Down]),
    case(
        "oom-samples",
        oom_samples,
        &[KeyCode::Char('d'), KeyCode::Down, KeyCode::Down],
    ),
    case(
        "oom-combined",
        oom_capacity,
        &[KeyCode::Char(' '), KeyCode::Down, KeyCode::Char(' ')],
    ),
    case("oom-many", oom_many, &[KeyCode::Down; 5]),
    case(
        "oom-not-offered",
        oom_capacity,
        &[KeyCode::Char('d'), KeyCode::Down, KeyCode::Down],
    ),
    case("oom-fragmentation", oom_fragmentation, &[]),
    case("oom-foreign", oom_foreign, &[]),
    case("oom-limit", oom_limit, &[]),
    case("oom-unsure", oom_unsure, &[]),
    case("oom-leak", oom_leak, &[]),
    case("oom-leak-details", oom_leak, &[KeyCode::Char('d')]),
    case(
        "edit",
        oom_capacity,
        &[KeyCode::Char('v'), KeyCode::Char(' '), KeyCode::Char('x')],
    ),
    case("rejected", undone::rejected, &[KeyCode::Char('o')]),
    case(
        "without-effect",
        undone::without_effect,
        &[KeyCode::Char('o')],
    ),
    case("second-run", second_run, &[]),
    of_pane("breakdown", second_run, Pane::Breakdown, &[]),
    of_pane("climbing-breakdown", climbing, Pane::Breakdown, &[]),
    of_pane("breakdown-of-shards", nodes::shards, Pane::Breakdown, &[]),
    of_pane("runs", second_run, Pane::Runs, &[]),
    of_pane("eight-ranks", eight_ranks, Pane::Devices, &[]),
    of_pane(
        "eight-nodes",
        nodes::eight_nodes,
        Pane::Devices,
        &[KeyCode::Char('w')],
    ),
    of_pane("ranks", nodes::divided, Pane::Ranks, &[]),
    of_pane("ranks-of-eight", eight_ranks, Pane::Ranks, &[]),
    of_pane(
        "ranks-of-nodes",
        nodes::eight_nodes,
        Pane::Ranks,
        &[KeyCode::Char('w')],
    ),
    of_pane(
        "ranks-after-oom",
        nodes::one_ran_out,
        Pane::Ranks,
        &[KeyCode::Esc],
    ),
    case("oom-of-a-job", nodes::one_ran_out, &[]),
    case(
        "oom-of-a-job-details",
        nodes::one_ran_out,
        &[KeyCode::Char('d')],
    ),
    of_pane("half-seen", nodes::half_seen, Pane::Devices, &[]),
    of_pane("events", second_run, Pane::Events, &[]),
    of_pane("allocator", fragmented, Pane::Allocator, &[]),
    case("lost-probe", lost_probe, &[]),
    case("no-nvml", no_nvml, &[]),
    case("no-probe", no_probe, &[]),
    case("simulated", simulated, &[]),
    case("quit", steady, &[KeyCode::Char('q')]),
    case("stop", steady, &[KeyCode::Char('K')]),
    case("small", || Story::recorded("lora"), &[]),
    case(
        "small-whole",
        || Story::recorded("lora"),
        &[KeyCode::Char('z')],
    ),
    case("caught", caught, &[KeyCode::Char('o')]),
    case("help", steady, &[KeyCode::Char('?')]),
    case("typing", steady, &[KeyCode::Char('i')]),
    case(
        "searching",
        steady,
        &[KeyCode::Char('/'), KeyCode::Char('e'), KeyCode::Char('p')],
    ),
    case("selecting", steady, &[KeyCode::Char('V')]),
    case("gate", gate, &[]),
    case("hanging", hanging, &[KeyCode::Char('o')]),
    case("replay", replay, &[]),
    case("elsewhere", elsewhere, &[]),
    case("elsewhere-oom", elsewhere_oom, &[]),
    case(
        "paused",
        second_run,
        &[
            KeyCode::Char('+'),
            KeyCode::Char(' '),
            KeyCode::Left,
            KeyCode::Char('z'),
        ],
    ),
    case("step", steps::two_steps, &[KeyCode::Char('s')]),
    case(
        "step-cursor",
        steps::two_steps,
        &[
            KeyCode::Char('s'),
            KeyCode::Char('['),
            KeyCode::Home,
            KeyCode::Right,
            KeyCode::Right,
            KeyCode::Right,
            KeyCode::Right,
            KeyCode::Down,
        ],
    ),
    case(
        "step-of-a-rank",
        steps::of_a_rank,
        &[KeyCode::Char(']'), KeyCode::Char('s'), KeyCode::End],
    ),
    case(
        "step-failed",
        steps::ran_out,
        &[KeyCode::Esc, KeyCode::Char('s')],
    ),
    case("oom-traced", steps::ran_out, &[KeyCode::Char('d')]),
    case("oom-at-once", steps::ran_out_at_once, &[KeyCode::Esc]),
    case(
        "oom-at-once-zoomed",
        steps::ran_out_at_once,
        &[KeyCode::Esc, KeyCode::Char('+')],
    ),
    case(
        "oom-at-once-growth",
        steps::ran_out_at_once,
        &[KeyCode::Char('w')],
    ),
    case("steady-growth", steps::two_steps, &[KeyCode::Char('w')]),
    case(
        "step-modules",
        steps::two_steps,
        &[KeyCode::Char('s'), KeyCode::Char('m')],
    ),
    case(
        "step-line",
        steps::two_steps,
        &[KeyCode::Char('s'), KeyCode::Down, KeyCode::Enter],
    ),
    case(
        "step-sorted",
        steps::two_steps,
        &[KeyCode::Char('s'), KeyCode::Char('t'), KeyCode::Char('t')],
    ),
    case(
        "step-flame",
        steps::two_steps,
        &[KeyCode::Char('s'), KeyCode::Char('m'), KeyCode::Char('m')],
    ),
    case(
        "step-leak",
        steps::leaking,
        &[KeyCode::Char('s'), KeyCode::Char('w')],
    ),
    of_pane(
        "step-leak-pane",
        steps::leaking,
        Pane::Step,
        &[KeyCode::Char('s'), KeyCode::Char('w'), KeyCode::Esc],
    ),
    case(
        "step-unasked",
        steps::two_steps,
        &[
            KeyCode::Char('s'),
            KeyCode::Char('m'),
            KeyCode::Char('m'),
            KeyCode::Char('m'),
        ],
    ),
    of_pane("step-pane", steps::two_steps, Pane::Step, &[]),
    case("step-beside", steps::two_steps, &[]),
    case("step-none", steady, &[KeyCode::Char('s')]),
    case("chart-alone", second_run, &[KeyCode::Char('m')]),
    case("week", week, &[KeyCode::Char('-'); 9]),
    case("compared", second_run, &[KeyCode::Char('c')]),
    case("cursor", second_run, &[KeyCode::Char(','); 24]),
    case("epochs", epochs::of_two_runs, &[KeyCode::Char(','); 24]),
    of_pane("many-epochs", epochs::of_a_long_run, Pane::Events, &[]),
    of_pane("epochs-listed", epochs::of_two_runs, Pane::Events, &[]),
    of_pane("wide-runs", second_run, Pane::Runs, &[KeyCode::Char('f')]),
    of_pane(
        "wide-breakdown",
        oom_foreign,
        Pane::Breakdown,
        &[KeyCode::Esc, KeyCode::Char('f')],
    ),
    of_pane(
        "wide-allocator",
        fragmented,
        Pane::Allocator,
        &[KeyCode::Char('f')],
    ),
];

pub const GPU: &str = "4f2a9c1e-7b1d-4a6e-9d50-1f6a2c3b4d5e";

pub const STEADY: Shape = Shape {
    floor: 1.9,
    peak: 14.7,
    reserved: 15.2,
    climb: 0.0,
    rate: 6.3,
    limit: None,
};

const TOO_LARGE: Shape = Shape {
    peak: 22.6,
    reserved: 22.9,
    ..STEADY
};

fn waiting() -> Story {
    let mut story = Story::new("python train.py --batch-size 64 --lr 3e-4");
    story.with_nvml().start().wait(0.4).bare_device(GPU, 0.1);
    story.wait(1.2).bare_device(GPU, 0.1);
    story
}

pub fn steady() -> Story {
    let mut story = Story::new("python train.py --batch-size 32 --grad-accum 2");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 190.0);
    story.room_for_batch = Some(BatchRoom {
        now: 32,
        could: 48,
        basis: RoomBasis::Peaks,
        is_alone: false,
        parts: 1,
    });
    story
}

/// It went well, and a larger batch would have fitted.
fn finished() -> Story {
    let mut story = steady();
    story.exit(Exit::Code(0));
    story
}

/// Data workers grow until the container's limit is near.
fn ram_matters() -> Story {
    let mut story = steady();
    let loader = LoaderSettings {
        workers: 4,
        prefetch: Some(4),
        batch: Some(32),
        pin_memory: true,
        ..LoaderSettings::default()
    };
    let pid = story.pid(0);
    story.tell(EventKind::ProcessHost(Box::new(ProcessHost {
        pid,
        loaders: Some(vec![loader]),
        ..ProcessHost::default()
    })));
    for n in 0..6_u32 {
        story
            .host(20.0 + 1.8 * f64::from(n), 10.0 + 1.7 * f64::from(n))
            .wait(10.0);
    }
    story
}

/// The kernel kills the program for it.
fn ram_killed() -> Story {
    let mut story = ram_matters();
    story.host(31.7, 21.0).wait(0.5);
    let pid = story.pid(0);
    let gone = HostProcess {
        pid,
        role: HostRole::Rank,
        name: "python".into(),
        resident: crate::frames::story::gib(9.0),
        ..HostProcess::default()
    };
    story.tell(EventKind::HostKill(Box::new(HostKill {
        count: 1,
        total: 1,
        of_machine: false,
        gone: vec![gone],
    })));
    story.exit(Exit::Signal(9));
    story.diagnosed();
    story
}

fn climbing() -> Story {
    let mut story = Story::new("python train.py --batch-size 32");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    let shape = Shape {
        climb: 0.075,
        ..STEADY
    };
    story.train(0, GPU, shape, 100.0);
    story
}

pub fn first_run() -> Story {
    let mut story = Story::new("python train.py --batch-size 64");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, TOO_LARGE, 18.0);
    story.remedies = remedies();
    story
}

/// A step that failed late, of which stacks were recorded for little.
fn few_lines_known() -> Story {
    Story::recorded_but("leak-traced", |event| {
        if let EventKind::Oom(record) = &mut event.what {
            record.lines.retain(|line| line.kind.is_some());
            let known: Bytes = record.lines.iter().map(|line| line.bytes).sum();
            record.lines_known = Some(known + Bytes::mib(400));
        }
    })
}

pub fn oom_capacity() -> Story {
    let mut story = first_run();
    story.oom(|_| {}).find(
        Cause::Capacity,
        "It does not fit: 22.6 allocated + 1.2 requested = 23.8 > 23.6 GiB.",
        "Only 0.3 GiB is cached, so this is not fragmentation; no other process is on the GPU. \
         20.8 GiB of it are activations, which grow with the batch.",
    );
    story
}

/// A remedy did not help, and the next run would begin with it.
fn oom_kept() -> Story {
    let mut story = oom_capacity();
    story.findings.clear();
    story.wait(6.0);
    let mut command = crate::frames::story::command("python train.py --batch-size 64");
    command.set_env(
        "PYTORCH_CUDA_ALLOC_CONF",
        Some("expandable_segments:True".into()),
    );
    story.start_with(command, &["expandable segments"], None);
    story.wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 12.0);
    story.oom(|_| {}).find(
        Cause::Capacity,
        "It does not fit: 22.6 allocated + 1.2 requested = 23.8 > 23.6 GiB.",
        "Only 0.3 GiB is cached, so this is not fragmentation.",
    );
    story
}

/// It does not fit, and no name says which number is the batch.
fn oom_candidates() -> Story {
    let mut story = oom_capacity();
    story.remedies = candidates();
    story
}

/// The same where the remedies' commands ran in earlier sessions.
fn oom_ran_before() -> Story {
    let mut story = oom_capacity();
    story.remedies = ran_before();
    story
}

/// The same, with what leaves the batch as it is.
fn oom_in_ram() -> Story {
    let mut story = oom_capacity();
    story.remedies = in_ram();
    story
}

/// The same, with what changes the training among the details.
fn oom_samples() -> Story {
    let mut story = oom_capacity();
    story.remedies = with_samples();
    story
}

/// The cache is given back now and then, and it goes on.
fn fragmented() -> Story {
    let mut story = Story::new("python train.py --batch-size 48");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    let shape = Shape {
        peak: 19.4,
        reserved: 22.8,
        ..STEADY
    };
    for retries in [0, 2, 3] {
        story.retries = retries;
        story.train(0, GPU, shape, 30.0);
    }
    story
}

/// More remedies than a small screen has rows, with words longer than its columns.
fn oom_many() -> Story {
    let mut story = oom_capacity();
    let [batch, segments, amp] = &story.remedies[..] else {
        unreachable!("three remedies")
    };
    let like = |remedy: &Remedy, key, title: &str, changes: &str, words: &str, cost: &str| Remedy {
        key,
        title: title.into(),
        changes: changes.into(),
        expectation: Expectation {
            words: clauses(words),
            ..remedy.expectation.clone()
        },
        cost: clauses(cost),
        ..remedy.clone()
    };
    let more = [
        like(
            batch,
            'c',
            "recompute activations",
            "patched at runtime the process",
            "needs 9.8 GiB (9.1–10.6), fits with 13.8 to spare; the 12 blocks of GPT2Model.h are \
             recomputed in backward, so that their activations need not be kept",
            "about 30 % slower; the losses stay the same to the last digit",
        ),
        like(
            batch,
            'r',
            "the latest checkpoint",
            "+--resume_from_checkpoint out/checkpoint-500",
            "goes on from step 500; as much memory as before",
            "no step is lost but the last 38",
        ),
        like(
            batch,
            'g',
            "another GPU",
            "CUDA_VISIBLE_DEVICES=1",
            "GPU 1 has 79.1 GiB free, fits with 55.3 to spare",
            "",
        ),
        like(
            batch,
            'w',
            "wait for the process",
            "the same command, once pid 81237 of eve has left GPU 0",
            "needs 22.9 GiB, fits once 3.1 GiB of others are gone",
            "nobody knows how long",
        ),
        like(
            segments,
            'm',
            "max split size",
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
            "unknown: it makes fragmentation less likely",
            "slower allocation of large blocks",
        ),
        like(amp, 'd', "fewer loader workers", "", "", ""),
    ];
    story.remedies.splice(2..2, more);
    story
}

/// No remedy is sure to fit, so that none is selected.
fn oom_unsure() -> Story {
    let mut story = oom_capacity();
    story.remedies[0].expectation = Expectation {
        need: Some(Need::of(Estimate::new(
            crate::frames::story::gib(21.4),
            crate::frames::story::gib(22.9),
            crate::frames::story::gib(24.8),
        ))),
        room: Some(crate::frames::story::gib(23.1)),
        words: "may not fit: needs 22.9 GiB (21.4–24.8), 23.1 GiB available".into(),
        ..Expectation::default()
    };
    story
}

/// A cause that a relaunch only puts off: what is to be changed in the code comes first.
fn oom_leak() -> Story {
    let mut story = first_run();
    story.oom(|_| {}).retained(0).find(
        Cause::Leak,
        "Memory leak: +96 MiB × 84 steps = 7.88 GiB, from step 3 on.",
        "8.25 GiB is kept alive by train.py:93 outputs: list of 88. What is allocated between steps has grown steadily over the last 84 steps. Growing \
         allocations come from train.py:88 main: +96 MiB per step.",
    );
    let advice = ".item() or .detach() on what you keep from each step";
    story.findings[0].advice = vec![advice.into()];
    story.findings[0].place = Some("train.py:93".into());
    story.findings[0].retainer = steps::retainers().into_iter().next();
    for remedy in &mut story.remedies {
        remedy.expectation = Expectation {
            futile: Some(LittleUse::OnlyDelays),
            words: "only delays the OOM: it still leaks".into(),
            ..Expectation::default()
        };
    }
    story
}

fn oom_fragmentation() -> Story {
    let mut story = first_run();
    story
        .oom(|record| {
            record.sample = record.sample.clone();
            record.sample.allocated = crate::frames::story::gib(18.1);
            record.largest_free = Some(crate::frames::story::gib(0.4));
        })
        .find(
            Cause::Fragmentation,
            "Fragmented: 4.8 GiB is cached, but the largest free block is 0.4 GiB and 1.2 GiB was requested.",
            "What is allocated and what was asked for would fit. Expandable segments let the \
             allocator join its free pieces.",
        );
    story.remedies.rotate_left(1);
    story.remedies[0].expectation.need = Some(oomph::forecast::Need::of(
        oomph::forecast::Estimate::exact(crate::frames::story::gib(19.6)),
    ));
    story.remedies[0].expectation.fits = Some(true);
    story.remedies[0].expectation.words = "needs 19.6 GiB, fits with 4.0 to spare".into();
    story
}

fn oom_foreign() -> Story {
    let mut story = Story::new("python train.py --batch-size 64");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    let shape = Shape {
        peak: 11.0,
        reserved: 11.4,
        ..STEADY
    };
    story.train(0, GPU, shape, 15.0);
    story.device(0, GPU, 23.4, 11.5).wait(0.2);
    story.remedies = remedies();
    story
        .oom(|record| {
            record.sample.allocated = crate::frames::story::gib(11.0);
            record.sample.reserved = crate::frames::story::gib(11.4);
        })
        .find(
            Cause::ForeignProcess,
            "Process 977 (bob's ollama) uses 11.5 GiB of the GPU's 23.6 GiB: 11.0 allocated + 1.2 requested + 11.5 theirs = 23.7 > 23.6 GiB.",
            "Without it the 11.0 GiB allocated and the 1.2 GiB asked for fit in 23.6 GiB.",
        );
    story
}

fn oom_limit() -> Story {
    let mut story = Story::new("python train.py --batch-size 64");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    let shape = Shape {
        peak: 11.6,
        reserved: 11.8,
        limit: Some(12.0),
        ..STEADY
    };
    story.train(0, GPU, shape, 18.0);
    story.remedies = remedies();
    story
        .oom(|record| {
            record.limit = Some(crate::frames::story::gib(12.0));
            record.total = crate::frames::story::gib(12.0);
            record.free = crate::frames::story::gib(11.3);
            record.sample.allocated = crate::frames::story::gib(11.6);
            record.sample.reserved = crate::frames::story::gib(11.8);
            record.sample.limit = Some(crate::frames::story::gib(12.0));
        })
        .find(
            Cause::Limit,
            "A memory limit was reached: 11.8 reserved + 1.2 requested = 13.0 > 12.0 GiB allowed of the GPU's 23.6 GiB.",
            "The card has 11.3 GiB free. The limit is set by set_per_process_memory_fraction, or \
             by per_process_memory_fraction in the allocator's settings.",
        );
    let asking = RequestPlace {
        own: "train.py:88 forward".into(),
        called: Some("mlp".into()),
    };
    story.findings[0].request = Some((crate::frames::story::gib(1.2), asking));
    story
}

fn no_device() -> Story {
    let mut story = Story::new("python train.py --batch-size 64");
    story.without_nvml().start().wait(3.0);
    story
}

/// One rank has run out of memory, and the launcher has not noticed.
fn hanging() -> Story {
    let mut story = Story::new("torchrun train.py --batch-size 64");
    story.with_nvml().start().wait(1.5).hello(0, 2, GPU);
    story.train(0, GPU, TOO_LARGE, 18.0);
    story.oom_record(|_| {}).wait(4.0);
    story.remedies = remedies();
    story
}

fn elsewhere() -> Story {
    let mut story = steady();
    story.subject = Subject::Elsewhere(Elsewhere {
        place: "gpu-7",
        heard: Some(Duration::from_secs(4)),
        trouble: None,
        command: "srun --jobid=1234 --overlap -N1 -n1 -w gpu-7 --pty oomph attach 20261121-0914-python",
    });
    story
}

fn elsewhere_oom() -> Story {
    let mut story = oom_capacity();
    story.remedies.clear();
    story.subject = elsewhere().subject;
    story
}

fn replay() -> Story {
    let mut story = second_run();
    story.subject = Subject::Recording(Replay {
        speed: 4.0,
        position: Moment::from_secs_f64(75.0),
        pace: Pace::Playing,
        output: RecordedOutput::NotThere,
        shown: ShownRun::Unknown,
    });
    story
}

pub fn second_run() -> Story {
    let mut story = oom_capacity();
    story.findings.clear();
    story.recording = Some("/home/ada/.local/state/oomph/2026-11-20-0914-gpt.jsonl".into());
    story.wait(6.0);
    let command = crate::frames::story::command("python train.py --batch-size 32 --grad-accum 2");
    story.start_with(command, &["smaller batch"], Some(14.6));
    story.wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 75.0);
    story
}

fn gate() -> Story {
    let mut story = oom_capacity();
    story.wait(0.4);
    story.waiting = Some("waiting until 21.4 GiB on GPU 0 are given back (0.4 s)".into());
    story
}

fn eight_ranks() -> Story {
    let mut story = Story::new("torchrun --nproc_per_node 8 train.py --batch-size 16");
    story.with_nvml().start().wait(2.0);
    for rank in 0..8 {
        story.hello(rank, 8, &format!("4f2a9c1e-{rank}"));
    }
    for second in 0..60u32 {
        for rank in 0..8 {
            let more = if rank == 5 {
                3.0
            } else {
                0.05 * f64::from(rank)
            };
            let peak = 14.0 + more;
            let now = if second % 3 == 0 { 1.9 } else { peak };
            story.sample(rank, now, peak + 0.5, peak);
            story.device(rank, &format!("4f2a9c1e-{rank}"), peak + 1.0, 0.0);
            story.step(rank, u64::from(second) + 1, 1.9, peak + 0.5, peak);
        }
        story.wait(1.0);
    }
    story
}

fn lost_probe() -> Story {
    let mut story = steady();
    let pid = story.pid(0);
    story.tell(EventKind::ProbeGone(ProbeGone {
        pid,
        reason: None,
        said_end: false,
    }));
    for _ in 0..20 {
        story.wait(1.0).device(0, GPU, 15.7, 0.0);
    }
    story.tell(EventKind::Note(Note::new(
        Level::Warning,
        "the probe's socket was closed; allocated and reserved are not known",
    )));
    story
}

fn no_nvml() -> Story {
    let mut story = Story::new("python train.py --batch-size 32");
    story.without_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 40.0);
    story
}

fn no_probe() -> Story {
    let mut story = Story::without_probe("python -I train.py --batch-size 32");
    story.with_nvml().start();
    for second in 0..50 {
        let used = (f64::from(second) * 0.9).min(15.7);
        story.wait(1.0).device(0, GPU, used.max(0.1), 0.0);
    }
    story
}

fn simulated() -> Story {
    let mut story = Story::new("python3 demo/train.py --batch-size 64");
    story.without_nvml().start().wait(0.4);
    story.hello(0, 1, "SIM-24-0");
    story.train(0, "SIM-24-0", STEADY, 25.0);
    story
}

fn week() -> Story {
    let mut story = Story::new("python train.py --epochs 900");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    for hour in 0..(7 * 24) {
        for part in 0..12 {
            let peak = if hour == 100 && part == 3 { 21.0 } else { 14.7 };
            let now = if part % 2 == 0 { 1.9 } else { peak };
            story.sample(0, now, 15.2_f64.max(peak), 21.0_f64.min(peak));
            story.wait(290.0);
            story.device(0, GPU, 15.7, 0.0).wait(10.0);
        }
    }
    story
}
