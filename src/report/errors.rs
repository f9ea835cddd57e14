//! `oomph help errors`: every text that is recognized, what it means and what helps. The texts come from the tables that
//! recognize them, the words about them from `errors.toml`, and what helps in a situation from the diagnosis itself, which is
//! asked about a traceback that has the situation's call.

use crate::diagnosis::{
    Cause, RecognizedCalls, Situation, capitalized, diagnose_incident, recognized_calls,
};
use crate::document::markdown::code;
use crate::oom::{
    ConsequenceKind, MessageText, OomKind, OomReport, OomSign, TracedCall, aftermath_texts,
    message_texts, texts_of_none,
};
use crate::state::{OomIncident, State};
use crate::units::{Bytes, Moment};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What is said of the texts of one kind.
#[derive(Debug, Deserialize)]
struct ErrorsExplained<T> {
    #[serde(flatten)]
    of: T,
    means: String,
    #[serde(default)]
    helps: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct OfMessage {
    kind: OomKind,
    sign: Option<OomSign>,
    #[serde(default)]
    suspicion: bool,
}

#[derive(Debug, Deserialize)]
struct OfAftermath {
    kind: ConsequenceKind,
}

#[derive(Debug, Deserialize)]
struct OfCall {
    situation: Situation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Explanations {
    message: Vec<ErrorsExplained<OfMessage>>,
    aftermath: Vec<ErrorsExplained<OfAftermath>>,
    call: Vec<ErrorsExplained<OfCall>>,
}

static EXPLANATIONS: LazyLock<Explanations> = LazyLock::new(|| {
    toml::from_str(include_str!("errors.toml")).expect("errors.toml is valid, which a test checks")
});

/// A part of the page.
struct Chapter {
    title: &'static str,
    about: &'static str,
    entries: Vec<ErrorsEntry>,
}

/// Texts with one meaning.
struct ErrorsEntry {
    title: String,
    means: String,
    texts: Vec<Text>,
    helps: Vec<String>,
}

struct Text {
    words: String,
    /// Where it stands, if that matters.
    aside: Option<String>,
}

impl Text {
    fn of(words: String) -> Text {
        Text { words, aside: None }
    }
}

fn chapters() -> [Chapter; 5] {
    [
        Chapter {
            title: "Messages",
            about: "A line of the output that has one of these is an out-of-memory. White space does not count; SIZE and N are numbers.",
            entries: messages(),
        },
        Chapter {
            title: "Calls in the traceback",
            about: "Where the traceback of a CUDA, HIP or XPU out of memory has one of these calls, it says what the program was doing.",
            entries: calls(),
        },
        Chapter {
            title: "What follows",
            about: "Lines that other ranks, their launcher and the scheduler print once a rank has failed. They are no cause.",
            entries: aftermath(ConsequenceKind::is_of_a_rank),
        },
        Chapter {
            title: "What may be memory, and what is not",
            about: "Lines that say that something else ran out, or that a process ended, and not why.",
            entries: aftermath(|kind| !kind.is_of_a_rank()),
        },
        Chapter {
            title: "What is none",
            about: "Lines that look like an out-of-memory and are not taken for one: the program goes on, or something else ran out.",
            entries: none(),
        },
    ]
}

fn messages() -> Vec<ErrorsEntry> {
    let texts = message_texts();
    let entries = EXPLANATIONS.message.iter();
    entries
        .map(|said| {
            let of = |text: &&MessageText| {
                (text.kind, text.suspicion) == (said.of.kind, said.of.suspicion)
                    && (text.sign == said.of.sign || text.suspicion)
            };
            let texts = texts.iter().filter(of);
            ErrorsEntry {
                title: title(&said.of),
                means: said.means.clone(),
                texts: texts.map(|text| Text::of(text.words.clone())).collect(),
                helps: said.helps.clone(),
            }
        })
        .collect()
}

fn title(of: &OfMessage) -> String {
    if of.sign == Some(OomSign::Descriptors) {
        // Not memory at all.
        return "too many open files".into();
    }
    let more = match (of.kind, of.sign) {
        (_, Some(OomSign::SharedMemory)) => " (shared memory)",
        (_, Some(OomSign::Slurm)) => " (SLURM)",
        (_, Some(OomSign::Pinned)) => " (pinned memory)",
        (_, Some(OomSign::Refused)) => " (an allocation was refused)",
        (_, Some(OomSign::Fork)) => " (errno 12)",
        (_, Some(OomSign::Mappings)) => " (mappings)",
        (_, Some(OomSign::Killed)) => " (a process was killed)",
        (_, Some(OomSign::Gone)) => " (a worker is gone)",
        (_, Some(OomSign::EngineShare)) => " (less is free than its share)",
        (_, Some(OomSign::EngineWarmUp)) => " (warming up)",
        (_, Some(OomSign::EngineWakes)) => " (waking up)",
        (_, Some(OomSign::EngineGraphs)) => " (recording its graphs)",
        (_, Some(OomSign::Preallocation)) => " (at its start)",
        (_, Some(OomSign::Overflow)) => " (a size that overflowed)",
        (_, Some(OomSign::RayMonitor)) => " (Ray's monitor)",
        (_, Some(OomSign::Dask)) => " (Dask's nanny)",
        (_, Some(OomSign::OneBuffer)) => " (one buffer that is too large)",
        (_, Some(OomSign::Resources)) => " (out of resources)",
        (_, Some(OomSign::Platform)) => " (ended by what runs it)",
        (_, Some(OomSign::PageFile)) => " (Windows' page file)",
        (_, Some(OomSign::MapWorker)) => " (a process that prepares data is gone)",
        (_, Some(OomSign::LockedPages)) => " (locked memory)",
        (_, Some(OomSign::Cufft)) => " (cuFFT)",
        (_, Some(OomSign::Cusolver)) => " (cuSOLVER)",
        (_, Some(OomSign::Cusparse)) => " (cuSPARSE)",
        (_, Some(OomSign::Rmm)) => " (RMM)",
        (_, Some(OomSign::Dali)) => " (DALI)",
        (_, Some(OomSign::Physics)) => " (PhysX)",
        (_, Some(OomSign::TinyCudaNn)) => " (tiny-cuda-nn)",
        (_, None | Some(OomSign::Descriptors | OomSign::Other)) if of.suspicion => {
            " (a process was killed)"
        }
        (OomKind::CudaErrorOom, _) => " (outside PyTorch's allocator)",
        (_, None | Some(OomSign::Descriptors | OomSign::Other)) => "",
    };
    format!("{}{more}", of.kind.spec().title)
}

fn aftermath(is_wanted: impl Fn(ConsequenceKind) -> bool) -> Vec<ErrorsEntry> {
    let texts = aftermath_texts();
    let entries = EXPLANATIONS.aftermath.iter();
    let entries = entries.filter(|said| is_wanted(said.of.kind));
    entries
        .map(|said| {
            let texts = texts.iter().filter(|(kind, _)| *kind == said.of.kind);
            ErrorsEntry {
                title: name_in_words(&serde_name(&said.of.kind)),
                means: said.means.clone(),
                texts: texts.map(|(_, words)| Text::of(words.clone())).collect(),
                helps: said.helps.clone(),
            }
        })
        .collect()
}

fn none() -> Vec<ErrorsEntry> {
    let mut whose: BTreeMap<&str, Vec<Text>> = BTreeMap::new();
    for (name, words) in texts_of_none() {
        whose.entry(name).or_default().push(Text::of(words));
    }
    let entries = whose.into_iter().map(|(name, texts)| ErrorsEntry {
        title: match name.len() {
            // JVM, TPU, XLA.
            ..=3 => name.to_uppercase(),
            _ => name_in_words(name),
        },
        means: String::new(),
        texts,
        helps: Vec::new(),
    });
    entries.collect()
}

fn calls() -> Vec<ErrorsEntry> {
    let entries = EXPLANATIONS.call.iter();
    entries
        .map(|said| {
            let rows: Vec<RecognizedCalls> = recognized_calls()
                .filter(|row| row.situation == said.of.situation)
                .collect();
            let found = rows.iter().find_map(cause_of);
            let helps = match (&said.helps[..], &found) {
                ([], Some((_, advice))) => advice.clone(),
                (helps, _) => helps.to_vec(),
            };
            let name = name_in_words(&format!("{:?}", said.of.situation));
            let mut texts: Vec<Text> = Vec::new();
            for text in rows.iter().flat_map(texts_of) {
                if !texts.iter().any(|one| one.words == text.words) {
                    texts.push(text);
                }
            }
            ErrorsEntry {
                title: match found {
                    Some((cause, _)) => format!("{name} (cause: {})", cause.spec().title),
                    None => name,
                },
                means: said.means.clone(),
                texts,
                helps,
            }
        })
        .collect()
}

/// The functions of a row, or its files or its source where it names none.
fn texts_of(row: &RecognizedCalls) -> Vec<Text> {
    let aside = match (row.functions, row.files) {
        ([], _) | (_, []) => None,
        (_, files) => Some(format!("in {}", files.join(", "))),
    };
    let functions = row.functions.iter().map(|name| Text {
        words: name.clone(),
        aside: aside.clone(),
    });
    let is_any = row.functions.is_empty();
    let files = row.files.iter().filter(|_| is_any);
    let files = files.map(|path| Text {
        words: path.clone(),
        aside: Some("in a file's path".into()),
    });
    let source = row.code.filter(|_| is_any && row.files.is_empty());
    let source = source.map(|expression| Text {
        words: expression.into(),
        aside: Some("in the line of your source, as an expression".into()),
    });
    functions.chain(files).chain(source).collect()
}

/// What is said of a full GPU whose traceback has a row's call, if the call matters for it.
fn cause_of(row: &RecognizedCalls) -> Option<(Cause, Vec<String>)> {
    let call = TracedCall {
        file: format!("/site-packages/{}", row.files.first()?),
        line: 1,
        function: row.functions.first().cloned().unwrap_or_default(),
        code: String::new(),
    };
    let room = Bytes::gib(40);
    let report = OomReport {
        stack: vec![call],
        requested: Some(Bytes::gib(2)),
        total: Some(room),
        free: Some(Bytes::gib(1)),
        allocated: Some(Bytes::gib(38)),
        unallocated: Some(Bytes::ZERO),
        process_used: Some(Bytes::gib(39)),
        ..OomReport::default()
    };
    let incident = OomIncident::of_report(Moment::ZERO, report);
    let first = diagnose_incident(&State::default(), None, &incident);
    let first = first.into_iter().next()?;
    let advice = first.advice.iter().map(|said| said.as_str().to_string());
    (first.cause != Cause::Capacity).then(|| (first.cause, advice.collect()))
}

/// The page for a terminal.
pub fn text() -> String {
    let mut page = String::from(
        "Every text that is recognized, what it means and what helps. `oomph explain FILE` says more of a whole log.\n",
    );
    let chapters = chapters();
    page += "\nOn this page:\n";
    for chapter in &chapters {
        let titles: Vec<&str> = chapter.entries.iter().map(|e| e.title.as_str()).collect();
        page += &format!("\n  {}\n", chapter.title.to_uppercase());
        page += &filled(&titles.join("; "), "   ");
    }
    for chapter in chapters {
        page += &format!("\n{}\n", chapter.title.to_uppercase());
        page += &filled(chapter.about, "");
        for entry in chapter.entries {
            page += &format!("\n{}\n", entry.title);
            page += &filled(&entry.means, "  ");
            for text in entry.texts {
                let aside = text.aside.map(|aside| format!("   ({aside})"));
                page += &format!("    {}{}\n", text.words, aside.unwrap_or_default());
            }
            for help in entry.helps {
                page += &filled(&help, "  - ");
            }
        }
    }
    page
}

/// The page as Markdown, with an anchor at each text.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Out-of-memory errors: what each means and what helps\n\n`oomph explain FILE` says more of a whole log.\n",
    );
    let chapters = chapters();
    page += "\n## On this page\n";
    let mut places = Anchors::default();
    for chapter in &chapters {
        page += &format!("\n{}:\n\n", chapter.title);
        for entry in &chapter.entries {
            let (title, place) = (&entry.title, places.of(&entry.title));
            page += &format!("* [{title}](#about-{place})\n");
        }
    }
    let mut places = Anchors::default();
    let mut anchors = Anchors::default();
    for chapter in chapters {
        page += &format!("\n## {}\n\n{}\n", chapter.title, chapter.about);
        for entry in chapter.entries {
            let place = places.of(&entry.title);
            page += &format!("\n### <a id=\"about-{place}\"></a>{}\n\n", entry.title);
            if !entry.means.is_empty() {
                page += &format!("{}\n\n", entry.means);
            }
            for text in entry.texts {
                let anchor = anchors.of(&text.words);
                let aside = text
                    .aside
                    .map(|aside| format!(" ({})", code_of_paths(&aside)));
                let (words, aside) = (code(&text.words), aside.unwrap_or_default());
                page += &format!("* <a id=\"{anchor}\"></a>{words}{aside}\n");
            }
            if !entry.helps.is_empty() {
                page += "\nWhat helps:\n\n";
            }
            for help in entry.helps {
                page += &format!("* {}\n", escaped(&help));
            }
        }
    }
    page
}

