//! The batch in the config file of DeepSpeed's engine: the total is the micro-batch times
//! accumulation times processes, and any two of these are enough.

use super::{BatchSource, Knob, Place, WholeBatch};
use crate::recognize::environment::ConfigFile;
use crate::recognize::file::FoundValue;

const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";
const TOTAL: &str = "train_batch_size";

/// What the file sets; `auto` counts as not set, since the program around it fills it in.
struct DeepspeedBatch<'a> {
    micro: Option<Knob<'a>>,
    steps: Option<Knob<'a>>,
    total: Option<Knob<'a>>,
}

impl<'a> DeepspeedBatch<'a> {
    fn read(file: &'a ConfigFile) -> Result<DeepspeedBatch<'a>, String> {
        let number = |name: &str| {
            let found = file.scalar(name)?.filter(|found| found.text != "auto");
            let knob =
                |found: FoundValue| Knob::new(name, &found.text.clone(), Place::File(file, found));
            found.map(knob).transpose()
        };
        Ok(DeepspeedBatch {
            micro: number(MICRO)?,
            steps: number(STEPS)?,
            total: number(TOTAL)?,
        })
    }
}

/// The batch of a command that sets none itself.
pub(super) fn source(file: &ConfigFile) -> Result<BatchSource<'_>, String> {
    let in_file = DeepspeedBatch::read(file)?;
    let mut source = BatchSource::of(in_file.micro.into_iter().collect());
    source.steps.extend(in_file.steps);
    let at_once = match (source.sizes.first(), source.steps.first(), &in_file.total) {
        (Some(micro), _, _) => micro.value,
        (None, Some(steps), Some(total)) => total.value / steps.value,
        (None, _, _) => {
            return Err(format!(
                "{} does not set the micro-batch size",
                file.shown()
            ));
        }
    };
    source.at_once = at_once;
    if let Some(total) = in_file.total {
        source.whole = fixed(&total, at_once, file);
    }
    Ok(source)
}

/// Adds the file's numbers to those of a command that sets its batch itself, so that both change
/// together. Numbers that already differ are an error, as they are for frameworks.
pub(super) fn agree<'a>(source: &mut BatchSource<'a>, file: &'a ConfigFile) -> Result<(), String> {
    let in_file = DeepspeedBatch::read(file)?;
    let steps = source.accumulation();
    for (knob, is) in [(&in_file.micro, source.at_once), (&in_file.steps, steps)] {
        if let Some(knob) = knob.as_ref().filter(|knob| knob.value != is) {
            return Err(format!(
                "{} is {} in {}, but {is} in the command",
                knob.name,
                knob.value,
                file.shown()
            ));
        }
    }
    if let Some(total) = &in_file.total {
        source.whole = fixed(total, source.at_once, file);
    }
    source.sizes.extend(in_file.micro);
    if !source.steps.is_empty() {
        source.steps.extend(in_file.steps);
    }
    Ok(())
}

fn fixed(total: &Knob<'_>, at_once: u64, file: &ConfigFile) -> WholeBatch {
    WholeBatch::Fixed {
        name: format!("{TOTAL} in {}", file.shown()),
        value: total.value,
        parts_of: at_once,
    }
}
