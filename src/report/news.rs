//! One piece of news of a session, for somebody who is elsewhere: as a sentence, and as the JSON object
//! that the user's own command gets.

use super::ending;
use super::story::place_of;
use crate::diagnosis::Finding;
use crate::event::{Exit, displayed};
use crate::state::{Run, RunOutcome, State};
use crate::units::{Bytes, clock_face};
use serde::Serialize;
use std::path::Path;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewsKind {
    /// Memory ran out.
    Oom,
    /// The first warning of a leak.
    Leak,
    /// What was called a leak has stopped growing.
    LeakOver,
    /// The session has ended, or has nothing more to run.
    End,
}

/// What the session does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhatFollows {
    /// The program runs on.
    Runs,
    /// Nothing runs until somebody chooses.
    Waits,
    Relaunches,
    Ends,
}

#[derive(Debug)]
pub struct News<'a> {
    pub kind: NewsKind,
    pub state: &'a State,
    /// The cause of the OOM, or the warning.
    pub finding: Option<&'a Finding>,
    pub follows: WhatFollows,
    pub host: &'a str,
    pub recording: Option<&'a Path>,
}

/// A longer command is cut: it may be megabytes.
const LONGEST_COMMAND: usize = 500;

impl News<'_> {
    /// "oomph on gpu7"
    pub fn title(&self) -> String {
        match self.host {
            "" => "oomph".into(),
            host => format!("oomph on {host}"),
        }
    }

    /// "python train.py: out of memory after 0:14 in the forward pass of step 3. …"
    pub fn text(&self) -> String {
        let what = match self.kind {
            NewsKind::Oom => self.oom(),
            NewsKind::Leak => self.headline().unwrap_or("Memory leak.").to_string(),
            NewsKind::LeakOver => self.headline().unwrap_or("Memory is steady again.").into(),
            NewsKind::End => {
                ending::summary(self.state).unwrap_or_else(|| "ended; how is not known".into())
            }
        };
        format!("{}: {what}", self.command(80))
    }

    fn oom(&self) -> String {
        let run = self.state.run();
        let what = run.map_or("memory", Run::what_ran_out);
        let mut words = format!("out of {what}");
        if let Some((run, oom)) = run.and_then(|run| Some((run, run.oom()?))) {
            words.push_str(" after ");
            words.push_str(&clock_face(oom.at.since(run.started)));
            words.push_str(&place_of(oom));
        }
        if let Some(headline) = self.headline() {
            words.push_str(". ");
            words.push_str(headline.trim_end_matches('.'));
        }
        words.push_str(match self.follows {
            WhatFollows::Runs => ". The program still runs.",
            WhatFollows::Waits => ". Nothing runs until you choose.",
            WhatFollows::Relaunches => ". It is relaunched.",
            WhatFollows::Ends => ".",
        });
        words
    }

    fn headline(&self) -> Option<&str> {
        self.finding.map(|finding| finding.headline.as_str())
    }

    /// Secrets masked.
    fn command(&self, most: usize) -> String {
        let session = self.state.session.as_ref();
        let run = self.state.run().map(|run| &run.command);
        let command = run.or(session.map(|session| &session.command));
        let shown = command.map(displayed).unwrap_or_default();
        match shown.char_indices().nth(most) {
            Some((end, _)) => format!("{}…", &shown[..end]),
            None => shown,
        }
    }

    /// One line.
    pub fn json(&self) -> String {
        let run = self.state.run();
        let ended = run.and_then(|run| run.ended);
        let (exit_status, signal) = match ended {
            Some((_, Exit::Code(code))) => (Some(code), None),
            Some((_, Exit::Signal(signal))) => (None, Some(signal)),
            None => (None, None),
        };
        let session = self.state.session.as_ref();
        let now = self.state.now.as_secs_f64();
        let until = |run: &Run| {
            ended
                .map_or(self.state.now, |(at, _)| at)
                .since(run.started)
        };
        let object = NewsObject {
            event: self.kind,
            title: self.title(),
            text: self.text(),
            next: self.follows,
            time: session.map(|session| session.wall + now),
            host: self.host,
            session: session.map(|session| session.id.as_str()),
            directory: session.map(|session| session.command.cwd.display().to_string()),
            command: self.command(LONGEST_COMMAND),
            run: run.map(|run| run.number.0),
            outcome: run.map(|run| match run.outcome() {
                RunOutcome::Failed(_) => "failed".to_string(),
                RunOutcome::Finished if run.is_hidden_failure() => "out of memory".to_string(),
                outcome => outcome.to_string(),
            }),
            exit_status,
            signal,
            seconds: run.map(|run| until(run).as_secs_f64()),
            steps: run.map(Run::steps),
            peak: run.and_then(Run::peak),
            cause: self.finding.map(|finding| finding.cause),
            headline: self.headline(),
            recording: self.recording.map(|path| path.display().to_string()),
        };
        // Strings and numbers alone: this cannot fail.
        serde_json::to_string(&object).unwrap_or_default()
    }
}

