//! Refusals as people read them, each with what could be done.

use super::Refusal;
use crate::diagnosis::Cause;
use std::fmt;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotOutOfMemory => f.write_str("it did not end by running out of memory"),
            Refusal::Stopped => f.write_str("it was stopped from outside"),
            Refusal::PartOfAJob(part) => write!(
                f,
                "this is one part of a job ({part}): all its parts must be started with the same change"
            ),
            Refusal::Enough(times) => {
                write!(f, "relaunched {times} times already (--max-relaunches)")
            }
            Refusal::Cause(cause) => f.write_str(match cause {
                Cause::Leak => "memory leaks: it would run out again, only later",
                Cause::EvaluationGraph => {
                    "the evaluation keeps its graphs: it would run out again (torch.no_grad() mends it)"
                }
                Cause::HostMemory => "it was the host's memory that ran out, not the GPU's",
                Cause::DeviceFault => "the device is at fault",
                Cause::Capacity
                | Cause::OptimizerState
                | Cause::Fragmentation
                | Cause::ForeignProcess
                | Cause::Limit
                | Cause::OddBatch
                | Cause::NonPytorch
                | Cause::Thrashing => "the cause would come again",
            }),
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
