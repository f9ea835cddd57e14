//! A recording, read to its end: the state that it leads to, its story, and what it offers to start again.

use super::{broken_off, listing, recordings};
use crate::document::DocumentBlock;
use crate::event::{Event, EventKind, SCHEMA};
use crate::live::print;
use crate::live::recorded::EndedSession;
use crate::recording::{self, ReadError};
use crate::report;
use crate::report::anonymous::Anonymizer;
use crate::report::comparison::ComparedRun;
use crate::report::explain;
use crate::report::markdown::markdown;
use crate::report::page::PageOptions;
use crate::report::story::{OpenEnd, SessionStory};
use crate::state::State;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The state at a recording's end.
///
/// # Errors
/// It is no recording, or cannot be read.
pub fn read_state(path: &Path) -> anyhow::Result<State> {
    let mut state = State::default();
    each_event(path, |event| {
        state.apply(&event);
        Ok(())
    })?;
    broken_off::settle(&mut state);
    Ok(state)
}

/// What the session of a recording is called, by its first line; one that has none yet by its directory.
pub fn name_of_recording(path: &Path) -> String {
    let directory = path.parent().and_then(Path::file_name);
    let is_stored = path.file_name() == Some(OsStr::new(recording::RECORDING));
    let by_directory = directory.filter(|_| is_stored);
    match (recording::header(path), by_directory) {
        (Some(header), _) => header.id,
        (None, Some(directory)) => directory.to_string_lossy().into_owned(),
        (None, None) => path.display().to_string(),
    }
}

/// Whether a last run without an end goes on.
pub(super) fn open_end_of(path: &Path, state: &State) -> OpenEnd {
    open_end(state, || listing::is_living(&name_of_recording(path)))
}

/// A session may live though its last run has ended: it waits at its dialog.
fn open_end(state: &State, is_living: impl FnOnce() -> bool) -> OpenEnd {
    let is_open = state.run().is_some_and(|run| run.ended.is_none());
    match is_open && is_living() {
        true => OpenEnd::GoesOn,
        false => OpenEnd::Unknown,
    }
}

/// What a recorded session is called: its name, or where it has none the file's path.
pub fn name_of(state: &State, path: &Path) -> String {
    let session = state.session.as_ref();
    session.map_or_else(|| path.display().to_string(), |session| session.id.clone())
}

/// What the last run of a session that has ended left unused, and how far the batch could have gone, where it did not grow.
pub(super) fn unused(state: &State) -> Unused {
    let recorded = EndedSession::new(state, None);
    let recorded = recorded.filter(|_| report::growth(state).is_none());
    let Some(room) = recorded.map(|recorded| recorded.room_for_batch()) else {
        return Unused::default();
    };
    Unused {
        sentence: report::unused_in_report(state, room),
        batch: room.ok().and_then(|room| report::larger_batch(state, room)),
    }
}

/// What the last run left unused.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// With the batch that it would be enough for, or why none is named.
    pub sentence: Option<String>,
    /// "a batch of 48 would fit (32 ran)"
    pub batch: Option<String>,
}

/// A recording, read to its end.
pub struct Told {
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
        broken_off::settle(&mut story.state);
        story.open_end = open_end_of(&path, &story.state);
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

    /// What its last run left unused, and how far the batch could have gone.
    pub fn unused(&self) -> Option<String> {
        unused(&self.story.state).sentence
    }

    /// The remedies for the recorded command; empty where memory did not run out in its last run. Without names of
    /// anybody, the recording's own name is not there to start it from.
    pub fn to_relaunch(&self, anonymous: bool) -> Vec<DocumentBlock> {
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

    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let (began, relaunch) = (self.began(), self.to_relaunch(false));
        let unused = self.unused();
        let options = PageOptions {
            name: &self.name,
            began: began.as_deref(),
            unused: unused.as_deref(),
            comparison: None,
            relaunch: &relaunch,
        };
        markdown(&self.story, &options)
    }

    /// Its last run.
    pub fn compared(&self) -> Option<ComparedRun<'_>> {
        Some(ComparedRun {
            name: &self.name,
            story: &self.story,
            run: self.story.state.run()?,
        })
    }

    /// When it began, on this machine's clock.
    pub fn began(&self) -> Option<String> {
        let wall = self.story.state.session.as_ref()?.wall;
        let at = Timestamp::from_second(wall as i64).ok()?;
        let zoned = at.to_zoned(TimeZone::system());
        Some(zoned.strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }
}

/// Passes the events of a recording on, one after another; lines that are none are passed over and
/// counted on standard error.
pub fn each_event(
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
pub fn unreadable(error: ReadError) -> anyhow::Error {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Exit;
    use crate::state::Run;
    use crate::units::Moment;

    #[test]
    fn a_run_without_an_end_goes_on_where_its_session_lives() {
        let state = |ended| State {
            runs: vec![Run {
                ended,
                ..Run::default()
            }],
            ..State::default()
        };
        let open = state(None);
        assert_eq!(open_end(&open, || true), OpenEnd::GoesOn);
        assert_eq!(open_end(&open, || false), OpenEnd::Unknown);
        let waits = state(Some((Moment(9), Exit::Code(1))));
        assert_eq!(open_end(&waits, || true), OpenEnd::Unknown);
        assert_eq!(open_end(&State::default(), || true), OpenEnd::Unknown);
    }
}
