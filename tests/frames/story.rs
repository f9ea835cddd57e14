//! Sessions told as events and folded into a state, as a recording would be: what the frames are
//! drawn from. Figures are made up, times are fixed.

use oomph::command::{CommandLine, Word};
use oomph::diagnosis::{Cause, Certainty, Evidence, Finding, Phrase, diagnose};
use oomph::event::*;
use oomph::forecast::{BatchRoom, ForecastInputs};
use oomph::oom::{OomKind, OomReport};
use oomph::recognize::LaunchEnvironment;
use oomph::recording;
use oomph::remedy::{EditedNeed, Remedy, RemedyInputs, UndoneRemedy, remedies};
use oomph::state::State;
use oomph::ui::{ChildScreen, RoomForBatch, Scene, Subject, Theme, View};
use oomph::units::{Bytes, Moment, Pid, Rank, RunNumber, Uuid};
use std::path::PathBuf;

/// Gibibytes, as written.
pub fn gib(n: f64) -> Bytes {
    Bytes::gib(1).scale(n)
}

/// A command of words without spaces.
pub fn command(text: &str) -> CommandLine {
    CommandLine {
        argv: text.split(' ').map(Word::from).collect(),
        env: Vec::new(),
        cwd: "/home/ada/gpt".into(),
    }
}

/// What a training holds: between steps, at its peak, and beyond.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Allocated between steps.
    pub floor: f64,
    /// The most allocated in a step.
    pub peak: f64,
    /// Reserved once it has settled.
    pub reserved: f64,
    /// How much the floor grows in a second.
    pub climb: f64,
    /// Steps in a second.
    pub rate: f64,
    /// A cap that the program set.
    pub limit: Option<f64>,
}

/// A session in the making.
pub struct Story {
    pub state: State,
    pub findings: Vec<Finding>,
    pub remedies: Vec<Remedy>,
    /// What the command in the editor needs.
    pub edited: Option<EditedNeed>,
    /// What was undone of the latest run.
    pub undone: Option<UndoneRemedy>,
    pub room_for_batch: Option<BatchRoom>,
    pub waiting: Option<String>,
    pub subject: Subject<'static>,
    pub recording: Option<PathBuf>,
    command: CommandLine,
    /// How often cudaMalloc was tried again so far.
    pub retries: u64,
    now: f64,
    run: u32,
    nvml: bool,
}

const CAPACITY: f64 = 23.6;
const CONTEXT: f64 = 0.5;

impl Story {
    pub fn new(text: &str) -> Story {
        Story::with_probe(text, true)
    }

    pub fn without_probe(text: &str) -> Story {
        Story::with_probe(text, false)
    }

    fn with_probe(text: &str, probe: bool) -> Story {
        let mut story = Story {
            state: State::default(),
            findings: Vec::new(),
            remedies: Vec::new(),
            edited: None,
            undone: None,
            room_for_batch: None,
            waiting: None,
            subject: Subject::Own,
            recording: None,
            command: command(text),
            retries: 0,
            now: 0.0,
            run: 0,
            nvml: true,
        };
        story.tell(EventKind::SessionStarted(SessionStarted {
            id: "2026-11-20-0914-gpt".into(),
            wall: 1_795_166_040.0,
            monotonic: 0,
            schema: 1,
            version: "0.1.0".into(),
            command: command(text),
            probe,
            nvml: true,
            job: None,
            host: None,
            again_of: None,
        }));
        story
    }

    /// A recording of a real training on a GPU, at its end.
    pub fn recorded(name: &str) -> Story {
        Story::recorded_but(name, |_| ())
    }

    /// With what its events say changed.
    pub fn recorded_but(name: &str, change: impl Fn(&mut Event)) -> Story {
        let file = format!("tests/replay/{name}.jsonl");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        let events = recording::read(&path).expect("the recording is there");
        let mut story = Story::new("");
        story.state = State::default();
        for event in events {
            let mut event = event.expect("a line");
            change(&mut event);
            story.state.apply(&event);
        }
        story.command = story.state.run().expect("a run").command.clone();
        story.findings = diagnose(&story.state);
        let inputs = RemedyInputs {
            forecast: ForecastInputs {
                oom: story.state.oom(),
                state: Some(&story.state),
                ..ForecastInputs::default()
            },
            findings: &story.findings,
            ..RemedyInputs::default()
        };
        story.remedies = remedies(&story.command, &inputs);
        story
    }

