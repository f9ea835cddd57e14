//! Prefixes that launchers and loggers add, and the rank in them.

use crate::units::Rank;

/// Bytes of a prefix: container, actor, date, level, module.
const LONGEST_PREFIX: usize = 200;

/// A line, or a part of it, and the rank that printed it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RankedText<'a> {
    /// The rank, if a prefix has it.
    pub(crate) rank: Option<Rank>,
    /// Without the rank's marker.
    pub(crate) text: &'a str,
}

/// `line` split at rank markers: `torchrun --tee` can glue the output of two ranks without a line
/// end (`94.70it/s][default1]:…`, seen with torch 2.15).
pub(crate) fn pieces(line: &str) -> Vec<RankedText<'_>> {
    let mut pieces = Vec::with_capacity(1);
    let mut rank = rank_in_prefix(line);
    let mut begin = 0;
    let mut from = 0;
    while let Some(at) = line[from..].find('[').map(|at| at + from) {
        let Some((marked, length)) = marker(&line[at..]) else {
            from = at + 1;
            continue;
        };
        let before = &line[begin..at];
        // A date or an actor's name before the first marker is a prefix, not another rank's text.
        let is_prefix =
            begin == 0 && before.len() <= LONGEST_PREFIX && before.ends_with(char::is_whitespace);
        if !before.is_empty() && !is_prefix {
            pieces.push(RankedText { rank, text: before });
        }
        rank = Some(marked);
        begin = at + length;
        from = begin;
    }
    pieces.push(RankedText {
        rank,
        text: &line[begin..],
    });
    pieces
}

/// `[rank3]:` (torch.distributed's excepthook) and `[default3]:` (torchrun `--tee`; "default" is
/// the role).
fn marker(text: &str) -> Option<(Rank, usize)> {
    let digits = text
        .strip_prefix("[rank")
        .or_else(|| text.strip_prefix("[default"))?;
    let (rank, after) = leading_rank(digits)?;
    let after = after.strip_prefix("]:")?;
    Some((rank, text.len() - after.len()))
}

/// Ranks in other prefixes: `(VllmWorker rank=1 pid=745)`, `[Rank 3]`, and `[1,3]<stderr>:` (mpirun
/// `--tag-output`: job, rank).
fn rank_in_prefix(line: &str) -> Option<Rank> {
    let mut end = line.len().min(LONGEST_PREFIX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let head = &line[..end];
    let named = ["rank=", "[Rank ", "[rank ", "[rank: ", "[rank:"]
        .iter()
        .find_map(|name| {
            let at = head.find(name)?;
            // Not `local_rank=` and `node_rank=`.
            if head[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric()) {
                return None;
            }
            let (rank, after) = leading_rank(&head[at + name.len()..])?;
            after.starts_with([' ', ')', ']', ',', ':']).then_some(rank)
        });
    named.or_else(|| {
        let tag = head.strip_prefix('[')?;
        let tag = &tag[..tag.find("]<std")?];
        tag.split_once(',')?.1.parse().ok().map(Rank)
    })
}

fn leading_rank(text: &str) -> Option<(Rank, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    Some((Rank(text[..end].parse().ok()?), &text[end..]))
}

/// `line` without a prefix that it shares with `first`, digits aside: loggers and actors prefix
/// every line of a message.
pub(super) fn behind_shared_prefix<'a>(first: &str, line: &'a str) -> &'a str {
    let alike = |(a, b): &(u8, u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
    let shared = first.bytes().zip(line.bytes()).take_while(alike).count();
    // The shared part may end within a word, a prefix does not.
    let end = line.as_bytes()[..shared]
        .iter()
        .rposition(|byte| matches!(byte, b' ' | b']' | b')' | b'|' | b'>'))
        .map_or(0, |last| last + 1);
    let is_quotation = first.starts_with("> ") && line.starts_with("> ");
    match end > 2 || is_quotation {
        true => &line[end..],
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[(Option<u32>, &str)]) {
        let found: Vec<_> = pieces(line)
            .into_iter()
            .map(|piece| (piece.rank.map(|rank| rank.0), piece.text))
            .collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn markers_name_the_rank() {
        check("no marker", &[(None, "no marker")]);
        check("", &[(None, "")]);
        check("[rank3]: text", &[(Some(3), " text")]);
        check("[default11]:text", &[(Some(11), "text")]);
        check("2026-01-02 (Actor pid=7) [rank3]: t", &[(Some(3), " t")]);
        check("[default2]:[rank10]: t", &[(Some(10), " t")]);
        check("[1,6]<stderr>:text", &[(Some(6), "[1,6]<stderr>:text")]);
        check("(W rank=1 pid=9) t", &[(Some(1), "(W rank=1 pid=9) t")]);
        check("local_rank=1 t", &[(None, "local_rank=1 t")]);
        check(
            "[rankX]: [rank]: [rank9",
            &[(None, "[rankX]: [rank]: [rank9")],
        );
    }

    #[test]
    fn a_shared_prefix_is_no_part_of_a_message() {
        for (first, line, expected) in [
            (
                "10:00:01 E [x:3] CUDA out",
                "10:00:02 E [x:3] 14.5 GiB",
                "14.5 GiB",
            ),
            ("(W pid=71) CUDA out", "(W pid=71) ", ""),
            ("CUDA out of", "memory", "memory"),
            ("14.5 GiB", "12.7 GiB", "GiB"),
            ("é é é x", "é é é y", "y"),
            ("", "x", "x"),
        ] {
            assert_eq!(behind_shared_prefix(first, line), expected);
        }
    }

    #[test]
    fn glued_chunks_come_apart() {
        check(
            "[default0]:8/9 [94.70it/s][default1]:Error",
            &[(Some(0), "8/9 [94.70it/s]"), (Some(1), "Error")],
        );
        check("of which[rank1]: E", &[(None, "of which"), (Some(1), " E")]);
    }
}
