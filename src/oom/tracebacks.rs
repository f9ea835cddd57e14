//! The stack in front of an error, as it was printed: by Python itself, by IPython and notebooks, by rich. Which line ran out
//! of memory is often the only evidence that a log has.

use crate::units::Rank;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A traceback's head, whoever prints it, without white space.
pub(super) const HEAD: &str = "Traceback(mostrecentcalllast)";

/// Lines without a call after which a traceback is taken to have ended: rich prints the source around a call and its variables.
const PATIENCE: u32 = 80;

/// Calls kept of one traceback: the innermost ones.
const MOST_CALLS: usize = 96;

/// Tracebacks that are read at a time: one for each rank of a large node.
const MOST_STACKS: usize = 64;

/// The line of a call until its mark has said it; no file has it.
const UNKNOWN_LINE: u32 = 0;

/// The longest text kept of a line of source code.
const LONGEST_CODE: usize = 240;

/// Lines that a logger's column spreads one call over: a long path takes two or three.
const MOST_PIECES: usize = 5;

/// A call in a printed traceback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedCall {
    /// As it was printed: a path, `<frozen runpy>`, `Cell In[4]`.
    pub file: String,
    pub line: u32,
    /// `<module>` where it is not said.
    pub function: String,
    /// The line of source code, where it was printed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
}

/// A copy that does not wait: to the CPU, PyTorch makes it into pinned memory.
static NOT_WAITING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\.to\(.*\bnon_blocking\s*=\s*True").expect("a valid expression"));

/// The CPU, where a call is given it as a device.
static CPU: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\w\(.*["']cpu["']"#).expect("a valid expression"));

/// Whether the calls of a traceback copy to the CPU without waiting (`.to("cpu", non_blocking=True)`), by their lines of source.
pub(super) fn copies_to_pinned(stack: &[TracedCall]) -> bool {
    let has = |what: &Regex| stack.iter().any(|call| what.is_match(&call.code));
    has(&NOT_WAITING) && has(&CPU)
}

/// `File "train.py", line 12, in main`: Python's own.
static PYTHON: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"File "([^"]+)", line (\d+)(?:, in ([^\s(]+))?"#).expect("a valid expression")
});

/// `File ~/train.py:12, in main(batch)`, `Cell In[4], line 2, in main(batch)`, `/srv/train.py:12 in main`: IPython's and rich's.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"File (?P<file>\S+?):(?P<at>\d+), in (?P<in>[^\s(]+)|(?P<cell>Cell In ?\[\d+\]),? line (?P<cell_at>\d+)(?:, in (?P<cell_in>[^\s(]+))?|(?P<rich>(?:[A-Za-z]:\\|/)\S+\.py):(?P<rich_at>\d+)(?: in (?P<rich_in>[^\s(]+)|[ │|]*$)",
    )
    .expect("a valid expression")
});

/// `/srv/train.py in main(batch)`, `[/srv/train.py](https://localhost:8080/#) in main(batch)`, `<ipython-input-7-3d62> in <module>`:
/// IPython's before 8, and Colab's, which say the line only by the mark at its source.
static UNNUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*\[?(?P<file>[~/][^\s\]]*\.py|<ipython-input-[^>\s]+>|/tmp/ipykernel_\S+\.py)(?:\]\(\S*\))? in (?P<in><[^>]+>|[^\s(]+)")
        .expect("a valid expression")
});

/// Where a path fills rich's box, the function is in the next line: `│ in _call_impl      │`.
static BELOW: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[ │|]*in (\S+)[ │|]*$").expect("a valid expression"));

/// IPython's and rich's mark of the line that is meant: `---> 12     loss = …`, `❱ 12 │   loss = …`.
static MARKED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:-+>|❱)\s*(\d+)\s*[│|]?\s*(.*)").expect("a valid expression"));

/// The error that a traceback ends with, whatever a launcher or logger puts in front.
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\S{1,40}:? )?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?::|\s*$)")
        .expect("a valid expression")
});

/// Python's words before an error that came while another one was handled, without white space.
const CHAINED: &str = "Duringhandlingoftheaboveexception";

/// Whether the line before a traceback's head says that its error came while another one was handled.
pub(super) fn is_chained(before: &str) -> bool {
    before.contains(CHAINED)
}

/// Whether a line is a call of a traceback, as Python, IPython or rich prints it. A dump of faulthandler's has no comma before the function,
/// and its innermost call first.
pub(super) fn is_call(line: &str) -> bool {
    match PYTHON.captures(line) {
        Some(found) => found.get(3).is_some() || line.ends_with(&found[2]),
        None => OTHERS.is_match(line) || UNNUMBERED.is_match(line),
    }
}

/// The tracebacks of a stream that have begun, one a rank.
#[derive(Debug, Default)]
pub(super) struct Tracebacks {
    open: Vec<OpenTraceback>,
}

