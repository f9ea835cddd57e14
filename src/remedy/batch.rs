//! A smaller batch, the effective batch kept where the program can accumulate gradients.
//!
//! A known program's entry says which argument counts and how accumulation is counted; for any
//! other the families of spelling are asked, and where two readings are possible nothing is edited.

use super::argument::{Arguments, Form, Hit, Name, Value, same, text};
use super::draft::Draft;
use super::family::{self, Level};
use super::launcher::{Kind, file_name};
use super::program::{Accumulation, Entry, Rule, Scope};
use super::recognition::{Recognised, arguments_of, opened};
use crate::command::CommandLine;

/// The batch of a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    /// What it is.
    pub value: u64,
    /// What it counts for.
    pub scope: Scope,
    /// The argument, as typed.
    pub argument: String,
}

/// A smaller batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Smaller {
    /// The edits.
    pub draft: Draft,
    /// What one device took at once before and takes now, in the argument's own count.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// What it does to the training, in words.
    pub cost: String,
}

/// The batch that a command says, if one can be read.
pub(super) fn of(command: &CommandLine, recognised: &Recognised) -> Option<Batch> {
    let arguments = arguments_of(command, &recognised.anatomy);
    let read = |hit: Hit<'_>, scope| {
        Some(Batch {
            value: count(&hit).ok()?,
            scope,
            argument: hit.name.to_string(),
        })
    };
    match recognised.known {
        Some(entry) => {
            let arguments = opened(arguments, entry).ok()?;
            let hit = entry
                .batch
                .names
                .iter()
                .find_map(|n| last(&arguments, n, entry))?;
            read(hit, entry.batch.scope)
        }
        None => {
            let found = family::batches(&arguments);
            let of = |level| {
                found
                    .iter()
                    .rev()
                    .find(|(l, _)| *l == level)
                    .map(|(_, h)| *h)
            };
            if let Some(hit) = of(Level::Micro).or(of(Level::Plain)).or(of(Level::Divided)) {
                return read(hit, Scope::Micro);
            }
            read(of(Level::Total)?, Scope::Global)
        }
    }
}

/// A batch of `scale` times the one that is, or why there is none.
pub(super) fn smaller(
    command: &CommandLine,
    recognised: &Recognised,
    scale: f64,
) -> Result<Smaller, String> {
    if let Some(reason) = &recognised.closed {
        return Err(reason.clone());
    }
    let arguments = arguments_of(command, &recognised.anatomy);
    match recognised.known {
        Some(entry) => of_known(opened(arguments, entry)?, entry, recognised, scale),
        None => of_unknown(command, recognised, &arguments, scale),
    }
}

fn of_known(
    arguments: Arguments<'_>,
    entry: &Entry,
    recognised: &Recognised,
    scale: f64,
) -> Result<Smaller, String> {
    if let Some(reason) = &entry.batch.none {
        return Err(reason.clone());
    }
    for (option, reason) in &entry.batch.refused_with {
        if arguments.has(Name::new(option)) {
            return Err(reason.clone());
        }
    }
    let mut hits: Vec<Hit<'_>> = Vec::new();
    for name in &entry.batch.names {
        if let Some(hit) = last(&arguments, name, entry)
            && (entry.batch.together || hits.is_empty())
        {
            hits.push(hit);
        }
    }
    let Some(first) = hits.first().copied() else {
        return Err(if entry.is_configured(&arguments) {
            format!(
                "the batch size is not in the command but in {}'s configuration",
                entry.name
            )
        } else {
            format!(
                "no batch size in the command ({} has its default)",
                entry.name
            )
        });
    };
    let accumulation = &entry.accumulation;
    match accumulation.rule {
        Rule::MicroSize => return by_micro_size(&arguments, &first, entry, scale),
        Rule::Divides => return by_dividing(&arguments, &first, entry, scale),
        Rule::Flag | Rule::Implicit | Rule::None => {}
    }
    let mut draft = Draft::default();
    let mut ends: Vec<(Hit<'_>, u64, u64)> = Vec::new();
    let mut refusal = None;
    for hit in hits {
        match count(&hit).and_then(|old| Ok((old, reduced(old, scale, hit.name)?))) {
            Ok((old, new)) => {
                check(&arguments, entry, recognised, &hit, new)?;
                ends.push((hit, old, new));
            }
            // Of several limits one that is at its least already does not speak against the rest;
            // one that cannot be read does.
            Err(reason) if count(&hit) == Ok(1) => refusal = Some(reason),
            Err(reason) => return Err(reason),
        }
    }
    let Some(&(first, old, new)) = ends.first() else {
        return Err(refusal.unwrap_or_else(|| "the batch is 1 already".into()));
    };
    // One accumulation serves all limits, so all must have shrunk by as much.
    for (hit, _, new) in &ends {
        if let Some(value) = hit.value {
            draft.set(hit.name, value, &new.to_string());
        }
    }
    let kept = if accumulation.rule == Rule::Flag {
        accumulate(&mut draft, &arguments, entry, &first, old, new, scale)?
    } else {
        Kept::None
    };
    let total = accumulation
        .names
        .iter()
        .find_map(|name| last(&arguments, name, entry));
    let unit = entry.batch.unit.as_deref();
    let cost = match (accumulation.rule, total) {
        (Rule::Implicit, Some(total)) => {
            format!("same batch: {} stays, with more micro-batches", total.name)
        }
        (Rule::Implicit, None) if accumulation.names.is_empty() => {
            "the program accumulates up to its nominal batch by itself".into()
        }
        _ => cost(old, new, kept, unit),
    };
    Ok(Smaller {
        draft,
        from: old,
        to: new,
        cost,
    })
}

/// What accumulation does to the effective batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// There is none, or it is not known.
    None,
    /// It goes from so many micro-batches to so many.
    By(u64, u64),
}

