//! What is said of an OOM or of a command, once for every output: blocks, each of which text, Markdown, HTML and the
//! screen lay out in one way of their own.
//!
//! Here are the blocks, and what a finding, the lines that held memory and the remedies are as such.
//! Which of them an output has, and in what order, is its own choice. No I/O.

pub mod html;
pub mod markdown;
mod offers;
mod proof;
pub mod text;
mod told_apart;

pub use offers::{is_of_little_use, of_little_use, offers, refused, relaunch};
pub use proof::{RunProof, proof_words};
pub use told_apart::{MadeByLine, told_apart};

use crate::anatomy::{
    Category, Holding, ModuleHolding, StepAnatomy, StepGrowth, WithoutLine, by_category, by_line,
    by_module,
};
use crate::diagnosis::{AdvisedChange, AmongRanks, Certainty, Evidence, Finding, Phrase};
use crate::event::{
    LineUsage, MemoryKind, OomRecord, Retainer, RetainerKind, Retainers, SourceLine,
};
use crate::remedy::{Availability, Remedy, RemedyId};
use crate::state::{OomIncident, RankState, SourceTexts};
use crate::units::Bytes;

#[derive(Debug, Clone, PartialEq)]
pub enum DocumentBlock {
    /// What the blocks below it are about.
    Heading(Heading),
    Sentence(Sentence),
    /// Figures that belong together.
    FigureSum(FigureSum),
    /// Names and figures, a row each.
    Table(Vec<Figure>),
    Tree(Tree),
    /// A changed command.
    Relaunch(Relaunch),
    Remark(Remark),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    pub words: String,
    /// What the part leaves out, for brackets.
    pub aside: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sentence {
    pub voice: Voice,
    pub words: Phrase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Voice {
    /// Why memory ran out.
    Cause(Certainty, &'static str),
    /// What is true as well, but less certain.
    Also(Certainty, &'static str),
    /// What the ranks did.
    Ranks,
    /// What stands below a heading or a cause.
    Detail,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureSum {
    /// What the figures are.
    pub of: SumOf,
    pub figures: Vec<Figure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumOf {
    /// What a finding rests on.
    Evidence,
    /// The parts of a whole that a heading names.
    Parts,
}

/// Places, and what each holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Lines of the program.
    Lines(Vec<MemoryHolder>),
    /// Modules of the model.
    Modules(Vec<MemoryHolder>),
    /// What grew from step to step.
    Growing(Vec<Growing>),
    /// What in the program keeps the memory alive.
    Retainers(Retainers),
    /// A stack, the innermost line first.
    Stack(Vec<SourceLine>),
}

/// A line or a module that holds memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryHolder {
    /// "train.py:88 forward", "in transformer.h.0–11".
    pub place: String,
    /// The library's line below it.
    pub inside: Option<String>,
    /// What the program's line says.
    pub says: Option<String>,
    pub category: Option<Category>,
    /// Whether no line or module of it is known: the place says why.
    pub place_is_unknown: bool,
    pub bytes: Bytes,
    pub blocks: u64,
    /// So many modules, alike but for a number.
    pub alike: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growing {
    pub place: String,
    /// What the program's line says.
    pub says: Option<String>,
    pub per_step: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relaunch {
    /// The remedy.
    pub what: String,
    /// What it changes, is expected to need, and costs.
    pub facts: Vec<String>,
    /// The whole new command, secrets masked.
    pub command: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub of: RemarkOf,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemarkOf {
    /// What the user can do, and oomph cannot.
    Advice,
    /// What to change in the program, and where.
    InCode,
}

const LINE_UNKNOWN: &str = "line not known";

const BY_AUTOGRAD: &str = "made by autograd in the backward pass, where no line of Python runs";

const FROM_BEFORE: &str = "from before this step";

/// Of what earlier steps left: it was made in some module, which none was traced in.
pub(crate) const MODULE_NOT_SEEN: &str = "module not seen";

fn in_module(name: Option<&str>) -> String {
    name.map_or_else(|| "outside of modules".into(), |name| format!("in {name}"))
}

impl DocumentBlock {
    pub fn heading(words: impl Into<String>) -> DocumentBlock {
        DocumentBlock::Heading(Heading {
            words: words.into(),
            aside: None,
        })
    }

    pub fn detail(words: impl Into<Phrase>) -> DocumentBlock {
        DocumentBlock::Sentence(Sentence {
            voice: Voice::Detail,
            words: words.into(),
        })
    }
}

impl Figure {
    pub fn new(name: impl Into<String>, value: impl ToString) -> Figure {
        Figure {
            name: name.into(),
            value: value.to_string(),
        }
    }
}

impl MemoryHolder {
    pub fn path(&self, arrow: &str) -> String {
        match &self.inside {
            Some(inside) => format!("{} {arrow} {inside}", self.place),
            None => self.place.clone(),
        }
    }

    /// "96 blocks".
    pub fn blocks(&self) -> String {
        match self.blocks {
            1 => "1 block".into(),
            blocks => format!("{blocks} blocks"),
        }
    }

    fn of_record(line: &LineUsage, source: &SourceTexts) -> MemoryHolder {
        MemoryHolder {
            place: line.line.path_to(None, ""),
            inside: line.inside.as_ref().map(|inside| inside.path_to(None, "")),
            says: source.of(&line.line).map(String::from),
            category: match line.kind {
                Some(MemoryKind::Parameters) => Some(Category::Parameters),
                Some(MemoryKind::Gradients) => Some(Category::Gradients),
                Some(MemoryKind::OptimizerState) => Some(Category::OptimizerState),
                Some(MemoryKind::Frozen) => Some(Category::Frozen),
                Some(MemoryKind::Unknown) | None => None,
            },
            place_is_unknown: false,
            bytes: line.bytes,
            blocks: line.blocks,
            alike: 1,
        }
    }

    fn of_step(holding: &Holding, source: &SourceTexts) -> MemoryHolder {
        let line = holding.line.as_ref();
        let inside = holding.inside.as_ref();
        MemoryHolder {
            place: match (line, holding.without_line) {
                (Some(line), _) => line.path_to(None, ""),
                (None, Some(WithoutLine::Backward)) => BY_AUTOGRAD.into(),
                (None, Some(WithoutLine::FromBefore)) => FROM_BEFORE.into(),
                (None, Some(WithoutLine::Unseen) | None) => LINE_UNKNOWN.into(),
            },
            inside: inside.map(|inside| inside.path_to(None, "")),
            says: line.and_then(|line| source.of(line)).map(String::from),
            category: Some(holding.category),
            place_is_unknown: line.is_none(),
            bytes: holding.bytes,
            blocks: holding.blocks as u64,
            alike: 1,
        }
    }

    fn of_module(holding: &ModuleHolding) -> MemoryHolder {
        let is_earlier = holding.from_before.fraction_of(holding.bytes) > Some(MOST_OF_IT);
        MemoryHolder {
            place: match &holding.module {
                None if holding.category == Category::Kept => MODULE_NOT_SEEN.into(),
                None if is_earlier => FROM_BEFORE.into(),
                module => in_module(module.as_deref()),
            },
            inside: None,
            says: None,
            category: Some(holding.category),
            place_is_unknown: false,
            bytes: holding.bytes,
            blocks: holding.blocks as u64,
            alike: holding.alike,
        }
    }
}

/// A finding with everything that belongs to it. The one that is not the first is told as something that
/// is true as well.
pub fn finding(finding: &Finding, is_first: bool) -> Vec<DocumentBlock> {
    let mut blocks = vec![headline(finding, is_first)];
    blocks.extend(ranks(finding));
    if !finding.explanation.is_empty() {
        blocks.push(DocumentBlock::detail(finding.explanation.as_str()));
    }
    blocks.extend(evidence(finding.evidence.iter()));
    blocks.extend(advice(finding));
    blocks
}

/// What the user can do, most useful first; the first with the line to change, where that is known.
pub fn advice(finding: &Finding) -> impl Iterator<Item = DocumentBlock> {
    let others = finding.advice.iter().skip(1).cloned();
    finding.in_code().into_iter().chain(others).map(|advice| {
        DocumentBlock::Remark(Remark {
            of: RemarkOf::Advice,
            words: advice.to_string(),
        })
    })
}

/// A finding whose advice says where the remedy for it is not offered, and why: what is, comes first, unless the first advice is of a
/// line of the program.
pub fn beside_remedies(finding: &Finding, remedies: &[Remedy]) -> Finding {
    let mut finding = finding.clone();
    let (mut first, mut refused) = (Vec::new(), Vec::new());
    for mut advice in std::mem::take(&mut finding.advice) {
        let is_of_a_line = finding.place.is_some() && first.is_empty() && refused.is_empty();
        match refusal(&advice, remedies) {
            None => first.push(advice),
            Some(reason) => {
                advice.push("; not offered here: ", reason.as_str());
                match is_of_a_line {
                    true => first.push(advice),
                    false => refused.push(advice),
                }
            }
        }
    }
    first.append(&mut refused);
    finding.advice = first;
    finding
}

/// Why the remedy that would follow an advice is not offered.
fn refusal<'r>(advice: &Phrase, remedies: &'r [Remedy]) -> Option<&'r Phrase> {
    let id = match AdvisedChange::of(advice)? {
        AdvisedChange::SmallerBatch => RemedyId::Batch,
        AdvisedChange::Checkpointing => RemedyId::Recompute,
        AdvisedChange::Precision => RemedyId::Amp,
    };
    let remedy = remedies.iter().find(|remedy| remedy.id == id)?;
    match &remedy.availability {
        Availability::Offered => None,
        Availability::NotOffered(reason) => Some(reason),
    }
}

/// A cause's title and what is said of it, which may begin with the same words.
fn named(title: &str, words: &str) -> String {
    let begins = words.get(..title.len());
    match begins.filter(|begin| begin.eq_ignore_ascii_case(title)) {
        Some(begin) => format!("{title}{}", &words[begin.len()..]),
        None => format!("{title}. {words}"),
    }
}

pub fn headline(finding: &Finding, is_first: bool) -> DocumentBlock {
    let (certainty, title) = (finding.certainty, finding.cause.spec().title);
    DocumentBlock::Sentence(Sentence {
        voice: match is_first {
            true => Voice::Cause(certainty, title),
            false => Voice::Also(certainty, title),
        },
        words: finding.headline.clone(),
    })
}

/// Which rank it was, whether it is that rank's need alone, and what followed.
pub fn ranks(finding: &Finding) -> impl Iterator<Item = DocumentBlock> {
    let sentences = finding.ranks.iter().flat_map(AmongRanks::sentences);
    sentences.map(|words| {
        DocumentBlock::Sentence(Sentence {
            voice: Voice::Ranks,
            words: words.into(),
        })
    })
}

/// " (12.7 GiB by PyTorch's counter, …)" behind the peak of a traced step, where that prints as another figure.
pub fn counted(rank: &RankState, step: &StepAnatomy) -> String {
    let counted = rank.counted_peak(step.step, step.allocated[step.peak()]);
    counted.map_or(String::new(), |counted| {
        format!(" ({counted} by PyTorch's counter, which has whole blocks where only a part was asked for)")
    })
}

pub fn evidence<'a>(numbers: impl Iterator<Item = &'a Evidence>) -> Option<DocumentBlock> {
    let figures = numbers.map(|number| Figure::new(&number.what, number.bytes));
    let figures: Vec<Figure> = figures.collect();
    (!figures.is_empty()).then_some(DocumentBlock::FigureSum(FigureSum {
        of: SumOf::Evidence,
        figures,
    }))
}

/// What to change in the program, where the place is known.
pub fn in_code(finding: &Finding) -> Option<DocumentBlock> {
    finding.place.as_ref()?;
    let words = finding.in_code()?.to_string();
    Some(DocumentBlock::Remark(Remark {
        of: RemarkOf::InCode,
        words,
    }))
}

/// The lines with the most live memory at an OOM, as the probe's observer saw them.
pub fn lines_of(oom: &OomIncident, source: &SourceTexts) -> Vec<MemoryHolder> {
    let lines = oom.record.iter().flat_map(|record| &record.lines);
    lines
        .map(|line| MemoryHolder::of_record(line, source))
        .collect()
}

/// Below this share of what is allocated the lines that are known are not those that took the memory.
const MOST_OF_IT: f64 = 0.5;

/// From this share on they are as good as all.
const NEARLY_ALL: f64 = 0.95;

/// How much of what was allocated at an OOM has a line that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownLines {
    known: Bytes,
    /// What of it is told by the blocks' sizes.
    alike: Bytes,
    of: Bytes,
}

impl KnownLines {
    /// `None` where the probe recorded no line.
    pub fn at(oom: &OomIncident) -> Option<KnownLines> {
        let record = oom
            .record
            .as_ref()
            .filter(|record| !record.lines.is_empty())?;
        // An earlier probe sent the largest alone.
        let named = || record.lines.iter().map(|line| line.bytes).sum();
        Some(KnownLines {
            known: record.lines_known.unwrap_or_else(named),
            alike: record.lines_alike.unwrap_or_default(),
            of: record.sample.allocated,
        })
    }

    /// Whether the largest of them can be said to have taken the memory.
    pub fn is_most(self) -> bool {
        self.share() >= MOST_OF_IT
    }

    fn share(self) -> f64 {
        self.known.fraction_of(self.of).unwrap_or(1.0)
    }

    /// Whether much of what the lines are said to have is told by the blocks' sizes.
    pub fn is_partly_inferred(self) -> bool {
        self.alike > self.known.scale(1.0 - NEARLY_ALL)
    }

    /// What has a line, also by the blocks' sizes.
    pub fn known(self) -> Bytes {
        self.known
    }

    pub fn unknown(self) -> Bytes {
        self.of - self.known
    }

    pub fn all(self) -> Bytes {
        self.of
    }

    /// "known for 0.5 of 23.4 GiB", where that is not nearly all.
    pub fn words(self) -> Option<String> {
        let recorded = self.known - self.alike;
        let (known, of) = (recorded.as_gib(), self.of.as_gib());
        let is_told = self.share() < NEARLY_ALL || self.alike > Bytes::ZERO;
        is_told.then(|| {
            let known = match of >= 1.0 {
                true => format!("known for {known:.1} of {of:.1} GiB"),
                false => format!("known for {recorded} of {}", self.of),
            };
            match self.alike {
                Bytes::ZERO => known,
                alike => format!(
                    "{known}, {alike} more inferred from blocks of the same size; each line has both"
                ),
            }
        })
    }
}

/// Why there are blocks at an OOM whose lines are not known: recording them all the time would cost the training up to a tenth.
const WHY_NOT_ALL: &str =
    "oomph records them in the first steps and while memory grows, not in every step";

/// "Lines known for 0.5 of 23.3 GiB", and why not for all.
pub fn why_not_all(known: &str) -> Phrase {
    Phrase::from(format!("Lines {known}")).and(": ", WHY_NOT_ALL)
}

/// From so much more on the lines' figure is another one.
const NOTABLY_MORE: f64 = 1.02;

/// Why a line has more of the optimizer state than there is of it: the one is measured in blocks, the other in tensors.
pub fn in_blocks(record: &OomRecord) -> Option<DocumentBlock> {
    let tensors = record.structure.as_ref()?.optimizer_state;
    let of_state = |line: &&LineUsage| line.kind == Some(MemoryKind::OptimizerState);
    let of_lines = record.lines.iter().filter(of_state);
    let blocks: Bytes = of_lines.map(|line| line.bytes).sum();
    (blocks > tensors.scale(NOTABLY_MORE)).then(|| {
        DocumentBlock::detail(format!(
            "lines are measured in the allocator's blocks: the optimizer state's tensors, {tensors}, take {blocks} of them"
        ))
    })
}

/// The lines with the most live memory at an OOM, so many at the most, for whoever has no room for more; where
/// too little is known of them, that, and why. What has leaked is told apart.
fn largest_lines(
    oom: &OomIncident,
    source: &SourceTexts,
    most: usize,
    leaked: Option<Bytes>,
) -> Vec<DocumentBlock> {
    let Some(known) = KnownLines::at(oom) else {
        return Vec::new();
    };
    match known.words().filter(|_| !known.is_most()) {
        Some(words) => vec![DocumentBlock::detail(why_not_all(&words))],
        None => {
            let mut lines = lines_of(oom, source);
            if leaked.is_some() {
                lines = told_apart(lines, oom, leaked, &MadeByLine::default());
            }
            lines.truncate(most);
            vec![DocumentBlock::Tree(Tree::Lines(lines))]
        }
    }
}

/// The same, and where too little is known of them the lines of a step of the same process that was traced whole.
pub fn largest_lines_or_of_step(
    oom: &OomIncident,
    source: &SourceTexts,
    most: usize,
    step: Option<&StepAnatomy>,
    leaked: Option<Bytes>,
) -> Vec<DocumentBlock> {
    let mut blocks = largest_lines(oom, source, most, leaked);
    let is_known = KnownLines::at(oom).is_none_or(KnownLines::is_most);
    if let Some(step) = step.filter(|_| !is_known) {
        let peak = step.peak();
        let held = main_lines_at(step, peak, source, most);
        blocks.push(DocumentBlock::detail(traced_instead(step)));
        blocks.push(DocumentBlock::Tree(Tree::Lines(held)));
    }
    blocks
}

/// Heads the lines of a traced step where too little is known of those at the OOM.
pub fn traced_instead(step: &StepAnatomy) -> String {
    let (number, bytes) = (step.step, step.allocated[step.peak()]);
    format!("Step {number} was traced whole; of its peak of {bytes} most was allocated by:")
}

/// Without what the program's lines say.
pub fn leave_out_source(blocks: &mut [DocumentBlock]) {
    for block in blocks {
        if let DocumentBlock::Tree(Tree::Lines(lines)) = block {
            lines.iter_mut().for_each(|line| line.says = None);
        }
    }
}

/// A heading for all lines of an OOM, with how much of it is known.
pub fn lines_heading(words: &str, oom: &OomIncident) -> DocumentBlock {
    DocumentBlock::Heading(Heading {
        words: words.into(),
        aside: KnownLines::at(oom).and_then(KnownLines::words),
    })
}

/// The lines that hold memory at a position of a traced step, the largest first; what has none comes behind them, and says why.
pub fn lines_at(step: &StepAnatomy, position: usize, source: &SourceTexts) -> Vec<MemoryHolder> {
    let (lines, others): (Vec<_>, Vec<_>) =
        (by_line(step, position).into_iter()).partition(|of| of.line.is_some());
    lines
        .iter()
        .chain(&others)
        .map(|of| MemoryHolder::of_step(of, source))
        .collect()
}

/// From this share of what is allocated on what has no line is told behind the largest lines.
const NOTABLE_WITHOUT_LINE: f64 = 0.1;

/// The largest lines at a position of a traced step, so many at the most, and how much has none where that is much.
pub fn main_lines_at(
    step: &StepAnatomy,
    position: usize,
    source: &SourceTexts,
    most: usize,
) -> Vec<MemoryHolder> {
    let notable = step.allocated[position].scale(NOTABLE_WITHOUT_LINE);
    let without_line = |held: &MemoryHolder| held.place_is_unknown && held.bytes >= notable;
    let held = lines_at(step, position, source).into_iter().enumerate();
    held.filter(|(n, held)| *n < most || without_line(held))
        .map(|(_, held)| held)
        .collect()
}

/// The modules that hold memory at a position of a traced step.
pub fn modules_at(step: &StepAnatomy, position: usize) -> Vec<MemoryHolder> {
    let modules = by_module(step, position);
    modules.iter().map(MemoryHolder::of_module).collect()
}

/// What is allocated at a position of a traced step, the largest part first.
pub fn parts_at(step: &StepAnatomy, position: usize) -> DocumentBlock {
    let mut parts = Vec::from(by_category(step, position));
    parts.retain(|(_, bytes)| *bytes > Bytes::ZERO);
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let figures = parts.iter();
    DocumentBlock::FigureSum(FigureSum {
        of: SumOf::Parts,
        figures: figures
            .map(|(category, bytes)| Figure::new(category.title(), bytes))
            .collect(),
    })
}

/// The lines whose live memory grew up to the OOM, with the steps between which it was looked at.
pub fn growing_lines(
    oom: &OomIncident,
    source: &SourceTexts,
) -> Option<((u64, u64), Vec<Growing>)> {
    let lines = &oom.record.as_ref()?.growing;
    let first = lines.first()?;
    let growing = lines.iter().map(|of| Growing {
        place: of.line.path_to(of.inside.as_ref(), "→"),
        says: source.of(&of.line).map(String::from),
        per_step: of.per_step,
    });
    Some(((first.from_step, first.to_step), growing.collect()))
}

/// What grew over the traced steps: lines if they are asked for, then modules. How much a step: a total of the traced steps
/// alone would stand beside what the leak has taken in all as a second figure for it.
pub fn grown(growth: &StepGrowth, with_lines: bool) -> Vec<Growing> {
    let lines = growth.lines.iter().filter(|_| with_lines).map(|of| {
        let line = of.line.as_ref().map(|line| line.path_to(None, ""));
        (line.unwrap_or(LINE_UNKNOWN.into()), of.bytes)
    });
    let modules = growth
        .modules
        .iter()
        .map(|of| (in_module(of.module.as_deref()), of.bytes));
    let all = lines.chain(modules).map(|(place, bytes)| Growing {
        place,
        says: None,
        per_step: growth.each_step(bytes),
    });
    all.collect()
}

/// From this share on what a tensor keeps is what its autograd graph keeps.
const ALL_OF_A_GRAPH: f64 = 0.9;

const OF_THIS_STEP: &str = "Kept for the running step's backward pass by";

/// Who keeps the memory alive, with its heading; nothing if no name was found. Where a container keeps it, a tensor of a function
/// that runs is the graph of the step that runs: that is told as such, since it is no second figure for what has leaked.
pub fn kept_alive(found: &Retainers, heading: &str) -> Vec<DocumentBlock> {
    let (kept, graphs) = by_lifetime(found);
    let aside = match kept.len() {
        1 => "parameters, gradients and optimizer state left out",
        _ => {
            "parameters, gradients and optimizer state left out; two of these may keep the same memory"
        }
    };
    let part = |words: &str, aside: Option<&str>, retainers: Vec<Retainer>| {
        let heading = DocumentBlock::Heading(Heading {
            words: words.into(),
            aside: aside.map(String::from),
        });
        let of = Retainers {
            retainers,
            left: None,
            ..found.clone()
        };
        (!of.retainers.is_empty()).then_some([heading, DocumentBlock::Tree(Tree::Retainers(of))])
    };
    let parts = [
        part(heading, Some(aside), kept),
        part(OF_THIS_STEP, None, graphs),
    ];
    let mut blocks: Vec<DocumentBlock> = parts.into_iter().flatten().flatten().collect();
    if let Some(DocumentBlock::Tree(Tree::Retainers(last))) = blocks.last_mut() {
        last.left.clone_from(&found.left);
    }
    blocks
}

/// What is kept from step to step, and what the running step keeps for its backward pass alone: that is no leak.
pub fn by_lifetime(found: &Retainers) -> (Vec<Retainer>, Vec<Retainer>) {
    // A method that runs has the tensor that it is of: nobody keeps that for longer.
    let runs = |found: &&Retainer| {
        found.kind == RetainerKind::Local && found.name == "self" && found.length.is_none()
    };
    let mut lasting = found.clone();
    lasting.retainers.retain(|found| !runs(&found));
    let has_container = lasting.main().is_some_and(|main| main.length.is_some());
    let of_this_step = |found: &Retainer| {
        let graph = found.graph.fraction_of(found.bytes);
        has_container
            && found.kind == RetainerKind::Local
            && found.length.is_none()
            && graph >= Some(ALL_OF_A_GRAPH)
    };
    (lasting.retainers.into_iter()).partition(|found| !of_this_step(found))
}
