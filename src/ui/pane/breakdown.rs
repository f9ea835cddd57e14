//! The breakdown of a device's memory: its parts in a fixed order, each with its figure and share, and all of them in one stacked bar.

use crate::anatomy::{Category, KEPT, KEPT_BRIEF};
use crate::calibration::NON_TORCH_USUAL;
use crate::diagnosis::{Cause, Finding, GrownSoFar};
use crate::state::{Breakdown, DeviceState, Run, RunOutcome, State};
use crate::ui::canvas::{Canvas, Pen, columns};
use crate::ui::headroom;
use crate::ui::pane::ListScroll;
use crate::ui::pane::rank_map;
use crate::ui::pane::spec::{PaneRows, PaneSpec};
use crate::ui::scene::Scene;
use crate::ui::step::choice;
use crate::ui::theme::{Depth, Glyphs, Theme, Tone};
use crate::ui::view::View;
use crate::ui::words::{Figures, ranks_on};
use crate::units::Bytes;
use ratatui::layout::Rect;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    subtitle: |view, state| Some(moment_words(view, state)),
    own_rows: |view, state, screen, _| {
        let more = rows_more(view, state);
        match screen >= HEIGHT_FOR_ALL {
            true => HEIGHT + 1 + more,
            // The bar and the capacity stand in the chart, too.
            false => HEIGHT - 1 + more,
        }
    },
    rows: PaneRows::Fixed(|view, scene, _| HEIGHT + rows_more(view, scene.state)),
    short: "mem",
    ..PaneSpec::plain("memory", draw)
};

/// Rows of bar, list and capacity, without the title.
const HEIGHT: u16 = 10;

/// On lower screens the events have the rows of bar and capacity.
const HEIGHT_FOR_ALL: u16 = 40;

/// Whether there is a row for what FSDP gathers. Ranks are many, and this is asked for every frame: not by what their devices are
/// made of.
fn gathers(run: &Run) -> bool {
    run.ranks.iter().any(|rank| {
        let sample = rank.sample.as_ref();
        let is_divided = rank
            .structure
            .is_some_and(|structure| structure.whole.is_some());
        is_divided && sample.is_some_and(|(_, sample)| sample.gathered.is_some())
    })
}

/// Rows of parts that most trainings don't have.
fn rows_more(view: &View, state: &State) -> u16 {
    let device = view.device(state);
    let leaks = device.is_some_and(|device| headroom::grows(view, state, device));
    u16::from(state.run().is_some_and(gathers)) + u16::from(leaks)
}

/// What FSDP gathers beside a rank's shards.
const GATHERED: &str = "gathered layers";

#[derive(Clone, Copy)]
struct BreakdownPart {
    pub name: &'static str,
    /// The part's names where there is little room, the longest first.
    pub short: &'static [&'static str],
    pub tone: Tone,
    /// The glyph of the part's bar.
    pub fill: fn(&Glyphs) -> &'static str,
    /// The letter of the part's bar where there are no colours.
    pub letter: &'static str,
    /// An explanation.
    pub says: &'static str,
    pub bytes: Option<Bytes>,
    /// Whether it is what is usual and not what was measured.
    pub is_about: bool,
}

impl BreakdownPart {
    /// A cell of it in the list, which is the one that it has in the bar.
    fn glyph(&self, theme: &Theme) -> &'static str {
        match theme.has_letters() {
            true => self.letter,
            false => (self.fill)(theme.glyphs),
        }
    }
}

/// Stands for how much of the activations and other memory stays between steps.
const STAYS: &str = "kept after each step";

/// Stands for how much more it is with each step.
const GROWS: &str = "grows";

/// From this share of the GPU on, what stays between steps beside the model is named: the outputs of the last batch are less.
const NOTABLE: f64 = 0.1;

