//! PyTorch's caching allocator, replayed: a trace of allocations and frees goes in, what would be
//! allocated and reserved comes out, under any allocator settings and on a GPU of any size.
//!
//! Follows `DeviceCachingAllocator` of c10/cuda/CUDACachingAllocator.cpp (torch 2.1 to 2.12): best
//! fit in the pool, else a new segment, else give cached segments back and try again, else out of
//! memory. Private pools (CUDA graphs) are left out: what happens in them leaves no events.

mod blocks;
mod caching;
mod settings;

pub use blocks::BlockId;
pub use caching::{CachingAllocator, ReplayRoom};
pub use settings::AllocatorSettings;

use super::trace::{BlockLayout, Trace, TraceBlock, TraceEvent};
use std::collections::HashMap;
use std::ops::Range;

/// What became of a trace under some settings and in some room. All sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The most that was allocated at once.
    pub allocated_peak: u64,
    /// The most that was reserved at once: what the process needs beside its non-PyTorch memory.
    pub reserved_peak: u64,
    /// Reserved at the end.
    pub reserved: u64,
    /// The event that raised the most that is reserved last.
    pub last_raised: usize,
    /// What was the most that was reserved before that event.
    pub before_that: u64,
    /// How often the cache was flushed and the allocation tried again (`num_alloc_retries`).
    pub retries: u64,
    /// Where memory ran out; `None` where the whole trace ran.
    pub ran_out: Option<RanOut>,
}

/// The allocation that found no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RanOut {
    /// Which event of the trace, from 0.
    pub event: usize,
    /// Bytes that the program requested.
    pub requested: u64,
    /// Allocated at that moment.
    pub allocated: u64,
    /// Reserved at that moment, after the cache was flushed.
    pub reserved: u64,
    /// The largest block that lay free in the cache.
    pub largest_free: u64,
}

/// Plays a trace once from an empty allocator.
pub fn replay(trace: &Trace, settings: &AllocatorSettings, room: ReplayRoom) -> Replayed {
    let mut player = TracePlayer::new(trace, settings, room);
    player.play();
    player.result
}

/// Plays a step again and again, at most `most` times, until the most that is reserved no longer
/// grows: how a training settles under settings that it was not recorded under.
pub fn replay_until_steady(
    step: &Trace,
    most: usize,
    settings: &AllocatorSettings,
    room: ReplayRoom,
) -> Replayed {
    let mut player = TracePlayer::new(step, settings, room);
    for _ in 0..most {
        let before = player.result.reserved_peak;
        player.play();
        if player.result.ran_out.is_some() || player.result.reserved_peak == before {
            break;
        }
        player.begin_again();
    }
    player.result
}

/// Plays a training of several steps, of which each ends before the event in `ends`, until what is reserved no longer
/// grows: what became of it, and after how many steps that was. `None` where it still grew in the last.
pub fn replay_steps(
    trace: &Trace,
    ends: &[usize],
    least: usize,
    settings: &AllocatorSettings,
) -> (Replayed, Option<usize>) {
    let mut player = TracePlayer::new(trace, settings, ReplayRoom::default());
    let (mut from, mut before) = (0, (0, 0));
    for (number, end) in ends.iter().enumerate() {
        player.play_events(from..*end);
        let now = (player.result.reserved_peak, player.result.allocated_peak);
        if number + 1 >= least && now == before {
            return (player.result, Some(number + 1));
        }
        (from, before) = (*end, now);
    }
    (player.result, None)
}

/// What the allocator handed out for each allocation of a step whose beginning is known: a request gets the whole of a block
/// that is not worth splitting, and PyTorch's counters have it so. `None` where it is not known how the blocks lay, and where
/// the replay cannot place one.
pub fn handed_out(step: &Trace) -> Option<Vec<u64>> {
    step.layout.as_ref()?;
    let mut player = TracePlayer::new(step, &AllocatorSettings::default(), ReplayRoom::default());
    let size_of = |player: &TracePlayer<'_>, block: Option<BlockId>| {
        block.map(|block| player.allocator.size_of(block))
    };
    let carried = player.live.iter();
    let mut sizes: Vec<Option<u64>> = carried.map(|block| size_of(&player, *block)).collect();
    for (at, event) in step.events.iter().enumerate() {
        player.play_events(at..at + 1);
        if let TraceEvent::Alloc(_) = event {
            let block = player.live.last().copied().flatten();
            sizes.push(size_of(&player, block));
        }
    }
    sizes.into_iter().collect()
}

