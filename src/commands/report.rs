//! `oomph report`: a session as a page, or as Markdown, in a file to look at and to send.

use crate::command;
use crate::live::{Ending, print};
use crate::query::told::Told;
use crate::report::comparison::Comparison;
use crate::report::markdown::markdown;
use crate::report::page::{self, PageOptions};
use crate::report::slack::slack;
use crate::whole_file::{self, Readers};
use anyhow::Context;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "The page is one file that opens from disk and fetches nothing. Secrets are masked, as in the recording."
)]
pub(super) struct ReportCommand {
    /// The session, by its name or the start of it, or a recording [default: the latest]
    #[arg(value_name = "ID|FILE")]
    session: Option<OsString>,
    /// Write to this file: .html, or .md for an issue; - is standard output [default: oomph-ID.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For pasting or posting, to standard output unless -o says where: an issue, a job's summary, a message
    #[arg(long, value_name = "github|gitlab|slack")]
    format: Option<PastedInto>,
    /// Leave out user, host and directories
    #[arg(long)]
    anonymous: bool,
    /// Compare with another session in the report
    #[arg(long, value_name = "ID|FILE")]
    compare: Option<OsString>,
}

/// Where a report is pasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PastedInto {
    Github,
    Gitlab,
    Slack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportFormat {
    Html,
    Markdown,
    Slack,
}

/// GitHub and GitLab take no longer text: 65,536 characters of a comment.
const LONGEST_COMMENT: usize = 65_000;

impl ReportFormat {
    /// By where it is pasted, or else by the ending of the file's name.
    fn of(pasted: Option<PastedInto>, output: Option<&Path>) -> anyhow::Result<ReportFormat> {
        match pasted {
            Some(PastedInto::Github | PastedInto::Gitlab) => return Ok(ReportFormat::Markdown),
            Some(PastedInto::Slack) => return Ok(ReportFormat::Slack),
            None => {}
        }
        let suffix = output.and_then(Path::extension).map(OsStr::to_string_lossy);
        match suffix.as_deref() {
            None | Some("html" | "htm") => Ok(ReportFormat::Html),
            Some("md" | "markdown") => Ok(ReportFormat::Markdown),
            Some(other) => anyhow::bail!(
                "a report is HTML or Markdown, not {other}: name a file that ends in .html or .md"
            ),
        }
    }
}

/// Writes the report, and says what happened and where it is.
///
/// # Errors
/// The recording could not be found or read, or the report not be written.
pub(super) fn run(options: &ReportCommand) -> anyhow::Result<Ending> {
    let format = ReportFormat::of(options.format, options.output.as_deref())?;
    if let Some(output) = &options.output
        && let Some(directory) = output.parent()
    {
        anyhow::ensure!(
            directory.as_os_str().is_empty() || directory.exists(),
            "cannot write {}: the directory {} does not exist",
            output.display(),
            directory.display()
        );
    }
    let told = Told::read(options.session.as_deref(), options.anonymous)?;
    let other = match &options.compare {
        Some(name) => Some(Told::read(Some(name), options.anonymous)?),
        None => None,
    };
    let comparison = other.as_ref().and_then(|other| {
        let side = |told| Told::compared(told);
        Some(Comparison::new(side(other)?, side(&told)?))
    });
    let began = told.began();
    let relaunch = told.to_relaunch(options.anonymous);
    let unused = told.unused();
    let page = PageOptions {
        name: &told.name,
        began: began.as_deref(),
        unused: unused.as_deref(),
        comparison: comparison.as_ref(),
        relaunch: &relaunch,
    };
    let output = match &options.output {
        Some(output) => output.clone(),
        None if options.format.is_some() => PathBuf::from("-"),
        None => PathBuf::from(format!("oomph-{}.html", told.name)),
    };
    let text = match format {
        ReportFormat::Html => page::html(&told.story, &page),
        ReportFormat::Markdown if options.format.is_some() => {
            short_enough(markdown(&told.story, &page))
        }
        ReportFormat::Markdown => markdown(&told.story, &page),
        ReportFormat::Slack => slack(&told.story, &relaunch, unused.as_deref()),
    };
    if output.as_os_str() == "-" {
        // As it is: for a pipe or a file, like the one that is written otherwise.
        return print::page(&text);
    }
    whole_file::replace(&output, Readers::Umask, text.as_bytes())
        .with_context(|| format!("cannot write {}", output.display()))?;
    for sentence in told.story.sentences() {
        print::tell(&command::without_secrets(&sentence));
    }
    if let Some(unused) = &unused {
        print::tell(unused);
    }
    print::tell(&format!("wrote {}", output.display()));
    Ok(Ending::Code(0))
}

/// A text that a comment can hold: whole lines of it, and a word where some are left out.
fn short_enough(text: String) -> String {
    if text.chars().count() <= LONGEST_COMMENT {
        return text;
    }
    let mut short = String::new();
    for line in text.lines() {
        if short.chars().count() + line.chars().count() + 100 > LONGEST_COMMENT {
            break;
        }
        short.push_str(line);
        short.push('\n');
    }
    short + "\n(cut: a comment holds no more; `oomph report` writes the whole)\n"
}
