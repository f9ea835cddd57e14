//! Where the blocks of a traced step come from, as its event lists it.

use super::trace::BadTrace;

/// More than any step that is sent has; a recording may say anything.
const MOST_BLOCKS: usize = 1 << 20;

/// `2*40 0 1` as an origin for each of 42 blocks: its place in the list of `known` ones.
///
/// # Errors
///
/// Where a word is no such number.
pub fn origins_of(text: &str, known: usize) -> Result<Vec<Option<usize>>, BadTrace> {
    let mut origins = Vec::new();
    for word in text.split_whitespace() {
        let bad = || BadTrace(word.into());
        let (number, times) = word.split_once('*').unwrap_or((word, "1"));
        let number: usize = number.parse().map_err(|_| bad())?;
        let times: usize = times.parse().map_err(|_| bad())?;
        if number > known || times > MOST_BLOCKS {
            return Err(bad());
        }
        origins.extend(std::iter::repeat_n(number.checked_sub(1), times));
        if origins.len() > MOST_BLOCKS {
            return Err(bad());
        }
    }
    Ok(origins)
}
