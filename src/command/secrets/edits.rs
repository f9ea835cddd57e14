//! The numbers in sources that oomph itself changes (`OOMPH_EDITS`): a path may have a word of a secret's name in it, and what
//! follows is a place and two numbers.

/// Whether a value is nothing but such entries: `/data/token/train.py:3:17:128=64@0f3c21aa~batch%20`. `is_clean` is asked about
/// what is spelled before each number, which is the program's own text.
pub(super) fn are_edits(value: &str, is_clean: impl Fn(&str) -> bool) -> bool {
    value.split(',').all(|entry| {
        let (place, spelled) = entry.split_once('~').unwrap_or((entry, ""));
        is_place(place) && is_clean(spelled)
    })
}

/// A path, line, column, the number and what it becomes, and the file's checksum.
fn is_place(entry: &str) -> bool {
    let Some((rest, checksum)) = entry.rsplit_once('@') else {
        return false;
    };
    let Some((place, to)) = rest.rsplit_once('=') else {
        return false;
    };
    let mut parts = place.rsplitn(4, ':');
    let numbers = parts.by_ref().take(3).filter(|part| is_number(part));
    let is_located = numbers.count() == 3;
    let path = parts.next();
    is_located
        && is_number(to)
        && checksum.len() == 8
        && checksum.bytes().all(|byte| byte.is_ascii_hexdigit())
        && path.is_some_and(|path| path.starts_with('/') && !path.contains('='))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_source_is_one_and_nothing_else() {
        let ours = "/home/me/token/train.py:3:17:128=64@0f3c21aa";
        for edits in [
            ours.to_owned(),
            format!("{ours}~batch%20"),
            format!("{ours},/tmp/.tmpZ63PWd/a.py:1:0:8=4@00000007"),
        ] {
            assert!(are_edits(&edits, |_| true), "{edits}");
        }
        assert!(!are_edits(&format!("{ours}~x"), |spelled| spelled != "x"));
        for other in [
            "",
            "/home/me/token=abcdef",
            "/home/me/token:1:2:3=hunter2@0f3c21aa",
            "/home/me/token:1:2:3=4@hunter22",
            "password:1:2:3=4@0f3c21aa",
            &format!("{ours},token=abc"),
        ] {
            assert!(!are_edits(other, |_| true), "{other}");
        }
    }
}