#[derive(Debug)]
struct OpenTraceback {
    rank: Option<Rank>,
    /// Outermost first.
    calls: Vec<TracedCall>,
    /// Whether the last call is written in Python's own way.
    is_pythons: bool,
    /// The beginning of a call that goes on in the next line.
    unfinished: Option<UnfinishedCall>,
    /// Lines since the last call.
    since: u32,
    /// The line with its error.
    error: Option<u64>,
}

impl Tracebacks {
    /// Whether lines of a traceback are awaited.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a rank's traceback has begun.
    pub fn is_open(&self, rank: Option<Rank>) -> bool {
        self.open.iter().any(|open| open.rank == rank)
    }

    /// A traceback begins.
    pub fn begin(&mut self, rank: Option<Rank>) {
        self.open.retain(|open| open.rank != rank);
        if self.open.len() == MOST_STACKS {
            self.open.remove(0);
        }
        self.open.push(OpenTraceback {
            rank,
            calls: Vec::new(),
            is_pythons: false,
            unfinished: None,
            since: 0,
            error: None,
        });
    }

    /// Takes a rank's line.
    pub fn read(&mut self, rank: Option<Rank>, number: u64, text: &str) {
        let Some(at) = self.open.iter().position(|open| open.rank == rank) else {
            return;
        };
        let open = &mut self.open[at];
        if open.error.is_some_and(|error| error < number) || open.since > PATIENCE {
            self.open.remove(at);
        } else if open.read(text) {
            open.since = 0;
        } else {
            open.since += 1;
            if !open.calls.is_empty() && ERROR.is_match(text.trim_start()) {
                open.error = Some(number);
            }
        }
    }

    /// The stack of the traceback that ends with a rank's message in this line, innermost first; empty if none does.
    pub fn end(&mut self, rank: Option<Rank>, number: u64) -> Vec<TracedCall> {
        let Some(at) = self.open.iter().position(|open| open.rank == rank) else {
            return Vec::new();
        };
        let ended = self.open.remove(at);
        if ended.error.is_some_and(|error| error != number) {
            return Vec::new();
        }
        ended.calls.into_iter().rev().collect()
    }
}

impl OpenTraceback {
    fn add(&mut self, call: TracedCall, is_pythons: bool) {
        if self.calls.len() == MOST_CALLS {
            self.calls.remove(0);
        }
        self.calls.push(call);
        self.is_pythons = is_pythons;
    }

    /// Whether the line is part of a call.
    fn read(&mut self, text: &str) -> bool {
        let unfinished = match self.unfinished.take() {
            Some(unfinished) => unfinished.followed_by(text),
            None => UnfinishedCall::begun_by(text),
        };
        if let Some(unfinished) = unfinished {
            match unfinished
                .is_whole()
                .then(|| call_in(&unfinished.text))
                .flatten()
            {
                Some(call) => self.add(call, true),
                None => self.unfinished = Some(unfinished),
            }
            return true;
        }
        if let Some(call) = call_in(text) {
            self.add(call, PYTHON.is_match(text));
            return true;
        }
        let Some(last) = self.calls.last_mut().filter(|last| last.code.is_empty()) else {
            return false;
        };
        if let Some(below) = BELOW.captures(text).filter(|_| self.since == 0) {
            last.function = below[1].to_string();
            return true;
        }
        if let Some(marked) = MARKED.captures(text) {
            let at = marked[1].parse();
            if last.line == UNKNOWN_LINE {
                last.line = at.clone().unwrap_or(UNKNOWN_LINE);
            }
            if at == Ok(last.line) {
                last.code = cut(marked[2].trim_end_matches(['│', ' ']));
            }
            return true;
        }
        // Python prints the source below the call, indented further.
        let is_indented = self.since == 0 && self.is_pythons && text.starts_with("    ");
        let is_below = is_indented && !ERROR.is_match(text.trim_start());
        if is_below {
            last.code = cut(text);
        }
        is_below
    }
}

/// A call in Python's own form that rich's log handler has wrapped to the width of its column: `File` alone, then the path,
/// cut wherever the column ended, then `", line 457, in step`.
#[derive(Debug)]
struct UnfinishedCall {
    text: String,
    pieces: usize,
}

impl UnfinishedCall {
    fn begun_by(text: &str) -> Option<UnfinishedCall> {
        let text = text.trim();
        let path = text.strip_prefix("File")?;
        let begun = UnfinishedCall {
            text: text.to_string(),
            pieces: 1,
        };
        let is_call = path.is_empty() || path.starts_with(" \"");
        (is_call && !begun.is_whole()).then_some(begun)
    }

