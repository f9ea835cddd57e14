//! What a frame costs: counted in allocations, which are the same on every machine; timed on demand.

use crate::cases::CASES;
use oomph::ui::{self, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; the counter is plain memory of the
// thread and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frames of a session at a size: allocations of each, and the time of the fastest batch, since
/// what else the machine does only ever makes one slower.
fn frames(name: &str, width: u16, height: u16, batches: u32) -> (u64, Duration) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let (story, view) = case.staged(Theme::full(), width, height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut frame = |count: u32| {
        let before = COUNT.with(Cell::get);
        let begun = Instant::now();
        for _ in 0..count {
            story.scene(|scene| {
                terminal
                    .draw(|frame| ui::draw(frame, &view, scene))
                    .unwrap();
            });
        }
        let allocations = (COUNT.with(Cell::get) - before) / u64::from(count);
        (allocations, begun.elapsed() / count)
    };
    frame(2);
    let batches = (0..batches).map(|_| frame(10));
    batches.min_by_key(|(_, time)| *time).unwrap()
}

/// Twice what was counted when this was written (between 160 and 560 a frame).
const MOST_ALLOCATIONS: u64 = 1_000;

#[test]
fn a_frame_allocates_little() {
    for name in ["steady", "eight-ranks", "oom-capacity", "week"] {
        let (allocations, _) = frames(name, 200, 60, 1);
        assert!(
            allocations < MOST_ALLOCATIONS,
            "{name}: {allocations} allocations a frame"
        );
    }
}

/// Run alone, in release: `cargo test --release --test frames -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: wants a release build and a quiet machine"]
fn a_frame_takes_two_milliseconds_at_most() {
    for case in CASES {
        let (allocations, time) = frames(case.name, 200, 60, 20);
        println!(
            "{:18} {time:>10.1?}  {allocations:>5} allocations",
            case.name
        );
        assert!(time <= Duration::from_millis(2), "{}: {time:?}", case.name);
    }
}
