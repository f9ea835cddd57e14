//! A smaller batch where not the command says the batch but a config file that it names: by words on
//! the command line where the program takes them over the file's, else in a copy of the file.

use super::super::argument::{Arguments, Name};
use super::super::draft::Draft;
use super::super::environment::{ConfigFile, LaunchEnvironment};
use super::super::file::{self, FoundValue, Lookup};
use super::super::program::{AccumulationRule, InsertPlace, ProgramEntry};
use super::super::recognition::Recognised;
use super::accumulation::set_accumulation;
use super::demands::check;
use super::{BatchEdit, Kept, last, parsed, reduced, times};

/// A smaller batch by the file; nothing where no file was read or it does not say the batch.
pub(super) fn smaller(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    recognised: &Recognised<'_>,
    launch: &LaunchEnvironment<'_>,
    scale: f64,
) -> Option<Result<BatchEdit, String>> {
    let file = file::of_command(arguments, entry, launch)?;
    let value = match one_of(file, &entry.file.batch)? {
        Ok(value) => value,
        Err(why) => return Some(Err(why)),
    };
    let reader = Reader {
        arguments,
        entry,
        recognised,
        launch,
        scale,
        file,
    };
    Some(reader.smaller(&value))
}

/// The one of several settings that a file has; nothing where it has none of them.
fn one_of(file: &ConfigFile, names: &[String]) -> Option<Result<FoundValue, String>> {
    let mut found = None;
    for name in names {
        match file.scalar(name) {
            Lookup::Found(_) if found.is_some() => {
                return Some(Err(format!(
                    "{} sets the batch size in more than one place",
                    file.shown()
                )));
            }
            Lookup::Found(value) => found = Some(value),
            Lookup::Unclear(why) => return Some(Err(why)),
            Lookup::Absent => {}
        }
    }
    found.map(Ok)
}

struct Reader<'a> {
    arguments: &'a Arguments<'a>,
    entry: &'a ProgramEntry,
    recognised: &'a Recognised<'a>,
    launch: &'a LaunchEnvironment<'a>,
    scale: f64,
    file: &'a ConfigFile,
}

impl Reader<'_> {
    fn smaller(&self, value: &FoundValue) -> Result<BatchEdit, String> {
        let scale = self.scale;
        let old = parsed(&value.text, &value.name)?;
        let new = reduced(old, scale, &value.name)?;
        check(
            self.arguments,
            self.entry,
            self.recognised,
            &value.name,
            new,
        )?;
        let mut draft = Draft::default();
        let mut words = Vec::new();
        match &self.entry.file.batch_override {
            Some(spec) => words.extend(spelled(spec, new)),
            None => self.in_copy(&mut draft, value, new)?,
        }
        let kept = match self.entry.accumulation.rule {
            AccumulationRule::Flag => self.accumulate(&mut draft, &mut words)?,
            AccumulationRule::Implicit => {
                Kept::Whole("same effective batch, in more micro-batches".into())
            }
            AccumulationRule::None => Kept::None,
            AccumulationRule::Divides | AccumulationRule::MicroSize => {
                return Err(format!("the batch size is in {}", self.file.shown()));
            }
        };
        if !words.is_empty() {
            if self.arguments.nested {
                return Err("its arguments are inside one word".into());
            }
            let place = match self.entry.file.place {
                InsertPlace::Start => self.recognised.anatomy.arguments.start,
                InsertPlace::End | InsertPlace::Launcher => self.recognised.anatomy.arguments.end,
            };
            draft.insert_at(place, &words);
        }
        let mut edit = BatchEdit::of(draft, (old, new), kept, self.entry.batch.unit.as_deref());
        edit.cost += &format!("; {} says {old}", self.file.shown());
        Ok(edit)
    }

    fn accumulate(&self, draft: &mut Draft, words: &mut Vec<String>) -> Result<Kept, String> {
        let entry = self.entry;
        let scale = self.scale;
        let accumulation = &entry.accumulation;
        let typed = accumulation
            .names
            .iter()
            .find_map(|name| last(self.arguments, name, entry));
        if let Some(hit) = typed {
            return set_accumulation(draft, self.arguments, &hit, scale);
        }
        if accumulation
            .refused_with
            .iter()
            .any(|option| self.arguments.has(Name::new(option)))
        {
            return Ok(Kept::None);
        }
        let in_file = match one_of(self.file, &entry.file.accumulation) {
            Some(Ok(value)) => Some(value),
            Some(Err(why)) => return Err(why),
            None => None,
        };
        let default = entry.file.accumulation_default.or(accumulation.default);
        let steps = match (&in_file, default) {
            (Some(value), _) => parsed(&value.text, &value.name)?,
            (None, Some(default)) => default,
            (None, None) => return Ok(Kept::None),
        };
        let more = times(steps, scale);
        if more <= steps {
            return Ok(Kept::None);
        }
        match (&entry.file.accumulation_override, &in_file) {
            (Some(spec), _) => words.extend(spelled(spec, more)),
            (None, Some(value)) => self.in_copy(draft, value, more)?,
            (None, None) => return Ok(Kept::None),
        }
        Ok(Kept::By(steps, more))
    }

    fn in_copy(&self, draft: &mut Draft, value: &FoundValue, new: u64) -> Result<(), String> {
        let copies = self.launch.copies.ok_or_else(|| {
            format!(
                "{} is {} in {}: a relaunch by key uses a copy with {new}",
                value.name,
                value.text,
                self.file.shown()
            )
        })?;
        draft.set_in_copy(self.file, value, &new.to_string(), copies);
        Ok(())
    }
}

/// An argument as the data files write it, with its value: `--x 4`, `x=4`, `--x=4`, `A.B 4`.
fn spelled(spec: &str, value: u64) -> Vec<String> {
    if spec.ends_with('=') {
        return vec![format!("{spec}{value}")];
    }
    vec![spec.to_string(), value.to_string()]
}
