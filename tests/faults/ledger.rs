//! Whether a log accounts for an output: a copy of it to the byte, or with its gaps counted.

const BEFORE: &[u8] = b"\r\n[oomph: ";
const AFTER: &[u8] = b" bytes of output are missing here]\r\n";

/// Fails where `log` is neither the beginning of `output` nor that with counted gaps.
#[track_caller]
pub fn accounts_for(log: &[u8], output: &[u8]) {
    let (mut log, mut at) = (log, 0usize);
    loop {
        let same = log
            .iter()
            .zip(&output[at..])
            .take_while(|(a, b)| a == b)
            .count();
        (log, at) = (&log[same..], at + same);
        if log.is_empty() {
            return;
        }
        let (missing, rest) = gap(log).unwrap_or_else(|| {
            let seen = String::from_utf8_lossy(&log[..log.len().min(60)]);
            panic!("the log departs from the output at byte {at}: {seen:?}")
        });
        at += missing;
        assert!(at <= output.len(), "a gap of more bytes than there were");
        log = rest;
    }
}

/// How many bytes the gap here is said to be, and what follows it.
fn gap(log: &[u8]) -> Option<(usize, &[u8])> {
    let rest = log.strip_prefix(BEFORE)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let missing = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((missing, rest[digits..].strip_prefix(AFTER)?))
}

#[test]
fn a_copy_a_beginning_and_a_counted_gap_are_in_order() {
    let output = b"one two three four";
    accounts_for(output, output);
    accounts_for(b"one two", output);
    let with_gap = [b"one ", BEFORE, b"4", AFTER, b"three"].concat();
    accounts_for(&with_gap, output);
    for wrong in [
        b"one tow".to_vec(),
        [b"one ", BEFORE, b"5", AFTER, b"three"].concat(),
        [output.as_slice(), b"!"].concat(),
    ] {
        let fails = std::panic::catch_unwind(|| accounts_for(&wrong, output));
        assert!(fails.is_err(), "{wrong:?}");
    }
}
