//! What a frame costs: counted in allocations, which are the same on every machine; timed on demand.

use crate::frames::cases::CASES;
use crate::frames::nodes;
use crate::frames::story::{Story, gib};
use nix::time::{ClockId, clock_gettime};
use oomph::ui::{self, Theme, View};
use oomph::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; the counters are plain memory of the
// thread and allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        let _ = HELD.try_with(|held| held.set(held.get() + layout.size() as i64));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = HELD.try_with(|held| held.set(held.get() - layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frames of a session at a size: allocations of each, and the time of the batch in the middle.
fn frames(name: &str, width: u16, height: u16, batches: u32) -> (u64, Duration) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let (story, view) = case.staged(Theme::full(), width, height);
    frames_of(&story, &view, width, height, batches)
}

fn frames_of(story: &Story, view: &View, width: u16, height: u16, batches: u32) -> (u64, Duration) {
    let (allocations, times) = batches_of(story, view, width, height, batches);
    (allocations, times[times.len() / 2])
}

/// What this thread has computed so far: what else the machine does is not counted.
fn own_time() -> Duration {
    let spent = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    Duration::from(spent)
}

/// Allocations of a frame, and what it took in each batch, the fastest first.
fn batches_of(
    story: &Story,
    view: &View,
    width: u16,
    height: u16,
    batches: u32,
) -> (u64, Vec<Duration>) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut frame = |count: u32| {
        let before = COUNT.with(Cell::get);
        let begun = own_time();
        for _ in 0..count {
            story.scene(|scene| {
                terminal.draw(|frame| ui::draw(frame, view, scene)).unwrap();
            });
        }
        let allocations = (COUNT.with(Cell::get) - before) / u64::from(count);
        (allocations, own_time().saturating_sub(begun) / count)
    };
    frame(2);
    let mut batches: Vec<_> = (0..batches).map(|_| frame(10)).collect();
    batches.sort_by_key(|(_, time)| *time);
    let allocations = batches[0].0;
    (
        allocations,
        batches.into_iter().map(|(_, time)| time).collect(),
    )
}

/// Twice what was counted of most frames when this was written (between 160 and 560); the dialog with a traced
/// step behind it has the most, 1,259.
const MOST_ALLOCATIONS: u64 = 1_400;

#[test]
fn a_frame_allocates_little() {
    for name in [
        "steady",
        "eight-ranks",
        "oom-capacity",
        "week",
        "step",
        "oom-traced",
    ] {
        let (allocations, _) = frames(name, 200, 60, 1);
        assert!(
            allocations < MOST_ALLOCATIONS,
            "{name}: {allocations} allocations a frame"
        );
    }
}

