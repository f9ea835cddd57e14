//! `oomph plan`: what oomph recognizes in a command and what each remedy would change. Runs nothing.

use super::predict::predict;
use crate::command::CommandLine;
use crate::config;
use crate::event::as_typed;
use crate::live::session::inputs::SessionInputs;
use crate::live::{Ending, print, torch};
use crate::recognize::LaunchEnvironment;
use crate::remedy::{self, Availability, RemedyInputs};
use clap::Args;
use std::ffi::OsString;
use std::io::Write;

#[derive(Debug, PartialEq, Args)]
#[command(override_usage = "oomph plan [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]")]
pub(super) struct PlanCommand {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Scale the batch by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 0.5, value_parser = batch_scale)]
    pub batch_scale: f64,
    /// Predict the memory at these batch sizes from recordings of the command: one JSON line each
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    predict: Vec<u64>,
    /// A session or recording to predict from; may be repeated [default: the latest]
    #[arg(long, value_name = "ID|FILE", requires = "predict")]
    recording: Vec<OsString>,
}

fn batch_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 64.0 => Ok(scale),
        Ok(_) | Err(_) => Err("choose a factor above 0, such as 0.5".into()),
    }
}

/// Prints the plan, or with `--predict` what the command would need at other batch sizes.
///
/// # Errors
/// A recording could not be read, or standard output not written.
pub(super) fn run(asked: &PlanCommand, command: &CommandLine) -> anyhow::Result<Ending> {
    match asked.predict.is_empty() {
        true => plan(command, asked.json, asked.batch_scale),
        false => predict(command, &asked.recording, &asked.predict),
    }
}

fn plan(command: &CommandLine, json: bool, batch_scale: f64) -> anyhow::Result<Ending> {
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
    let recognized = inputs.recognize(command);
    let launchers: Vec<&str> = recognized
        .launchers()
        .iter()
        .map(|launcher| launcher.name.as_str())
        .collect();
    let program = command.argv.get(recognized.layout.program);
    let program = program.map_or("none found".to_string(), |word| word.to_string_lossy());
    let known = recognized.known.map_or(
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
    for knob in inputs.launch.learned {
        line(&mut out, &format!("learned    {knob}"))?;
    }
    for offered in remedy::remedies(command, &inputs) {
        writeln!(out)?;
        line(&mut out, &offered.title.to_string())?;
        match &offered.availability {
            Availability::Offered => {
                line(
                    &mut out,
                    &format!("  {} ({})", offered.changes, offered.cost),
                )?;
                line(
                    &mut out,
                    &format!(
                        "  {}",
                        as_typed(&remedy::Plan::new(command, &[&offered]).command)
                    ),
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