    pub fn tell(&mut self, what: EventKind) -> &mut Story {
        self.state.apply(&Event {
            at: Moment::from_secs_f64(self.now),
            what,
        });
        self
    }

    pub fn wait(&mut self, seconds: f64) -> &mut Story {
        self.now += seconds;
        self
    }

    pub fn with_nvml(&mut self) -> &mut Story {
        self.tell(EventKind::Nvml(NvmlState::Live {
            driver: "580.95".into(),
            devices: 1,
        }))
    }

    pub fn without_nvml(&mut self) -> &mut Story {
        self.nvml = false;
        self.tell(EventKind::Nvml(NvmlState::Unavailable {
            reason: "libnvidia-ml.so.1 is not there; is a driver installed?".into(),
        }))
    }

    pub fn start(&mut self) -> &mut Story {
        let command = self.command.clone();
        self.start_with(command, &[], None)
    }

    pub fn start_with(
        &mut self,
        command: CommandLine,
        remedies: &[&str],
        predicted: Option<f64>,
    ) -> &mut Story {
        self.run += 1;
        self.command = command.clone();
        let started = Started {
            run: RunNumber(self.run),
            pid: Pid(4_100 + self.run as i32),
            command,
            remedies: remedies.iter().map(|r| r.to_string()).collect(),
            predicted_peak: predicted.map(gib),
            prediction: None,
            numerics: None,
        };
        self.tell(EventKind::Started(started))
    }

    /// The command that the next run would have: a change was undone.
    pub fn command_again(&mut self, command: CommandLine) {
        self.command = command;
    }

    /// The process of a rank.
    pub fn pid(&self, rank: u32) -> Pid {
        Pid(4_100 + self.run as i32 + 10 * rank as i32)
    }

    pub fn hello(&mut self, rank: u32, world: u32, uuid: &str) -> &mut Story {
        let many = world > 1;
        let hello = Hello {
            pid: self.pid(rank),
            run: RunNumber(self.run),
            rank: many.then_some(Rank(rank)),
            local_rank: many.then_some(Rank(rank)),
            world_size: many.then_some(world),
            nodes: None,
            node: None,
            slurm_step: None,
            python: "3.12.3".into(),
            torch: "2.11.0+cu130".into(),
            devices: vec![ProbeDevice {
                ordinal: 0,
                uuid: Some(Uuid::new(uuid)),
                name: match uuid.starts_with("SIM-") {
                    true => "simulated GPU (24 GiB)".into(),
                    false => "NVIDIA GeForce RTX 4090".into(),
                },
                total: gib(CAPACITY),
            }],
            backend: Some("native".into()),
            alloc_conf: None,
            expandable_segments: Some(false),
            resting: None,
            wsl: false,
            rocm: false,
        };
        self.tell(EventKind::Hello(hello))
    }

    /// A device that nobody uses but the desktop.
    pub fn bare_device(&mut self, uuid: &str, used: f64) -> &mut Story {
        self.device(0, uuid, used, 0.0)
    }

    /// What the program prints: a line in colour, a bar that has overwritten itself.
    pub fn print_output(&self, output: &mut ChildScreen) {
        let Some(run) = self.state.run() else { return };
        output.feed(b"loading 124M parameters ... \x1b[32mdone\x1b[0m\r\n");
        for epoch in 1..=2 {
            let line = format!(
                "epoch {epoch}: 100%|\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}| 2931/2931 [07:43<00:00, 6.32it/s, loss=2.{epoch}41]\r\n"
            );
            output.feed(line.as_bytes());
        }
        if run.ended.is_some() {
            output.feed(
                b"\r\nTraceback (most recent call last):\r\n  File \"train.py\", line 97, in <module>\r\n    main()\r\n\x1b[1;35mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory.\r\n",
            );
        } else {
            for done in [400, 804, 1_204] {
                let line = format!(
                    "\repoch 3:  41%|\x1b[36m\u{2588}\u{2588}\u{2588}\u{258e}    \x1b[0m| {done}/2931 [03:11<04:34, 6.31it/s, loss=2.114]"
                );
                output.feed(line.as_bytes());
            }
        }
    }

