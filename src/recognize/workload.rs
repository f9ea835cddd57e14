//! What in a command the memory depends on: the per-device batch, whether gradients are live during
//! a forward pass, and everything else as a text that is the same for the same program with another
//! batch.

use super::argument::{Arguments, Hit, Name};
use super::batch::{self, Place};
use super::family;
use super::knob;
use super::launch::LaunchEnvironment;
use super::program::ProgramEntry;
use super::recognized::Recognized;
use crate::command::{CommandLine, Word};
use crate::event::EDITS;

/// A command as the memory model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadKey {
    /// Samples (or whatever the argument counts) per device and forward pass; 1 if the command does
    /// not set it, so that such commands are only compared with each other.
    pub at_once: u64,
    /// Micro-batches per step; 1 if the command does not set it.
    pub accumulation: u64,
    /// The batch as the command has it, or else as the program's process or its text say what sets it; `None` if neither is
    /// known.
    pub batch: Option<u64>,
    /// The rest of the command. Variables typed before the command count too, except those that only
    /// configure the allocator.
    pub likeness: String,
}

impl WorkloadKey {
    /// Of a command that is not at hand as [`Recognized`]: of an earlier run or a recording.
    pub fn new(command: &CommandLine, launch: &LaunchEnvironment<'_>) -> WorkloadKey {
        Recognized::new(command, launch).workload()
    }

    /// Whether gradients are live while a forward pass runs.
    pub fn keeps_gradients(&self) -> bool {
        self.accumulation > 1
    }
}

impl Recognized<'_> {
    pub fn workload(&self) -> WorkloadKey {
        let batch = self.batch().map(|batch| batch.value);
        // The per-device batch may be the batch divided by something.
        let source = self.batch_source().ok();
        let at_once = source.as_ref().map(|source| source.at_once).or(batch);
        let arguments = self.opened().ok();
        let steps = match (&arguments, self.known) {
            (None, _) => Vec::new(),
            (Some(arguments), None) => family::accumulations(arguments),
            (Some(arguments), Some(entry)) => {
                let names = entry.accumulation.names.iter();
                names
                    .flat_map(|name| batch::hits(arguments, name, entry))
                    .collect()
            }
        };
        let told = self.launch.told.zip(source.as_ref());
        let told = told.map(|(told, source)| knob::options(source, told));
        // In the program's own text it is no word of the command.
        let in_text = source.iter().flat_map(|source| &source.steps);
        let in_text = in_text.filter(|knob| matches!(knob.place, Place::Literal(_)));
        let in_text = in_text.map(|knob| knob.value).next();
        let number = |hit: &Hit<'_>| hit.value.and_then(|value| value.text.parse::<u64>().ok());
        WorkloadKey {
            at_once: at_once.unwrap_or(1).max(1),
            accumulation: steps
                .iter()
                .rev()
                .find_map(number)
                .or(in_text)
                .or_else(|| self.launch.told.and_then(knob::accumulation))
                .unwrap_or(1)
                .max(1),
            batch: batch.or(at_once),
            likeness: likeness(
                self.command,
                arguments.as_ref(),
                self.known,
                &steps,
                &told.unwrap_or_default(),
            ),
        }
    }
}

