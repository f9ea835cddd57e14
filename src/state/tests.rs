//! Tables of events in, state out.

mod breakdown;
mod devices;
pub(crate) mod host;
mod month;
mod ooms;
mod runs;
mod sequences;
pub(crate) mod staged;

use crate::units::Moment;

fn at(seconds: f64) -> Moment {
    Moment::from_secs_f64(seconds)
}