    /// With the next line; nothing if that belongs to something else.
    fn followed_by(mut self, text: &str) -> Option<UnfinishedCall> {
        let next = text.trim();
        if next.is_empty() || self.pieces == MOST_PIECES || ERROR.is_match(next) {
            return None;
        }
        // A path is cut anywhere, the rest between words.
        if ["File", ",", "line", "in"]
            .iter()
            .any(|word| self.text.ends_with(word))
        {
            self.text.push(' ');
        }
        self.text.push_str(next);
        self.pieces += 1;
        Some(self)
    }

    fn is_whole(&self) -> bool {
        PYTHON.is_match(&self.text) && ![",", ", in"].iter().any(|end| self.text.ends_with(end))
    }
}

fn call_in(text: &str) -> Option<TracedCall> {
    let named = |found: Option<regex::Match<'_>>| {
        found.map_or("<module>", |found| found.as_str()).to_string()
    };
    if let Some(found) = PYTHON.captures(text) {
        return Some(TracedCall {
            file: found[1].to_string(),
            line: found[2].parse().ok()?,
            function: named(found.get(3)),
            code: String::new(),
        });
    }
    let Some(found) = OTHERS.captures(text) else {
        let found = UNNUMBERED.captures(text)?;
        return Some(TracedCall {
            file: found["file"].to_string(),
            line: UNKNOWN_LINE,
            function: found["in"].to_string(),
            code: String::new(),
        });
    };
    let file = ["file", "cell", "rich"]
        .iter()
        .find_map(|name| found.name(name))?;
    let line = ["at", "cell_at", "rich_at"]
        .iter()
        .find_map(|name| found.name(name))?;
    Some(TracedCall {
        file: file.as_str().to_string(),
        line: line.as_str().parse().ok()?,
        function: named(
            ["in", "cell_in", "rich_in"]
                .iter()
                .find_map(|name| found.name(name)),
        ),
        code: String::new(),
    })
}

fn cut(code: &str) -> String {
    code.trim().chars().take(LONGEST_CODE).collect()
}

#[cfg(test)]
mod tests {
    use crate::oom::read;

    /// Each call of the first report's stack: file, line, function, source.
    fn stack(text: &str) -> Vec<String> {
        let reports = read(text.as_bytes());
        let calls = &reports.first().expect("an OOM").stack;
        let words = calls.iter().map(|call| {
            format!(
                "{}:{} {} {}",
                call.file, call.line, call.function, call.code
            )
        });
        words.map(|words| words.trim_end().to_string()).collect()
    }

    const MESSAGE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.50 GiB";

    #[test]
    fn pythons_own() {
        let text = format!(
            "epoch 3\nTraceback (most recent call last):\n  File \"/srv/fit.py\", line 40, in <module>\n    main()\n    ~~~~^^\n  \
             File \"/srv/fit.py\", line 31, in main\n    loss = model(\n        batch,\n    )\n  \
             File \"/usr/lib/x.py\", line 7, in __call__\n{MESSAGE}\n"
        );
        assert_eq!(
            stack(&text),
            [
                "/usr/lib/x.py:7 __call__",
                "/srv/fit.py:31 main loss = model(",
                "/srv/fit.py:40 <module> main()"
            ]
        );
    }

    #[test]
    fn pythons_own_wrapped_by_a_logger() {
        let text = format!(
            "[10/01/25 12:00:01] ERROR    failed\n                             Traceback (most recent call last):\n\
             \x20                              File\n                             \"/v/lib/python3.12/site-packages/torch/optim/ada\n\
             \x20                            mw.py\", line 430, in step                 \n\
             \x20                                func(params)                          \n\
             \x20                              File \"/v/lib/python3.12/site-packages/torch/optim/adamw.py\",\n\
             \x20                            line 606, in _multi_tensor_adamw\n\
             \x20                              File \"/srv/a.py\", line 8, in\n\
             \x20                            last\n\
             \x20                            {MESSAGE}\n"
        );
        assert_eq!(
            stack(&text),
            [
                "/srv/a.py:8 last",
                "/v/lib/python3.12/site-packages/torch/optim/adamw.py:606 _multi_tensor_adamw",
                "/v/lib/python3.12/site-packages/torch/optim/adamw.py:430 step func(params)",
            ]
        );
        // What only begins like a call takes no line of another one with it.
        let text = format!(
            "Traceback (most recent call last):\n  File\n  File \"/srv/a.py\", line 8, in f\n    g()\n{MESSAGE}\n"
        );
        assert_eq!(stack(&text), ["/srv/a.py:8 f g()"]);
    }

    #[test]
    fn of_the_rank_that_ran_out() {
        let text = format!(
            "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n\
             [rank0]:   File \"/srv/fit.py\", line 5, in zero\n[rank1]:   File \"/srv/fit.py\", line 6, in one\n\
             [rank0]:     x()\n[rank1]:     y()\n[rank1]: {MESSAGE}\n"
        );
        assert_eq!(stack(&text), ["/srv/fit.py:6 one y()"]);
    }

