//! The number that sets an evaluation's batch, where memory ran out in one: an argument, a setting or a constant of its own, by
//! its name and the sizes that the evaluation's model was given.

use super::{Origin, ToldNumbers, knob};
use crate::event::Knobs;
use crate::recognize::argument::Arguments;
use crate::recognize::batch::{BatchSource, Knob, Place, WholeBatch};
use crate::recognize::family;
use crate::recognize::recognized::Recognized;

/// What an evaluation's batch is set by.
#[derive(Debug)]
pub(crate) enum EvaluationBatch<'a> {
    /// A number of its own, which leaves the training as it is.
    Own(BatchSource<'a>),
    /// As far as is known, what sets the training's.
    Shared,
    /// It already takes one sample at a time.
    OneSample(String),
    /// One of several numbers of its own, by this sentence.
    NotSure(String),
}

impl<'c> Recognized<'c> {
    /// What sets the batch of the evaluation that memory ran out in.
    pub(crate) fn evaluation_batch(&self) -> EvaluationBatch<'c> {
        let (Some(told), Ok(arguments)) = (self.launch.told, self.opened()) else {
            return EvaluationBatch::Shared;
        };
        if told.evaluated && told.is_one_sample() {
            return EvaluationBatch::OneSample(told.shapes());
        }
        // The sizes are those of the evaluation, or only a name tells.
        let is_it = |value: u64| !told.evaluated || told.sizes().any(|size| size == value);
        let mut own: Vec<Knob<'c>> = self.own_numbers(told, &arguments);
        own.retain(|knob| knob.value > 1 && is_it(knob.value));
        match own.as_slice() {
            [] => EvaluationBatch::Shared,
            [_] => {
                let mut source = BatchSource::new(own);
                source.whole = WholeBatch::Kept(OWN.into());
                EvaluationBatch::Own(source)
            }
            several => {
                let named: Vec<String> = several
                    .iter()
                    .map(|knob| format!("{} {}", knob.name, knob.value))
                    .collect();
                EvaluationBatch::NotSure(format!(
                    "not sure which sets the evaluation's batch: {}",
                    named.join(", ")
                ))
            }
        }
    }

    /// The numbers that are called an evaluation's batch: in the command, as the program parsed them, in its files of
    /// settings, and in its text. Of one name only the first place, which is what counts.
    fn own_numbers(&self, told: &'c Knobs, arguments: &Arguments<'c>) -> Vec<Knob<'c>> {
        let mut found: Vec<Knob<'c>> = Vec::new();
        let mut add = |knob: Knob<'c>| {
            let plain = |name: &str| family::plain(name.rsplit('.').next().unwrap_or(name));
            if !found
                .iter()
                .any(|other| plain(&other.name) == plain(&knob.name))
            {
                found.push(knob);
            }
        };
        let numbers = ToldNumbers::new(told, self.launch.learned);
        let own = |origin: &Origin<'c>| origin.names().into_iter().any(family::is_evaluation_batch);
        let is_parsed = |origin: &Origin<'_>| matches!(origin, Origin::Parsed(_));
        let of_program: Vec<Origin<'c>> = numbers.all.iter().map(|(_, origin)| *origin).collect();
        let (parsed, literals): (Vec<Origin<'c>>, Vec<Origin<'c>>) =
            of_program.into_iter().filter(own).partition(is_parsed);
        let knobs = |all: Vec<Origin<'c>>| {
            let knobs = all.into_iter();
            knobs.filter_map(|origin| knob(origin, arguments, self).ok())
        };
        knobs(parsed).for_each(&mut add);
        let typed = arguments
            .all()
            .filter(|hit| family::is_evaluation_batch(hit.name));
        typed
            .filter_map(|hit| Knob::of(&hit).ok())
            .for_each(&mut add);
        for file in self.launch.files {
            let names = file.names().unwrap_or_default().into_iter();
            let named = names.filter(|name| family::is_evaluation_batch(name));
            let settings = named.filter_map(|name| file.scalar(&name).ok()?);
            settings
                .filter_map(|setting| {
                    let place = Place::File(file, setting.clone());
                    Knob::new(&setting.name, &setting.text, place).ok()
                })
                .for_each(&mut add);
        }
        knobs(literals).for_each(&mut add);
        found
    }
}

