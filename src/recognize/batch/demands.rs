//! What a known program demands of a batch: no less than another argument, equal parts on all devices.

use super::super::argument::Arguments;
use super::super::program::ProgramEntry;
use super::super::recognition::Recognised;

/// What a known program demands of a new value.
pub(super) fn check(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    recognised: &Recognised<'_>,
    name: &str,
    new: u64,
) -> Result<(), String> {
    if let Some(floor) = &entry.batch.floor
        && let Some(least) = arguments
            .value_of(floor)
            .and_then(|v| v.parse::<u64>().ok())
        && name.contains("tokens")
        && new < least
    {
        return Err(format!("{name} {new} would be less than {floor} {least}"));
    }
    if let Some(devices) = devices(arguments, entry, recognised)
        && devices > 1
        && !new.is_multiple_of(devices)
    {
        return Err(format!(
            "{name} {new} cannot be split among {devices} devices"
        ));
    }
    Ok(())
}

/// Among how many devices the batch is split, where the program insists on equal parts.
fn devices(
    arguments: &Arguments<'_>,
    entry: &ProgramEntry,
    recognised: &Recognised<'_>,
) -> Option<u64> {
    let batch = &entry.batch;
    if batch.devices.is_none() && batch.device_list.is_empty() {
        return None;
    }
    let said = batch
        .devices
        .iter()
        .flatten()
        .find_map(|name| arguments.value_of(name)?.parse::<u64>().ok());
    let listed = || {
        let list = batch
            .device_list
            .iter()
            .find_map(|name| arguments.value_of(name))?;
        Some(list.split(',').filter(|part| !part.is_empty()).count() as u64)
    };
    said.or_else(listed)
        .or_else(|| recognised.processes().map(u64::from))
}
