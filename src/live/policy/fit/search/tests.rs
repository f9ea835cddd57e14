//! The search in worlds whose limits were measured.

use super::*;
use crate::event::{OptimizerMemory, Rehearsal, RehearsedVariant};
use crate::forecast::{Estimate, ForwardBackwardPeak, SeenIn, Unseen};
use crate::state::tests::staged::gib;
use serde::Deserialize;

/// A training whose limit was measured; what its fields are stands above the table.
#[derive(Debug, Deserialize)]
struct MeasuredLimit {
    name: String,
    #[serde(default)]
    held_out: bool,
    base: f64,
    slope: f64,
    room: f64,
    largest: u64,
    reserved: Vec<(u64, f64)>,
    pieces: Vec<(u64, f64)>,
    left_over: f64,
}

/// All of them.
fn worlds() -> Vec<MeasuredLimit> {
    #[derive(Deserialize)]
    struct Table {
        limit: Vec<MeasuredLimit>,
    }
    let table: Table = toml::from_str(include_str!("limits.toml")).expect("the table is in order");
    table.limit
}

/// A share at a batch between those that were measured, on the logarithm of the batch.
fn between(measured: &[(u64, f64)], batch: u64) -> f64 {
    let after = measured.iter().position(|(known, _)| *known >= batch);
    match after {
        Some(0) => measured[0].1,
        Some(after) => {
            let ((low, from), (high, to)) = (measured[after - 1], measured[after]);
            let way = (batch as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
            from + way * (to - from)
        }
        None => measured[measured.len() - 1].1,
    }
}

impl MeasuredLimit {
    fn peak(&self, batch: u64) -> f64 {
        self.base + self.slope * batch as f64
    }

    /// What is reserved above the peak where nothing presses: beyond what was measured no less than
    /// what was needed at the limit.
    fn overhead(&self, batch: u64) -> f64 {
        let measured = between(&self.reserved, batch);
        let is_beyond = self.reserved.last().is_some_and(|(last, _)| batch > *last);
        match is_beyond && self.largest > 0 {
            true => measured.max(self.room / self.peak(self.largest + 1)),
            false => measured,
        }
    }

    /// A run, of whose base so much is known.
    fn run(&self, value: u64, known: f64) -> Trial {
        let fits = value <= self.largest;
        let base = gib(self.base * known);
        let peak = self.peak(value);
        let overhead = self.overhead(value);
        let reserved = (peak * overhead).min(self.room);
        let peaks_before_retry = fits && peak * overhead <= self.room;
        Trial {
            value,
            fits,
            steps: 4,
            ended: false,
            began: None,
            inputs: None,
            rehearsed: None,
            peak: Some(gib(peak.min(self.room))),
            reserved: Some(gib(reserved)),
            seen: Some(Observation {
                seen_in: SeenIn::default(),
                batch: value,
                base: Estimate::new(base.scale(0.95), base, base.scale(1.3)),
                gradients: Some(base.scale(0.33)),
                parameters: Some(base.scale(0.33)),
                keeps_gradients: false,
                passes: if fits {
                    ForwardBackwardPeak::Seen(gib(peak))
                } else {
                    ForwardBackwardPeak::AtLeast(gib(self.room * 0.9), Unseen::NoStep)
                },
                optimizer: Estimate::exact(base),
                steps: 6,
                varies: false,
                spread: None,
                overhead: peaks_before_retry.then_some(overhead),
                pieces: peaks_before_retry.then(|| between(&self.pieces, value)),
                partial_step: None,
                left_over: (!fits).then_some(self.left_over),
                in_small_holes: false,
            }),
        }
    }

    /// What is found from a start, and in how many runs.
    fn search(&self, start: u64, known: f64) -> (SearchAnswer, usize) {
        let mut search = search(start);
        search.room = Some(gib(self.room));
        loop {
            match search.next() {
                SearchStep::Done(answer) => return (answer, search.trials.len()),
                SearchStep::Run(value) => search.trials.push(self.run(value, known)),
            }
        }
    }
}

fn search(start: u64) -> SizeSearch {
    SizeSearch {
        start,
        margin: 0.0,
        rounds: false,
        room: None,
        bound: None,
        foreseen: None,
        allocator: Allocator::Fixed,
        keeps_gradients: false,
        trials: Vec::new(),
    }
}

/// What was found of a world from several starts, as shares of the largest batch that fits.
fn shares(world: &MeasuredLimit, known: f64) -> Vec<(f64, SearchAnswer)> {
    let starts = [8, 16, 32, 64, 128].into_iter();
    let starts = starts.filter(|start| start / 4 <= world.largest);
    let found = starts.map(|start| {
        let (answer, runs) = world.search(start, known);
        let (SearchAnswer::Proven(found) | SearchAnswer::Expected(found)) = answer else {
            panic!("{} from {start}", world.name);
        };
        let share = found as f64 / world.largest as f64;
        assert!(runs <= RUNS);
        assert!(
            (0.8..=1.0).contains(&share),
            "{} from {start}: {found} of {} ({answer:?})",
            world.name,
            world.largest
        );
        (share, answer)
    });
    found.collect()
}

/// Of every hundred answers how many are within 4 % of the largest that fits, and how many ran.
fn percentages(worlds: &[&MeasuredLimit], known: f64) -> (usize, usize) {
    let all: Vec<(f64, SearchAnswer)> = worlds
        .iter()
        .flat_map(|world| shares(world, known))
        .collect();
    let near = all.iter().filter(|(share, _)| *share >= 0.96).count();
    let ran = all
        .iter()
        .filter(|(_, answer)| matches!(answer, SearchAnswer::Proven(_)))
        .count();
    (near * 100 / all.len(), ran * 100 / all.len())
}

#[test]
fn most_limits_are_found_within_four_percent_and_none_is_passed() {
    let worlds = worlds();
    let (held_out, chosen_on): (Vec<_>, Vec<_>) = worlds.iter().partition(|world| world.held_out);
    assert_eq!((chosen_on.len(), held_out.len()), (15, 7));
    let all: Vec<_> = worlds.iter().collect();
    // Known to 0.8: of the base, which one run does not show, autocast's copies of the weights are
    // missing.
    for (part, worlds, known, least) in [
        ("all", &all, 1.0, (74, 76)),
        ("all", &all, 0.8, (58, 67)),
        ("chosen on", &chosen_on, 1.0, (76, 74)),
        ("chosen on", &chosen_on, 0.8, (57, 68)),
        ("held out", &held_out, 1.0, (70, 79)),
        ("held out", &held_out, 0.8, (61, 67)),
    ] {
        let (near, ran) = percentages(worlds, known);
        let said = format!("{part}, base known to {known}: {near} % within 4 %, {ran} % proven");
        println!("{said}");
        assert!(near >= least.0 && ran >= least.1, "{said}");
    }
}

#[test]
fn a_margin_leaves_that_much_free() {
    for world in worlds() {
        let mut search = search(16);
        (search.room, search.margin) = (Some(gib(world.room)), 0.1);
        let answer = loop {
            match search.next() {
                SearchStep::Done(answer) => break answer,
                SearchStep::Run(value) => search.trials.push(world.run(value, 1.0)),
            }
        };
        let (SearchAnswer::Proven(found) | SearchAnswer::Expected(found)) = answer else {
            panic!("{}", world.name);
        };
        let peak = world.peak(found) * 1.1;
        assert!(
            peak <= world.room,
            "{}: {peak} of {}",
            world.name,
            world.room
        );
    }
}

#[test]
fn where_nothing_fits_that_is_said() {
    let world = MeasuredLimit {
        name: "huge".into(),
        held_out: false,
        base: 30.0,
        slope: 1.0,
        room: 24.0,
        largest: 0,
        reserved: vec![(1, 1.0), (200, 1.0)],
        pieces: vec![(1, 0.01)],
        left_over: 1.0,
    };
    let (answer, runs) = world.search(8, 1.0);
    assert_eq!(answer, SearchAnswer::None);
    assert!(runs <= RUNS);
    assert_eq!(world.search(1, 1.0).0, SearchAnswer::None);
}

/// The values that are run where each fits and nothing is known of what it needed.
fn tried_without_figures(search: &mut SizeSearch) -> Vec<u64> {
    let mut tried = Vec::new();
    while let SearchStep::Run(value) = search.next() {
        tried.push(value);
        search.trials.push(Trial {
            value,
            seen: None,
            peak: None,
            reserved: None,
            fits: true,
            steps: 4,
            ended: false,
            began: None,
            inputs: None,
            rehearsed: None,
        });
    }
    tried
}

#[test]
fn without_a_probe_values_are_doubled() {
    let mut search = SizeSearch {
        rounds: true,
        ..search(8)
    };
    let tried = tried_without_figures(&mut search);
    assert_eq!(tried, [2, 4, 8]);
    assert_eq!(search.next(), SearchStep::Done(SearchAnswer::Proven(8)));
}

#[test]
fn what_failed_before_is_a_bound() {
    for (bound, expected) in [
        (2, vec![1]),
        (3, vec![2]),
        (4, vec![2, 3]),
        (6, vec![2, 4, 5]),
    ] {
        let mut search = SizeSearch {
            bound: Some(bound),
            ..search(8)
        };
        let tried = tried_without_figures(&mut search);
        assert_eq!(tried, expected, "below {bound}");
    }
}

/// A model whose forward keeps 8 MiB of each sample.
fn rehearsed() -> Rehearsed {
    const MIB: u64 = 1 << 20;
    let said = Rehearsal {
        batch: 16,
        before: Bytes::mib(64 + 128 + 16),
        arguments: Bytes::mib(16),
        weights: vec![64 * MIB],
        trained: vec![64 * MIB],
        optimizer: Some(OptimizerMemory {
            has_state: true,
            ..OptimizerMemory::default()
        }),
        own_loss: true,
        variants: vec![RehearsedVariant {
            trace: Some(format!("x{} {} -2", 8 * MIB, 64 * MIB)),
            ..RehearsedVariant::default()
        }],
        ..Rehearsal::default()
    };
    Rehearsed::new(&said, 16).expect("a rehearsal")
}

/// The runs need a little more than the rehearsal says.
#[test]
fn a_rehearsed_step_finds_the_limit_in_the_second_run() {
    for (start, off) in [(64, 1.0), (64, 1.02), (4096, 1.05), (100_000, 1.1)] {
        let room = gib(16.0);
        let mut search = SizeSearch {
            rounds: true,
            room: Some(room),
            allocator: Allocator::Expandable,
            ..search(start)
        };
        let needs = |value: u64| Bytes::mib(9 * value + 256).scale(off);
        let largest = edge(1 << 20, |value| needs(value) <= room);
        while let SearchStep::Run(value) = search.next() {
            search.trials.push(Trial {
                value,
                seen: None,
                peak: Some(needs(value).min(room)),
                reserved: None,
                fits: needs(value) <= room,
                steps: 4,
                ended: false,
                began: None,
                inputs: None,
                rehearsed: Some(rehearsed()),
            });
        }
        let SearchStep::Done(SearchAnswer::Proven(answer)) = search.next() else {
            panic!("{:?}", search.next());
        };
        let first_ran = search.trials[0].fits;
        let share = answer as f64 / largest as f64;
        let least = if first_ran { 0.94 } else { 0.8 };
        assert!(share >= least, "{answer} of {largest} from {start}");
        assert_eq!(
            search.trials.len(),
            if first_ran { 2 } else { 3 },
            "from {start}"
        );
    }
}

#[test]
fn a_rehearsed_step_answers_for_gpus_that_are_not_here() {
    let mut search = search(16);
    assert_eq!(search.on(gib(24.0)), None, "nothing has run");
    search.trials.push(Trial {
        value: 16,
        seen: None,
        peak: Some(Bytes::mib(9 * 16 + 256)),
        reserved: None,
        fits: true,
        steps: 4,
        ended: false,
        began: None,
        inputs: None,
        rehearsed: Some(rehearsed()),
    });
    // 9 MiB for each sample, and 0.3 % to spare.
    for (room, least, most) in [(8.0, 870, 880), (24.0, 2670, 2696), (80.0, 8970, 9048)] {
        let value = search.on(gib(room)).flatten().expect("a value");
        assert!((least..=most).contains(&value), "{value} in {room}");
    }
    assert_eq!(search.on(gib(0.2)), Some(None));
}

#[test]
fn what_the_runs_let_expect_beyond_the_largest_that_ran_is_known() {
    let world = MeasuredLimit {
        name: "a line".into(),
        held_out: false,
        base: 0.6,
        slope: 0.2057,
        room: 23.4,
        largest: 108,
        reserved: vec![(1, 1.0), (200, 1.0)],
        pieces: vec![(1, 0.0), (200, 0.0)],
        left_over: 1.0,
    };
    let mut search = SizeSearch {
        margin: 0.02,
        rounds: true,
        room: Some(gib(world.room)),
        ..search(16)
    };
    search.trials = vec![world.run(26, 1.0), world.run(104, 1.0)];
    // 0.6 + 108 × 0.2057 are 22.8, with the margin 23.3.
    let further = search.further().expect("more than what ran");
    assert!((107..=108).contains(&further), "{further}");
    search.trials.push(world.run(further, 1.0));
    assert_eq!(search.further(), None);
}

/// An earlier failure that foresaw a batch is not searched anew from a quarter of it.
#[test]
fn the_search_begins_where_an_earlier_failure_foresaw_the_answer() {
    let first = |foreseen: Option<u64>, bound: Option<u64>| {
        let search = SizeSearch {
            rounds: true,
            foreseen,
            bound,
            ..search(64)
        };
        search.next()
    };
    assert_eq!(first(None, Some(64)), SearchStep::Run(16));
    assert_eq!(first(Some(35), Some(64)), SearchStep::Run(34));
    assert_eq!(first(Some(70), Some(40)), SearchStep::Run(39));
    assert_eq!(first(Some(0), None), SearchStep::Run(1));
}

/// As every other figure is rounded: the screen, the list and a dialog say the same.
#[test]
fn a_batch_is_rounded_as_everywhere_else() {
    let search = SizeSearch {
        rounds: true,
        ..search(64)
    };
    for batch in [31, 32, 51, 63, 64] {
        assert_eq!(search.round(batch), rounded(batch), "{batch}");
    }
}

/// Of the next larger value the answer says what it would need by its own rule, or that it may fit.
#[test]
fn what_is_next_to_the_largest_that_ran_is_told_by_the_same_rule() {
    let beyond = |reserved: [f64; 2], room: f64, bound| {
        let trial = |value, gib: f64| Trial {
            value,
            seen: None,
            peak: Some(Bytes::gib(1).scale(gib)),
            reserved: None,
            fits: true,
            steps: 4,
            ended: false,
            began: None,
            inputs: None,
            rehearsed: None,
        };
        let search = SizeSearch {
            room: Some(Bytes::gib(1).scale(room)),
            margin: 0.02,
            bound,
            trials: vec![trial(46, reserved[0]), trial(50, reserved[1])],
            ..search(64)
        };
        search.beyond()
    };
    // 22.5 and 0.5 for each more: 51 needs 23.0, and with 2 % 23.46.
    let needs = Bytes::gib(1).scale(23.0).scale(1.02);
    assert_eq!(
        beyond([20.5, 22.5], 23.4, Some(64)),
        Some(Beyond::TooLarge { next: 51, needs })
    );
    assert_eq!(
        beyond([20.5, 22.5], 24.0, Some(64)),
        Some(Beyond::MayFit(52))
    );
    assert_eq!(
        beyond([20.5, 22.5], 48.0, Some(54)),
        Some(Beyond::MayFit(53))
    );
    assert_eq!(beyond([20.5, 22.5], 24.0, Some(51)), None, "51 has failed");
    assert_eq!(beyond([22.5, 22.5], 24.0, Some(64)), None, "no line");
}

/// What ran and leaves less than the margin is not the answer, unless it ended by itself.
#[test]
fn the_answer_keeps_the_rule_that_the_table_states() {
    let trial = |value, gib: f64, ended| Trial {
        value,
        seen: None,
        peak: Some(Bytes::gib(1).scale(gib)),
        reserved: None,
        fits: true,
        steps: 26,
        ended,
        began: None,
        inputs: None,
        rehearsed: None,
    };
    let search = |ended| SizeSearch {
        room: Some(Bytes::gib(1).scale(23.4)),
        margin: 0.11,
        trials: vec![
            trial(34, 15.1, false),
            trial(46, 20.3, false),
            trial(48, 21.1, ended),
        ],
        ..search(64)
    };
    // 20.3 and 11 % are 22.5; 21.1 and 11 % are 23.42.
    for (ended, answer) in [(false, 46), (true, 48)] {
        let search = search(ended);
        assert_eq!(search.best().map(|best| best.value), Some(answer));
        assert_eq!(
            search.next(),
            SearchStep::Done(SearchAnswer::Proven(answer))
        );
    }
}
