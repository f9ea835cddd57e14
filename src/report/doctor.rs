//! What `oomph doctor` found, as a screenful of text and as JSON.

use crate::doctor::{Check, Verdict, worst};
use serde_json::json;

const ADVICE: &str = "          -> ";

/// For a person: one line a check, and below it what to do.
pub fn text(version: &str, command: Option<&str>, checks: &[Check]) -> String {
    let mut text = format!("oomph {version}\n");
    if let Some(command) = command {
        text.push_str(&format!("command: {command}\n"));
    }
    text.push('\n');
    let width = checks
        .iter()
        .map(|check| check.subject.chars().count())
        .max();
    let width = width.unwrap_or(0);
    for check in checks {
        let verdict = word(check.verdict);
        text.push_str(&format!(
            "{verdict:<8}  {:<width$}  {}\n",
            check.subject, check.finding
        ));
        if let Some(advice) = &check.advice {
            text.push_str(&format!("{ADVICE}{advice}\n"));
        }
    }
    let count = |verdict| {
        checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count()
    };
    let (errors, warnings) = (count(Verdict::Error), count(Verdict::Warning));
    text.push_str(&format!(
        "\n{errors} {}, {warnings} {}\n",
        if errors == 1 { "error" } else { "errors" },
        if warnings == 1 { "warning" } else { "warnings" },
    ));
    text
}

/// For a program, or an issue.
pub fn json(version: &str, command: Option<&str>, checks: &[Check]) -> String {
    let whole = json!({
        "version": 1,
        "oomph": version,
        "command": command,
        "verdict": worst(checks),
        "checks": checks,
    });
    format!("{whole:#}\n")
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warning => "warning",
        Verdict::Error => "ERROR",
    }
}
