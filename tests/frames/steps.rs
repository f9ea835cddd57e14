//! Traced steps of a made-up transformer: weights and optimizer state that stay, activations that
//! pile up and are freed, gradients that come in their place, an optimizer's temporaries.

use crate::frames::cases::{GPU, STEADY};
use crate::frames::story::{Shape, Story, gib};
use oomph::event::{
    BlockOrigin, EventKind, LineText, MemoryKind, Phase, PhaseStart, Retainer, RetainerKind,
    Retainers, SourceLine, SourceText, StepTrace,
};
use oomph::units::Bytes;

/// Of most steps here.
const LAYERS: usize = 12;

/// What is made of the usual batch: the run that is staged around such a step peaks at 14.7 GiB.
const USUAL: f64 = 0.5;

/// A step in the making: blocks have numbers, those alive at its beginning first.
#[derive(Default)]
struct Maker {
    carried: Vec<String>,
    words: Vec<String>,
    origins: Vec<BlockOrigin>,
    of_blocks: Vec<String>,
    /// The names of modules, the number of the one that is running, and those of the blocks.
    modules: Vec<String>,
    running: usize,
    in_modules: Vec<String>,
    phases: Vec<PhaseStart>,
}

impl Maker {
    /// The number of an origin, from 1.
    fn origin(&mut self, line: SourceLine, inside: SourceLine, kind: Option<MemoryKind>) -> usize {
        self.origins.push(BlockOrigin {
            line: Some(line),
            inside: Some(inside),
            kind,
        });
        self.origins.len()
    }

    /// From now on this module allocates; none if it has no name.
    fn within(&mut self, module: &str) {
        self.running = match self.modules.iter().position(|name| name == module) {
            Some(known) => known + 1,
            None if module.is_empty() => 0,
            None => {
                self.modules.push(module.into());
                self.modules.len()
            }
        };
    }

    fn carry(&mut self, bytes: Bytes, origin: usize) {
        self.in_modules.push(self.running.to_string());
        self.carried.push(bytes.0.to_string());
        self.of_blocks.push(origin.to_string());
    }

    fn allocate(&mut self, bytes: Bytes, origin: usize) -> usize {
        self.words.push(bytes.0.to_string());
        self.in_modules.push(self.running.to_string());
        self.of_blocks.push(origin.to_string());
        self.of_blocks.len() - 1
    }

    fn free(&mut self, block: usize) {
        self.words
            .push(format!("-{}", self.of_blocks.len() - block));
    }

    fn begin(&mut self, phase: Phase) {
        let from = self.words.len();
        self.phases.push(PhaseStart { phase, from });
    }
}

fn line(file: &str, line: u32, function: &str) -> SourceLine {
    SourceLine {
        file: format!("/home/ada/gpt/{file}"),
        line,
        function: function.into(),
    }
}

/// One step with so many times the usual batch.
pub fn made(step: u64, batch: f64) -> StepTrace {
    made_of(step, batch, LAYERS, None)
}