/// `in a, b`, whose underscores are no emphasis.
fn code_of_paths(aside: &str) -> String {
    match aside.strip_prefix("in ").filter(|rest| rest.contains('/')) {
        Some(paths) => {
            let paths: Vec<String> = paths.split(", ").map(code).collect();
            format!("in {}", paths.join(", "))
        }
        None => aside.into(),
    }
}

/// A sentence whose underscores, stars and brackets are no markup; what is in backticks stays.
fn escaped(words: &str) -> String {
    let mut inside = false;
    let mut escaped = String::with_capacity(words.len() + 8);
    for c in words.chars() {
        inside ^= c == '`';
        if !inside && matches!(c, '_' | '*' | '<' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Anchors that have been given, each once.
#[derive(Default)]
struct Anchors(BTreeMap<String, u32>);

impl Anchors {
    /// `cuda-out-of-memory`; another text with the same words gets a number.
    fn of(&mut self, words: &str) -> String {
        let lower = words.to_lowercase();
        let parts = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let anchor = parts.join("-");
        let count = self.0.entry(anchor.clone()).or_default();
        *count += 1;
        match *count {
            1 => anchor,
            n => format!("{anchor}--{n}"),
        }
    }
}

/// Columns of the page for a terminal.
const COLUMNS: usize = 79;

/// Words in lines behind `lead`, which the later lines are indented by.
fn filled(words: &str, lead: &str) -> String {
    if words.is_empty() {
        return String::new();
    }
    let mut lines = vec![lead.to_string()];
    for word in words.split(' ') {
        let last = lines.last_mut().expect("one line at least");
        let is_empty = last.trim_start().is_empty() || last == lead;
        match is_empty || last.chars().count() + 1 + word.chars().count() <= COLUMNS {
            true => *last += &format!("{}{word}", if is_empty { "" } else { " " }),
            false => lines.push(format!("{}{word}", " ".repeat(lead.len()))),
        }
    }
    lines.join("\n") + "\n"
}

/// `OptimizerStep`, `launcher_gave_up`: as words.
fn name_in_words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        match c {
            '_' => words.push(' '),
            c if c.is_uppercase() && !words.is_empty() => {
                words.push(' ');
                words.extend(c.to_lowercase());
            }
            c => words.extend(c.to_lowercase()),
        }
    }
    match words.strip_prefix("zero ") {
        Some(rest) => format!("ZeRO {rest}"),
        None => capitalized(&words),
    }
}

/// Its name in recordings.
fn serde_name(kind: &ConsequenceKind) -> String {
    let name = serde_json::to_value(kind).ok();
    let name = name.as_ref().and_then(|name| name.as_str());
    name.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Each line of the page that is indented as texts are, without what is in brackets behind it.
    fn texts_shown(page: &str) -> BTreeSet<&str> {
        let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
        lines
            .map(|line| line.split("   (").next().unwrap_or_default())
            .collect()
    }

    #[test]
    fn every_text_of_every_table_is_on_both_pages() {
        let (page, markdown) = (text(), markdown());
        let shown = texts_shown(&page);
        let mut all: Vec<String> = message_texts().into_iter().map(|text| text.words).collect();
        all.extend(aftermath_texts().into_iter().map(|(_, words)| words));
        all.extend(texts_of_none().into_iter().map(|(_, words)| words));
        for row in recognized_calls() {
            match row.functions {
                [] => all.extend(row.files.iter().cloned()),
                names => all.extend(names.iter().cloned()),
            }
            if row.functions.is_empty() && row.files.is_empty() {
                all.push(row.code.expect("a row says something").into());
            }
        }
        assert!(all.len() > 250, "{}", all.len());
        for words in &all {
            assert!(shown.contains(words.as_str()), "{words} is not on the page");
            assert!(
                markdown.contains(&code(words)),
                "{words} is not in Markdown"
            );
        }
    }

    #[test]
    fn everything_is_explained_once_and_with_what_helps() {
        for (n, said) in EXPLANATIONS.message.iter().enumerate() {
            let before = &EXPLANATIONS.message[..n];
            assert!(!before.iter().any(|one| one.of == said.of), "{:?}", said.of);
        }
        for chapter in chapters() {
            for entry in chapter.entries {
                let title = &entry.title;
                assert!(!entry.texts.is_empty(), "{title} has no text");
                let is_none = chapter.title == "What is none";
                assert_eq!(entry.means.is_empty(), is_none, "{title} means nothing");
                assert_eq!(entry.helps.is_empty(), is_none, "nothing helps: {title}");
            }
        }
    }

    #[test]
    fn what_helps_in_a_situation_is_what_its_cause_advises() {
        let advised = calls();
        let gathering = &advised[0];
        assert_eq!(
            gathering.title,
            "Gathering (cause: evaluation keeps its outputs)"
        );
        let said = |words: &str| gathering.helps.iter().any(|help| help.contains(words));
        assert!(said("--eval_accumulation_steps"), "{:?}", gathering.helps);
    }

    #[test]
    fn each_text_has_an_anchor_of_its_own() {
        let page = markdown();
        let anchors: Vec<&str> = page
            .split("<a id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let once: BTreeSet<&&str> = anchors.iter().collect();
        assert_eq!(once.len(), anchors.len());
        for anchor in [
            "cuda-out-of-memory",
            "nested_concat",
            "cublas_status_alloc_failed",
        ] {
            assert!(anchors.contains(&anchor), "{anchor}");
        }
    }

    #[test]
    fn what_is_on_the_page_stands_at_its_beginning() {
        let (page, markdown) = (text(), markdown());
        let (contents, rest) = page.split_once("\nMESSAGES\n").expect("the first chapter");
        let contents: String = contents.split_whitespace().collect::<Vec<_>>().join(" ");
        let (list, below) = markdown.split_once("\n## Messages\n").expect("as well");
        let entries = chapters().into_iter().flat_map(|chapter| chapter.entries);
        let mut count = 0;
        for ErrorsEntry { title, .. } in entries {
            count += 1;
            assert!(contents.contains(&title), "{title}");
            assert!(rest.contains(&format!("\n{title}\n")), "{title}");
            let link = list
                .lines()
                .find(|line| line.starts_with(&format!("* [{title}](#")));
            let place = link.and_then(|line| line.split("](#").nth(1)?.strip_suffix(')'));
            let place = place.expect("a link");
            assert!(
                below.contains(&format!("<a id=\"{place}\"></a>{title}\n")),
                "{title}"
            );
        }
        assert_eq!(list.matches("](#about-").count(), count);
    }

    #[test]
    fn lines_of_the_page_fit_but_for_the_texts() {
        for line in text().lines() {
            let is_text = line.starts_with("    ") && !line.starts_with("     ");
            assert!(is_text || line.chars().count() <= 120, "{line}");
        }
    }
}
