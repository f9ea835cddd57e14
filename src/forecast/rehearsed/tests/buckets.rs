//! The buckets that DistributedDataParallel makes anew at its second step.

use super::*;

#[test]
fn the_old_buckets_may_lie_beside_the_new_ones_in_a_short_second_step() {
    let needs = |rebuilds_buckets, flops| {
        let mut said = said();
        said.ranks = 2;
        said.rebuilds_buckets = rebuilds_buckets;
        said.variants[0].flops = flops;
        let step = Rehearsed::new(&said, 16).unwrap();
        let of = step.needs(&target(16)).unwrap();
        let fits = step.fits(&target(16), of.likely.scale(1.1), 0.0);
        (of, step.peak(&target(16)).unwrap(), fits)
    };
    let (kept, kept_peak, kept_fits) = needs(false, 1_000_000_000);
    let (short, short_peak, short_fits) = needs(true, 1_000_000_000);
    let (long, _, long_fits) = needs(true, 1_000_000_000_000_000);
    assert_eq!(
        (short.likely, short_peak.likely),
        (kept.likely, kept_peak.likely)
    );
    // A bucket is as large as the gradients in it.
    assert!(
        short.high >= kept.high + Bytes(64 * MIB),
        "{short:?} {kept:?}"
    );
    assert!(short_peak.high >= kept_peak.high + Bytes(64 * MIB));
    assert_eq!(
        (kept_fits, short_fits, long_fits),
        (Some(true), Some(false), Some(true))
    );
    assert_eq!(long.high, kept.high);
}

#[test]
fn a_short_step_that_is_compiled_as_a_whole_most_likely_has_both() {
    let likely = |compiled_whole, flops| {
        let mut said = said();
        said.ranks = 2;
        said.rebuilds_buckets = true;
        said.compiled_whole = compiled_whole;
        said.variants[0].flops = flops;
        let step = Rehearsed::new(&said, 16).unwrap();
        step.peak(&target(16)).unwrap().likely
    };
    let with_both = likely(true, 1_000_000_000_000);
    assert_eq!(
        with_both,
        likely(false, 1_000_000_000_000) + Bytes(64 * MIB)
    );
    assert_eq!(
        likely(true, 100_000_000_000_000),
        likely(false, 1_000_000_000_000)
    );
}