/// What a change of it leaves alone.
const OWN: &str = "the evaluation's own batch: the training stays as it is";

impl Knobs {
    /// Whether each tensor that the model was given has one row, and each list one entry.
    fn is_one_sample(&self) -> bool {
        let mut first = self.given.iter().filter_map(|given| given.shape.first());
        let mut lengths = self.given.iter().filter_map(|given| given.length);
        let has_any = self.given.iter().any(|given| !given.shape.is_empty());
        has_any && first.all(|rows| *rows == 1) && lengths.all(|length| length == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SourceNumber;
    use crate::recognize::knob::tests::{self, command, number};
    use crate::recognize::{ConfigFile, LaunchEnvironment};

    fn told(evaluated: bool, shapes: &[&[u64]], numbers: &[(&str, u64)]) -> Knobs {
        let numbers: Vec<_> = (numbers.iter().map(|(o, v)| number(o, *v, false))).collect();
        Knobs {
            evaluated,
            ..tests::told(shapes, &numbers)
        }
    }

    /// What is found: the number, or which of the other answers.
    fn found(line: &str, told: &Knobs, files: &[ConfigFile]) -> String {
        let command = command(line);
        let launch = LaunchEnvironment {
            told: Some(told),
            files,
            ..LaunchEnvironment::default()
        };
        match Recognized::new(&command, &launch).evaluation_batch() {
            EvaluationBatch::Own(source) => {
                format!("{} {}", source.sizes[0].name, source.sizes[0].value)
            }
            EvaluationBatch::Shared => "shared".into(),
            EvaluationBatch::OneSample(shapes) => format!("one: {shapes}"),
            EvaluationBatch::NotSure(why) => why,
        }
    }

    #[test]
    fn an_evaluation_has_a_number_of_its_own_by_its_name_and_its_size() {
        let both: [(&str, u64); 2] = [("--batch-size", 64), ("--test-batch-size", 1000)];
        let images: &[&[u64]] = &[&[1000, 1, 28, 28]];
        for (line, told, wanted) in [
            (
                "python a.py",
                told(true, images, &both),
                "--test-batch-size 1000",
            ),
            (
                "python a.py --test-batch-size 1000",
                told(true, images, &both),
                "--test-batch-size 1000",
            ),
            // It takes the training's.
            (
                "python a.py",
                told(true, &[&[64, 1, 28, 28]], &both),
                "shared",
            ),
            ("python a.py", told(true, images, &both[..1]), "shared"),
            (
                "python a.py",
                told(true, &[&[1, 3, 512, 512]], &both),
                "one: 1×3×512×512",
            ),
            // Of a call that is not known to be the evaluation's only a name tells.
            (
                "python a.py",
                told(false, &[&[64, 1]], &both),
                "--test-batch-size 1000",
            ),
            (
                "python a.py",
                told(true, images, &[("--val_bs", 1000), ("--test_bs", 1000)]),
                "not sure which sets the evaluation's batch: --val_bs 1000, --test_bs 1000",
            ),
            (
                "python a.py",
                told(
                    true,
                    images,
                    &[("--val_batches", 1000), ("--testbatch", 1000)],
                ),
                "--testbatch 1000",
            ),
            (
                "python a.py data.validation_ds.batch_size=1000",
                told(true, images, &[]),
                "data.validation_ds.batch_size 1000",
            ),
        ] {
            assert_eq!(found(line, &told, &[]), wanted, "{line} {told:?}");
        }
    }

    #[test]
    fn files_of_settings_and_the_programs_text_have_them_too() {
        let file = ConfigFile {
            at: 3,
            from: 0,
            name: "c.yaml".into(),
            text: "batch_size: 128\ntest_batch: 200\n".into(),
            bases: Default::default(),
        };
        let line = "python a.py --config c.yaml";
        let sizes = told(true, &[&[200, 3]], &[]);
        assert_eq!(found(line, &sizes, &[file]), "test_batch 200");
        let mut text = told(true, &[&[32, 3]], &[]);
        text.literals.push(SourceNumber {
            file: "/p/a.py".into(),
            line: 3,
            name: "EVAL_BATCH_SIZE".into(),
            value: 32,
            ..SourceNumber::default()
        });
        assert_eq!(found("python a.py", &text, &[]), "EVAL_BATCH_SIZE 32");
    }
}