/// What the processes of a device keep between steps beside parameters, gradients and the optimizer's state: a frozen model, lists
/// that the program fills, what leaks.
fn kept_between_steps(state: &State, device: &DeviceState) -> Bytes {
    let ranks = state
        .run()
        .into_iter()
        .flat_map(|run| ranks_on(run, device));
    let kept = ranks.filter_map(|rank| {
        let (_, after_step) = rank.steps.baselines.last()?;
        let usage = rank.usage_on(&device.uuid)?;
        let model = rank.structure_on(usage.sample.device)?;
        Some(*after_step - model.parameters - model.gradients - model.optimizer_state)
    });
    kept.sum()
}

/// Those where they are much of the GPU.
fn notably_kept(state: &State, device: &DeviceState) -> Option<Bytes> {
    let kept = kept_between_steps(state, device);
    let share = kept.fraction_of(device.capacity?)?;
    (share >= NOTABLE).then_some(kept)
}

/// What has leaked, or grows from step to step; `None` where nothing does.
fn leaked(view: &View, scene: &Scene, device: &DeviceState) -> Option<Leaked> {
    let run = scene.state.run()?;
    let ranks = ranks_on(run, device);
    let each = ranks.filter_map(|rank| {
        let growth = view.fitted.growth(rank, device.capacity)?;
        Some(growth.so_far(&rank.steps))
    });
    let each: Vec<GrownSoFar> = each.collect();
    if each.is_empty() {
        return None;
    }
    // One size of one leak: that of its cause, once memory ran out.
    let is_leak = |finding: &&Finding| {
        finding.cause == Cause::Leak && finding.device.as_ref() == Some(&device.uuid)
    };
    let cause = scene.findings.iter().find(is_leak);
    let cause = cause.filter(|_| run.outcome() == RunOutcome::OutOfMemory);
    let of_cause = cause.and_then(|finding| finding.leaked);
    Some(Leaked {
        bytes: of_cause.unwrap_or_else(|| each.iter().map(|grown| grown.bytes).sum()),
        per_step: each.iter().map(GrownSoFar::per_step).sum(),
    })
}

#[derive(Clone, Copy)]
struct Leaked {
    bytes: Bytes,
    per_step: Bytes,
}

/// What is allocated between steps beside the model.
#[derive(Clone, Copy)]
enum BetweenSteps {
    /// It is little, and not told apart from the activations.
    Little,
    /// It is much of the GPU, and does not grow.
    Much,
    Grows(Leaked),
}

impl BetweenSteps {
    fn on(view: &View, scene: &Scene, device: &DeviceState) -> BetweenSteps {
        match leaked(view, scene, device) {
            Some(leaked) => BetweenSteps::Grows(leaked),
            None if notably_kept(scene.state, device).is_some() => BetweenSteps::Much,
            None => BetweenSteps::Little,
        }
    }
}

/// Whether a key shows what that is, or has it looked for. Among many ranks it has another meaning.
fn is_told_more(view: &View, scene: &Scene) -> bool {
    let is_known = choice::askable(view, scene).is_some() || choice::knows_what_grows(view, scene);
    is_known && !rank_map::is_wanted(scene.state)
}

