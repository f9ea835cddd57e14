//! Refusals as people read them, each with what could be done.

use super::Refusal;
use std::fmt;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotOutOfMemory => f.write_str("it did not end by running out of memory"),
            Refusal::Stopped => f.write_str("it was stopped from outside"),
            Refusal::PartOfAJob(part) => write!(
                f,
                "this is one part of a job ({part}): all parts must be started with the same change"
            ),
            Refusal::Enough(times) => {
                write!(f, "relaunched {times} times already (--max-relaunches)")
            }
            Refusal::Cause(cause) => {
                f.write_str(cause.spec().recurs.unwrap_or("the cause would come again"))
            }
            Refusal::StartsOver => f.write_str(
                "it had come far and would start again from the beginning (--allow restart permits it)",
            ),
            Refusal::Permission(permission) => write!(
                f,
                "what might help changes the training (--allow {} permits it)",
                permission.word()
            ),
            Refusal::Tried => f.write_str("whatever might help was tried"),
            Refusal::NothingFits => f.write_str("no remedy is predicted to fit"),
            Refusal::NoRemedy => f.write_str("no remedy can be applied to this command"),
        }
    }
}
