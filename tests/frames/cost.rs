//! What a frame costs: counted in allocations, which are the same on every machine; timed on demand.

use crate::frames::cases::CASES;
use crate::frames::nodes;
use crate::frames::story::{Story, gib};
use nix::time::{ClockId, clock_gettime};
use oomph::anatomy::StepAnatomy;
use oomph::diagnosis::LiveWarnings;
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
/// step behind it has the most, 1,415.
const MOST_ALLOCATIONS: u64 = 1_500;

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

/// The usual terminal, and a whole screen.
const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn a_frame_takes_two_milliseconds_at_most() {
    let mut slow = Vec::new();
    for (case, (width, height)) in CASES.iter().flat_map(|case| SIZES.map(|size| (case, size))) {
        let (story, view) = case.staged(Theme::full(), width, height);
        let (allocations, times) = batches_of(&story, &view, width, height, 21);
        let [least, low, median, high] = [0, 5, 10, 15].map(|place| times[place]);
        println!(
            "{:20} {width:>3}x{height} median {median:>9.1?} ({low:.1?} to {high:.1?}), least {least:>9.1?}  {allocations:>5} allocations",
            case.name
        );
        if median > Duration::from_millis(2) {
            slow.push((case.name, width, height, median));
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

/// A data-parallel training that keeps something in each step: every rank's memory grows, on a GPU of its own.
fn leaking_ranks(ranks: u32) -> Story {
    let mut story = Story::new("torchrun --nproc_per_node 8 train.py --batch-size 16");
    story.with_nvml().start().wait(2.0);
    for rank in 0..ranks {
        story.hello(rank, ranks, &format!("GPU-{rank}"));
    }
    for step in 1..=400_u32 {
        let grown = 4.0 + f64::from(step) * 0.04;
        for rank in 0..ranks {
            let uuid = format!("GPU-{rank}");
            story.sample(rank, grown + 2.0, grown + 3.0, grown + 2.5);
            story.step(rank, u64::from(step), grown, grown + 3.0, grown + 2.5);
            story.device(rank, &uuid, grown + 3.0, 0.0);
        }
        story.wait(0.5);
    }
    story
}

/// Allocations of a look at so many leaking ranks: each fit takes some.
fn looked_at(ranks: u32) -> u64 {
    let story = leaking_ranks(ranks);
    let before = COUNT.with(Cell::get);
    let found = LiveWarnings::default().look(&story.state);
    let allocations = COUNT.with(Cell::get) - before;
    assert!(found.len() >= ranks as usize, "{}", found.len());
    allocations
}

/// Each rank's memory is fitted once, though each asks for the OOM to come, which is of all of them.
#[test]
fn a_look_at_many_leaking_ranks_takes_as_much_for_each_as_one_at_few() {
    let (few, many) = (looked_at(4), looked_at(32));
    assert!(many < 10 * few, "{few} and {many} allocations");
}

#[test]
fn a_frame_of_many_leaking_ranks_fits_nothing_again() {
    let story = leaking_ranks(32);
    let view = story.view(Theme::full(), 80, 24);
    let (allocations, _) = frames_of(&story, &view, 80, 24, 1);
    assert!(allocations < MOST_ALLOCATIONS, "{allocations} a frame");
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn frames_of_leaking_ranks() {
    for ranks in [1, 8, 64] {
        let story = leaking_ranks(ranks);
        for (width, height) in SIZES {
            let view = story.view(Theme::full(), width, height);
            let (allocations, times) = batches_of(&story, &view, width, height, 21);
            let [least, low, median, high] = [0, 5, 10, 15].map(|place| times[place]);
            println!(
                "{ranks} leaking ranks {width:>3}x{height} median {median:>9.1?} ({low:.1?} to {high:.1?}), least {least:>9.1?}  {allocations:>5} allocations"
            );
            assert!(median <= Duration::from_millis(2), "{median:?}");
        }
    }
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn a_long_step_is_read() {
    let story = crate::frames::steps::long_step();
    let run = story.state.run().unwrap();
    let trace = run.ranks[0].traces.last().unwrap();
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let begun = own_time();
            let step = StepAnatomy::new(trace).unwrap();
            let took = own_time().saturating_sub(begun);
            assert!(step.end() > 10_000, "{}", step.end());
            took
        })
        .collect();
    times.sort();
    println!(
        "a long step is read in {:?} ({:?} to {:?})",
        times[10], times[5], times[15]
    );
    // Of a step in a minute or so, between two frames.
    assert!(times[10] <= Duration::from_millis(5), "{:?}", times[10]);
    let mut view = story.view(Theme::full(), 200, 60);
    let press = |view: &mut View, code| {
        let begun = own_time();
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        story.scene(|scene| view.key(key, scene));
        own_time().saturating_sub(begun)
    };
    let opened = press(&mut view, KeyCode::Char('s'));
    let mut moved = [KeyCode::Left; 21].map(|code| press(&mut view, code));
    moved.sort();
    println!(
        "opened in {opened:?}, the cursor moved in {:?} ({:?} to {:?})",
        moved[10], moved[5], moved[15]
    );
}

/// Run alone, in release: `cargo test --release --test pure -- frames::cost --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn looks_at_leaking_ranks() {
    for ranks in [1, 8, 64] {
        let story = leaking_ranks(ranks);
        let mut times: Vec<(Duration, u64)> = (0..11)
            .map(|_| {
                let (begun, before) = (own_time(), COUNT.with(Cell::get));
                let found = LiveWarnings::default().look(&story.state);
                let took = own_time().saturating_sub(begun);
                assert!(found.len() >= ranks as usize, "{}", found.len());
                (took, COUNT.with(Cell::get) - before)
            })
            .collect();
        times.sort();
        let (took, allocations) = times[5];
        println!("{ranks} leaking ranks: a look {took:.1?}, {allocations} allocations");
        // Once a second, of the three thousandths of a core that the screen may take.
        assert!(ranks > 8 || took <= Duration::from_millis(1), "{took:?}");
    }
}
