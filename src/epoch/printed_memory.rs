//! What a program prints of its own memory, each time with the step that it is of: `step 24/60, …, allocated 8.56, … GiB`.
//!
//! In a log that is all that shows whether memory grew from step to step. What is allocated counts; a peak or what is reserved only
//! ever rises, also where nothing grows.

use super::losses;
use crate::oom::{LineReader, LineSplitter, RawLine, Words};
use crate::units::Bytes;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// A line is looked at no further.
const LOOKED_AT: usize = 1_024;

/// So many are kept; of more every second one goes.
const MOST: usize = 512;

/// The optimizer's state comes with the first steps: without them, if so many others are left.
const FIRST_STEPS: u64 = 3;

/// A line goes through any two.
const FEWEST: usize = 3;

/// The slope between two neighbours is at most so many times the slope of all, and that at most so many times it.
const STEADY: f64 = 1.5;

/// What is allocated has grown at least so many times: by less it may be the sizes of the inputs.
const GROWN: f64 = 1.5;

fn compiled(text: &str) -> Regex {
    Regex::new(text).expect("it is an expression")
}

static HINT: LazyLock<Words> = LazyLock::new(|| Words::of(compiled("(?i-u)alloc")));

/// `allocated 8.56`, `memory_allocated: 8.56 GiB`, `mem_alloc=8560MiB`, `gpu mem allocated (GB): 8.56`.
static ALLOCATED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?i-u)(?P<before>(?:^|[\w /.-]{0,24}[^a-zA-Z]))alloc(?:ated)?['"]?\s*(?:\(?(?P<named>[KMGT]i?B)\)?)?['"]?\s*[:=]?\s*(?P<n>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]i?B)?\b"#,
    )
});

/// The unit of a list of figures stands behind its last: `allocated 0.82, reserved 5.99, peak 5.65 GiB`.
static LATER_UNIT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?i-u)\d\s*(?P<unit>[KMGT]i?B)\b"));

/// What only ever rises.
static HIGHEST: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i-u)max|peak|highest"));

/// What was allocated in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrintedMemory {
    step: u64,
    allocated: Bytes,
}

/// From chunks of a byte stream to what its lines say of memory.
#[derive(Debug)]
pub struct MemoryLines {
    lines: LineSplitter,
    seen: Vec<PrintedMemory>,
}

impl Default for MemoryLines {
    fn default() -> MemoryLines {
        MemoryLines {
            lines: LineSplitter::new(&HINT),
            seen: Vec::new(),
        }
    }
}

impl MemoryLines {
    pub fn feed(&mut self, chunk: &[u8]) {
        let MemoryLines { lines, seen } = self;
        lines.feed(chunk, &mut MemoryReader { seen });
    }

    /// The stream has ended: what its lines show.
    pub fn finish(mut self) -> PrintedTrend {
        let MemoryLines { lines, seen } = &mut self;
        lines.finish(&mut MemoryReader { seen });
        PrintedTrend::of(&self.seen)
    }
}

struct MemoryReader<'a> {
    seen: &'a mut Vec<PrintedMemory>,
}

impl LineReader for MemoryReader<'_> {
    fn wants_every_line(&self) -> bool {
        false
    }

    fn read(&mut self, line: RawLine<'_>) {
        let Some(said) = read(&line.bytes[..line.bytes.len().min(LOOKED_AT)]) else {
            return;
        };
        match self.seen.last() {
            // Another process's line, or the bar drawn again.
            Some(last) if last.step == said.step => return,
            // Another run begins, or another epoch counts anew.
            Some(last) if said.step < last.step => self.seen.clear(),
            Some(_) | None => {}
        }
        self.seen.push(said);
        if self.seen.len() > MOST {
            let mut keeps = false;
            self.seen.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
    }
}

fn read(line: &[u8]) -> Option<PrintedMemory> {
    let step = losses::step_of(line)?;
    let found = (ALLOCATED.captures_iter(line))
        .find(|found| !HIGHEST.is_match(found.name("before").map_or(b"", |m| m.as_bytes())))?;
    let text = |name| std::str::from_utf8(found.name(name)?.as_bytes()).ok();
    let number = text("n")?;
    let later = || {
        let rest = line.get(found.name("n")?.start()..)?;
        let unit = LATER_UNIT.captures(rest)?.name("unit")?.as_bytes();
        std::str::from_utf8(unit).ok()
    };
    let unit = text("unit").or_else(|| text("named")).or_else(later)?;
    Some(PrintedMemory {
        step,
        allocated: Bytes::parse(&format!("{number} {unit}"))?,
    })
}

/// What a log's lines show of memory over the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedTrend {
    /// It prints nothing of it.
    Unsaid,
    /// It prints it, and it does not grow with the steps, or too little of it to tell.
    Flat,
    Grows(PrintedGrowth),
}

/// It grew steadily, from one step to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintedGrowth {
    pub from_step: u64,
    pub to_step: u64,
    pub from: Bytes,
    pub to: Bytes,
}

impl PrintedGrowth {
    pub fn grown(&self) -> Bytes {
        self.to - self.from
    }

