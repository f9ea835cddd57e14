//! Where a command sets its batch: for a program with an entry among its arguments, else in its config
//! file; one without is for `unknown_program.rs`.

use super::argument::{ArgumentForm, Arguments, Hit, InsertPoint, Name};
use super::batch::{
    BatchSource, Knob, Place, WholeBatch, addition, agree_with_deepspeed, last, numbers, parsed,
};
use super::config_file::{self, FoundValue};
use super::family;
use super::knob::{self, PossibleBatch};
use super::launch::ConfigFile;
use super::learned::{KnobEffect, KnobPlace, LearnedKnob};
use super::overrides;
use super::program::{AccumulationRule, InsertPlace, ProgramEntry};
use super::recognized::Recognized;
use super::text::{self, BatchRules};
use super::unknown_program::of_unknown;
use crate::event::Knobs;

fn gcd(one: u64, other: u64) -> u64 {
    match other {
        0 => one,
        _ => gcd(other, one % other),
    }
}

impl<'c> Recognized<'c> {
    /// Where the command sets its batch; the error says why it can't be changed.
    pub(crate) fn batch_source(&self) -> Result<BatchSource<'c>, String> {
        let mut source = self.unbounded_batch()?;
        if let Some(rules) = self.batch_rules() {
            if let Some(knob) = source.sizes.first().filter(|_| rules.divides) {
                // What the batch divides its own divisors divide, whatever that is.
                let divided = source.bounds.divisor_of.unwrap_or(knob.value);
                source.bounds.divisor_of = Some(gcd(divided, knob.value));
            }
            self.follow_computed(&mut source, rules);
            source.rate = rules.rate;
        }
        if let Some(text) = self.launch.text {
            self.follow_shares(&mut source, text);
        }
        if let (None, Some(devices)) = (self.known, self.listed_devices()) {
            source.bounds.multiple_of = source.bounds.multiple_of.max(devices);
        }
        Ok(source)
    }

    fn batch_rules(&self) -> Option<&'c BatchRules> {
        let of_text = self.launch.text.map(|text| &text.batch_rules);
        self.launch.batch_rules.or(of_text)
    }

    /// Where an option is added that the program's parser is to read.
    pub(super) fn place_for(&self, option: &str) -> InsertPoint {
        let all = self.layout.arguments.clone();
        let Some(rules) = self.batch_rules() else {
            return InsertPoint::Before(all.end);
        };
        let places = &rules.places;
        let words = self.arguments().tokens;
        let place = |is_it: &dyn Fn(&str) -> bool| {
            let found = words.iter().find(|word| is_it(word.text));
            found.map(|word| word.at)
        };
        let before = all.start.checked_sub(1);
        let before = before.filter(|at| self.command.argv[*at].as_str() == Some("--"));
        let dashes = before.filter(|_| self.launchers().is_empty());
        let dashes = dashes.or_else(|| place(&|word| word == "--"));
        let command = place(&|word| places.subcommands.contains(word));
        let at = match command {
            Some(command) if places.of_main.contains(option) => command,
            Some(command) if places.takes_rest => command + 1,
            None if places.takes_rest => all.start,
            // Behind two dashes nothing is an option.
            Some(_) | None => dashes.unwrap_or(all.end),
        };
        InsertPoint::Before(at)
    }

    /// Where the program computes its accumulation of a total and this batch, the total stays and nothing else moves along.
    fn follow_computed(&self, source: &mut BatchSource<'c>, rules: &BatchRules) {
        let is_typed = |knob: &Knob<'_>| !matches!(knob.place, Place::Added(_) | Place::Literal(_));
        let [knob] = source.sizes.as_slice() else {
            return;
        };
        let name = knob.variable();
        let follows =
            matches!(source.whole, WholeBatch::Follows) && !source.steps.iter().any(is_typed);
        let Some(steps) = rules
            .follows(&name)
            .filter(|_| follows && self.known.is_none())
        else {
            return;
        };
        let totals: Vec<(&str, u64)> = (steps.totals.iter())
            .filter_map(|name| Some((name.as_str(), self.number_called(name)?)))
            .collect();
        let total = totals.iter().max_by_key(|(_, value)| *value).copied();
        let value = steps.written.or(total.map(|(_, value)| value));
        // A total that is not set, or of which one batch is more, is not filled up.
        if value.is_some_and(|value| value < knob.value) {
            return;
        }
        let is_exact = |value: &u64| value.is_multiple_of(knob.value);
        source.bounds.divisor_of = match value.filter(is_exact) {
            Some(value) if steps.is_of(&name) => Some(value),
            _ => Some(knob.value),
        };
        let stays = match total {
            Some((name, value)) => format!("{name} {value} stays"),
            None => "same effective batch".into(),
        };
        source.steps.clear();
        source.whole = WholeBatch::Kept(format!("{stays}; the program computes {}", steps.name));
    }

    /// What the command, the program's process or its text says of a number of this name; 0 where it has no value.
    fn number_called(&self, name: &str) -> Option<u64> {
        let leaf = |name: &str| {
            family::plain(
                name.trim_end_matches('=')
                    .rsplit('.')
                    .next()
                    .unwrap_or(name),
            )
        };
        let wanted = leaf(name);
        let arguments = self.opened().ok()?;
        let mut typed = arguments.all().rev().filter(|hit| leaf(hit.name) == wanted);
        if let Some(value) = typed.next().and_then(|hit| hit.value?.text.parse().ok()) {
            return Some(value);
        }
        if let Some(told) = self.launch.told {
            let parsed = told
                .parsed
                .iter()
                .map(|number| (&number.name, number.value));
            let named = told.names.iter().map(|number| (&number.name, number.value));
            let literals = told
                .literals
                .iter()
                .map(|number| (&number.name, number.value));
            let mut all = parsed.chain(named).chain(literals);
            return all.find_map(|(name, value)| (leaf(name) == wanted).then_some(value));
        }
        self.launch.text?.value_called(|name| leaf(name) == wanted)
    }

    /// How many GPUs one process is told to split its batch among: `--gpu_ids 0,1,2`, `--gpus 0 1`, or the list that is the
    /// option's default.
    fn listed_devices(&self) -> Option<u64> {
        let arguments = self.opened().ok()?;
        let named = |name: &&str| arguments.find(Name::new(name)).pop();
        let listed = match family::LISTS_OF_GPUS.iter().find_map(named) {
            Some(hit) => {
                let value = hit.value?.text;
                let parts: Vec<&str> = value.split(',').filter(|part| !part.is_empty()).collect();
                let is_number = |part: &str| part.parse::<u32>().is_ok();
                if !parts.iter().all(|part| is_number(part)) {
                    return None;
                }
                let more = match hit.form {
                    ArgumentForm::Space => arguments.tokens[hit.end()..].iter(),
                    ArgumentForm::Equals
                    | ArgumentForm::KeyValue
                    | ArgumentForm::Glued
                    | ArgumentForm::Pair
                    | ArgumentForm::Colon
                    | ArgumentForm::Place => [].iter(),
                };
                let more = more.take_while(|token| is_number(token.text)).count();
                (parts.len() + more) as u64
            }
            None => self.batch_rules()?.listed_devices?,
        };
        (listed > 1 && self.processes().unwrap_or(1) == 1).then_some(listed)
    }

    fn unbounded_batch(&self) -> Result<BatchSource<'c>, String> {
        self.check_open()?;
        if let Some(why) = self.cut_by_another_number() {
            return Err(why);
        }
        let by_words = self.spelled_batch();
        let without_effect = by_words.as_ref().ok().and_then(|s| self.without_effect(s));
        let is_without_effect = without_effect.is_some();
        let by_words = match without_effect {
            Some(known) => Err(known.to_string()),
            None => by_words,
        };
        let Some(told) = self.launch.told else {
            return match self.launch.text {
                Some(text) => text::choice::source(self, text, by_words),
                None => by_words,
            };
        };
        match by_words {
            // What an evaluation was given says nothing of the training's words.
            Ok(source) if self.known.is_some() || told.evaluated => Ok(source),
            Ok(mut source) => match knob::confirms(told, self.launch.learned, &mut source) {
                true => Ok(self.with_told_steps(source, told)),
                false => Ok(knob::source(self, told).unwrap_or(source)),
            },
            Err(why) => {
                let is_settled = self.known.is_some() || is_without_effect;
                knob::source(self, told).or_else(|by_number| {
                    let by_text = || text::choice::sure(self, self.launch.text?);
                    let of_number = by_text()
                        .filter(|_| !is_settled && !told.evaluated)
                        .filter(|source| self.is_possible(source, told));
                    of_number.ok_or(if is_settled { why } else { by_number })
                })
            }
        }
    }

    /// A batch that was typed, with the number of micro-batches that the program told of, where its own words have none: an
    /// argument that nobody types as long as it is 1.
    fn with_told_steps(&self, source: BatchSource<'c>, told: &'c Knobs) -> BatchSource<'c> {
        let ([typed], []) = (source.sizes.as_slice(), source.steps.as_slice()) else {
            return source;
        };
        let is_argument =
            |steps: &Knob<'_>| matches!(steps.lasting_place(), KnobPlace::Argument { .. });
        let has_steps = |other: &BatchSource<'_>| {
            let is_it = matches!(other.sizes.as_slice(), [one] if one.name == typed.name);
            is_it && !other.steps.is_empty() && other.steps.iter().all(is_argument)
        };
        let by_number = knob::source(self, told).ok().filter(has_steps);
        by_number.unwrap_or(source)
    }

    /// Whether a number that the text is sure of is among those that the model's sizes leave: the text tells an evaluation's
    /// loader from the training's where both take as much. Where they leave none, one that is a size itself: the process
    /// tells of no word that is taken by its place, and of no file that is read by means of its own.
    fn is_possible(&self, source: &BatchSource<'_>, told: &Knobs) -> bool {
        let place = |knob: &Knob<'_>| match knob.lasting_place() {
            KnobPlace::Literal { file, line, .. } => Some((file, line)),
            KnobPlace::Argument { .. } | KnobPlace::Setting { .. } => None,
        };
        let sure = source.sizes.first().and_then(place);
        let possible = knob::possible(self, told);
        if possible.is_empty() {
            return source.sizes.len() == 1 && knob::is_given(told, source.at_once);
        }
        let mut places = possible.iter().filter_map(|one| one.source.sizes.first());
        sure.is_some() && places.any(|knob| place(knob) == sure)
    }

    /// The numbers that may set the batch where [`batch_source`](Self::batch_source) is not sure, the likeliest first.
    pub(crate) fn possible_batches(&self) -> Vec<PossibleBatch<'c>> {
        if self.known.is_some() || self.batch_source().is_ok() || self.check_open().is_err() {
            return Vec::new();
        }
        match (self.launch.told, self.launch.text) {
            (Some(told), _) if !told.evaluated => knob::possible(self, told),
            (Some(_), _) | (None, None) => Vec::new(),
            (None, Some(text)) => text::choice::possible(self, text),
        }
    }

    /// The number of this name in a file that the command names.
    pub(crate) fn named_in_files(&self, name: &str) -> Vec<Knob<'c>> {
        let plain = |name: &str| family::plain(name.trim_end_matches('='));
        let leaf = |name: &str| plain(name.rsplit('.').next().unwrap_or(name));
        let wanted = plain(name);
        let mut found = Vec::new();
        for file in self.launch.files {
            let names = file.names().unwrap_or_default().into_iter();
            let named = names.filter(|name| plain(name) == wanted || leaf(name) == wanted);
            let settings = named.filter_map(|name| file.scalar(&name).ok()?);
            found.extend(settings.filter_map(|setting| {
                let place = Place::File(file, setting.clone());
                Knob::new(&setting.name, &setting.text, place).ok()
            }));
        }
        found
    }

    /// What was learned of the number that sets this batch, if changing it has no effect.
    fn without_effect(&self, source: &BatchSource<'_>) -> Option<&LearnedKnob> {
        let place = source.sizes.first()?.lasting_place();
        let mut learned = self.launch.learned.iter().rev();
        let known = learned.find(|known| match &place {
            KnobPlace::Argument { name } => known.place.is_argument(&[name]),
            KnobPlace::Setting { .. } | KnobPlace::Literal { .. } => known.place == place,
        });
        known.filter(|known| known.effect == KnobEffect::Nothing)
    }

    /// By the names of the program's entry, or by common ones.
    fn spelled_batch(&self) -> Result<BatchSource<'c>, String> {
        let arguments = self.opened()?;
        match self.known {
            Some(entry) => of_known(arguments, entry, self),
            None => of_unknown(self, &arguments),
        }
    }
}

