//! Numbers that stand in a program's text and are no arguments: constants, entries of dicts of settings, keywords of calls,
//! and defaults of parameters that are in force.

use super::branches;
use super::statements::{
    AssignedValue, CallSite, ClassHead, FunctionHead, SourceStatements, TokenRange,
};
use super::{ProgramSource, ReadSource, SourceRole, TextNumber, TextSetting, described, is_near};
use crate::event::{SourceNumber, SourceNumberKind};
use crate::recognize::family::{batch_level, is_not_of_training as is_elsewhere, like_a_batch};
use crate::recognize::python_number::{python_number, written_numbers};
use crate::recognize::spellings::BatchArgument;

pub(super) fn constants(sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
    let is_distant = |read: &&ReadSource<'_, '_>| read.0.role == SourceRole::Distant;
    for (source, said) in sources.iter().filter(|read| !is_distant(read)) {
        let reader = ConstantReader { source, said };
        reader.assigned(found);
        reader.entries(found);
        for call in &said.calls {
            reader.keywords(call, found);
        }
        for function in &said.functions {
            reader.parameters(function, sources, found);
        }
    }
    // `params.batch_size` of a module that only an imported one imports, where nothing nearer has a batch.
    if found.iter().any(TextNumber::is_near) {
        return;
    }
    for (source, said) in sources.iter().filter(is_distant) {
        let reader = ConstantReader { source, said };
        reader.read_elsewhere(sources, found);
    }
}

struct ConstantReader<'a, 't> {
    source: &'a ProgramSource,
    said: &'a SourceStatements<'t>,
}