    pub fn device(&mut self, index: u32, uuid: &str, used: f64, foreign: f64) -> &mut Story {
        let mut processes = vec![DeviceProcess {
            pid: self.pid(index),
            used: Some(gib(used - foreign)),
            name: Some("python".into()),
            user: Some("ada".into()),
            orphaned: false,
        }];
        if foreign > 0.0 {
            processes.push(DeviceProcess {
                pid: Pid(977),
                used: Some(gib(foreign)),
                name: Some("ollama".into()),
                user: Some("bob".into()),
                orphaned: false,
            });
        }
        self.tell(EventKind::Device(DeviceReading {
            uuid: Uuid::new(uuid),
            index,
            name: "NVIDIA GeForce RTX 4090".into(),
            total: Some(gib(CAPACITY + 0.4)),
            used: Some(gib(used)),
            free: Some(gib(CAPACITY - used)),
            driver_reserved: Some(gib(0.4)),
            processes: Some(processes),
            utilization: Some(97),
            temperature: Some(64),
            power: Some(382.0),
            lost: None,
        }))
    }

    pub fn sample(&mut self, rank: u32, allocated: f64, reserved: f64, peak: f64) -> &mut Story {
        let sample = self.sample_of(rank, allocated, reserved, peak);
        self.tell(EventKind::Sample(sample))
    }

    pub fn sample_of(&self, rank: u32, allocated: f64, reserved: f64, peak: f64) -> Sample {
        Sample {
            pid: self.pid(rank),
            device: 0,
            allocated: gib(allocated),
            reserved: gib(reserved),
            allocated_peak: gib(peak),
            reserved_peak: gib(reserved),
            active: Some(gib(allocated)),
            inactive_split: Some(gib((reserved - allocated).max(0.0) * 0.6)),
            requested: Some(gib(allocated * 0.997)),
            segments: Some(38 + (reserved * 21.0) as u64),
            small_pool: Some(Pool {
                allocated: Bytes::mib(21),
                reserved: Bytes::mib(38),
                inactive_split: Bytes::mib(11),
                segments: 19,
            }),
            alloc_retries: self.retries,
            ..Sample::default()
        }
    }

    /// A model is loaded, then it trains for some seconds; sampled ten times a second.
    pub fn train(&mut self, rank: u32, uuid: &str, shape: Shape, seconds: f64) -> &mut Story {
        let load = 4.0_f64.min(seconds / 4.0);
        let begin = self.now;
        let (mut steps, mut peak) = (0u64, 0.0_f64);
        let ticks = (seconds * 10.0) as u32;
        for tick in 0..ticks {
            let t = f64::from(tick) / 10.0;
            self.now = begin + t;
            let floor = shape.floor + shape.climb * (t - load).max(0.0);
            let wave = wave(tick);
            let (allocated, reserved) = if t < load {
                let part = t / load;
                (0.3 * shape.floor * part, 0.35 * shape.floor * part + 0.02)
            } else {
                let settled = 1.0 - (-(t - load) / 1.5).exp();
                let top = shape.peak + shape.climb * (t - load);
                (
                    floor + (top - floor) * wave,
                    (shape.reserved + shape.climb * (t - load)) * (0.8 + 0.2 * settled),
                )
            };
            let reserved = reserved.max(allocated);
            peak = peak.max(allocated);
            let mut sample = self.sample_of(rank, allocated, reserved, peak);
            sample.limit = shape.limit.map(gib);
            self.tell(EventKind::Sample(sample));
            if tick % 10 == 0 && self.nvml {
                self.device(rank, uuid, reserved + CONTEXT, 0.0);
            }
            let ended = ((t - load).max(0.0) * shape.rate) as u64;
            while steps < ended {
                steps += 1;
                self.now = begin + load + steps as f64 / shape.rate;
                self.step(rank, steps, floor, reserved, peak);
            }
        }
        self.now = begin + seconds;
        self
    }

    pub fn step(&mut self, rank: u32, count: u64, floor: f64, reserved: f64, peak: f64) {
        let reading = StepReading {
            allocated: gib(floor),
            reserved: gib(reserved),
            peak: gib(peak),
        };
        let pid = self.pid(rank);
        self.tell(EventKind::Step(Step {
            pid,
            device: 0,
            count,
            figures_of: None,
            backward: None,
            micros: 3_100,
            before: reading,
            after: reading,
        }));
        if count == 2 {
            self.structure(rank);
        }
    }

