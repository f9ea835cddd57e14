//! Steps that are too short to be told apart, as a band: what they reached, and what was left between them. A look at the allocator falls
//! on any part of a step, so that looks alone are a random curve.

use super::{DeviceState, SeriesBucket, State, StepMark};
use crate::units::{Bytes, Moment};

/// From this share of PyTorch's own peak on a step that was seen only in part went about as far as it is drawn.
const AT_THE_PEAK: f64 = 0.95;

/// Where not more than one step in so many was seen only in part, what is drawn is their peaks.
const FEW: u32 = 4;

/// A step that is at least so many columns of a chart wide is drawn as it was seen.
const TOLD_APART: f64 = 12.0;

/// Of shorter ones so many are drawn together; more, where their peaks are not known: of a step a look sees a part.
const TOGETHER: f64 = 8.0;
const TOGETHER_IF_SEEN: f64 = 32.0;

/// The steps of a run's largest process on a device.
pub struct StepBand<'a> {
    marks: &'a [StepMark],
    /// The most that the process has allocated.
    peak: Bytes,
    /// From its first step to the run's end.
    from: Moment,
    to: Moment,
    step_us: f64,
}

impl<'a> StepBand<'a> {
    /// Those of all runs, oldest first.
    pub fn all(
        state: &'a State,
        device: &'a DeviceState,
    ) -> impl Iterator<Item = StepBand<'a>> + use<'a> {
        state.runs.iter().filter_map(move |run| {
            let ranks = run.ranks.iter();
            let here = ranks.filter(|rank| rank.device.as_ref() == Some(&device.uuid));
            let largest = here.max_by_key(|rank| rank.allocated_peak)?;
            let (rate, from) = largest.steps.rate.zip(largest.steps.first)?;
            Some(StepBand {
                marks: &largest.steps.marks.ended,
                peak: largest.allocated_peak,
                from,
                to: run.ended.map_or(state.now, |(at, _)| at),
                step_us: 1e6 / rate,
            })
        })
    }

    /// Whether its steps can be told apart in a chart of which a column lasts so long.
    pub fn is_told_apart(&self, column_us: f64) -> bool {
        self.step_us / column_us >= TOLD_APART
    }

    /// Draws over what was seen in each part of a time. `part_of` is the part of a moment, or an end of them all, and whether it is in
    /// it; a part lasts about so long. Returns whether a step went at least as far as it is drawn.
    pub fn draw(
        &self,
        parts: &mut [Option<SeriesBucket>],
        part_us: f64,
        part_of: impl Fn(Moment) -> (usize, bool),
    ) -> bool {
        let start = part_of(self.from).0.min(parts.len());
        let last = part_of(self.to).0;
        let until = last.saturating_add(1).clamp(start, parts.len());
        // What was left after steps, which is read at the same place of each: a look between two may find less, now and then.
        let mut floors: Vec<Option<Bytes>> = vec![None; parts.len()];
        // The latest known one, and the parts from the one before it.
        let mut before: Option<(usize, Bytes)> = None;
        let mut apart = 0;
        // What was left behind the latest step that was read, and the part of its end.
        let mut left: Option<(usize, Bytes)> = None;
        let (mut drawn, mut partly) = (0_u32, 0);
        for mark in self.marks {
            let (top, is_known) = mark.top();
            let (at, is_inside) = part_of(mark.at);
            let part = at.min(parts.len());
            if is_inside && let Some(Some(bucket)) = parts.get_mut(at) {
                lower(&mut floors[at..=at], mark.baseline);
                bucket.max = bucket.max.max(top);
                let is_whole = is_known || top >= self.peak.scale(AT_THE_PEAK);
                drawn += 1;
                partly += u32::from(!is_whole);
            }
            // Not every step is read: what those between two left is no more than these.
            if let Some((from, earlier)) = left {
                lower(&mut floors[from..part], earlier.max(mark.baseline));
            }
            left = Some((part, mark.baseline));
            // Those between two that went so far are like them.
            if let Some((from, earlier)) = before.filter(|_| is_known) {
                raise(&mut parts[from..part], earlier.min(top));
                apart = part - from;
            }
            before = is_known.then_some((part, top));
        }
        if let Some((from, top)) = before {
            raise(&mut parts[from..(from + apart).min(until.max(from))], top);
        }
        if let Some((from, baseline)) = left {
            lower(&mut floors[from..until.max(from)], baseline);
        }
        // The first ones come before any step was traced.
        let is_seen = partly * FEW > drawn;
        let each_side =
            |steps: f64| (self.step_us / part_us * steps / 2.0).ceil().max(0.0) as usize;
        let seen = match is_seen {
            true => TOGETHER_IF_SEEN,
            false => TOGETHER,
        };
        spread(&mut parts[start..until], each_side(seen));
        lay_floors(
            &mut parts[start..until],
            &floors[start..until],
            each_side(TOGETHER),
        );
        is_seen
    }
}

/// No more is allocated than reserved, where that was seen: a step's peak is drawn beside the moments that it was seen in.
pub fn stay_below(parts: &mut [Option<SeriesBucket>], reserved: &[Option<SeriesBucket>]) {
    for (part, above) in parts.iter_mut().zip(reserved) {
        if let (Some(bucket), Some(above)) = (part, above) {
            bucket.max = bucket.max.min(above.max).max(bucket.min);
        }
    }
}

fn lower(floors: &mut [Option<Bytes>], to: Bytes) {
    for floor in floors {
        *floor = Some(floor.map_or(to, |floor| floor.min(to)));
    }
}

fn raise(parts: &mut [Option<SeriesBucket>], top: Bytes) {
    let known = parts.iter_mut().flatten();
    known.for_each(|bucket| bucket.max = bucket.max.max(top));
}

/// Each part takes the most of those up to so many beside it.
fn spread(parts: &mut [Option<SeriesBucket>], each_side: usize) {
    let before = parts.to_vec();
    for (place, part) in parts.iter_mut().enumerate() {
        let Some(bucket) = part else { continue };
        let others = before[beside(place, each_side, before.len())].iter();
        let most = others.flatten().map(|other| other.max).max();
        bucket.max = most.map_or(bucket.max, |most| most.max(bucket.max));
    }
}

/// Each part takes the lowest floor of those up to so many beside it, or the least that was seen there: of a long run the first steps are
/// not kept.
fn lay_floors(parts: &mut [Option<SeriesBucket>], floors: &[Option<Bytes>], each_side: usize) {
    let before = parts.to_vec();
    for (place, part) in parts.iter_mut().enumerate() {
        let Some(bucket) = part else { continue };
        let beside = beside(place, each_side, before.len());
        let floor = floors[beside.clone()].iter().flatten().copied().min();
        let seen = || before[beside].iter().flatten().map(|other| other.min);
        let floor = floor.or_else(|| seen().min());
        bucket.min = floor.map_or(bucket.min, |floor| floor.min(bucket.max));
    }
}

fn beside(place: usize, each_side: usize, all: usize) -> std::ops::Range<usize> {
    place.saturating_sub(each_side)..(place + each_side + 1).min(all)
}
