//! Whether the probe will reach the program's Python.

use super::{Check, Facts, Keeps, PlaceFacts, PythonFacts};

const SUBJECT: &str = "probe";

/// What follows where it does not.
const OTHERWISE: &str =
    "without the probe there is device memory only, no allocated/reserved curve";

pub(super) fn check(facts: &Facts) -> Option<Check> {
    let kept_out = |finding: &str, advice: &str| {
        Some(Check::warning(
            SUBJECT,
            format!("it will not be loaded: {finding}"),
            format!("{advice}; {OTHERWISE}"),
        ))
    };
    if facts.runtime.iter().all(|place| place.problem.is_some()) {
        return kept_out("there is no directory for its files", "see `sockets` below");
    }
    let asked = match &facts.command.python {
        PythonFacts::OutOfSight { by, keeps } => {
            return match keeps {
                Keeps::Nothing => kept_out(
                    &format!("{by}, which does not pass the environment or the files on"),
                    "put oomph inside, in front of python",
                ),
                Keeps::Environment => Some(Check::warning(
                    SUBJECT,
                    format!(
                        "{by}: it will be loaded if the container has {}",
                        place(facts)
                    ),
                    format!(
                        "bind that directory, or put oomph inside, in front of python; {OTHERWISE}"
                    ),
                )),
                Keeps::Both => Some(Check::ok(
                    SUBJECT,
                    format!(
                        "{by}: will be loaded from {} into what that starts, if it keeps PYTHONPATH",
                        place(facts)
                    ),
                )),
            };
        }
        // Said of the interpreter already.
        PythonFacts::NotFound(_) | PythonFacts::Found { asked: Err(_), .. } => return None,
        PythonFacts::Found {
            asked: Ok(asked), ..
        } => asked,
    };
    if (asked.version.0, asked.version.1) < (3, 8) {
        return kept_out("this Python is older than 3.8", "use a later one");
    }
    if !asked.reads_pythonpath {
        return kept_out(
            "this Python ignores PYTHONPATH (-I, -E, or frozen)",
            "start it without those options",
        );
    }
    if !asked.imports_site {
        return kept_out(
            "this Python does not import site (-S)",
            "start it without -S",
        );
    }
    let place = place(facts);
    Some(Check::ok(
        SUBJECT,
        match asked.not_run {
            Some(_) => format!(
                "will be loaded from {place}, if this Python reads PYTHONPATH and imports site as others do"
            ),
            None => format!(
                "will be loaded from {place}: this Python reads PYTHONPATH and imports site"
            ),
        },
    ))
}

/// What the latest session says of errors of the probe's own.
pub(super) fn errors(facts: &Facts) -> Option<Check> {
    let found = facts.probe_errors.as_ref()?;
    let (errors, them) = match found.count {
        1 => ("1 internal error".to_string(), "it"),
        n => (format!("{n} internal errors"), "them"),
    };
    Some(Check::warning(
        "probe errors",
        format!(
            "{errors} in the latest session, {}; the latest: {}",
            found.session, found.latest
        ),
        format!(
            "the training was not touched by {them}; with OOMPH_PROBE_DEBUG=FILE each process writes {them} to FILE.PID, for a report of the bug"
        ),
    ))
}

/// The directory of the probe's files: the first that can be used, and there is one.
fn place(facts: &Facts) -> String {
    let usable = facts.runtime.iter().find(|place| place.problem.is_none());
    usable.map_or(String::new(), |PlaceFacts { path, .. }| {
        path.display().to_string()
    })
}