fn cost(old: u64, new: u64, kept: Kept, unit: Option<&str>) -> String {
    let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    match kept {
        Kept::By(a, b) if old * a == new * b => {
            format!("same batch of {}{unit}, in {b} parts", old * a)
        }
        Kept::By(a, b) => format!(
            "effective batch {} → {}{unit}, in {b} parts",
            old * a,
            new * b
        ),
        Kept::None => {
            format!("effective batch {old} → {new}{unit}: gradients and number of steps change")
        }
    }
}

/// Sets or adds the accumulation of a [`Rule::Flag`] program.
fn accumulate(
    draft: &mut Draft,
    arguments: &Arguments<'_>,
    entry: &Entry,
    batch: &Hit<'_>,
    old: u64,
    new: u64,
    scale: f64,
) -> Result<Kept, String> {
    let accumulation = &entry.accumulation;
    let there: Vec<Hit<'_>> = accumulation
        .names
        .iter()
        .filter_map(|name| last(arguments, name, entry))
        .collect();
    match there.as_slice() {
        [hit] => set_accumulation(draft, arguments, hit, scale),
        [one, two, ..] => Err(format!("{} and {} are both there", one.name, two.name)),
        [] => {
            let configured = accumulation.in_config && entry.is_configured(arguments);
            let refused = accumulation
                .refused_with
                .iter()
                .any(|option| arguments.has(Name::new(option)));
            let Some(default) = accumulation.default.filter(|_| !configured && !refused) else {
                return Ok(Kept::None);
            };
            let steps = times(default, scale);
            if steps <= default || old == new {
                return Ok(Kept::None);
            }
            let Some(words) = addition(accumulation, entry, batch, steps) else {
                return Ok(Kept::None);
            };
            draft.insert(arguments, batch.end(), &words, entry.separator);
            Ok(Kept::By(default, steps))
        }
    }
}

/// An accumulation argument written as the batch argument beside it is.
fn addition(
    accumulation: &Accumulation,
    entry: &Entry,
    batch: &Hit<'_>,
    steps: u64,
) -> Option<Vec<String>> {
    let typed = batch.name;
    let dashes = typed.len() - typed.trim_start_matches('-').len();
    let of_same_kind = |spec: &&String| match (Name::new(spec), batch.form) {
        (Name::Option { dashes: d, .. }, Form::Space | Form::Equals)
            if typed.trim_start_matches('-').len() > 1 =>
        {
            d == dashes
        }
        (Name::Option { .. }, Form::Space | Form::Equals | Form::Glued) => true,
        (Name::Key { suffix, .. }, Form::KeyValue) => !suffix,
        (Name::Pair(_), Form::Pair) => true,
        _ => false,
    };
    let spec = accumulation.names.iter().find(of_same_kind).or_else(|| {
        accumulation
            .names
            .iter()
            .find(|spec| Name::new(spec).is_option() == (dashes > 0))
    })?;
    let canonical = entry
        .batch
        .names
        .iter()
        .find(|name| same(name.trim_start_matches('-'), typed.trim_start_matches('-')));
    let spelled = canonical.map_or_else(|| spec.clone(), |name| as_typed(spec, name, typed));
    Some(match batch.form {
        Form::Equals => vec![format!("{spelled}={steps}")],
        Form::KeyValue => vec![format!("{spelled}{steps}")],
        Form::Space | Form::Glued | Form::Pair => vec![spelled, steps.to_string()],
        Form::Colon => return None,
    })
}