/// The JSON object, as `oomph help toml` describes it.
#[derive(Serialize)]
struct NewsObject<'a> {
    event: NewsKind,
    title: String,
    text: String,
    next: WhatFollows,
    time: Option<f64>,
    host: &'a str,
    session: Option<&'a str>,
    directory: Option<String>,
    command: String,
    run: Option<u32>,
    outcome: Option<String>,
    exit_status: Option<i32>,
    signal: Option<i32>,
    seconds: Option<f64>,
    steps: Option<u64>,
    peak: Option<Bytes>,
    cause: Option<crate::diagnosis::Cause>,
    headline: Option<&'a str>,
    recording: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis;
    use serde_json::Value;

    fn said(kind: NewsKind, follows: WhatFollows, recording: &str) -> Value {
        let mut state = State::default();
        for event in super::super::recorded(recording) {
            state.apply(&event);
        }
        let findings = diagnosis::diagnose(&state);
        let news = News {
            kind,
            state: &state,
            finding: findings.first(),
            follows,
            host: "gpu7",
            recording: Some(Path::new("/state/events.jsonl")),
        };
        serde_json::from_str(&news.json()).expect("JSON")
    }

    #[test]
    fn an_oom_has_its_place_its_cause_and_what_follows() {
        let oom = said(NewsKind::Oom, WhatFollows::Waits, "capacity");
        assert_eq!(
            (&oom["event"], &oom["next"]),
            (&"oom".into(), &"waits".into())
        );
        assert_eq!(oom["title"], "oomph on gpu7");
        let text = oom["text"].as_str().expect("text");
        assert!(text.contains(": out of memory after 0:"), "{text}");
        assert!(text.contains(" in the "), "{text}");
        assert!(
            text.contains(
                oom["headline"]
                    .as_str()
                    .expect("a headline")
                    .trim_end_matches('.')
            )
        );
        assert!(text.ends_with("Nothing runs until you choose."), "{text}");
        assert_eq!(oom["cause"], "capacity");
        assert_eq!(oom["outcome"], "out of memory");
        assert_eq!(oom["exit_status"], 1);
        assert_eq!(oom["recording"], "/state/events.jsonl");
        assert!(oom["peak"].as_u64() > Some(100 << 30) && oom["seconds"].as_f64() > Some(1.0));
    }

    #[test]
    fn an_end_is_the_sessions_summary() {
        let end = said(NewsKind::End, WhatFollows::Ends, "caught");
        let text = end["text"].as_str().expect("text");
        assert!(text.contains(": finished after 0:"), "{text}");
        assert_eq!(end["exit_status"], 0);
        let nothing = News {
            kind: NewsKind::End,
            state: &State::default(),
            finding: None,
            follows: WhatFollows::Ends,
            host: "",
            recording: None,
        };
        assert_eq!(nothing.title(), "oomph");
        assert!(nothing.text().ends_with("how is not known"));
    }
}
