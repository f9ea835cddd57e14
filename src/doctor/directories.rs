//! The directories for recordings and for sockets: the first one that can be used, and why not a
//! better one.

use super::{Check, PlaceFacts};
use crate::units::Bytes;

/// Below this a recording is soon cut off.
const LITTLE: Bytes = Bytes::mib(256);

pub(super) fn check(subject: &str, places: &[PlaceFacts]) -> Check {
    let problems: Vec<String> = places
        .iter()
        .map_while(|place| Some((place.path.display(), place.problem.as_ref()?)))
        .map(|(path, problem)| format!("{path}: {problem}"))
        .collect();
    let variable = match subject {
        "sockets" => "OOMPH_RUNTIME_DIR",
        _ => "OOMPH_STATE_DIR",
    };
    let Some(place) = places.get(problems.len()) else {
        let without = match subject {
            "sockets" => "there will be no probe and no `oomph attach`",
            _ => "nothing will be recorded",
        };
        return Check::error(
            subject,
            format!("no directory can be used: {}", problems.join("; ")),
            format!("{without}: set {variable} to a directory of yours"),
        );
    };
    let free = (place.free).map_or(String::new(), |free| format!(", {free} free"));
    let finding = format!("{}{free}", place.path.display());
    if place.free.is_some_and(|free| free < LITTLE) {
        return Check::warning(
            subject,
            finding,
            format!("make room, or set {variable} to another directory"),
        );
    }
    match problems.is_empty() {
        true => Check::ok(subject, finding),
        false => Check::warning(
            subject,
            format!("{finding}, since {}", problems.join("; ")),
            format!("it works; set {variable} if another directory is better"),
        ),
    }
}
