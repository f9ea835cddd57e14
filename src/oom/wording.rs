//! What every family of wordings shares: the text it is shown, what it answers, and where in a
//! line a message may stand.

use super::compact::squeeze;
use super::kind::OomKind;
use super::phrases::PHRASES;
use super::report::OomReport;

/// One line (or a wrapped message's lines together), ready to be read.
#[derive(Debug)]
pub(super) struct CompactLine {
    /// As a person reads it.
    pub(super) plain: String,
    /// Without white space: wordings are looked for here.
    pub(super) compact: String,
    /// The end of the line before, compact: a call or a word that the line goes on from.
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

    /// Whether `words`, written with spaces, are in it.
    pub(super) fn has(&self, words: &str) -> bool {
        self.compact.contains(&squeeze(words))
    }

    /// Whether one of `words` is in it: asked before the many wordings of a family are.
    pub(super) fn has_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.compact.contains(word))
    }
}

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OomReading {
    pub(super) report: OomReport,
    pub(super) form: MessageForm,
    /// Whether more of it may follow on the next lines.
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

/// How a message stands in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageForm {
    /// `Class: message`, the last line of a traceback.
    Exception,
    /// `Class('message')`.
    Quoted,
    /// The message somewhere in a line.
    Logged,
}

/// What the next lines of an unfinished message look like.
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

/// How the message that begins at `at` (in compact text) stands in its line; `None` where the
/// line is not the message but speaks of it: the echo of a source line, a comment.
pub(super) fn form_at(text: &CompactLine, at: usize) -> Option<MessageForm> {
    let before = &text.compact[..at];
    let open = before.trim_end_matches(['"', '\'', '`', '*', '\\']);
    let quoted = open.len() < before.len();
    if before.starts_with('#') && !before.starts_with("##") {
        return None;
    }
    // Bytes and raw or formatted strings of a source line: f"CUDA out of memory…".
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
        // The first line of a call's argument in a traceback of Python 3.13, which shows all
        // lines of a statement; or the test for the message in the program's own source.
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

/// `call("message")` is a repr where `call` is an exception's class, and source where it is not.
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

/// `error = RuntimeError("…")`: an assignment of a bare name, not a logger's `err=`.
fn name_is_source(before: &str) -> bool {
    let name = before.trim_end_matches('=');
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn ends_with_class(text: &str) -> bool {
    ["Error", "Exception", "OutOfMemory"]
        .iter()
        .any(|suffix| text.ends_with(suffix))
}

/// Whether the line tells people about such messages rather than being one.
///
/// Asked only of messages without figures of the device: nobody writes those in prose.
pub(super) fn is_prose(text: &CompactLine, at: usize, end: usize) -> bool {
    let before = text.compact[..at].to_lowercase();
    let after = text.compact[end..].trim_start_matches(['"', '\'', '`', ')', '*']);
    let after = after.get(..12).unwrap_or(after).to_lowercase();
    PHRASES.prose.before.is_in(&before) || PHRASES.prose.after.begins(&after)
}