/// The parts in order: PyTorch's from the longest lived to the shortest, then others', then free.
/// What is kept from step to step is no activation, whether it grows or not.
#[rustfmt::skip]
fn parts(of: &Breakdown, capacity: Option<Bytes>, between: BetweenSteps) -> Vec<BreakdownPart> {
    type Fill = fn(&Glyphs) -> &'static str;
    const FULL: Fill = |glyphs| glyphs.full;
    const SHADE: Fill = |glyphs| glyphs.shade;
    const DENSE: Fill = |glyphs| glyphs.dense_shade;
    // Before an optimizer was seen, everything allocated is in the rest.
    const FOR_BACKWARD: &str = "kept for the backward pass, grow with the batch";
    let (rest, rest_short, rest_says) = match (of.parameters, between) {
        (Some(_), BetweenSteps::Little | BetweenSteps::Grows(_)) => ("activations + other", &["activations + other", "activ. + other", "activ."][..], FOR_BACKWARD),
        (Some(_), BetweenSteps::Much) => ("activations + kept", &["activations + kept", "activ. + kept", "activ."][..], STAYS),
        (None, _) => ("allocated", &["allocated", "alloc"][..], "by PyTorch's tensors, not told apart yet"),
    };
    let (own, own_short, says) = match of.is_sharded {
        true => ("parameter shards", &["shards"][..], "this rank's part of the parameters"),
        false => ("parameters", &["params"][..], "the tensors that the optimizer updates"),
    };
    let leaked = match (of.parameters, of.activations_and_other, between) {
        (Some(_), Some(rest), BetweenSteps::Grows(leaked)) => Some(leaked.bytes.min(rest)),
        (_, _, _) => None,
    };
    let rest_bytes = of.activations_and_other.map(|rest| rest - leaked.unwrap_or_default());
    let known = [
        (own, own_short, Tone::Parameters, FULL, "P", says, of.parameters),
        ("gradients", &["grads"], Tone::Gradients, FULL, "G", "kept until zero_grad()", of.gradients),
        ("optimizer state", &["optim", "opt"], Tone::OptimizerState, FULL, "O", "the optimizer's own tensors, such as Adam's moments", of.optimizer_state),
        (GATHERED, &["gathered"], Tone::Parameters, DENSE, "W", "layers that are whole for the moment; the most of the last seconds", of.gathered),
        (KEPT, &[KEPT_BRIEF, "kept"], Tone::Kept, FULL, "K", GROWS, leaked),
        (rest, rest_short, Tone::Activations, FULL, "A", rest_says, rest_bytes),
        ("cached", &["cached"], Tone::Cached, SHADE, "c", "reserved by PyTorch but unallocated", of.cached),
        ("non-PyTorch", &["non-torch"], Tone::NonPytorch, DENSE, "n", "CUDA context, cuDNN, cuBLAS, NCCL, other libraries", of.non_pytorch),
        ("other processes", &["others"], Tone::OtherProcesses, FULL, "o", "none", of.other_processes),
        ("free", &["free"], Tone::Free, SHADE, ".", "available to any process", of.free),
    ]
    .into_iter()
    // Only where ranks divide the parameters, and where something leaks.
    .filter(|(name, .., bytes)| !matches!(*name, GATHERED | KEPT) || bytes.is_some())
    .map(|(name, short, tone, fill, letter, says, bytes)| BreakdownPart { name, short, tone, fill, letter, says, bytes, is_about: false });
    let known: Vec<BreakdownPart> = known.collect();
    // Who holds what is outside of PyTorch is not known.
    let outside = |bytes, says, is_about| BreakdownPart {
        name: "non-PyTorch", short: &["non-torch"], tone: Tone::NonPytorch, fill: SHADE, letter: "n", says, bytes: Some(bytes), is_about,
    };
    let others: Vec<BreakdownPart> = match (of.non_pytorch.or(of.other_processes), of.outside, of.free) {
        (None, Some(bytes), free) => {
            let says = "CUDA context, libraries, other processes: not listed one by one";
            let free = known.iter().filter(|part| part.tone == Tone::Free && free.is_some());
            [outside(bytes, says, false)].into_iter().chain(free.copied()).collect()
        }
        (None, None, None) => {
            let Some(capacity) = capacity.filter(|_| of.cached.is_some()) else {
                return known;
            };
            // As the line below the chart has it.
            let rest = capacity - known.iter().filter_map(|part| part.bytes).sum();
            let usual = NON_TORCH_USUAL.min(rest);
            let free = known.iter().filter(|part| part.tone == Tone::Free).map(|part| BreakdownPart {
                bytes: Some(rest - usual), says: "if no other process is on the GPU (no NVML)", is_about: true, ..*part
            });
            [outside(usual, "CUDA context, libraries: what is usual (no NVML)", true)].into_iter().chain(free).collect()
        }
        (_, _, _) => return known,
    };
    let of_pytorch = known.into_iter().take_while(|part| part.tone != Tone::NonPytorch);
    of_pytorch.chain(others).collect()
}