    pub fn per_step(&self) -> Bytes {
        Bytes(self.grown().0 / (self.to_step - self.from_step).max(1))
    }
}

impl PrintedTrend {
    fn of(all: &[PrintedMemory]) -> PrintedTrend {
        let later = all.partition_point(|said| said.step <= FIRST_STEPS);
        let all = match &all[later..] {
            later if later.len() >= FEWEST => later,
            _ => all,
        };
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return PrintedTrend::Unsaid;
        };
        let growth = PrintedGrowth {
            from_step: first.step,
            to_step: last.step,
            from: first.allocated,
            to: last.allocated,
        };
        let is_much = last.allocated > first.allocated.scale(GROWN);
        match all.len() >= FEWEST && is_much && is_steady(all) {
            true => PrintedTrend::Grows(growth),
            false => PrintedTrend::Flat,
        }
    }
}

/// Whether it grows about as fast in each third of the lines: what levels off, or jumps once, is no leak.
fn is_steady(all: &[PrintedMemory]) -> bool {
    let slope = |from: &PrintedMemory, to: &PrintedMemory| {
        let grown = to.allocated.0 as f64 - from.allocated.0 as f64;
        grown / (to.step - from.step).max(1) as f64
    };
    let last = all.len() - 1;
    let whole = slope(&all[0], &all[last]);
    let parts = last.min(3);
    let at = |n: usize| &all[last * n / parts];
    (0..parts).all(|n| {
        let part = slope(at(n), at(n + 1));
        part <= whole * STEADY && part * STEADY >= whole
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(lines: &str) -> PrintedTrend {
        let mut reader = MemoryLines::default();
        for chunk in lines.as_bytes().chunks(7) {
            reader.feed(chunk);
        }
        reader.finish()
    }

    #[test]
    fn what_is_printed_of_memory_has_its_step_and_its_unit() {
        let gib = |gib: f64| Bytes::gib(1).scale(gib);
        for (line, step, bytes) in [
            (
                "step 24/60, 11.3 it/s, loss 3.3, allocated 8.5, reserved 14.5, peak 13.7 GiB",
                24,
                gib(8.5),
            ),
            ("iter 12: loss 2.1 memory_allocated: 2.5 GiB", 12, gib(2.5)),
            ("step 3 of 9  cuda allocated=1.5GB", 3, gib(1.5)),
            ("Iteration: 7 | mem_alloc=512MiB", 7, Bytes::mib(512)),
            ("step=9 gpu mem allocated (GiB): 4.0", 9, gib(4.0)),
        ] {
            let read = read(line.as_bytes()).expect(line);
            assert_eq!((read.step, read.allocated), (step, bytes), "{line}");
        }
        for line in [
            "step 3, max allocated 8.5 GiB",
            "step 3, max memory allocated: 8.5 GiB",
            "allocated 8.5 GiB",
            "step 3, allocated 8.5",
            "step 3, reserved 9 GiB",
        ] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_grows_with_each_step_is_told_from_what_does_not() {
        let of = |figures: &[(u64, f64)]| {
            let line = |(step, gib): &(u64, f64)| format!("step {step}, allocated {gib} GiB\n");
            trend(&figures.iter().map(line).collect::<String>())
        };
        let PrintedTrend::Grows(growth) = of(&[(1, 0.82), (24, 8.56), (46, 15.97)]) else {
            panic!("it grows");
        };
        assert_eq!((growth.from_step, growth.to_step), (1, 46));
        assert_eq!(growth.grown().to_string(), "15.1 GiB");
        assert_eq!(growth.per_step().to_string(), "345 MiB");
        // The optimizer's state came, and then nothing.
        let levels = [(1, 1.0), (10, 4.0), (20, 4.0), (30, 4.1)];
        assert_eq!(of(&levels), PrintedTrend::Flat);
        // Inputs of other sizes.
        let varied = [(10, 4.0), (20, 6.0), (30, 3.0), (40, 7.0)];
        assert_eq!(of(&varied), PrintedTrend::Flat);
        assert_eq!(of(&[(10, 1.0), (20, 9.0)]), PrintedTrend::Flat);
        assert_eq!(trend("step 3, loss 2.1\n"), PrintedTrend::Unsaid);
        // A second run counts anew.
        let again = [(10, 1.0), (20, 5.0), (1, 1.0), (10, 1.1), (20, 1.1)];
        assert_eq!(of(&again), PrintedTrend::Flat);
    }

    #[test]
    fn of_many_lines_a_part_is_kept() {
        let lines: String = (10..20_000)
            .map(|step| format!("step {step}, allocated {} MiB\n", 1_000 + step))
            .collect();
        let mut reader = MemoryLines::default();
        reader.feed(lines.as_bytes());
        assert!(reader.seen.len() <= MOST);
        let PrintedTrend::Grows(growth) = reader.finish() else {
            panic!("it grows");
        };
        assert!(
            growth.from_step == 10 && growth.to_step > 19_900,
            "{growth:?}"
        );
        assert_eq!(growth.per_step(), Bytes::mib(1));
    }
}