/// The command without the batch's value, without accumulation, which a remedy may have added, and without what no tensor's size
/// depends on.
fn likeness(
    command: &CommandLine,
    arguments: Option<&Arguments<'_>>,
    known: Option<&ProgramEntry>,
    steps: &[Hit<'_>],
    told: &[&str],
) -> String {
    let mut words: Vec<Option<String>> = command
        .argv
        .iter()
        .map(|word| Some(word.to_string_lossy()))
        .collect();
    if let Some(arguments) = arguments {
        for (_, hit) in batch::candidates(arguments, known) {
            if let Some(value) = hit.value
                && let Some(Some(word)) = words.get_mut(value.at)
                && word.get(value.from..value.from + value.text.len()) == Some(value.text)
            {
                word.replace_range(value.from..value.from + value.text.len(), "#");
            }
        }
        // What was found by its number may be a default in one run, and typed in the next.
        let told = told
            .iter()
            .flat_map(|option| arguments.find(Name::new(option)));
        let removed = steps.iter().copied().chain(told);
        let removed: Vec<Hit<'_>> = removed.chain(family::sizeless(arguments)).collect();
        for hit in removed.iter().filter(|_| arguments.nested.is_none()) {
            for token in &arguments.tokens[hit.token..hit.end().min(arguments.tokens.len())] {
                words[token.at] = None;
            }
        }
    }
    let mut text = String::new();
    for change in &command.env {
        let name = change.name.to_string_lossy();
        if !only_for_the_allocator(&name) && family::batch_level(&name).is_none() && name != EDITS {
            let value = change.value.as_ref().map(Word::to_string_lossy);
            text.push_str(&format!("{name}={}\u{1f}", value.unwrap_or_default()));
        }
    }
    for word in words.into_iter().flatten() {
        text.push_str(&word);
        text.push('\u{1f}');
    }
    text
}

/// The size of tensors does not depend on these.
fn only_for_the_allocator(name: &str) -> bool {
    matches!(name, "PYTORCH_CUDA_ALLOC_CONF" | "PYTORCH_ALLOC_CONF")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> WorkloadKey {
        let mut words = text.split(' ').map(Word::from).peekable();
        let mut command = CommandLine {
            argv: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
        };
        if let Some((name, value)) = words.peek().and_then(|word| word.as_str()?.split_once('=')) {
            let (name, value) = (name.to_string(), Word::from(value));
            command.set_env(&name, Some(value));
            words.next();
        }
        command.argv = words.collect();
        WorkloadKey::new(&command, &LaunchEnvironment::default())
    }

    #[test]
    fn the_batch_and_the_accumulation_are_read() {
        for (text, at_once, accumulation) in [
            ("python t.py --batch-size 64", 64, 1),
            ("python t.py --batch-size=64 --grad-accum 4", 64, 4),
            ("python t.py --lr 0.1", 1, 1),
            ("python t.py --batch-size 1", 1, 1),
        ] {
            let reading = read(text);
            assert_eq!(
                (reading.at_once, reading.accumulation),
                (at_once, accumulation),
                "{text}"
            );
        }
    }

    #[test]
    fn what_the_program_calls_its_accumulation_counts_where_no_word_sets_it() {
        let read = |text: &str, names: &[(&str, u64)]| {
            let named = |&(name, value): &(&str, u64)| crate::event::NamedNumber {
                name: name.into(),
                value,
                ..Default::default()
            };
            let told = crate::event::Knobs {
                names: names.iter().map(named).collect(),
                ..Default::default()
            };
            let launch = LaunchEnvironment {
                told: Some(&told),
                ..LaunchEnvironment::default()
            };
            WorkloadKey::new(&CommandLine::typed(text), &launch).accumulation
        };
        let name = "gradient_accumulation_steps";
        assert_eq!(read("python t.py -b 8", &[("n", 7), (name, 40)]), 40);
        assert_eq!(read("python t.py -b 8 --grad-accum 4", &[(name, 40)]), 4);
        let different = [(name, 40), ("config.grad_accum", 8)];
        assert_eq!(read("python t.py -b 8", &different), 1, "which one is open");
    }

    #[test]
    fn the_same_program_is_known_with_another_batch() {
        let like = |a: &str, b: &str| read(a).likeness == read(b).likeness;
        assert!(like(
            "python t.py --batch-size 64 --lr 1",
            "python t.py --batch-size 32 --grad-accum 2 --lr 1"
        ));
        assert!(like(
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python t.py -b 8",
            "python t.py -b 8"
        ));
        assert!(!like("python t.py -b 8 --lr 1", "python t.py -b 8 --lr 2"));
        assert!(!like("python t.py -b 8", "python t.py -b 8 --amp"));
        assert!(like(
            "python t.py --batch-size 8 --epochs 3 --output-dir a --seed=1",
            "python t.py --max_steps 60 --batch-size 16"
        ));
        assert!(!like("python t.py -b 8 --num-steps 64", "python t.py -b 8"));
        assert!(!like("A=1 python t.py -b 8", "python t.py -b 8"));
    }
}