/// `spec` with dashes or underscores as the user prefers them in `typed`.
fn as_typed(spec: &str, canonical: &str, typed: &str) -> String {
    let front = spec.len() - spec.trim_start_matches('-').len();
    let (dashes, body) = spec.split_at(front);
    let has = |name: &str, c| name.trim_start_matches('-').contains(c);
    if has(canonical, '_') && has(typed, '-') && !has(typed, '_') {
        format!("{dashes}{}", body.replace('_', "-"))
    } else if has(canonical, '-') && has(typed, '_') && !has(typed, '-') {
        format!("{dashes}{}", body.replace('-', "_"))
    } else {
        spec.to_string()
    }
}

/// Makes accumulation longer where it is said: a number, a list of them, several words.
fn set_accumulation(
    draft: &mut Draft,
    arguments: &Arguments<'_>,
    hit: &Hit<'_>,
    scale: f64,
) -> Result<Kept, String> {
    let value = hit
        .value
        .ok_or_else(|| format!("{} has no value", hit.name))?;
    let numbers: Option<Vec<(usize, u64)>> = numbers_in(value.text);
    let Some(numbers) = numbers.filter(|n| !n.is_empty()) else {
        return Err(format!(
            "{} is {}, which is no number of steps",
            hit.name, value.text
        ));
    };
    // From the back: a splice moves what stands behind it, not what stands before.
    let mut new = value.text.to_string();
    for (from, number) in numbers.iter().rev() {
        let width = number.to_string().len();
        new.replace_range(*from..from + width, &times(*number, scale).to_string());
    }
    draft.set(hit.name, value, &new);
    // `-accum_count 2 4`: more numbers in the words behind it.
    let mut k = hit.end();
    while hit.form == Form::Space
        && let Some(token) = arguments.tokens.get(k)
        && let Ok(number) = token.text.parse::<u64>()
    {
        let more = Value {
            text: token.text,
            at: token.at,
            from: token.from,
        };
        draft.set(hit.name, more, &times(number, scale).to_string());
        k += 1;
    }
    match numbers.as_slice() {
        [(_, number)] if k == hit.end() => Ok(Kept::By(*number, times(*number, scale))),
        _ => Ok(Kept::By(1, times(1, scale))),
    }
}

/// The numbers of `8`, `[8]`, `8,16`, `[8, 16]` with their places; nothing for anything else.
fn numbers_in(text: &str) -> Option<Vec<(usize, u64)>> {
    let inner = text
        .strip_prefix('[')
        .map_or(Some(text), |t| t.strip_suffix(']'))?;
    let mut at = usize::from(inner.len() < text.len());
    let mut numbers = Vec::new();
    for piece in inner.split(',') {
        let number = piece.trim();
        let canonical = !number.starts_with('0') && number.bytes().all(|b| b.is_ascii_digit());
        let value = number.parse::<u64>().ok().filter(|n| canonical && *n > 0)?;
        numbers.push((at + (piece.len() - piece.trim_start().len()), value));
        at += piece.len() + 1;
    }
    Some(numbers)
}