    #[test]
    fn a_notebooks() {
        let text = format!(
            "OutOfMemoryError                          Traceback (most recent call last)\nCell In[12], line 4\n      2 for batch in loader:\n      \
             3     batch = batch.cuda()\n----> 4     fit(batch)\n\nCell In[9], line 7, in fit(batch)\n\
             ----> 7     loss = model(batch)\n\nFile ~/net.py:31, in Net.forward(self, x)\n     30 def forward(self, x):\n\
             ---> 31     return self.head(x)\n\n{MESSAGE}\n"
        );
        assert_eq!(
            stack(&text),
            [
                "~/net.py:31 Net.forward return self.head(x)",
                "Cell In[9]:7 fit loss = model(batch)",
                "Cell In[12]:4 <module> fit(batch)"
            ]
        );
    }

    #[test]
    fn a_notebooks_of_before() {
        let text = format!(
            "OutOfMemoryError                          Traceback (most recent call last)\n<ipython-input-12-ab12> in <module>\n      \
             2 for batch in loader:\n----> 3     fit(batch)\n\n2 frames\n[/srv/net.py](https://localhost:8080/#) in forward(self, x)\n\
             ---> 31     return self.head(x)\n\n~/lib/head.py in __call__(self, x)\n     11     \\\"\\\"\n---> 12     return x @ self.w\n\n{MESSAGE}\n"
        );
        assert_eq!(
            stack(&text),
            [
                "~/lib/head.py:12 __call__ return x @ self.w",
                "/srv/net.py:31 forward return self.head(x)",
                "<ipython-input-12-ab12>:3 <module> fit(batch)"
            ]
        );
    }

    #[test]
    fn one_that_begins_in_the_middle() {
        let last = "File /v/lib/python3.12/site-packages/torch/nn/modules/module.py:903, in Module._apply(self, fn)\n--> 903     param = fn(param)\n\n";
        assert_eq!(
            stack(&format!("{last}{MESSAGE}\n")),
            [
                "/v/lib/python3.12/site-packages/torch/nn/modules/module.py:903 Module._apply param = fn(param)"
            ]
        );
        // rich's logger says at the end of a line who logged it.
        let logged = format!("[10:00:01] ERROR    {}    trainer.py:136\n", &MESSAGE[24..]);
        assert!(stack(&logged).is_empty());
        // A warning names a file of a package as well.
        let warning = "/v/lib/python3.12/site-packages/torch/utils/data.py:12: UserWarning: slow\n";
        assert!(stack(&format!("{warning}{MESSAGE}\n")).is_empty());
    }

    #[test]
    fn richs_on_windows() {
        let text = format!(
            "│ C:\\v\\lib\\site-packages\\torch\\optim\\adamw.py:171 in step   │\n│ ❱ 171 │   │   adamw(                        │\n╰──────╯\n{MESSAGE}\n"
        );
        let calls = stack(&text);
        assert!(
            calls[0].starts_with("C:\\v\\lib\\site-packages\\torch\\optim\\adamw.py:171 step"),
            "{calls:?}"
        );
    }

    #[test]
    fn richs() {
        let text = format!(
            "╭───────── Traceback (most recent call last) ─────────╮\n│ /srv/fit.py:31 in main                              │\n\
             │                                                     │\n│   30 │   for batch in loader:                       │\n\
             │ ❱ 31 │   │   loss = model(batch)                    │\n\
             │ /v/site-packages/torch/nn/modules/module.py:1501    │\n│ in _call_impl                                       │\n╰─────────────────────────────────────────────────────╯\n{MESSAGE}\n"
        );
        let calls = stack(&text);
        assert_eq!(calls.len(), 2);
        assert_eq!(
            calls[0],
            "/v/site-packages/torch/nn/modules/module.py:1501 _call_impl"
        );
        assert!(calls[1].starts_with("/srv/fit.py:31 main"), "{calls:?}");
        assert!(calls[1].ends_with("loss = model(batch)"), "{calls:?}");
    }

    #[test]
    fn the_last_of_a_chain() {
        let text = format!(
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in first\nKeyError: 3\n\nDuring handling of the above exception, another \
             exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 2, in second\n{MESSAGE}\n"
        );
        assert_eq!(stack(&text), ["a.py:2 second"]);
    }

    #[test]
    fn none_where_none_was_printed() {
        assert!(stack(MESSAGE).is_empty());
        let far =
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 3\n";
        assert!(stack(&format!("{far}step 4\n{MESSAGE}\n")).is_empty());
        let unfinished = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n";
        let between = "step\n".repeat(100);
        assert!(stack(&format!("{unfinished}{between}{MESSAGE}\n")).is_empty());
    }
}