/// An allocator and the blocks that a trace's events name.
struct TracePlayer<'a> {
    trace: &'a Trace,
    allocator: CachingAllocator,
    /// By the number of the allocation, while it is alive.
    live: Vec<Option<BlockId>>,
    /// Retries for what the program went on without.
    in_vain: u64,
    result: Replayed,
}

impl<'a> TracePlayer<'a> {
    fn new(trace: &'a Trace, settings: &AllocatorSettings, room: ReplayRoom) -> TracePlayer<'a> {
        let mut player = TracePlayer {
            trace,
            allocator: CachingAllocator::new(settings.clone(), room),
            live: Vec::new(),
            in_vain: 0,
            result: Replayed::default(),
        };
        player.allocator.place_segments(&trace.segments);
        match &trace.layout {
            Some(layout) => player.begin_with(layout),
            None => (trace.carried.iter()).for_each(|block| player.allocate(0, *block)),
        }
        player
    }

    /// Begins with segments as they lay. Where that is more than there is room for, the cache is given back first: a run with
    /// so little room would have done so before.
    fn begin_with(&mut self, layout: &BlockLayout) {
        let laid = self.allocator.lay_out(layout);
        self.live = laid.into_iter().map(Some).collect();
        self.result.allocated_peak = self.allocator.allocated();
        if !self.allocator.shrink_to_room() {
            self.runs_out(0, 0);
        }
    }

    fn play(&mut self) {
        self.play_events(0..self.trace.events.len());
    }

    fn play_events(&mut self, range: Range<usize>) {
        let trace = self.trace;
        let mut most = self.allocator.reserved_peak();
        let events = trace.events.iter().enumerate();
        for (at, event) in events.skip(range.start).take(range.len()) {
            if self.result.ran_out.is_some() {
                break;
            }
            match event {
                TraceEvent::Workspace(block) => self.take_if_there_is_room(*block),
                TraceEvent::Alloc(block) => self.allocate(at, *block),
                TraceEvent::Free(allocation) => {
                    let block = self.live.get_mut(*allocation).and_then(Option::take);
                    if let Some(block) = block {
                        self.allocator.free(block);
                    }
                }
                TraceEvent::EmptyCache => self.allocator.empty_cache(),
            }
            let peak = self.allocator.reserved_peak();
            if peak > most {
                (self.result.last_raised, self.result.before_that) = (at, most);
                most = peak;
            }
        }
        self.result.reserved_peak = self.allocator.reserved_peak();
        self.result.reserved = self.allocator.reserved();
        self.result.retries = self.allocator.retries() - self.in_vain;
    }

    /// Asks for a block; whether it was handed out.
    fn take(&mut self, request: TraceBlock) -> bool {
        let block = self.allocator.allocate(request.size, request.stream);
        self.live.push(block);
        let allocated = self.allocator.allocated();
        self.result.allocated_peak = self.result.allocated_peak.max(allocated);
        block.is_some()
    }

    /// The same of what the program goes on without. That the cache is given back for it is no retry of the program's.
    fn take_if_there_is_room(&mut self, request: TraceBlock) {
        let before = self.allocator.retries();
        if !self.take(request) {
            self.in_vain += self.allocator.retries() - before;
        }
    }

    fn allocate(&mut self, at: usize, request: TraceBlock) {
        if !self.take(request) {
            self.runs_out(at, request.size);
        }
    }

    /// The first time is what counts.
    fn runs_out(&mut self, event: usize, requested: u64) {
        self.result.ran_out.get_or_insert(RanOut {
            event,
            requested,
            allocated: self.allocator.allocated(),
            reserved: self.allocator.reserved(),
            largest_free: self.allocator.largest_free(),
        });
    }

    /// What is alive at the end of the step is what the next one finds at its beginning: each block
    /// that was carried in and freed (a gradient, say) is followed by one of its size.
    fn begin_again(&mut self) {
        let carried = self.trace.carried.len();
        let mut made: HashMap<TraceBlock, Vec<BlockId>> = HashMap::new();
        let requests: Vec<TraceBlock> = self.trace.allocations().collect();
        for (request, block) in requests.iter().zip(&self.live).skip(carried).rev() {
            made.entry(*request).or_default().extend(*block);
        }
        self.live.truncate(carried);
        for (request, block) in self.trace.carried.iter().zip(&mut self.live) {
            if block.is_none() {
                *block = made.get_mut(request).and_then(Vec::pop);
            }
        }
        // What is left over has no end in this step: it would pile up, and no steady step does that.
        for block in made.into_values().flatten() {
            self.allocator.free(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// 2 MiB in the middle of a segment of 64, a free segment of 32, and a tensor of 60.
    fn step() -> Trace {
        let mut trace: Trace = format!("{} | {} -1", 2 * MIB, 60 * MIB).parse().unwrap();
        let layout = format!(
            "+{} -{} . -{} +{} -{}",
            64 * MIB,
            30 * MIB,
            32 * MIB,
            32 * MIB,
            32 * MIB
        );
        trace.layout = BlockLayout::read(&layout, &trace.carried);
        assert!(trace.layout.is_some());
        trace
    }

    #[test]
    fn what_is_handed_out_is_the_whole_of_a_block_that_is_not_split() {
        // 31.5 MiB fit into the free segment of 32, of which half a MiB is not worth splitting off; 20 MiB are.
        let mut trace: Trace = format!("{} | {} {}", 2 * MIB, 63 * MIB / 2, 20 * MIB)
            .parse()
            .unwrap();
        assert_eq!(
            handed_out(&trace),
            None,
            "where nothing is known of the beginning"
        );
        trace.layout = step().layout;
        assert_eq!(handed_out(&trace), Some(vec![2 * MIB, 32 * MIB, 20 * MIB]));
    }

    #[test]
    fn a_workspace_is_in_the_peak_where_there_is_room_and_no_need_where_there_is_none() {
        let text = format!("| {} {} -1? {} -1", 40 * MIB, 60 * MIB, 20 * MIB);
        let trace: Trace = text.parse().unwrap();
        let within = |device| {
            let room = ReplayRoom { device, cap: None };
            replay(&trace, &AllocatorSettings::default(), room)
        };
        assert_eq!(within(None).allocated_peak, 100 * MIB);
        let pressed = within(Some(80 * MIB));
        assert_eq!(pressed.ran_out, None);
        assert_eq!((pressed.allocated_peak, pressed.retries), (60 * MIB, 0));
        assert!(within(Some(50 * MIB)).ran_out.is_some());
        assert_eq!(trace.to_string(), text);
    }

    #[test]
    fn a_step_that_begins_as_its_blocks_lay_reserves_what_was_reserved() {
        let settings = AllocatorSettings::default();
        let within = |device| {
            let room = ReplayRoom { device, cap: None };
            replay_until_steady(&step(), 3, &settings, room)
        };
        assert_eq!(within(None).reserved_peak, (64 + 32 + 60) * MIB);
        // What is wholly free is given back, what is in pieces is not.
        let pressed = within(Some(124 * MIB));
        assert_eq!((pressed.ran_out, pressed.reserved), (None, 124 * MIB));
        assert!(within(Some(123 * MIB)).ran_out.is_some());
        // The cache is more than there is room for from the beginning.
        assert!(within(Some(63 * MIB)).ran_out.is_some());
        let fresh = Trace {
            layout: None,
            ..step()
        };
        let fresh = replay_until_steady(&fresh, 3, &settings, ReplayRoom::default());
        assert_eq!(fresh.reserved_peak, (20 + 60) * MIB);
    }
}
