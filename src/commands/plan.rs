//! `oomph plan`: what oomph recognizes in a command and what each remedy would change. Runs nothing.

use super::predict::predict;
use super::{answer, refuse_session};
use crate::command::CommandLine;
use crate::document::DocumentBlock;
use crate::document::text::{TextLayout, lines};
use crate::live::{Ending, print};
use crate::query::planned;
use crate::{remedy, report};
use clap::Args;
use std::ffi::OsString;

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
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = batch)]
    predict: Vec<u64>,
    /// A session or recording to predict from; may be repeated [default: the latest]
    #[arg(long, value_name = "ID|FILE", requires = "predict")]
    recording: Vec<OsString>,
}

fn batch(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(batch) if batch > 0 => Ok(batch),
        Ok(_) | Err(_) => Err("write batch sizes, with commas between them: 16,24,32".into()),
    }
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
    refuse_session("plan", command)?;
    match asked.predict.is_empty() {
        true => plan(command, asked.json, asked.batch_scale),
        false => predict(command, &asked.recording, &asked.predict),
    }
}

fn plan(command: &CommandLine, json: bool, batch_scale: f64) -> anyhow::Result<Ending> {
    let (text, problems) = planned::with_inputs(command, batch_scale, |inputs| match json {
        true => remedy::plan_text(&remedy::plan_json(command, inputs)) + "\n",
        false => shown(&report::plan::plan(command, inputs)),
    });
    for problem in &problems {
        print::complain(problem);
    }
    answer(&text)
}

fn shown(blocks: &[DocumentBlock]) -> String {
    let mut text = String::new();
    for part in lines(blocks, TextLayout::Parts) {
        // A part begins with an empty line.
        let line = match part.strip_prefix('\n') {
            Some(rest) => format!("\n{}\n", print::line(rest)),
            None => format!("{}\n", print::line(&part)),
        };
        text.push_str(&line);
    }
    text
}