/// The moment of a breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakdownMoment {
    /// The peak of the last seconds.
    RecentPeak,
    /// The OOM that ended the run.
    OutOfMemory,
    /// The peak of a run's last seconds.
    BeforeEnd,
}

/// The breakdown to show of a device, and its moment.
fn shown(view: &View, state: &State, device: &DeviceState) -> (Breakdown, BreakdownMoment) {
    let (breakdown, moment) = by_readings(state, device);
    let traced = traced_gradients(view, state, device, moment);
    match (moment, traced) {
        (BreakdownMoment::OutOfMemory, traced) => {
            (at_oom(state, device, traced).unwrap_or(breakdown), moment)
        }
        (_, Some(then)) => (breakdown.with_gradients(then), moment),
        (_, None) => (breakdown, moment),
    }
}

/// What the gradients were at that moment, as far as a traced step says. Their size is read when all of them are there, at the
/// end of a step; at its peak hardly any is, and in a forward pass none that was let go.
fn traced_gradients(
    view: &View,
    state: &State,
    device: &DeviceState,
    moment: BreakdownMoment,
) -> Option<Bytes> {
    let read = view.peak.as_ref()?.read()?;
    let run = state.run()?;
    let mut ranks = ranks_on(run, device);
    let alone = ranks.next().filter(|_| ranks.next().is_none())?;
    if (read.key.run, read.key.pid) != (run.number, alone.hello.pid) {
        return None;
    }
    let at = match moment {
        BreakdownMoment::RecentPeak | BreakdownMoment::BeforeEnd => read.peak,
        BreakdownMoment::OutOfMemory => {
            let record = run.oom()?.record.as_ref()?;
            read.anatomy.like_oom_in(record.phase)?
        }
    };
    Some(read.categories.get(at)?[Category::Gradients.place()])
}

fn by_readings(state: &State, device: &DeviceState) -> (Breakdown, BreakdownMoment) {
    if let Some(breakdown) = at_oom(state, device, None) {
        return (breakdown, BreakdownMoment::OutOfMemory);
    }
    let before_end = state
        .run()
        .and_then(|run| device.breakdown_before_end(state, run));
    if let Some(breakdown) = before_end {
        return (breakdown, BreakdownMoment::BeforeEnd);
    }
    (device.breakdown_at_peak(state), BreakdownMoment::RecentPeak)
}

/// What the list of devices has of one: the same figures.
pub(super) struct DeviceFigures {
    pub allocated: Option<Bytes>,
    pub reserved: Option<Bytes>,
    pub free: Option<Bytes>,
}

pub(super) fn device_figures(state: &State, device: &DeviceState) -> DeviceFigures {
    let (of, _) = by_readings(state, device);
    let named = [of.parameters, of.gradients, of.optimizer_state, of.gathered];
    let named: Bytes = named.into_iter().flatten().sum();
    let allocated = of.activations_and_other.map(|rest| named + rest);
    let free = parts(&of, device.capacity, BetweenSteps::Little).into_iter();
    let mut free = free.filter(|part| part.tone == Tone::Free);
    DeviceFigures {
        allocated,
        reserved: allocated
            .zip(of.cached)
            .map(|(allocated, cached)| allocated + cached),
        free: free.next().and_then(|part| part.bytes),
    }
}

/// The breakdown at the OOM that ended the run, or where that was on another device at this one's own.
fn at_oom(state: &State, device: &DeviceState, traced: Option<Bytes>) -> Option<Breakdown> {
    let run = state.run()?;
    let oom = run
        .oom()
        .filter(|_| run.outcome() == RunOutcome::OutOfMemory)?;
    let mut others = run.ooms.iter().rev().filter(|oom| !oom.caught);
    device
        .breakdown_at(oom, traced)
        .or_else(|| others.find_map(|oom| device.breakdown_at(oom, traced)))
}