/// A step is read once, and its lines are summed once for each place of the cursor.
#[test]
fn a_frame_of_a_long_step_reads_nothing_again() {
    let story = crate::frames::steps::long_step();
    let mut view = story.view(Theme::full(), 200, 60);
    let press = |view: &mut View, code| {
        let begun = Instant::now();
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        story.scene(|scene| view.key(key, scene));
        begun.elapsed()
    };
    let opened = press(&mut view, KeyCode::Char('s'));
    let moved = press(&mut view, KeyCode::Right);
    let synced = Instant::now();
    story.scene(|scene| view.sync(scene));
    let synced = synced.elapsed();
    let (allocations, time) = frames_of(&story, &view, 200, 60, 1);
    let (_, usual) = frames("steady", 200, 60, 1);
    println!("a frame of the chart {usual:.1?}");
    println!("opened {opened:.1?}, moved {moved:.1?}, synced {synced:.1?}, a frame {time:.1?}");
    assert!(
        allocations < MOST_ALLOCATIONS,
        "{allocations} allocations a frame"
    );
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn a_frame_takes_two_milliseconds_at_most() {
    let mut slow = Vec::new();
    for case in CASES {
        let (story, view) = case.staged(Theme::full(), 200, 60);
        let (allocations, times) = batches_of(&story, &view, 200, 60, 21);
        let [least, low, median, high] = [0, 5, 10, 15].map(|place| times[place]);
        println!(
            "{:20} median {median:>9.1?} ({low:.1?} to {high:.1?}), least {least:>9.1?}  {allocations:>5} allocations",
            case.name
        );
        if median > Duration::from_millis(2) {
            slow.push((case.name, median));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

/// Some ranks that train for so long, each sampled so often, no value like the one before; and what
/// the state of it holds on the heap.
fn long_session(ranks: u32, seconds: f64, interval: f64) -> (Story, Bytes) {
    let before = HELD.with(Cell::get);
    let uuid = |rank: u32| format!("4f2a9c1e-{rank}");
    let mut story = Story::new("torchrun --nproc_per_node 8 train.py --batch-size 16");
    story.with_nvml().start().wait(2.0);
    for rank in 0..ranks {
        story.hello(rank, ranks, &uuid(rank));
    }
    let ticks = (seconds / interval) as u64;
    for tick in 0..ticks {
        let now = 2.0 + (tick * 7_919 % 10_007) as f64 / 800.0;
        for rank in 0..ranks {
            story.sample(rank, now, 15.0, 14.7);
            if tick % 10 == 0 {
                story.step(rank, tick / 10 + 1, 2.0, 15.0, 14.7);
                story.device(rank, &uuid(rank), 15.0 + now / 100.0, 0.0);
            }
        }
        story.wait(interval);
    }
    let held = HELD.with(Cell::get) - before;
    (story, Bytes(held as u64))
}

/// Of the 20 MiB that the screen's process may have after a week: the rest is the program, its
/// libraries and the terminal's scrollback.
const MOST_HELD: Bytes = Bytes::mib(8);

#[test]
fn the_state_of_eight_ranks_stays_small() {
    // More than two hours: the exact part is full, and what is older has been widened.
    let (story, held) = long_session(8, 10_000.0, 1.25);
    assert!(held < MOST_HELD, "{held} held");
    drop(story);
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn a_week_at_ten_hertz_costs_no_more_than_a_minute() {
    for (ranks, days) in [(1, 7.0), (8, 1.0)] {
        let (story, held) = long_session(ranks, days * 86_400.0, 0.1);
        println!("{ranks} ranks, {days} days: {held} held by the state");
        assert!(held < MOST_HELD, "{held}");
        let mut view = story.view(Theme::full(), 200, 60);
        for zoom in 0..12 {
            let (allocations, time) = frames_of(&story, &view, 200, 60, 20);
            println!("  zoomed out {zoom:2} times: {time:>8.1?}  {allocations:>5} allocations");
            assert!(time <= Duration::from_millis(2), "{time:?}");
            let out = KeyEvent::new(KeyCode::Char('-'), KeyModifiers::NONE);
            story.scene(|scene| view.key(out, scene));
        }
        let cursor = KeyEvent::new(KeyCode::Char(','), KeyModifiers::NONE);
        story.scene(|scene| view.key(cursor, scene));
        let (allocations, time) = frames_of(&story, &view, 200, 60, 20);
        println!("  with the cursor: {time:>8.1?}  {allocations:>5} allocations");
        assert!(story.state.run().unwrap().peak() >= Some(gib(14.0)));
    }
}

/// So much of the 60 MiB that the screen's process may have with 512 ranks; the rest is the program.
const MOST_HELD_OF_512: Bytes = Bytes::mib(36);

/// 512 ranks on 64 nodes, told of for so many seconds; and what the state of it holds on the heap.
fn many_ranks(seconds: u32) -> (Story, Bytes) {
    let before = HELD.with(Cell::get);
    let mut story = nodes::job(64, 8, 512);
    (0..seconds).for_each(|at| nodes::second(&mut story, 512, 8, at));
    let held = HELD.with(Cell::get) - before;
    (story, Bytes(held as u64))
}

#[test]
fn a_frame_of_512_ranks_allocates_little() {
    let (story, _) = many_ranks(30);
    let mut view = story.view(Theme::full(), 200, 60);
    for code in [KeyCode::Tab, KeyCode::Tab] {
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        story.scene(|scene| view.key(key, scene));
    }
    let (allocations, _) = frames_of(&story, &view, 200, 60, 1);
    assert!(allocations < 2 * MOST_ALLOCATIONS, "{allocations} a frame");
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn ranks_by_the_hundred_are_drawn_at_ten_hertz_for_three_hundredths_of_a_core() {
    let begun = Instant::now();
    // Twenty minutes: every list is full.
    let (story, held) = many_ranks(1_200);
    let told = begun.elapsed() / 1_200;
    println!("512 ranks: {held} held by the state, a second of events {told:.1?}");
    assert!(held < MOST_HELD_OF_512, "{held}");
    for (width, height) in [(80, 24), (200, 60)] {
        let mut view = story.view(Theme::full(), width, height);
        for code in [KeyCode::Tab, KeyCode::Tab] {
            let key = KeyEvent::new(code, KeyModifiers::NONE);
            story.scene(|scene| view.key(key, scene));
        }
        let (allocations, time) = frames_of(&story, &view, width, height, 20);
        println!("{width}x{height}: {time:.1?} a frame, {allocations} allocations");
        assert!(
            time * 10 + told <= Duration::from_millis(30),
            "{time:?} and {told:?}"
        );
    }
}
