//! The batch in the config file of DeepSpeed's engine: the total is the micro-batch times
//! accumulation times processes, and any two of these are enough.

use super::{BatchSource, Knob, Place, WholeBatch};
use crate::recognize::environment::ConfigFile;
use crate::recognize::file::FoundValue;

const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";
const TOTAL: &str = "train_batch_size";

/// What the file sets; `auto` counts as not set, since the program around it fills it in.
struct Said<'a> {
    micro: Option<Knob<'a>>,
    steps: Option<Knob<'a>>,
    total: Option<Knob<'a>>,
}

impl<'a> Said<'a> {
    fn by(file: &'a ConfigFile) -> Result<Said<'a>, String> {
        let number = |name: &str| {
            let found = file.scalar(name)?.filter(|found| found.text != "auto");
            let knob =
                |found: FoundValue| Knob::new(name, &found.text.clone(), Place::File(file, found));
            found.map(knob).transpose()
        };
        Ok(Said {
            micro: number(MICRO)?,
            steps: number(STEPS)?,
            total: number(TOTAL)?,
        })
    }
}

/// The batch of a command that sets none itself.
pub(super) fn source(file: &ConfigFile) -> Result<BatchSource<'_>, String> {
    let said = Said::by(file)?;
    let mut source = BatchSource::of(said.micro.into_iter().collect());
    source.steps.extend(said.steps);
    let at_once = match (source.sizes.first(), source.steps.first(), &said.total) {
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
    if let Some(total) = said.total {
        source.whole = fixed(&total, at_once, file);
    }
    Ok(source)
}

/// Makes the file agree with a command that sets its batch itself: frameworks reject values that
/// differ. Values that the file leaves open are left alone.
pub(super) fn agree<'a>(source: &mut BatchSource<'a>, file: &'a ConfigFile) -> Result<(), String> {
    let said = Said::by(file)?;
    let steps = source.accumulation();
    for (knob, is) in [(&said.micro, source.at_once), (&said.steps, steps)] {
        if let Some(knob) = knob.as_ref().filter(|knob| knob.value != is) {
            return Err(format!(
                "{} is {} in {}, but {is} in the command",
                knob.name,
                knob.value,
                file.shown()
            ));
        }
    }
    if let Some(total) = &said.total {
        source.whole = fixed(total, source.at_once, file);
    }
    source.sizes.extend(said.micro);
    if !source.steps.is_empty() {
        source.steps.extend(said.steps);
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