fn of_known<'a>(
    arguments: Arguments<'a>,
    entry: &'a ProgramEntry,
    recognized: &Recognized<'a>,
) -> Result<BatchSource<'a>, String> {
    let file = config_file::of_command(&arguments, entry, &recognized.launch);
    let deepspeed = config_file::of_deepspeed(&arguments, &recognized.launch);
    KnownProgram {
        arguments,
        entry,
        recognized,
        file,
        deepspeed,
    }
    .source()
}

struct KnownProgram<'a, 'r> {
    arguments: Arguments<'a>,
    entry: &'a ProgramEntry,
    recognized: &'r Recognized<'a>,
    /// Its config file, if it was read.
    file: Option<&'a ConfigFile>,
    deepspeed: Option<&'a ConfigFile>,
}

impl<'a> KnownProgram<'a, '_> {
    fn source(&self) -> Result<BatchSource<'a>, String> {
        let (entry, batch) = (self.entry, &self.entry.batch);
        if let Some(reason) = &batch.none {
            return Err(reason.clone());
        }
        let mut refusals = batch.refused_with.iter();
        if let Some((option, reason)) = refusals.find(|(option, _)| self.has(option)) {
            // The file after the option counts, if it was read.
            let by_file = match entry.file.named.contains(option) {
                true => self.in_file()?,
                false => None,
            };
            return by_file.ok_or_else(|| reason.clone());
        }
        let mut hits: Vec<Hit<'a>> = batch
            .names
            .iter()
            .filter_map(|name| last(&self.arguments, name, entry))
            .collect();
        if !batch.together {
            hits.truncate(1);
        }
        let Some(first) = hits.first() else {
            return self.in_file()?.ok_or_else(|| self.nowhere());
        };
        let mut source = match entry.accumulation.rule {
            AccumulationRule::MicroSize => return self.by_micro_size(first),
            AccumulationRule::Divides => return self.by_dividing(first),
            AccumulationRule::Flag | AccumulationRule::Implicit | AccumulationRule::None => {
                BatchSource::new(hits.iter().map(Knob::of).collect::<Result<_, _>>()?)
            }
        };
        self.complete(&mut source, Some(first))?;
        Ok(source)
    }

    fn nowhere(&self) -> String {
        let name = self.entry.shown();
        match self.entry.is_configured(&self.arguments) {
            true => {
                format!("the batch size is not in the command but in {name}'s configuration")
            }
            false => format!("no batch size in the command ({name} has its default)"),
        }
    }

    /// The batch in the file; `None` if no file was read or it does not set the batch.
    fn in_file(&self) -> Result<Option<BatchSource<'a>>, String> {
        let in_file = &self.entry.file;
        let Some(file) = self.file else {
            return Ok(None);
        };
        let Some(found) = one_of(file, &in_file.batch)?.or_else(|| in_file.default()) else {
            return Ok(None);
        };
        if let AccumulationRule::Divides | AccumulationRule::MicroSize =
            self.entry.accumulation.rule
        {
            return Err(format!("the batch size is in {}", file.shown()));
        }
        let place = match &in_file.batch_override {
            Some(spec) => self.overriding(spec, &found.name)?,
            None if found.is_elsewhere => return Err(elsewhere(&found, file)),
            None => Place::File(file, found.clone()),
        };
        let mut source = BatchSource::new(vec![Knob::new(&found.name, &found.text, place)?]);
        source.file = Some(file);
        self.complete(&mut source, None)?;
        if in_file
            .accumulation_with
            .as_ref()
            .is_some_and(|with| *with != found.name)
        {
            source.steps.clear();
        }
        Ok(Some(source))
    }

    /// Adds everything else to the sizes; `batch` is the argument that sets them, if one does.
    fn complete(
        &self,
        source: &mut BatchSource<'a>,
        batch: Option<&Hit<'a>>,
    ) -> Result<(), String> {
        let entry = self.entry;
        source.unit = entry.batch.unit.as_deref();
        source.split_among = self.devices().unwrap_or(1);
        let floor = entry.batch.floor.as_deref().and_then(|floor| {
            let least = self.arguments.value_of(floor)?.parse().ok()?;
            Some((floor, least))
        });
        for knob in &mut source.sizes {
            knob.least = floor.filter(|_| knob.name.contains("tokens"));
        }
        match entry.accumulation.rule {
            AccumulationRule::Flag => {
                source.steps = self.steps(batch)?;
                if let (Some(size), Some(steps)) = (source.sizes.first(), source.steps.first_mut())
                {
                    overrides::share_option(size, steps);
                }
                if let Some(file) = self.deepspeed {
                    agree_with_deepspeed(source, file)?;
                }
            }
            AccumulationRule::Implicit => {
                source.whole = WholeBatch::Kept(match self.partner() {
                    Some(total) => format!(
                        "same effective batch: {} stays, with more micro-batches",
                        total.name
                    ),
                    None if batch.is_none() => "same effective batch, in more micro-batches".into(),
                    None if entry.accumulation.names.is_empty() => {
                        "the program accumulates up to its nominal batch by itself".into()
                    }
                    None => {
                        "the total batch comes from the program's default or configuration".into()
                    }
                });
            }
            AccumulationRule::None | AccumulationRule::MicroSize | AccumulationRule::Divides => {}
        }
        Ok(())
    }

    /// The accumulation of an [`AccumulationRule::Flag`] program: set by the command, by its file,
    /// or the default if nothing else can set it.
    fn steps(&self, batch: Option<&Hit<'a>>) -> Result<Vec<Knob<'a>>, String> {
        let (entry, accumulation) = (self.entry, &self.entry.accumulation);
        let typed: Vec<Hit<'a>> = accumulation
            .names
            .iter()
            .filter_map(|name| last(&self.arguments, name, entry))
            .collect();
        match typed.as_slice() {
            [hit] => return numbers(&self.arguments, hit),
            [one, two, ..] => return Err(format!("{} and {} are both set", one.name, two.name)),
            [] => {}
        }
        let may_be_set =
            accumulation.in_config != Some(false) && entry.is_configured(&self.arguments);
        let is_refused = accumulation
            .refused_with
            .iter()
            .any(|option| self.has(option) || self.is_on_in_file(option));
        if is_refused || may_be_set && self.file.is_none() {
            return Ok(Vec::new());
        }
        let found = match self.file {
            Some(file) => one_of(file, &entry.file.accumulation)?.map(|found| (file, found)),
            None => None,
        };
        let of_file = self.file.and(entry.file.accumulation_default);
        let (name, value) = match (&found, of_file.or(accumulation.default)) {
            (Some((_, found)), _) => (found.name.clone(), parsed(&found.text, &found.name)?),
            (None, Some(default)) => (String::new(), default),
            (None, None) => return Ok(Vec::new()),
        };
        let beside = batch.and_then(|batch| addition(&self.arguments, entry, batch));
        let place = match (beside, &entry.file.accumulation_override, found) {
            (Some(addition), _, _) => Place::Added(addition),
            (None, Some(spec), _) if batch.is_none() => self.overriding(spec, spec)?,
            // Where it can't be written, it stays.
            (None, _, Some((_, found))) if found.is_elsewhere => return Ok(Vec::new()),
            (None, _, Some((file, found))) => Place::File(file, found),
            (None, _, None) => return Ok(Vec::new()),
        };
        let knob = Knob {
            name,
            value,
            place,
            least: None,
        };
        Ok(vec![knob])
    }

    /// Where to add an argument that overrides the program's file.
    fn overriding(&self, spec: &str, name: &str) -> Result<Place<'a>, String> {
        let range = &self.recognized.layout.arguments;
        let end = match self.entry.file.place {
            InsertPlace::Start => range.start,
            InsertPlace::End | InsertPlace::Launcher => range.end,
        };
        let mut spec = spec.replace("{name}", name);
        // Older programs of a family call it otherwise.
        if let Some(text) = self.recognized.launch.text
            && let Some((option, key)) = spec.split_once(' ')
            && text.refuses(option)
        {
            let older = self.entry.file.older_overrides.iter();
            let taken = older.clone().find(|older| !text.refuses(older));
            let refused = || format!("{option} is no option of this program");
            spec = format!("{} {key}", taken.ok_or_else(refused)?);
        }
        overrides::addition(&self.arguments, &spec, end).map(Place::Added)
    }

    /// For a program that splits its batch into parts of a given size.
    fn by_micro_size(&self, batch: &Hit<'a>) -> Result<BatchSource<'a>, String> {
        let accumulation = &self.entry.accumulation;
        let whole = Knob::of(batch)?;
        let shared: u64 = match &accumulation.shared_among {
            None => 1,
            Some(name) => self.arguments.value_of(name).map_or(Ok(1), |text| {
                text.parse()
                    .map_err(|_| format!("{name} is {text}, which isn't a number"))
            })?,
        };
        let parts_of = whole.value / shared.max(1);
        // -1 is "off": one part.
        let is_off = |hit: &Hit<'_>| hit.value.is_some_and(|value| value.text == "-1");
        let mut size = self.partner_of(batch, parts_of, is_off)?;
        size.least = accumulation.floor.as_ref().map(|(name, default)| {
            let given = self.arguments.value_of(name).and_then(|v| v.parse().ok());
            (name.as_str(), given.unwrap_or(*default))
        });
        let mut source = BatchSource::new(vec![size]);
        source.whole = WholeBatch::Fixed {
            name: whole.name,
            value: whole.value,
            parts_of,
        };
        Ok(source)
    }

    /// For a program that divides its batch by the accumulation steps.
    fn by_dividing(&self, batch: &Hit<'a>) -> Result<BatchSource<'a>, String> {
        let whole = Knob::of(batch)?.value;
        let default = self.entry.accumulation.default.unwrap_or(1);
        let steps = self.partner_of(batch, default, |_| false)?;
        let mut source = BatchSource::new(Vec::new());
        source.at_once = whole / steps.value;
        source.steps = vec![steps];
        Ok(source)
    }

    /// The argument for the number of micro-batches, their size or the total, by the entry's rule.
    fn partner(&self) -> Option<Hit<'a>> {
        let mut names = self.entry.accumulation.names.iter();
        names.find_map(|name| last(&self.arguments, name, self.entry))
    }

    /// The number of that argument; `value` if the command does not set it or it `is_off`.
    fn partner_of(
        &self,
        batch: &Hit<'a>,
        value: u64,
        is_off: impl Fn(&Hit<'a>) -> bool,
    ) -> Result<Knob<'a>, String> {
        let (name, place) = match self.partner() {
            Some(hit) if !is_off(&hit) => return Knob::of(&hit),
            Some(hit) => (hit.name, hit.value.map(Place::Word)),
            None => {
                let added = addition(&self.arguments, self.entry, batch);
                (batch.name, added.map(Place::Added))
            }
        };
        let cannot = || format!("{name} is written in a way that cannot be extended");
        Ok(Knob {
            name: name.into(),
            value,
            place: place.ok_or_else(cannot)?,
            least: None,
        })
    }

    /// The number of devices that the batch is split among, if the program requires equal parts.
    fn devices(&self) -> Option<u64> {
        let batch = &self.entry.batch;
        if batch.devices.is_none() && batch.device_list.is_empty() {
            return None;
        }
        let value_of = |names: &'a [String]| names.iter().find_map(|n| self.arguments.value_of(n));
        let counts = batch.devices.iter().flatten();
        counts
            .filter_map(|name| self.arguments.value_of(name)?.parse().ok())
            .next()
            .or_else(|| {
                let parts = value_of(&batch.device_list)?.split(',');
                Some(parts.filter(|part| !part.is_empty()).count() as u64)
            })
            .or_else(|| self.recognized.processes().map(u64::from))
    }

    /// Whether its file turns a switch on that the command does not turn off.
    fn is_on_in_file(&self, name: &str) -> bool {
        let typed = self.arguments.value_of(&format!("{name}="));
        let in_file = || {
            let found = self.file?.scalar(name).ok()??;
            Some(found.text)
        };
        let said = typed.map(str::to_string).or_else(in_file);
        said.is_some_and(|said| said.eq_ignore_ascii_case("true"))
    }

    fn has(&self, option: &str) -> bool {
        self.arguments.has(Name::new(option))
    }
}

fn elsewhere(found: &FoundValue, file: &ConfigFile) -> String {
    format!(
        "{} is {}, which a file says that {} builds on",
        found.name,
        found.text,
        file.shown()
    )
}

/// The one of several settings that a file has; `None` if it has none of them.
fn one_of(file: &ConfigFile, names: &[String]) -> Result<Option<FoundValue>, String> {
    let found: Vec<FoundValue> = names
        .iter()
        .filter_map(|name| file.scalar_anywhere(name).transpose())
        .collect::<Result<_, _>>()?;
    match found.len() {
        0 | 1 => Ok(found.into_iter().next()),
        _ => Err(format!(
            "{} sets the batch size in more than one place",
            file.shown()
        )),
    }
}
