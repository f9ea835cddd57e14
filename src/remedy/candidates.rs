//! Where it is not sure which number sets the batch: a smaller value of each that may, for the user to choose. None is
//! recommended, and no relaunch takes one unasked. Whether it had an effect shows in the first sizes of the next run, which
//! is remembered.

use super::batch::by_candidate;
use super::plan::Remedy;
use super::{NeedFrom, RemedyEffect, RemedySpec};

macro_rules! candidate {
    ($file:ident, $key:literal, $at:literal) => {
        pub(in crate::remedy) mod $file {
            use super::*;

            pub(in crate::remedy) const REMEDY: RemedySpec = RemedySpec::new(
                $key,
                concat!("batch candidate ", $key),
                RemedyEffect::LessAllocated,
                NeedFrom::Forecast(Remedy::change_batch),
                |offering| by_candidate(offering, $at),
            );
        }
    };
}

candidate!(first, '1', 0);
candidate!(second, '2', 1);
candidate!(third, '3', 2);
