//! The messages for vetoes, each with what the user can do.

use super::decision::AutoVeto;
use std::fmt;

impl fmt::Display for AutoVeto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AutoVeto::NotOutOfMemory => f.write_str("it did not end in an OOM"),
            AutoVeto::Stopped => f.write_str("it was stopped from outside"),
            AutoVeto::PartOfAJob(part) => write!(
                f,
                "this is one part of a job ({part}); all parts must be relaunched with the same change"
            ),
            AutoVeto::Enough(times) => {
                write!(f, "relaunched {times} times already (--max-relaunches)")
            }
            AutoVeto::Cause(cause) => {
                f.write_str(cause.spec().recurs.unwrap_or("the cause would recur"))
            }
            AutoVeto::StartsOver => f.write_str(
                "it had made progress and would start over (--allow restart permits it)",
            ),
            AutoVeto::Permission(permission) => write!(
                f,
                "what might help changes the training (--allow {} permits it)",
                permission.word()
            ),
            AutoVeto::Tried => f.write_str("everything that might help has been tried"),
            AutoVeto::NothingFits => f.write_str("no remedy is predicted to fit"),
            AutoVeto::NoRemedy => f.write_str("no remedy can be applied to this command"),
        }
    }
}
