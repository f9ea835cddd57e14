//! What stands at the end of an explanation that is longer than the terminal: the cause, the line that failed and the first
//! remedy, which have scrolled away by then. A pager would show the beginning instead, but not everywhere is one, and what it
//! showed is gone from the terminal when it ends.

use super::{Explanation, decisive};
use crate::event::to_paste;
use crate::remedy::{self, Plan};

/// In a few lines; none where no cause is known.
pub fn in_short(explanation: &Explanation) -> Option<String> {
    let oom = &explanation.ooms[decisive(explanation.ooms)?];
    let finding = oom.findings.first()?;
    let mut lines = vec![format!(
        "{}: {}",
        finding.cause.spec().title,
        finding.headline
    )];
    let request = finding.request.as_ref();
    lines.extend(request.map(|(bytes, at)| format!("{bytes} requested at {}", at.path("→"))));
    let in_code = finding.in_code().filter(|_| finding.place.is_some());
    lines.extend(in_code.map(|advice| advice.to_string()));
    if let Some((command, inputs)) = &explanation.command {
        let remedies = remedy::remedies(command, inputs);
        let first = remedy::recommended(&remedies, Some(finding.cause)).map(|at| &remedies[at]);
        lines.extend(first.map(|remedy| {
            let command = to_paste(&Plan::new(command, &[remedy]).command);
            format!("{}: {command}", remedy.title)
        }));
    }
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    Some(format!("In short:\n{lines}"))
}
