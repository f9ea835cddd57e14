//! Whether a remedy may stand under Enter: what is known not to help, or not to fit, is applied only
//! where somebody asks for it by its key.

use super::effect::RemedyEffect;
use super::plan::Remedy;
use crate::diagnosis::{Finding, Help};

/// Whether a remedy may help against what was found.
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
