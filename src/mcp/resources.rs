//! Resources: a session's report as Markdown, as `oomph report --format github` writes it.

use super::answer::plain;
use super::scope::ReadScope;
use crate::query::recordings;
use crate::query::told::Told;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};

const SCHEME: &str = "oomph://session/";
const ENDING: &str = "/report.md";
const MARKDOWN: &str = "text/markdown";
/// Sessions that are listed, the latest.
const LISTED: usize = 50;
/// Characters of a report.
const LONGEST: usize = 65_000;

fn uri(session: &str) -> String {
    format!("{SCHEME}{session}{ENDING}")
}

pub(super) fn list(scope: &ReadScope) -> Vec<Resource> {
    let served = scope.served().iter().map(|(name, _)| name.clone());
    let stored = recordings::all().into_iter().map(|session| session.id);
    let listed = served.chain(stored).take(LISTED);
    listed
        .map(|name| {
            Resource::new(uri(&name), name)
                .with_description(
                    "What happened in this session: Markdown, with text of the program in it",
                )
                .with_mime_type(MARKDOWN)
        })
        .collect()
}

pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(uri("{session}"), "report")
        .with_description("A session's report as Markdown")
        .with_mime_type(MARKDOWN)
}

/// # Errors
/// There is no such session, or it cannot be read.
pub(super) fn read(scope: &ReadScope, asked: &str) -> Result<ReadResourceResult, String> {
    let name = asked
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.strip_suffix(ENDING));
    let name = name.ok_or_else(|| format!("no resource {asked}; there is {}", uri("ID")))?;
    let path = scope.recording(Some(name))?;
    let told = Told::read(Some(path.as_os_str()), false).map_err(|error| format!("{error:#}"))?;
    let text = plain(&told.markdown(), LONGEST);
    let contents = ResourceContents::text(text, asked).with_mime_type(MARKDOWN);
    Ok(ReadResourceResult::new(vec![contents]))
}