/// A program whose batch is split by an argument that gives the part's size.
fn by_micro_size(
    arguments: &Arguments<'_>,
    batch: &Hit<'_>,
    entry: &Entry,
    scale: f64,
) -> Result<Smaller, String> {
    let accumulation = &entry.accumulation;
    let whole = count(batch)?;
    let there = accumulation
        .names
        .iter()
        .find_map(|name| last(arguments, name, entry))
        .filter(|hit| count(hit).is_ok());
    let shared = match &accumulation.shared_among {
        None => 1,
        Some(name) => arguments.value_of(name).map_or(Ok(1), |text| {
            text.parse::<u64>()
                .map_err(|_| format!("{name} is {text}, which is no number"))
        })?,
    };
    let old = match &there {
        Some(hit) => count(hit)?,
        None => whole / shared.max(1),
    };
    let new = reduced(old, scale, batch.name)?;
    if let Some((name, default)) = &accumulation.floor {
        let floor = arguments
            .value_of(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(*default);
        if new < floor {
            return Err(format!(
                "{new} on each device would be less than {name}, {floor}"
            ));
        }
    }
    if !whole.is_multiple_of(new * shared.max(1)) {
        return Err(format!(
            "{} {whole} cannot be split into parts of {new}",
            batch.name
        ));
    }
    let mut draft = Draft::default();
    match there.and_then(|hit| Some((hit, hit.value?))) {
        Some((hit, value)) => draft.set(hit.name, value, &new.to_string()),
        None => {
            let words = addition(accumulation, entry, batch, new).ok_or_else(|| {
                format!(
                    "{} is written in a way that leaves no room beside it",
                    batch.name
                )
            })?;
            draft.insert(arguments, batch.end(), &words, entry.separator);
        }
    }
    Ok(Smaller {
        draft,
        from: old,
        to: new,
        cost: format!("same batch of {whole}, in parts of {new}"),
    })
}

/// A program that divides its batch by the accumulation steps: those alone are raised.
fn by_dividing(
    arguments: &Arguments<'_>,
    batch: &Hit<'_>,
    entry: &Entry,
    scale: f64,
) -> Result<Smaller, String> {
    let accumulation = &entry.accumulation;
    let whole = count(batch)?;
    let there = accumulation
        .names
        .iter()
        .find_map(|name| last(arguments, name, entry));
    let steps = match &there {
        Some(hit) => count(hit)?,
        None => accumulation.default.unwrap_or(1),
    };
    let old = whole / steps.max(1);
    reduced(old, scale, batch.name)?;
    let more = times(steps, scale);
    if more <= steps {
        return Err("accumulation goes in whole steps; this little less is not possible".into());
    }
    let mut draft = Draft::default();
    match there.and_then(|hit| Some((hit, hit.value?))) {
        Some((hit, value)) => draft.set(hit.name, value, &more.to_string()),
        None => {
            let words = addition(accumulation, entry, batch, more).ok_or_else(|| {
                format!(
                    "{} is written in a way that leaves no room beside it",
                    batch.name
                )
            })?;
            draft.insert(arguments, batch.end(), &words, entry.separator);
        }
    }
    Ok(Smaller {
        draft,
        from: old,
        to: whole / more,
        cost: format!("same batch of {whole}: it is divided by the accumulation steps"),
    })
}

/// What a known program demands of a new value.
fn check(
    arguments: &Arguments<'_>,
    entry: &Entry,
    recognised: &Recognised,
    hit: &Hit<'_>,
    new: u64,
) -> Result<(), String> {
    if let Some(name) = &entry.batch.floor
        && let Some(least) = arguments.value_of(name).and_then(|v| v.parse::<u64>().ok())
        && hit.name.contains("tokens")
        && new < least
    {
        return Err(format!(
            "{} {new} would be less than {name} {least}",
            hit.name
        ));
    }
    if let Some(devices) = devices(arguments, entry, recognised)
        && devices > 1
        && !new.is_multiple_of(devices)
    {
        return Err(format!(
            "{} {new} cannot be split among {devices} devices",
            hit.name
        ));
    }
    Ok(())
}

/// Among how many devices the batch is split, where the program insists on equal parts.
fn devices(arguments: &Arguments<'_>, entry: &Entry, recognised: &Recognised) -> Option<u64> {
    let batch = &entry.batch;
    if batch.devices.is_none() && batch.device_list.is_empty() {
        return None;
    }
    let said = batch
        .devices
        .iter()
        .flatten()
        .find_map(|name| arguments.value_of(name)?.parse::<u64>().ok());
    let listed = || {
        let list = batch
            .device_list
            .iter()
            .find_map(|name| arguments.value_of(name))?;
        Some(list.split(',').filter(|part| !part.is_empty()).count() as u64)
    };
    said.or_else(listed)
        .or_else(|| recognised.processes().map(u64::from))
}

fn of_unknown(
    command: &CommandLine,
    recognised: &Recognised,
    arguments: &Arguments<'_>,
    scale: f64,
) -> Result<Smaller, String> {
    let found = family::batches(arguments);
    let assigned = assigned_batches(command, recognised);
    if found.is_empty() {
        return by_environment(command, recognised, assigned, scale);
    }
    if !assigned.is_empty() {
        return Err(format!(
            "{} and {} are both there",
            assigned[0].name, found[0].1.name
        ));
    }
    let program = command
        .argv
        .get(recognised.anatomy.program)
        .map_or("", text);
    let at_level = |levels: &[Level]| -> Result<Option<Hit<'_>>, String> {
        let of: Vec<&Hit<'_>> = found
            .iter()
            .filter(|(level, _)| levels.contains(level))
            .map(|(_, hit)| hit)
            .collect();
        match of.last() {
            None => Ok(None),
            Some(hit) => match of.iter().find(|other| !same(other.name, hit.name)) {
                Some(other) => Err(format!(
                    "{} and {} both look like the batch",
                    other.name, hit.name
                )),
                None => Ok(Some(**hit)),
            },
        }
    };
    let steps = family::accumulations(arguments);
    if let Some((one, two)) = steps
        .first()
        .zip(steps.iter().find(|s| !same(s.name, steps[0].name)))
    {
        return Err(format!(
            "{} and {} both look like accumulation",
            one.name, two.name
        ));
    }
    let (hit, total) = match at_level(&[Level::Micro])? {
        Some(hit) => (hit, found.iter().find(|(level, _)| *level != Level::Micro)),
        None => {
            if let Some((_, total)) = found.iter().find(|(level, _)| *level == Level::Total) {
                return Err(format!(
                    "{} is a total; what one device takes at once is not in the command",
                    total.name
                ));
            }
            let Some(hit) = at_level(&[Level::Plain, Level::Divided])? else {
                return Err("no batch size in the command".into());
            };
            let is_divided = found.iter().any(|(level, _)| *level == Level::Divided);
            if is_divided && let Some(steps) = steps.last() {
                return Err(format!(
                    "whether {program} divides {} by {} is not known",
                    hit.name, steps.name
                ));
            }
            (hit, None)
        }
    };
    if let Some(option) = ["--deepspeed_config", "--deepspeed-config"]
        .iter()
        .find(|option| arguments.has(Name::new(option)))
    {
        return Err(format!(
            "the file after {option} may state the batch too, and they must agree"
        ));
    }
    let old = count(&hit)?;
    let new = reduced(old, scale, hit.name)?;
    let mut draft = Draft::default();
    if let Some(value) = hit.value {
        draft.set(hit.name, value, &new.to_string());
    }
    let kept = match steps.last() {
        Some(steps) => set_accumulation(&mut draft, arguments, steps, scale)?,
        None => Kept::None,
    };
    let cost = match (total, kept) {
        (Some((_, total)), Kept::None) => {
            format!(
                "{} stays; most programs then take more micro-batches",
                total.name
            )
        }
        _ => cost(old, new, kept, None),
    };
    Ok(Smaller {
        draft,
        from: old,
        to: new,
        cost,
    })
}