impl<'t> ConstantReader<'_, 't> {
    /// `batch_size = 64`, not in a function or a class of something else.
    fn assigned(&self, found: &mut Vec<TextNumber>) {
        for one in &self.said.assigned {
            if !self.is_elsewhere(one.at) && !self.is_of_a_layer(one) && !self.is_set_again(one) {
                let kind = SourceNumberKind::Assignment;
                let number = self.constant(one.target, kind, &one.value);
                let is_weak = self.is_uncalled(one.at);
                found.extend(number.map(|number| TextNumber { is_weak, ..number }));
            }
        }
    }

    /// Whether this stands in a function of the script that nothing names: of an example for each algorithm only the chosen
    /// one is called.
    fn is_uncalled(&self, at: usize) -> bool {
        let inside = self.said.enclosing(at);
        let function = inside
            .function
            .filter(|_| self.source.role == SourceRole::Script && inside.class.is_none());
        let mut heads = self.said.functions.iter();
        let tokens = &self.said.tokens;
        let is_named = |name: &str| {
            (0..tokens.all.len()).any(|at| {
                let is_head = at > 0 && tokens.text(at - 1) == "def";
                tokens.is_name(at) && tokens.text(at) == name && !is_head
            })
        };
        function.is_some_and(|name| {
            let is_plain = heads.any(|head| head.name == name && head.decorators.is_empty());
            // What calls none of its own is called by somebody else.
            let mut others = self.said.functions.iter();
            is_plain && !is_named(name) && others.any(|other| is_named(other.name))
        })
    }

    /// Whether this is an attribute of one of a model's layers: `self.batch_size = 1` in an `nn.Module` is what the layer
    /// takes its input for, and no loader reads it. Nor does one read what is set while a layer runs.
    fn is_of_a_layer(&self, one: &AssignedValue<'t>) -> bool {
        let inside = self.said.enclosing(one.at);
        if inside.function == Some("forward") {
            return true;
        }
        let class = inside.class;
        let is_own = one.target.starts_with("self.");
        let is_layer = |class: &&ClassHead<'t>| {
            let mut bases = class.bases.iter();
            bases.any(|base| base.rsplit('.').next() == Some("Module"))
        };
        let mut classes = self.said.classes.iter().filter(is_layer);
        is_own && classes.any(|layer| Some(layer.name) == class)
    }

    /// Whether the module itself sets a constant of its own again further down, whatever it is told.
    fn is_set_again(&self, one: &AssignedValue<'t>) -> bool {
        let is_of_module = |at: usize| {
            let inside = self.said.enclosing(at);
            inside.function.is_none() && inside.class.is_none() && self.said.branch(at).is_empty()
        };
        let mut later = self.said.assigned.iter().filter(|other| other.at > one.at);
        is_of_module(one.at)
            && later.any(|other| {
                let number = python_number(self.said.tokens.text_of(&other.value));
                other.target == one.target && is_of_module(other.at) && number.is_some()
            })
    }

    /// Constants of the module itself that a nearer source names.
    fn read_elsewhere(&self, sources: &[ReadSource<'_, '_>], found: &mut Vec<TextNumber>) {
        for one in self.said.assigned.iter().filter(|one| is_near(one.target)) {
            let inside = self.said.enclosing(one.at);
            let is_of_module = inside.function.is_none() && inside.class.is_none();
            let mut near = sources
                .iter()
                .filter(|(source, _)| source.role != SourceRole::Distant);
            if is_of_module
                && !self.is_elsewhere(one.at)
                && near.any(|(_, said)| said.tokens.has_name(one.target))
            {
                let kind = SourceNumberKind::Assignment;
                found.extend(self.constant(one.target, kind, &one.value));
            }
        }
    }

    /// `{"batch_size": 64}`.
    fn entries(&self, found: &mut Vec<TextNumber>) {
        for (key, value) in self.said.entries.iter().filter(|(key, _)| is_near(key)) {
            let call = self.call_around(value.start);
            if !self.is_elsewhere(value.start) && !call.is_some_and(|call| self.is_for_other(call))
            {
                found.extend(self.constant(key, SourceNumberKind::Entry, value));
            }
        }
    }

    /// `DataLoader(data, batch_size=64)`.
    fn keywords(&self, call: &CallSite<'t>, found: &mut Vec<TextNumber>) {
        if !call.keywords.iter().any(|(name, _)| is_near(name))
            || self.is_elsewhere(call.at)
            || self.is_for_other(call)
        {
            return;
        }
        // A library's own batch of whatever it maps over.
        if call.keyword("batched").is_some() {
            return;
        }
        // In an imported file a call of something is less than a list of settings.
        let is_weak = self.source.role == SourceRole::Imported && !self.is_all_settings(call);
        for (name, value) in &call.keywords {
            let number = self.constant(name, SourceNumberKind::Keyword, value);
            found.extend(number.map(|number| TextNumber { is_weak, ..number }));
        }
        if call.name().ends_with("DataLoader") {
            found.extend(self.named_for_a_loader(call));
        }
    }

    /// `n_img_per_gpu = 16`, which a loader takes as its batch, whatever it is called.
    fn named_for_a_loader(&self, call: &CallSite<'t>) -> Option<TextNumber> {
        let tokens = &self.said.tokens;
        let value = call
            .keyword("batch_size")
            .filter(|value| value.len() == 1)?;
        let name = tokens
            .is_name(value.start)
            .then(|| tokens.text(value.start))?;
        let of_call = self.said.enclosing(call.at).function;
        let mut all = self.said.assigned.iter().filter(|one| {
            let of_one = self.said.enclosing(one.at).function;
            one.target == name && (of_one.is_none() || of_one == of_call)
        });
        let one = all.next().filter(|_| all.next().is_none())?;
        let number = self.constant(name, SourceNumberKind::Assignment, &one.value)?;
        let is_known = batch_level(name).or(like_a_batch(name)).is_some();
        (!is_known).then_some(TextNumber {
            described: Some(BatchArgument::Plain),
            is_of_loader: true,
            ..number
        })
    }

    /// Whether a call is given a long list of values as they are written: `HParams(batch_size=64, lr=1e-3, …)`.
    fn is_all_settings(&self, call: &CallSite<'t>) -> bool {
        let tokens = &self.said.tokens;
        let is_written = |value: &TokenRange| {
            let is_word = matches!(tokens.text(value.start), "True" | "False" | "None");
            is_word || !tokens.is_name(value.start)
        };
        let written = call
            .keywords
            .iter()
            .filter(|(_, value)| is_written(value))
            .count();
        let is_long = call.keywords.len() >= 8;
        call.positional.is_empty() && is_long && written * 5 >= call.keywords.len() * 4
    }

    /// `def train(batch_size=64)`, where it is called without one.
    fn parameters(
        &self,
        function: &FunctionHead<'t>,
        sources: &[ReadSource<'_, '_>],
        found: &mut Vec<TextNumber>,
    ) {
        let class = self.said.enclosing(function.at).class;
        if is_elsewhere(function.name) || class.is_some_and(is_elsewhere) {
            return;
        }
        let is_method = class.is_some();
        let name = match (function.name, class) {
            ("__init__", Some(class)) => class,
            (name, _) => name,
        };
        for (place, parameter) in function.parameters.iter().enumerate() {
            let Some(default) = parameter
                .default
                .as_ref()
                .filter(|_| is_near(parameter.name))
            else {
                continue;
            };
            let place = place - usize::from(is_method && place > 0);
            let is_in_force = |call: &CallSite<'_>| {
                call.name() == name
                    && !call.is_starred
                    && call.positional.len() <= place
                    && call.keyword(parameter.name).is_none()
            };
            let mut calls = sources.iter().flat_map(|(_, said)| &said.calls);
            if calls.any(is_in_force) {
                let kind = SourceNumberKind::Default;
                found.extend(self.constant(parameter.name, kind, default));
            }
        }
    }

    /// Whether this stands in a function or a class that is about something else than training, or is only run where its
    /// file is the script.
    fn is_elsewhere(&self, at: usize) -> bool {
        let inside = self.said.enclosing(at);
        let is_imported = matches!(self.source.role, SourceRole::Imported | SourceRole::Distant);
        inside.is_guarded && is_imported
            || inside.function.is_some_and(is_elsewhere)
            || inside.class.is_some_and(is_elsewhere)
    }

    /// Whether a call is about something else, by what is called, what it is given and what its value is called.
    fn is_for_other(&self, call: &CallSite<'t>) -> bool {
        let tokens = &self.said.tokens;
        let given = call.positional.iter().filter_map(|part| {
            let (name, behind) = tokens.dotted(part.start, part.end)?;
            (behind == part.end).then_some(name)
        });
        let target = self.said.target_of(call);
        if self.samples_for_a_loader(call, target) {
            // A sampler by its name, which draws the loader's batches.
            return given.into_iter().any(is_elsewhere) || self.is_given_other(call);
        }
        given.chain([call.callee]).chain(target).any(is_elsewhere) || self.is_given_other(call)
    }

    /// Whether what a call makes is a loader's `batch_sampler`, and the loader is the training's:
    /// `DataLoader(data, batch_sampler=sampler)`.
    fn samples_for_a_loader(&self, call: &CallSite<'t>, target: Option<&str>) -> bool {
        let tokens = &self.said.tokens;
        let mut loaders = self
            .said
            .calls
            .iter()
            .filter(|one| one.name().ends_with("DataLoader") && !std::ptr::eq(*one, call));
        loaders.any(|loader| {
            let Some(sampler) = loader.keyword("batch_sampler") else {
                return false;
            };
            let is_it = sampler.contains(&call.at) || Some(tokens.text_of(sampler)) == target;
            let of_loader = self.said.target_of(loader);
            is_it && !of_loader.is_some_and(is_elsewhere) && !self.is_given_other(loader)
        })
    }

    /// Whether what a call is given says that it is not for training: `MNIST(root, train=False)`, `load(split="test")`.
    fn is_given_other(&self, call: &CallSite<'t>) -> bool {
        let tokens = &self.said.tokens;
        let from = self.said.calls.partition_point(|one| one.at < call.at);
        let inside = self.said.calls[from..].iter();
        let inside = inside.take_while(|one| one.at < call.end);
        let mut keywords = inside.flat_map(|one| &one.keywords);
        keywords.any(|(name, value)| {
            let said = tokens.text(value.start);
            let is_train = matches!(*name, "train" | "is_train" | "training" | "is_training");
            let is_part = matches!(*name, "split" | "mode" | "phase" | "partition" | "subset");
            is_train && said == "False"
                || is_part && tokens.string(value.start).is_some_and(is_elsewhere)
        })
    }

    /// The innermost call that this is an argument of.
    fn call_around(&self, at: usize) -> Option<&CallSite<'t>> {
        let mut calls = self.said.calls.iter();
        calls.rfind(|call| call.at < at && at < call.end)
    }

    /// What a comment of the file says of a name: `# N is batch size; H is …`, `# B: batch size`.
    fn explained(&self, name: &str) -> Option<BatchArgument> {
        let comments = self.source.text.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix('#')
        });
        let mut parts = comments.flat_map(|comment| comment.split([';', ',', '.']));
        parts.find_map(|part| {
            let rest = part.trim().strip_prefix(name)?;
            let rest = rest.trim_start();
            let said = ["is ", "=", ":", "->", "-->", "-"]
                .iter()
                .find_map(|sign| rest.strip_prefix(sign))?;
            described(said)
        })
    }

    fn constant(
        &self,
        name: &str,
        kind: SourceNumberKind,
        value: &TokenRange,
    ) -> Option<TextNumber> {
        let tokens = &self.said.tokens;
        // Of `128 // n_gpu` the number is the part that can be replaced.
        let first = value.start..value.start.saturating_add(1);
        let is_divided = tokens.is_operator(first.end, "//")
            && value.len() > 2
            && !(first.end + 1..value.end).any(|at| matches!(tokens.text(at), "if" | "or" | ","));
        let value = if is_divided { &first } else { value };
        let written = tokens.text_of(value);
        let number = python_number(written).filter(|number| *number > 0)?;
        let token = tokens.all.get(value.start)?;
        // Only a number as such is replaced, or what is computed of numbers alone.
        let mut all = written_numbers(written, 0).into_iter();
        let is_plain = all.any(|(_, length)| length == written.len());
        // A comment names what its own name leaves open.
        let is_open = kind == SourceNumberKind::Assignment && name.len() <= 3;
        let comment = is_open.then(|| {
            let beside = tokens.comment(token.line).and_then(described);
            beside.or_else(|| self.explained(name))
        });
        let comment = comment.flatten();
        Some(TextNumber {
            set: TextSetting::Constant(SourceNumber {
                file: self.source.path.clone(),
                crc: 0,
                line: token.line,
                column: token.column,
                name: name.into(),
                kind,
                value: number,
            }),
            file: self.source.path.clone(),
            line: token.line,
            role: self.source.role,
            described: comment,
            is_overwritten: false,
            is_weak: false,
            is_of_made_file: false,
            is_of_chain: false,
            is_of_loader: false,
            fixed: (!is_plain)
                .then(|| format!("{name} is {number}, written {written}, which is not edited")),
            conditions: branches::around(self.said, value.start),
            subcommand: None,
            place: None,
        })
    }
}
