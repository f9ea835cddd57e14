//! Whether a remedy may be the default on Enter: those known not to help, or not to fit, are
//! applied only by their own key.

use super::effect::RemedyEffect;
use super::plan::Remedy;
use crate::diagnosis::{Finding, Help};

/// Whether a remedy may help against the cause.
pub fn may_help(remedy: &Remedy, findings: &[Finding]) -> bool {
    let cause = findings.first().map(|finding| finding.cause.spec());
    if !remedy.is_offered() || remedy.expectation.fits == Some(false) {
        return false;
    }
    match remedy.id.spec().effect {
        RemedyEffect::LessAllocated | RemedyEffect::LessFragmentation | RemedyEffect::MoreFree => {
            cause.is_none_or(|cause| cause.futile.is_none())
        }
        // It needs as much GPU memory as before.
        RemedyEffect::None => cause.is_some_and(|cause| cause.prefers == Help::LessHostMemory),
    }
}