fn moment_words(view: &View, state: &State) -> (String, Tone) {
    let (words, tone) = match view
        .device(state)
        .map(|device| shown(view, state, device).1)
    {
        Some(BreakdownMoment::RecentPeak) => ("peak of the last 5 s", Tone::Dim),
        Some(BreakdownMoment::OutOfMemory) => ("when memory ran out", Tone::Wrong),
        Some(BreakdownMoment::BeforeEnd) => ("before the end", Tone::Dim),
        None => ("no GPU in use yet", Tone::Dim),
    };
    (words.to_string(), tone)
}

/// Columns of a name with its coloured cell.
const NAME: u16 = 22;

/// Columns of a figure with the space after it.
const FIGURE: u16 = 7;

/// Columns of a share: ` 54%`.
const SHARE: u16 = 5;

/// Columns of half of the list, if it is in two columns.
const HALF: u16 = NAME + FIGURE + SHARE + 4;

/// Columns for a part's own bar, at least.
const ROOM_FOR_BAR: u16 = 8;

/// From this width on parts are explained.
const ROOM_FOR_WORDS: u16 = NAME + FIGURE + SHARE + 34;

/// Draws bar, list and capacity. If there is not room for all, the bar is dropped, then the
/// capacity.
fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let (theme, state) = (canvas.theme, scene.state);
    let Some(device) = view.device(state) else {
        return;
    };
    let mut area = canvas.area;
    let is_all = area.height >= HEIGHT + u16::from(is_gathering(view, state));
    if is_all {
        let bar = Rect { height: 1, ..area };
        draw_bar(&mut canvas.at(bar), view, scene);
        area.y += 1;
        area.height -= 1;
    }
    let (breakdown, _) = shown(view, state, device);
    let figures = Figures::of(device);
    let between = BetweenSteps::on(view, scene, device);
    let parts = parts(&breakdown, device.capacity, between);
    let whole = device
        .capacity
        .unwrap_or_else(|| parts.iter().filter_map(|part| part.bytes).sum());
    let halved = usize::from(area.height) < parts.len() && area.width >= 2 * HALF;
    let rows = match halved {
        true => parts.len().div_ceil(2),
        false => parts.len(),
    };
    let name = match between {
        BetweenSteps::Grows(_) if area.width >= ROOM_FOR_WORDS => columns(KEPT) + 3,
        BetweenSteps::Grows(_) | BetweenSteps::Little | BetweenSteps::Much => NAME,
    };
    for (n, part) in parts.iter().enumerate() {
        let column = Rect {
            x: area.x + if n < rows { 0 } else { HALF },
            ..area
        }
        .intersection(area);
        let mut part_of = canvas.at(column);
        let mut pen = part_of.pen((n % rows) as u16);
        draw_row(&mut pen, theme, part, name, (figures, whole));
        if halved {
            continue;
        }
        if area.width >= ROOM_FOR_WORDS {
            let words = match (between, part.says) {
                (BetweenSteps::Grows(leaked), GROWS) => {
                    let key = match is_told_more(view, scene) {
                        true => ": w",
                        false => "",
                    };
                    format!("grows by {} with each step{key}", leaked.per_step)
                }
                (_, _) => words(part, state, device),
            };
            pen.clauses(&words, Tone::Dim);
        } else if pen.room() > ROOM_FOR_BAR {
            let room = pen.room() - 1;
            draw_share(&mut pen, theme, part, whole, room);
        }
    }
    let row = rows as u16;
    if let Some(capacity) = device.capacity {
        let capacity = format!("{} GiB", figures.column(Some(capacity)));
        canvas
            .at(area)
            .pen(row)
            .skip(2)
            .text("capacity", Tone::Dim)
            .to(name)
            .text(&capacity, Tone::Dim);
        // Below the chart there is no title to say of when it is.
        if area.width >= ROOM_FOR_WORDS {
            let (words, tone) = moment_words(view, state);
            canvas
                .at(area)
                .pen(row)
                .skip(name + FIGURE + SHARE + 1)
                .rest(&words, tone);
        }
    }
}