/// A variable in front of the command that says a batch or an accumulation.
struct Assigned<'a> {
    name: &'a str,
    value: &'a str,
    /// The word, or nothing where it was typed before oomph's command began.
    at: Option<usize>,
}

fn assigned<'a>(
    command: &'a CommandLine,
    recognised: &Recognised,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Assigned<'a>> {
    let typed = command.env.iter().filter_map(|change| {
        Some(Assigned {
            name: change.name.as_str()?,
            value: change.value.as_ref()?.as_str()?,
            at: None,
        })
    });
    let words = recognised.anatomy.assignments.iter().filter_map(|at| {
        let (name, value) = text(&command.argv[*at]).split_once('=')?;
        Some(Assigned {
            name,
            value,
            at: Some(*at),
        })
    });
    typed.chain(words).filter(|a| wanted(a.name)).collect()
}

fn assigned_batches<'a>(command: &'a CommandLine, recognised: &Recognised) -> Vec<Assigned<'a>> {
    assigned(command, recognised, |name| {
        matches!(
            family::batch_level(name),
            Some(Level::Micro | Level::Plain | Level::Divided)
        )
    })
}

/// Programs that read their settings from the environment (`BATCH_SIZE=32 python train.py`).
fn by_environment(
    command: &CommandLine,
    recognised: &Recognised,
    batches: Vec<Assigned<'_>>,
    scale: f64,
) -> Result<Smaller, String> {
    let [batch] = batches.as_slice() else {
        return Err(match batches.as_slice() {
            [one, two, ..] => format!("{} and {} both look like the batch", one.name, two.name),
            _ => match recognised.anatomy.kind {
                Kind::ShellScript => {
                    let script = command
                        .argv
                        .get(recognised.anatomy.program)
                        .map_or("", text);
                    format!("the batch size is inside {}", file_name(script))
                }
                _ => "no batch size in the command".into(),
            },
        });
    };
    let old = parsed(batch.value, batch.name)?;
    let new = reduced(old, scale, batch.name)?;
    let mut draft = Draft::default();
    assign(&mut draft, batch, new);
    let steps = assigned(command, recognised, family::is_accumulation);
    let kept = match steps.as_slice() {
        [] => Kept::None,
        [steps] => {
            let number = parsed(steps.value, steps.name)?;
            assign(&mut draft, steps, times(number, scale));
            Kept::By(number, times(number, scale))
        }
        [one, two, ..] => return Err(format!("{} and {} are both there", one.name, two.name)),
    };
    Ok(Smaller {
        draft,
        from: old,
        to: new,
        cost: cost(old, new, kept, None),
    })
}