    pub fn structure(&mut self, rank: u32) -> &mut Story {
        let structure = self.structure_of(rank);
        self.tell(EventKind::Structure(structure))
    }

    pub fn structure_of(&self, rank: u32) -> Structure {
        Structure {
            pid: self.pid(rank),
            device: 0,
            parameters: gib(0.46),
            gradients: gib(0.46),
            optimizer_state: gib(0.93),
            whole: None,
        }
    }

    /// Memory runs out, as the observer and the text say it, and the program ends by it.
    pub fn oom(&mut self, record: impl FnOnce(&mut OomRecord)) -> &mut Story {
        self.oom_record(record).wait(0.6).exit(Exit::Code(1))
    }

    /// Memory runs out, and the program has not ended yet.
    pub fn oom_record(&mut self, record: impl FnOnce(&mut OomRecord)) -> &mut Story {
        let mut oom = OomRecord {
            zero: None,
            gradients: Some(gib(0.46)),
            lines_known: None,
            lines_alike: None,
            limit_line: None,
            pid: self.pid(0),
            device: 0,
            requested: gib(1.2),
            total: gib(CAPACITY),
            free: gib(0.2),
            sample: self.sample_of(0, 22.6, 22.9, 22.6),
            limit: None,
            largest_free: Some(gib(0.11)),
            free_blocks: Vec::new(),
            private_pools: Vec::new(),
            lines: vec![
                holding("train.py", 88, "forward", 11.3, 96),
                holding("train.py", 97, "step", 0.93, 296),
                holding("train.py", 41, "build", 0.46, 148),
            ],
            growing: Vec::new(),
            stack: vec![
                line("modeling_gpt2.py", 240, "mlp"),
                line("modeling_gpt2.py", 391, "forward"),
                line("train.py", 88, "forward"),
            ],
            phase: Phase::Backward,
            step: self.state.run().map_or(0, |run| run.steps()),
            grad_enabled: None,
            progress: None,
            operands: None,
            before: None,
            gathering: None,
            loading: None,
            model: None,
            structure: Some(Box::new(self.structure_of(0))),
            optimizer: None,
        };
        record(&mut oom);
        oom.sample.allocated_peak = oom.sample.allocated;
        oom.sample.reserved_peak = oom.sample.reserved;
        let (requested, sample) = (oom.requested, oom.sample.clone());
        let limit = oom.limit;
        self.tell(EventKind::Oom(oom));
        self.wait(0.3);
        self.tell(EventKind::OomText(OomReport {
            kind: OomKind::CudaOom,
            requested: Some(requested),
            total: Some(gib(CAPACITY)),
            allocated: Some(sample.allocated),
            reserved: Some(sample.reserved),
            limit,
            device: Some(0),
            ..OomReport::default()
        }))
    }

    /// The host's memory in a container of 32 GiB: all that is used, and what four workers hold of it.
    pub fn host(&mut self, used: f64, workers: f64) -> &mut Story {
        let own = used - workers;
        let main = self.pid(0);
        let process = |pid, role, name: &str, held: f64| HostProcess {
            pid,
            role,
            name: name.into(),
            resident: gib(held + 0.4),
            shared: gib(0.4),
            own: Some(gib(held)),
            locked: None,
        };
        let role = |role, count, held| RoleUse {
            role,
            count,
            held: gib(held),
            exact: true,
            mapped: gib(held),
        };
        let worker = |n: i32| {
            let pid = Pid(main.0 + 10 + n);
            let held = workers / 4.0 + 0.1 * f64::from(2 - n);
            process(pid, HostRole::LoaderWorker, "pt_data_worker", held)
        };
        self.tell(EventKind::HostMemory(Box::new(HostMemory {
            used: gib(used),
            limit: Bytes::gib(32),
            limited_by: LimitedBy::Container,
            cache: Some(gib(3.2)),
            shared: Some(gib(1.1)),
            shm: Some(ShmUse {
                used: gib(1.1),
                size: Bytes::gib(16),
            }),
            roles: vec![
                role(HostRole::LoaderWorker, 4, workers),
                role(HostRole::Rank, 1, own),
            ],
            processes: [process(main, HostRole::Rank, "python", own)]
                .into_iter()
                .chain((0..4).map(worker))
                .collect(),
            ..HostMemory::default()
        })))
    }

