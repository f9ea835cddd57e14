//! What the readers of messages share: the line, the result, and how a message stands in its line.

use super::compact::squeeze;
use super::kind::OomKind;
use super::phrases::PHRASES;
use super::report::OomReport;

/// A line, or a wrapped message's joined lines.
#[derive(Debug)]
pub(super) struct CompactLine {
    /// With white space.
    pub(super) plain: String,
    /// Without white space; wordings are searched here.
    pub(super) compact: String,
    /// The end of the line before, compact.
    pub(super) previous: String,
}

impl CompactLine {
    pub(super) fn new(plain: String, previous: &str) -> CompactLine {
        CompactLine {
            compact: squeeze(&plain),
            previous: squeeze(previous),
            plain,
        }
    }

    /// Whether it has `words`, written with spaces.
    pub(super) fn has(&self, words: &str) -> bool {
        self.compact.contains(&squeeze(words))
    }

    /// Whether it has one of `words`, which are compact.
    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.compact.contains(word))
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OomReading {
    pub(super) report: OomReport,
    pub(super) form: MessageForm,
    /// How it may continue on the next lines.
    pub(super) more: Option<Continuation>,
}

impl OomReading {
    pub(super) fn whole(kind: OomKind, form: MessageForm) -> OomReading {
        OomReading {
            report: OomReport {
                kind,
                ..OomReport::default()
            },
            form,
            more: None,
        }
    }
}

/// The form of a message in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// `Class: message`, the last line of a traceback.
    Exception,
    /// `Class('message')`.
    Quoted,
    /// Anywhere in a line.
    Logged,
}

/// What the next lines of an unfinished message have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuation {
    /// Clauses of a caching allocator's message.
    Allocator,
    /// NCCL's second warning, with the size.
    Nccl,
    /// The device of TensorFlow's tensor.
    Tensor,
}

impl Continuation {
    /// Whether `line` can be the next line of such a message.
    pub(super) fn takes(self, line: &CompactLine) -> bool {
        let compact = &line.compact;
        let phrases = &PHRASES.continuation;
        match self {
            Continuation::Allocator => {
                phrases.allocator.is_in(compact)
                    && !phrases.not_allocator.is_in(compact)
                    && !phrases.not_allocator_begins.begins(compact)
            }
            Continuation::Nccl => phrases.nccl.is_in(compact),
            Continuation::Tensor => phrases.tensor.is_in(compact),
        }
    }
}

/// The form of the message at `at` in the compact text; `None` if it is an echo of source code or a
/// comment.
pub(super) fn form_at(text: &CompactLine, at: usize) -> Option<MessageForm> {
    let before = &text.compact[..at];
    let open = before.trim_end_matches(['"', '\'', '`', '*', '\\']);
    let quoted = open.len() < before.len();
    if before.starts_with('#') && !before.starts_with("##") {
        return None;
    }
    // String literals in source code: f"CUDA out of memory…".
    if quoted
        && let Some(call) = open.strip_suffix(['f', 'r', 'b'])
        && call.ends_with('(')
    {
        return None;
    }
    if let Some(call) = open.strip_suffix('(') {
        return form_of_argument(call, quoted);
    }
    if quoted {
        // A call's argument on a line of its own, as tracebacks of Python 3.13 show it, or a test
        // for the message in source code.
        let argument = open.is_empty() && text.previous.ends_with('(');
        let asked_for = ["match=", "regex=", "if", "assert", "=="]
            .iter()
            .any(|word| open.ends_with(word));
        if argument || asked_for {
            return None;
        }
    }
    let class = open.strip_suffix(':').unwrap_or(open);
    Some(if class.len() < open.len() && ends_with_class(class) {
        MessageForm::Exception
    } else {
        MessageForm::Logged
    })
}

/// `call("message")` is a repr if `call` is an exception's class, and else source code.
fn form_of_argument(call: &str, quoted: bool) -> Option<MessageForm> {
    let name_from = call
        .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
        .map_or(0, |at| {
            at + call[at..].chars().next().map_or(1, char::len_utf8)
        });
    let (before, name) = call.split_at(name_from);
    let raised = name.starts_with("raise") || before.ends_with("raise");
    let bound = before.ends_with('=') && name_is_source(before);
    match () {
        () if raised || bound => None,
        () if name.is_empty() => Some(MessageForm::Logged),
        () if ends_with_class(name) => Some(MessageForm::Quoted),
        () if quoted => None,
        () => Some(MessageForm::Logged),
    }
}

/// `error = RuntimeError("…")`, but not a logger's `err=`.
fn name_is_source(before: &str) -> bool {
    let name = before.trim_end_matches('=');
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn ends_with_class(text: &str) -> bool {
    ["Error", "Exception", "OutOfMemory"]
        .iter()
        .any(|suffix| text.ends_with(suffix))
}

/// Whether the line is prose about such messages. Only for messages without figures of the device,
/// which nobody writes in prose.
pub(super) fn is_prose(text: &CompactLine, at: usize, end: usize) -> bool {
    let before = text.compact[..at].to_lowercase();
    let after = text.compact[end..].trim_start_matches(['"', '\'', '`', ')', '*']);
    let after = after.get(..12).unwrap_or(after).to_lowercase();
    PHRASES.prose.before.is_in(&before) || PHRASES.prose.after.begins(&after)
}