fn assign(draft: &mut Draft, assigned: &Assigned<'_>, new: u64) {
    match assigned.at {
        Some(at) => draft.set(
            assigned.name,
            Value {
                text: assigned.value,
                at,
                from: assigned.name.len() + 1,
            },
            &new.to_string(),
        ),
        None => draft.set_env(assigned.name, Some(assigned.value), &new.to_string()),
    }
}

/// The argument that counts: of several of one name the last.
fn last<'a>(arguments: &Arguments<'a>, name: &str, entry: &Entry) -> Option<Hit<'a>> {
    let wanted = Name::new(name);
    let hits = if entry.abbreviates {
        let others: Vec<Name<'_>> = entry
            .look_alikes
            .iter()
            .chain(&entry.batch.names)
            .chain(&entry.accumulation.names)
            .map(|other| Name::new(other))
            .collect();
        arguments.find_abbreviated(wanted, &others)
    } else {
        arguments.find(wanted)
    };
    hits.last().copied()
}

/// An argument's value as a number of samples.
fn count(hit: &Hit<'_>) -> Result<u64, String> {
    match hit.value {
        Some(value) => parsed(value.text, hit.name),
        None => Err(format!("{} has no value", hit.name)),
    }
}

fn parsed(text: &str, name: &str) -> Result<u64, String> {
    // Signs, spaces and leading zeros would not come back as they went.
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    match text.parse::<u64>() {
        Ok(number) if is_plain => Ok(number),
        _ if matches!(text, "-1" | "auto")
            || text.parse::<f64>().is_ok_and(|f| f > 0.0 && f < 1.0) =>
        {
            Err(format!(
                "{name} is {text}: the program looks for a batch that fits by itself"
            ))
        }
        _ if text.contains(',') => Err(format!(
            "{name} is a list, {text}: several runs or several batches"
        )),
        _ => Err(format!("{name} is {text}, which is no number of samples")),
    }
}

/// `scale` times the value, at least 1.
fn reduced(old: u64, scale: f64, name: &str) -> Result<u64, String> {
    let new = ((old as f64 * scale).floor() as u64).max(1);
    if old == 1 {
        Err(format!("{} is 1 already", name.trim_start_matches('+')))
    } else if new >= old {
        Err(format!("{old} × {scale} is no smaller batch"))
    } else {
        Ok(new)
    }
}

/// How many accumulation steps make up for a batch of `scale` times.
fn times(steps: u64, scale: f64) -> u64 {
    ((steps as f64 / scale).round() as u64).max(steps)
}