    /// What is found of it by the rules themselves, and what is offered.
    pub fn diagnosed(&mut self) -> &mut Story {
        self.findings = diagnose(&self.state);
        let inputs = RemedyInputs {
            forecast: ForecastInputs {
                oom: self.state.oom(),
                state: Some(&self.state),
                ..ForecastInputs::default()
            },
            findings: &self.findings,
            ..RemedyInputs::default()
        };
        self.remedies = remedies(&self.command, &inputs);
        self
    }

    pub fn exit(&mut self, exit: Exit) -> &mut Story {
        for rank in 0..self.state.run().map_or(0, |run| run.ranks.len()) as u32 {
            let pid = self.pid(rank);
            self.tell(EventKind::ProbeGone(ProbeGone {
                pid,
                reason: None,
                said_end: false,
            }));
        }
        let run = RunNumber(self.run);
        self.tell(EventKind::Exited(Exited {
            run,
            exit,
            left: Vec::new(),
        }))
    }

    /// The headline's figures stand behind its first colon.
    pub fn find(&mut self, cause: Cause, headline: &str, explanation: &str) -> &mut Story {
        self.findings.push(Finding {
            cause,
            certainty: Certainty::Certain,
            headline: parted(headline, ": "),
            explanation: explanation.into(),
            evidence: vec![
                evidence("allocated", 22.6),
                evidence("requested", 1.2),
                evidence("cached", 0.3),
                evidence("capacity", CAPACITY),
            ],
            place: None,
            line: None,
            retainer: None,
            kept_earlier: None,
            request: None,
            advice: vec!["Shorten the sequences, or accumulate gradients in the script.".into()],
            device: None,
            rank: None,
            ranks: None,
            other_process: None,
            too_large_by: None,
            leaked: None,
        });
        self
    }

    /// What is to be changed stands in this line of the program.
    pub fn place_in_code(&mut self, line: SourceLine) -> &mut Story {
        if let Some(finding) = self.findings.first_mut() {
            finding.place = Some(line.place());
            finding.line = Some(line);
        }
        self
    }

    pub fn scene<R>(&self, with: impl FnOnce(&Scene) -> R) -> R {
        with(&Scene {
            state: &self.state,
            findings: &self.findings,
            remedies: &self.remedies,
            command: Some(&self.command),
            launch: LaunchEnvironment {
                told: self.state.knobs.as_ref(),
                ..LaunchEnvironment::default()
            },
            edited: self.edited.as_ref(),
            undone: self.undone.as_ref(),
            room_for_batch: self
                .room_for_batch
                .map_or(RoomForBatch::Unknown, RoomForBatch::Known),
            waiting: self.waiting.as_deref(),
            recording: self.recording.as_deref(),
            subject: self.subject,
        })
    }

    /// A view of this session on a screen, gone along with what has happened.
    pub fn view(&self, theme: Theme, width: u16, height: u16) -> View {
        let mut view = View::new(theme, width, height);
        self.scene(|scene| view.sync(scene));
        view
    }
}

/// How far into its peak a step is at a sample: steps and samples do not keep time.
fn wave(tick: u32) -> f64 {
    let mixed = tick.wrapping_mul(2_654_435_761) >> 20;
    f64::from(mixed % 1_000) / 1_000.0
}

fn evidence(what: &str, n: f64) -> Evidence {
    Evidence {
        what: what.into(),
        bytes: gib(n),
    }
}

fn line(file: &str, line: u32, function: &str) -> SourceLine {
    SourceLine {
        file: format!("/home/ada/gpt/{file}"),
        line,
        function: function.into(),
    }
}

fn holding(file: &str, number: u32, function: &str, n: f64, blocks: u64) -> LineUsage {
    LineUsage {
        line: line(file, number, function),
        inside: (blocks == 96).then(|| line("modeling_gpt2.py", 240, "mlp")),
        bytes: gib(n),
        blocks,
        kind: None,
    }
}

/// Words of which everything from the first `joint` on can be left out.
pub fn parted(words: &str, joint: &str) -> Phrase {
    match words.split_once(joint) {
        Some((first, more)) => Phrase::from(first).and(joint, more),
        None => words.into(),
    }
}

/// Words of which each clause behind the first can be left out.
pub fn clauses(words: &str) -> Phrase {
    let each = words.split("; ");
    each.fold(Phrase::default(), |said, clause| said.and("; ", clause))
}