/// `left` are the earlier steps that have left an output of each layer behind, if this one does so too.
fn made_of(step: u64, batch: f64, layers: usize, left: Option<usize>) -> StepTrace {
    let mut maker = Maker::default();
    let weights = maker.origin(
        line("train.py", 41, "build"),
        line("linear.py", 106, "__init__"),
        Some(MemoryKind::Parameters),
    );
    let moments = maker.origin(
        line("train.py", 97, "main"),
        line("adamw.py", 148, "_init_group"),
        Some(MemoryKind::OptimizerState),
    );
    let tokens = maker.origin(
        line("data.py", 22, "next_batch"),
        line("_tensor.py", 310, "to"),
        None,
    );
    let scores = maker.origin(
        line("model.py", 58, "attend"),
        line("functional.py", 5_912, "softmax"),
        None,
    );
    let values = maker.origin(
        line("model.py", 61, "attend"),
        line("linear.py", 125, "forward"),
        None,
    );
    let hidden = maker.origin(
        line("model.py", 74, "mlp"),
        line("functional.py", 5_204, "gelu"),
        None,
    );
    let norm = maker.origin(
        line("model.py", 80, "forward"),
        line("normalization.py", 217, "forward"),
        None,
    );
    let logits = maker.origin(
        line("train.py", 88, "main"),
        line("functional.py", 3_494, "cross_entropy"),
        None,
    );
    let gradients = maker.origin(
        line("train.py", 92, "main"),
        line("graph.py", 824, "_engine_run_backward"),
        Some(MemoryKind::Gradients),
    );
    let update = maker.origin(
        line("train.py", 97, "main"),
        line("adamw.py", 412, "_multi_tensor_adamw"),
        None,
    );
    for n in 0..4 * layers {
        let part = ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"][n % 4];
        maker.within(&format!("transformer.h.{}.{part}", n / 4));
        maker.carry(gib(0.03), weights);
        maker.carry(gib(0.03), moments);
        maker.carry(gib(0.03), moments);
    }
    maker.within("");
    for _ in 0..left.unwrap_or(0) * layers {
        maker.carry(gib(0.008), hidden);
    }
    maker.begin(Phase::Forward);
    let batch_of = |n: f64| gib(n * batch * USUAL);
    let inputs = maker.allocate(batch_of(0.02), tokens);
    let mut kept = Vec::new();
    for n in 0..layers {
        maker.within(&format!("transformer.h.{n}.ln_1"));
        let mut layer = vec![maker.allocate(batch_of(0.08), norm)];
        for head in 0..6 {
            maker.within(&format!("transformer.h.{n}.attn"));
            let scratch = maker.allocate(batch_of(0.1), scores);
            layer.push(maker.allocate(batch_of(0.09), scores));
            layer.push(maker.allocate(batch_of(0.02), values));
            maker.free(scratch);
            if head % 2 == 0 {
                maker.within(&format!("transformer.h.{n}.mlp.c_fc"));
                layer.push(maker.allocate(batch_of(0.04), hidden));
            }
        }
        maker.within(&format!("transformer.h.{n}.mlp.act"));
        layer.push(maker.allocate(batch_of(0.3), hidden));
        if left.is_some() {
            maker.allocate(gib(0.008), hidden);
        }
        kept.push(layer);
    }
    maker.within("lm_head");
    let scratch = maker.allocate(batch_of(0.9), logits);
    maker.within("");
    let loss = maker.allocate(batch_of(1.1), logits);
    maker.begin(Phase::Backward);
    let soft = maker.allocate(batch_of(1.1), 0);
    maker.free(scratch);
    maker.free(loss);
    let mut made = Vec::new();
    for (layer_of, layer) in kept.into_iter().enumerate().rev() {
        maker.within(&format!("transformer.h.{layer_of}.mlp.c_fc"));
        for (n, block) in layer.into_iter().enumerate() {
            let scratch = maker.allocate(batch_of(0.05), 0);
            maker.free(block);
            if n % 5 == 0 {
                made.push(maker.allocate(gib(0.03), gradients));
            }
            maker.free(scratch);
        }
    }
    maker.free(soft);
    maker.within("");
    maker.begin(Phase::Optimizer);
    for _ in 0..layers {
        let scratch = [0.06, 0.06].map(|n| maker.allocate(gib(n), update));
        scratch.into_iter().for_each(|block| maker.free(block));
    }
    maker.free(inputs);
    for gradient in made {
        maker.free(gradient);
    }
    StepTrace {
        step,
        trace: format!("{} | {}", maker.carried.join(" "), maker.words.join(" ")),
        phases: maker.phases,
        origins: maker.origins,
        blocks: maker.of_blocks.join(" "),
        modules: maker.modules,
        block_modules: maker.in_modules.join(" "),
        ..StepTrace::default()
    }
}

/// The same up to one of its events, where memory ran out.
fn broken_off(trace: StepTrace, events: usize) -> StepTrace {
    let (carried, words) = trace.trace.split_once(" | ").unwrap();
    let words: Vec<&str> = words.split(' ').take(events).collect();
    let made = words.iter().filter(|word| !word.starts_with('-')).count();
    let blocks = carried.split(' ').count() + made;
    let first = |text: &str| {
        text.split(' ')
            .take(blocks)
            .collect::<Vec<&str>>()
            .join(" ")
    };
    let (of_blocks, in_modules) = (first(&trace.blocks), first(&trace.block_modules));
    StepTrace {
        failed: true,
        trace: format!("{carried} | {}", words.join(" ")),
        blocks: of_blocks,
        block_modules: in_modules,
        phases: trace
            .phases
            .into_iter()
            .filter(|start| start.from < events)
            .collect(),
        ..trace
    }
}

impl Story {
    /// It was looked for who keeps a rank's memory alive.
    pub fn retained(&mut self, rank: u32) -> &mut Story {
        self.retained_as_far_as(rank, None)
    }

    /// The same, by a search that left something out.
    pub fn retained_as_far_as(&mut self, rank: u32, left: Option<&str>) -> &mut Story {
        let found = Retainers {
            pid: self.pid(rank),
            step: 88,
            retainers: retainers(),
            looked_for: gib(9.0),
            unexplained: gib(0.35),
            micros: 140_000,
            left: left.map(String::from),
            ..Retainers::default()
        };
        self.tell(EventKind::Retainers(Box::new(found)))
    }