/// Whether there is one row more.
fn is_gathering(view: &View, state: &State) -> bool {
    let shown = view
        .device(state)
        .map(|device| shown(view, state, device).0);
    shown.is_some_and(|breakdown| breakdown.gathered.is_some())
}

/// `name` is how many columns the name has, and what shares are of stands with the figures.
fn draw_row(
    pen: &mut Pen,
    theme: &Theme,
    part: &BreakdownPart,
    name: u16,
    (figures, whole): (Figures, Bytes),
) {
    let known = part.bytes.is_some_and(|bytes| bytes > Bytes::ZERO);
    let tone = if known { Tone::Text } else { Tone::Dim };
    let share = part.bytes.and_then(|bytes| bytes.fraction_of(whole));
    let share = share.map_or("    ".to_string(), |share| {
        format!("{:>3.0}%", share.min(1.0) * 100.0)
    });
    let about = match part.is_about {
        true => theme.glyphs.about,
        false => "",
    };
    pen.text(part.glyph(theme), part.tone)
        .skip(1)
        .cut(name_within(part, name - 3), name - 3, tone)
        .to(name - 1)
        .text(about, Tone::Dim)
        .to(name)
        .text(&figures.column(part.bytes), tone)
        .to(name + FIGURE - 1)
        .text(&share, Tone::Dim)
        .skip(2);
}

/// The name that is not cut, if there is one.
fn name_within(part: &BreakdownPart, room: u16) -> &'static str {
    let mut names = [part.name].into_iter().chain(part.short.iter().copied());
    names
        .find(|name| columns(name) <= room)
        .unwrap_or(part.name)
}

