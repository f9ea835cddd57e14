//! What the remedies for the host's memory have in common: where a DataLoader's argument is set, and what is known of the loaders
//! that were seen in the run. A flag of the program is changed where there is one; else the probe changes DataLoader's own
//! argument, where it has seen one that has it.

use super::inputs::RemedyInputs;
use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use crate::diagnosis::Cause;
use crate::event::{LoaderSettings, Patch};
use crate::recognize::argument::Hit;
use crate::recognize::family;
use crate::recognize::spellings::{is_no, turned_off};

/// Whether the host's memory ran out: nothing else asks for these remedies.
pub(super) fn is_of_host(cause: Option<Cause>) -> bool {
    cause.is_some_and(Cause::is_of_host)
}

/// What a smaller batch does where batches that wait fill shared memory; `None` where it is no help for the host.
pub(super) fn smaller_batches(inputs: &RemedyInputs<'_>) -> Option<Expectation> {
    let waits = matches!(
        inputs.cause()?,
        Cause::PrefetchQueue | Cause::SharedMemory | Cause::PinnedMemory
    );
    let (_, memory) = inputs.forecast.oom?.host.as_ref()?.memory.as_ref()?;
    let in_shm = memory.shm.map(|shm| shm.used);
    let held = memory.shared.max(in_shm).filter(|_| waits)?;
    Some(Expectation::unknown(format!(
        "the batches that wait become smaller; {held} of shared memory was in use"
    )))
}

impl<'a> Offering<'a> {
    /// The loader that takes most, of those that the latest run had with workers.
    pub(super) fn loader(&self) -> Option<&'a LoaderSettings> {
        let loaders = self.inputs.forecast.state?.run()?.loaders();
        loaders.max_by_key(|loader| loader.waiting())
    }

    /// The flag's edits; without a flag, the patch's.
    fn or_in_loader(
        &self,
        by_flag: Result<Draft, String>,
        patched: impl FnOnce(&LoaderSettings) -> Result<(Patch, String), String>,
    ) -> Result<Draft, String> {
        match (by_flag, self.loader()) {
            (Err(reason), Some(loader)) => {
                let of_loader = || {
                    let (patch, shown) = patched(loader)?;
                    self.check_patch(patch)?;
                    Ok(Draft::patching(patch, &shown))
                };
                of_loader()
                    .map_err(|inside: String| format!("{reason}; no runtime patch: {inside}"))
            }
            (by_flag, _) => by_flag,
        }
    }

    /// A number of DataLoader made smaller: by the last of these flags, by adding the program's own one where that has the
    /// default `seen`, or by a patch. `what` is its name for display.
    pub(super) fn smaller_in_loader(
        &self,
        (flag, what): (family::LoaderFlag, &str),
        hits: &[Hit<'a>],
        smaller: impl Fn(u32) -> Result<u32, String>,
        seen: impl Fn(&LoaderSettings) -> Option<u32>,
        patched: impl FnOnce(&LoaderSettings) -> Result<(Patch, String), String>,
    ) -> Result<Draft, String> {
        let by_flag = by_number(hits, what, &smaller).or_else(|why| {
            let seen = self.loader().and_then(seen);
            let default = self.recognized.default_of_loader(flag, seen);
            let (addition, old) = default.filter(|_| hits.is_empty()).ok_or(why)?;
            let mut draft = Draft::default();
            draft.insert(addition.gap, &addition.saying(smaller(old)?.into()));
            Ok(draft)
        });
        self.or_in_loader(by_flag, patched)
    }

    /// A switch of DataLoader turned off: by the flags of this meaning, or by a patch.
    pub(super) fn off_in_loader(
        &self,
        meaning: family::LoaderFlag,
        what: &str,
        patched: impl FnOnce(&LoaderSettings) -> Result<(Patch, String), String>,
    ) -> Result<Draft, String> {
        let by_flag = self.recognized.check_open().and_then(|()| {
            let arguments = self.recognized.arguments();
            let hits = family::of_loader(&arguments, meaning);
            let Some(hit) = hits.last() else {
                return Err(format!("the command does not set {what}"));
            };
            let mut draft = Draft::default();
            match hit.value {
                Some(value) if is_no(value.text) => {
                    return Err(format!("already off: {} {}", hit.name, value.text));
                }
                Some(value) => match turned_off(value.text) {
                    Some(off) => draft.set(hit.name, value, off),
                    None => draft.remove(&arguments, hit, false),
                },
                None => draft.remove(&arguments, hit, false),
            }
            Ok(draft)
        });
        self.or_in_loader(by_flag, patched)
    }
}

/// The edit of the last of these flags.
fn by_number(
    hits: &[Hit<'_>],
    what: &str,
    smaller: impl Fn(u32) -> Result<u32, String>,
) -> Result<Draft, String> {
    let Some(hit) = hits.last() else {
        return Err(format!("the command does not set {what}"));
    };
    let name = hit.name;
    if let Some(other) = hits.iter().find(|other| other.name != name) {
        return Err(format!("{} and {name} are both set", other.name));
    }
    let value = hit.value.ok_or_else(|| format!("{name} has no value"))?;
    let is_plain = value.text.bytes().all(|b| b.is_ascii_digit()) && !value.text.starts_with("00");
    let old = value.text.parse::<u32>().ok().filter(|_| is_plain);
    let old = old.ok_or_else(|| format!("{name} is {}, which isn't a number", value.text))?;
    let mut draft = Draft::default();
    let new = smaller(old).map_err(|why| format!("{name} is already {old}: {why}"))?;
    draft.set(name, value, &new.to_string());
    Ok(draft)
}

/// A remedy of the host's memory that has no figure.
pub(super) fn proposal<const N: usize>(
    draft: Result<Draft, String>,
    cost: [&'static str; N],
    saves: String,
) -> Proposal {
    Proposal::new(draft, cost).expecting(Expectation::unknown(saves))
}

/// What the DataLoaders of a relaunched run show of a remedy, in words; `None` if they show nothing. An error if it is not in
/// force. `before` are those of the run before.
pub(super) fn compared(
    what: &str,
    of: impl Fn(&LoaderSettings) -> Option<u32>,
    before: &[LoaderSettings],
    now: &[LoaderSettings],
) -> Option<Result<String, String>> {
    let most = |loaders: &[LoaderSettings]| loaders.iter().filter_map(&of).max();
    let (before, now) = (most(before)?, most(now)?);
    Some(match now < before {
        true => Ok(format!("{what}: {now}, before {before}")),
        false => Err(format!("{what}: still {now}")),
    })
}
