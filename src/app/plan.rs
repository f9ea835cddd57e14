//! `oomph plan`: what oomph recognises in a command and what each remedy would change. Runs nothing.

use super::Ending;
use super::session::SessionInputs;
use super::torch;
use crate::app::print;
use crate::command::CommandLine;
use crate::config;
use crate::recognize::{LaunchEnvironment, recognise};
use crate::remedy::{self, Availability, Plan, RemedyInputs};
use std::io::Write;

pub fn plan(command: &CommandLine, json: bool, batch_scale: f64) -> anyhow::Result<Ending> {
    let torch = torch::version_for(command);
    let settings = config::read(&command.cwd);
    let (mut known, problems) = SessionInputs::at_start(&settings);
    for problem in settings.problems.iter().chain(&problems) {
        print::complain(problem);
    }
    known.look(command, None);
    let inputs = RemedyInputs {
        launch: LaunchEnvironment {
            torch: torch.as_deref(),
            ..known.launch()
        },
        batch_scale,
        leftovers: known.leftovers(),
        ..RemedyInputs::default()
    };
    let mut out = print::out();
    if json {
        let outline = remedy::plan_json(command, &inputs);
        writeln!(out, "{}", remedy::plan_text(&outline))?;
        return Ok(Ending::Code(0));
    }
    let recognised = recognise(command, &inputs.launch);
    let launchers: Vec<&str> = recognised
        .launchers()
        .iter()
        .map(|launcher| launcher.name.as_str())
        .collect();
    let program = command.argv.get(recognised.anatomy.program);
    let program = program.map_or("none found".to_string(), |word| word.to_string_lossy());
    let known = recognised.known.map_or(
        "unknown; its options are recognized by name".to_string(),
        |entry| match &entry.source {
            Some(source) => format!("known as {}, by {source}", entry.name),
            None => format!("known as {}", entry.name),
        },
    );
    line(&mut out, &format!("program    {program} ({known})"))?;
    if !launchers.is_empty() {
        line(&mut out, &format!("launchers  {}", launchers.join(", ")))?;
    }
    line(
        &mut out,
        &format!("torch      {}", torch.as_deref().unwrap_or("unknown")),
    )?;
    for remedy in remedy::remedies(command, &inputs) {
        writeln!(out)?;
        line(&mut out, &remedy.title.to_string())?;
        match &remedy.availability {
            Availability::Offered => {
                line(&mut out, &format!("  {} ({})", remedy.changes, remedy.cost))?;
                line(
                    &mut out,
                    &format!("  {}", Plan::of(command, &[&remedy]).command.shown()),
                )?;
            }
            Availability::NotOffered(reason) => {
                line(&mut out, &format!("  not offered: {reason}"))?
            }
        }
    }
    Ok(Ending::Code(0))
}

fn line(out: &mut impl Write, words: &str) -> std::io::Result<()> {
    writeln!(out, "{}", print::line(words))
}
