//! A session in Slack's own markup: what happened, why, and what to run, short enough for one message.

use super::explain::Explained;
use super::story::SessionStory;
use crate::document::{self, DocumentBlock, KnownLines};
use crate::event::displayed;

/// Slack cuts a message's text beyond 4,000 characters.
const LONGEST: usize = 3_800;

const ADVICE: usize = 3;

/// A message; `relaunch` is what can be started again, `unused` what a run that went well left.
pub fn slack(story: &SessionStory, relaunch: &[DocumentBlock], unused: Option<&str>) -> String {
    let state = &story.state;
    let command = (state.run().map(|run| &run.command))
        .or(state.session.as_ref().map(|session| &session.command))
        .map(displayed)
        .unwrap_or_default();
    let mut text = format!("*oomph* {}\n", code(&command));
    for sentence in story.sentences() {
        text.push_str(&format!("{}\n", plain(&sentence)));
    }
    if let Some(unused) = unused {
        text.push_str(&format!("{}\n", plain(unused)));
    }
    let last = state.run().and_then(|run| story.decisive(run));
    let cause = last.and_then(|oom: &Explained| Some((oom, oom.findings.first()?)));
    if let Some((oom, finding)) = cause {
        // The sentence above has its figures.
        let (title, certainty) = (finding.cause.spec().title, finding.certainty.word());
        text.push_str(&format!("*Cause:* {title} ({certainty})\n"));
        let holder = match &finding.retainer {
            Some(retainer) => Some(format!("{} keeps {}", retainer.words(), retainer.kept())),
            None => largest_line(oom),
        };
        text.extend(holder.map(|holder| format!("• {}\n", plain(&holder))));
        for block in document::advice(finding).take(ADVICE) {
            if let DocumentBlock::Remark(advice) = block {
                text.push_str(&format!("• {}\n", plain(&advice.words)));
            }
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

/// "models.py:32 forward: 111.4 GiB", where most lines are known.
fn largest_line(oom: &Explained) -> Option<String> {
    KnownLines::at(&oom.incident).filter(|known| known.is_most())?;
    let lines = document::lines_of(&oom.incident, &oom.source);
    let first = lines.first()?;
    Some(format!("{}: {}", first.path("→"), first.bytes))
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
        let text = slack(&story, &[], Some("3.2 GiB unused."));
        assert!(text.contains("\n3.2 GiB unused.\n"), "{text}");
        assert!(text.starts_with("*oomph* `"), "{text}");
        assert!(text.contains("*Cause:* "), "{text}");
        assert!(text.len() < LONGEST, "{}", text.len());
        assert_eq!(
            plain("<!here> & *b*\n"),
            "&lt;!here&gt; &amp; \u{200b}*b\u{200b}*"
        );
        assert_eq!(code("a `b` <c>"), "`a 'b' &lt;c&gt;`");
    }

    #[test]
    fn the_figures_stand_once_and_the_line_is_named() {
        let of = |name| slack(&SessionStory::new(crate::report::recorded(name)), &[], None);
        let leak = of("leak-traced");
        assert_eq!(leak.matches("+4.12 GiB × 17 steps").count(), 1, "{leak}");
        assert!(leak.contains("*Cause:* memory leak (likely)\n"), "{leak}");
        let holder = "• scenarios.py:62 Leak.history: list of 17 keeps 70.1 GiB\n";
        assert!(leak.contains(holder), "{leak}");
        let evaluation = of("evaluation").replace('\u{200b}', "");
        assert!(
            evaluation.contains("• models.py:32 forward: 85.3 GiB\n"),
            "{evaluation}"
        );
        assert!(
            evaluation.contains("• train.py:134: with torch.inference_mode():"),
            "{evaluation}"
        );
    }
}
