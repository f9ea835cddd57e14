//! `oomph report`: a session as a page, or as Markdown, in a file to look at and to send.

use super::recordings;
use crate::command;
use crate::document::DocumentBlock;
use crate::event::{Event, EventKind, SCHEMA};
use crate::live::recorded::EndedSession;
use crate::live::{Ending, print};
use crate::recording::{self, ReadError};
use crate::report::anonymous::Anonymizer;
use crate::report::comparison::{ComparedRun, Comparison};
use crate::report::explain;
use crate::report::markdown::markdown;
use crate::report::page::{self, PageOptions};
use crate::report::slack::slack;
use crate::report::story::SessionStory;
use crate::whole_file::{self, Readers};
use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::ffi::{OsStr, OsString};
use std::fs;
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
    let page = PageOptions {
        name: &told.name,
        began: began.as_deref(),
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
        ReportFormat::Slack => slack(&told.story, &relaunch),
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

/// A recording, read to its end.
pub(super) struct Told {
    /// The session's name, or the file's.
    pub name: String,
    pub story: SessionStory,
    /// The recording.
    path: PathBuf,
}

impl Told {
    pub fn read(name: Option<&OsStr>, anonymous: bool) -> anyhow::Result<Told> {
        let path = recordings::find(name)?;
        let mut story = SessionStory::default();
        let mut anonymizer = anonymous.then(anonymizer);
        each_event(&path, |event| {
            let event = match &mut anonymizer {
                Some(anonymizer) => anonymizer.event(event),
                None => event,
            };
            story.take(&event);
            Ok(())
        })?;
        let story = story.finish();
        let id = story
            .state
            .session
            .as_ref()
            .map(|session| session.id.clone());
        let name = id.unwrap_or_else(|| {
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        });
        // It becomes a file's name.
        let name = name.replace(|c: char| c == '/' || c.is_control(), "_");
        Ok(Told { name, story, path })
    }

    /// The remedies for the recorded command; empty where memory did not run out in its last run. Without names of
    /// anybody, the recording's own name is not there to start it from.
    fn to_relaunch(&self, anonymous: bool) -> Vec<DocumentBlock> {
        let recorded = EndedSession::new(&self.story.state, None);
        let Some(recorded) = recorded.filter(EndedSession::ran_out) else {
            return Vec::new();
        };
        let Some(command) = recorded.command() else {
            return Vec::new();
        };
        let again = recordings::again_name(&self.path, Some(&self.story.state));
        let again = again.as_deref().filter(|_| !anonymous);
        let (remedies, cause) = (recorded.remedies(), recorded.cause());
        explain::to_relaunch(command, &remedies, cause, again)
    }

    /// Its last run.
    fn compared(&self) -> Option<ComparedRun<'_>> {
        Some(ComparedRun {
            name: &self.name,
            story: &self.story,
            run: self.story.state.run()?,
        })
    }

    /// When it began, on this machine's clock.
    fn began(&self) -> Option<String> {
        let wall = self.story.state.session.as_ref()?.wall;
        let at = Timestamp::from_second(wall as i64).ok()?;
        let zoned = at.to_zoned(TimeZone::system());
        Some(zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }
}

/// Passes the events of a recording on, one after another; lines that are none are passed over and
/// counted on standard error.
pub(super) fn each_event(
    path: &Path,
    mut take: impl FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut events, mut corrupt) = (0u64, 0u64);
    for event in recording::read(path).map_err(unreadable)? {
        match event {
            Ok(event) => {
                if let EventKind::SessionStarted(header) = &event.what
                    && header.schema > SCHEMA
                {
                    print::complain(&format!(
                        "{} was recorded by oomph {} (schema {}; this version knows {SCHEMA}): what is shown may be wrong; update oomph",
                        path.display(),
                        header.version,
                        header.schema
                    ));
                }
                take(event)?;
                events += 1;
            }
            Err(ReadError::Corrupt { .. }) => corrupt += 1,
            Err(error @ ReadError::Unreadable { .. }) if events == 0 => {
                return Err(unreadable(error));
            }
            Err(error @ ReadError::Unreadable { .. }) => print::complain(&error.to_string()),
        }
    }
    if corrupt > 0 {
        print::complain(&format!(
            "skipped {corrupt} lines of {} that are not events",
            path.display()
        ));
    }
    anyhow::ensure!(
        events > 0,
        "{} contains no recorded event; pass the events.jsonl of a session",
        path.display()
    );
    Ok(())
}

/// What is no recording, with what would be one.
pub(super) fn unreadable(error: ReadError) -> anyhow::Error {
    anyhow::anyhow!("{error}; pass a session's events.jsonl or its ID (`oomph ls --all`)")
}

/// For recordings of this user and this machine; other users and their homes are found in the
/// recording itself.
fn anonymizer() -> Anonymizer {
    let user = |name| std::env::var(name).ok();
    let users: Vec<String> = ["USER", "LOGNAME"].into_iter().filter_map(user).collect();
    let host = fs::read_to_string("/proc/sys/kernel/hostname");
    let hosts: Vec<String> = (host.into_iter())
        .map(|host| host.trim().to_string())
        .collect();
    Anonymizer::new(&users, &hosts)
}