    /// A step of a rank was traced.
    pub fn traced(&mut self, rank: u32, trace: StepTrace) -> &mut Story {
        let pid = self.pid(rank);
        self.tell(EventKind::StepTrace(Box::new(StepTrace { pid, ..trace })));
        let texts = TEXTS.map(|(file, line, text)| LineText {
            file: format!("/home/ada/gpt/{file}"),
            line,
            text: text.into(),
        });
        let run = self.state.run().map(|run| run.number);
        self.tell(EventKind::SourceText(Box::new(SourceText {
            run: run.unwrap_or_default(),
            lines: texts.into(),
        })))
    }
}

/// What the lines say, but those of one file that could not be read.
const TEXTS: [(&str, u32, &str); 7] = [
    ("train.py", 41, "model = GPT(config).to(device)"),
    (
        "train.py",
        88,
        "loss = F.cross_entropy(model(tokens), labels)",
    ),
    ("train.py", 97, "optimizer.step()"),
    (
        "model.py",
        58,
        "weights = F.softmax(q @ k.transpose(-2, -1) * self.scale + mask, dim=-1)",
    ),
    (
        "model.py",
        61,
        "return self.c_proj((weights @ v).transpose(1, 2).reshape(batch, length, width))",
    ),
    ("model.py", 74, "return self.c_proj(F.gelu(self.c_fc(x)))"),
    ("model.py", 80, "x = x + self.attend(self.ln_1(x))"),
];

/// Two steps were traced, the later one of an outlier batch.
pub fn two_steps() -> Story {
    let mut story = Story::new("python train.py --batch-size 32 --grad-accum 2");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 6.0);
    story.traced(0, made(3, 1.0));
    story.train(0, GPU, STEADY, 60.0);
    story.traced(0, made(352, 1.2));
    story
}

/// A step of nearly as many events as are traced at most.
pub fn long_step() -> Story {
    let mut story = two_steps();
    story.traced(0, made_of(352, 0.1, 210, None));
    story
}

/// Every step keeps an output of each layer: two steps were traced, and who keeps them was looked for.
pub fn leaking() -> Story {
    let mut story = Story::new("python train.py --batch-size 32 --grad-accum 2");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    // 96 MiB with each of its 88 steps.
    let shape = Shape {
        peak: 14.0,
        reserved: 14.4,
        climb: 0.094 * STEADY.rate,
        ..STEADY
    };
    story.train(0, GPU, shape, 18.0);
    story.traced(0, made_of(3, 1.0, LAYERS, Some(2)));
    story.traced(0, made_of(88, 1.0, LAYERS, Some(87)));
    story.retained(0);
    story
}

/// Who keeps memory alive: a list of a running function, and an attribute.
pub fn retainers() -> Vec<Retainer> {
    let outputs = Retainer {
        name: "outputs".into(),
        kind: RetainerKind::Local,
        of: "main".into(),
        class: "list".into(),
        length: Some(88),
        line: Some(line("train.py", 93, "main")),
        bytes: gib(8.25),
        below: vec!["tuple of 12".into(), "Tensor object".into()],
        ..Retainer::default()
    };
    let history = Retainer {
        name: "history[\"loss\"]".into(),
        kind: RetainerKind::Attribute,
        of: "Meter".into(),
        length: Some(88),
        line: Some(line("meter.py", 17, "update")),
        bytes: gib(0.4),
        graph: gib(0.39),
        above: vec![
            "dict of 3".into(),
            "Meter object".into(),
            "meter in train.py:61 main".into(),
        ],
        ..outputs.clone()
    };
    vec![outputs, history]
}

/// A step of the second of two ranks.
pub fn of_a_rank() -> Story {
    let mut story = Story::new("torchrun --nproc_per_node 2 train.py --batch-size 32");
    story.with_nvml().start().wait(1.5);
    for rank in 0..2 {
        story.hello(rank, 2, &format!("{GPU}-{rank}"));
        story.train(rank, &format!("{GPU}-{rank}"), STEADY, 3.0);
        story.traced(rank, made(3, 0.9 + f64::from(rank) / 10.0));
    }
    story
}

/// The first step ran out of memory a moment after the program came to the GPU.
pub fn ran_out_at_once() -> Story {
    let mut story = Story::new("python train.py --batch-size 64");
    story.with_nvml().start().wait(1.2).hello(0, 1, GPU);
    story.device(0, GPU, 9.8, 0.0).sample(0, 9.1, 9.3, 9.1);
    story.wait(0.2).device(0, GPU, 23.4, 0.0);
    story.sample(0, 22.6, 22.9, 22.6);
    story.traced(0, broken_off(made(1, 3.61), 254));
    story.oom(|record| record.step = 0);
    story
}

/// A traced step ran out of memory, and the training ended by it.
pub fn ran_out() -> Story {
    let mut story = crate::frames::cases::first_run();
    story.traced(0, made(3, 2.0));
    story.traced(0, broken_off(made(88, 3.61), 254));
    story.oom(|_| {});
    story
}