/// A part's explanation; for other processes their names.
fn words(part: &BreakdownPart, state: &State, device: &DeviceState) -> String {
    if part.bytes.is_none() {
        return String::from("unknown");
    }
    if part.says == STAYS {
        let kept = kept_between_steps(state, device);
        return format!("{kept} of it is kept after each step");
    }
    let others = match part.tone == Tone::OtherProcesses {
        true => device.other_processes(state).unwrap_or_default(),
        false => Vec::new(),
    };
    if others.is_empty() {
        let unlisted = part.tone == Tone::OtherProcesses && part.bytes > Some(Bytes::ZERO);
        return String::from(if unlisted {
            "not listed by NVML"
        } else {
            part.says
        });
    }
    let names = others.iter().map(|process| match &process.name {
        Some(name) => format!("{name} ({})", process.pid),
        None => format!("process {}", process.pid),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// A part's share as a bar, in eighths of a cell if its glyph has them.
fn draw_share(pen: &mut Pen, theme: &Theme, part: &BreakdownPart, whole: Bytes, room: u16) {
    let share = part
        .bytes
        .and_then(|bytes| bytes.fraction_of(whole))
        .unwrap_or(0.0)
        .min(1.0);
    let glyph = part.glyph(theme);
    let eighths = (share * f64::from(room) * 8.0).round() as u16;
    for _ in 0..eighths / 8 {
        pen.text(glyph, part.tone);
    }
    if glyph == theme.glyphs.full {
        pen.text(theme.glyphs.lefts[usize::from(eighths % 8)], part.tone);
    } else if eighths % 8 >= 4 {
        pen.text(glyph, part.tone);
    }
}

/// Each part is as wide as its share, with its name and figure in it if they fit; of those that have no room in theirs it is said in
/// the free part, if there is room.
pub(in crate::ui) fn draw_bar(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let (theme, state, width) = (canvas.theme, scene.state, canvas.area.width);
    let Some(device) = view.device(state) else {
        return;
    };
    let between = BetweenSteps::on(view, scene, device);
    let parts = parts(&shown(view, state, device).0, device.capacity, between);
    let known: Bytes = parts.iter().filter_map(|part| part.bytes).sum();
    let whole = device.capacity.unwrap_or(known).max(known);
    let figures = Figures::of(device);
    let mut pen = canvas.pen(0);
    let mut so_far = Bytes::ZERO;
    let unknown = BreakdownPart {
        name: "unknown",
        short: &["unknown"],
        tone: Tone::NonPytorch,
        fill: |glyphs| glyphs.shade,
        letter: "?",
        says: "",
        bytes: Some(whole - known),
        is_about: false,
    };
    // Free memory is at the right end, after the unknown rest.
    let (free, held): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.tone == Tone::Free);
    let mut unnamed: Vec<(Bytes, String)> = Vec::new();
    for part in held.into_iter().chain([&unknown]).chain(free) {
        let Some(bytes) = part.bytes.filter(|bytes| *bytes > Bytes::ZERO) else {
            continue;
        };
        let begin = edge(so_far, whole, width);
        so_far += bytes;
        // A small part gets a cell, but not an unknown rest that is only rounding.
        let end = edge(so_far, whole, width).max(begin + u16::from(part.letter != "?"));
        let figure = figures.gib(bytes);
        let room = end.saturating_sub(pen.column());
        let words = match part.tone {
            Tone::Free => free_words(&figure, &mut unnamed, room),
            _ => {
                let mut named = part.short.iter().map(|name| format!(" {name} {figure} "));
                let words = named.find(|words| columns(words) <= room);
                let is_nothing = figure == figures.gib(Bytes::ZERO);
                if words.is_none() && part.letter != "?" && !is_nothing {
                    let name = part.short.last().unwrap_or(&part.name);
                    unnamed.push((bytes, format!("{name} {figure}")));
                }
                words
            }
        };
        draw_segment(&mut pen, theme, part, words.as_deref(), end);
    }
    pen.fill(" ", Tone::Text);
}

/// What is free, and the largest of the parts that are too small for their own words.
fn free_words(figure: &str, unnamed: &mut [(Bytes, String)], room: u16) -> Option<String> {
    let shorter = [format!(" free {figure} GiB "), format!(" free {figure} ")];
    let mut words = shorter.into_iter().find(|words| columns(words) <= room)?;
    unnamed.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    for (_, part) in unnamed.iter().take(MOST_UNNAMED) {
        let longer = format!("{}, {part} ", words.trim_end());
        if columns(&longer) + DOTS > room {
            break;
        }
        words = longer;
    }
    Some(words)
}

/// So many small parts are named.
const MOST_UNNAMED: usize = 2;

fn edge(bytes: Bytes, whole: Bytes, width: u16) -> u16 {
    let share = bytes.fraction_of(whole).unwrap_or(0.0).min(1.0);
    (share * f64::from(width)).round() as u16
}

/// Columns of free memory from which on dots are seen as such.
const DOTS: u16 = 3;

fn draw_segment(pen: &mut Pen, theme: &Theme, part: &BreakdownPart, words: Option<&str>, end: u16) {
    let width = end.saturating_sub(pen.column());
    // Whose it is was not seen.
    let is_unlisted =
        part.tone == Tone::NonPytorch && (part.fill)(theme.glyphs) == theme.glyphs.shade;
    let style = match (theme.depth, part.tone) {
        (Depth::None, _) => theme.style(Tone::Text),
        (_, Tone::Free) => theme.style(Tone::Dim),
        (_, _) if is_unlisted => theme.style(Tone::Dim),
        (_, tone) => theme.ground(tone).patch(theme.on_ground()),
    };
    let filler = match (theme.has_letters(), part.tone) {
        // A dot alone says nothing.
        (_, Tone::Free) if width < DOTS => " ",
        (_, Tone::Free) => theme.glyphs.sparse_dots,
        (true, _) if part.letter != "?" => part.letter,
        (_, _) if is_unlisted => theme.glyphs.shade,
        (_, _) => " ",
    };
    if let Some(words) = words {
        pen.styled(&theme.glyphs.spelled(words), style);
    }
    while pen.column() < end && pen.room() > 0 {
        pen.styled(filler, style);
    }
}
