//! A session in Slack's own markup: what happened, why, and what to run, short enough for one message.

use super::explain::Explained;
use super::story::SessionStory;
use crate::document::DocumentBlock;
use crate::event::displayed;

/// Slack cuts a message's text beyond 4,000 characters.
const LONGEST: usize = 3_800;

/// A message; `relaunch` is what can be started again.
pub fn slack(story: &SessionStory, relaunch: &[DocumentBlock]) -> String {
    let state = &story.state;
    let command = (state.run().map(|run| &run.command))
        .or(state.session.as_ref().map(|session| &session.command))
        .map(displayed)
        .unwrap_or_default();
    let mut text = format!("*oomph* {}\n", code(&command));
    for sentence in story.sentences() {
        text.push_str(&format!("{}\n", plain(&sentence)));
    }
    let last = state.run().and_then(|run| story.decisive(run));
    let cause = last.and_then(|oom: &Explained| oom.findings.first());
    if let Some(finding) = cause {
        text.push_str(&format!("*Cause:* {}\n", plain(&finding.headline)));
        for advice in finding.advice.iter().take(3) {
            text.push_str(&format!("• {}\n", plain(advice)));
        }
    }
    for block in relaunch {
        let part = match block {
            DocumentBlock::Heading(heading) => format!("*{}*\n", plain(&heading.words)),
            DocumentBlock::Relaunch(relaunch) => {
                let facts = plain(&relaunch.facts.join("; "));
                format!(
                    "• {}: {facts}\n{}\n",
                    plain(&relaunch.what),
                    code(&relaunch.command)
                )
            }
            _ => continue,
        };
        if text.len() + part.len() > LONGEST {
            text.push_str("…\n");
            break;
        }
        text.push_str(&part);
    }
    text
}

/// What Slack would read as markup or as a mention, and what would break a line.
fn plain(words: &str) -> String {
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let is_mark = |c: char| matches!(c, '*' | '_' | '~' | '`');
    // A space of no width keeps a mark from being one.
    let marked = words.chars().flat_map(|c| {
        let before = is_mark(c).then_some('\u{200b}');
        before.into_iter().chain((!c.is_control()).then_some(c))
    });
    marked.collect()
}

fn code(command: &str) -> String {
    let command = command
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("`{}`", command.replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_cause_and_no_markup_of_others() {
        let story = SessionStory::new(crate::report::recorded("capacity"));
        let text = slack(&story, &[]);
        assert!(text.starts_with("*oomph* `"), "{text}");
        assert!(text.contains("*Cause:* "), "{text}");
        assert!(text.len() < LONGEST, "{}", text.len());
        assert_eq!(
            plain("<!here> & *b*\n"),
            "&lt;!here&gt; &amp; \u{200b}*b\u{200b}*"
        );
        assert_eq!(code("a `b` <c>"), "`a 'b' &lt;c&gt;`");
    }
}
