//! `oomph plan`: what oomph recognizes in a command and what each remedy would change. Runs nothing.

use super::predict::{AnswerReader, predict};
use super::{answer, refuse_session};
use crate::command::CommandLine;
use crate::document::DocumentBlock;
use crate::document::text::{TextLayout, lines};
use crate::live::{Ending, print};
use crate::query::planned::{self, StartedTraining};
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
    /// Predict the memory at these batch sizes from recordings of the command: a table on a terminal, else
    /// (and with --json) one JSON line each [default with --recording: half of the command's, it, twice and four
    /// times as much, and the largest that is predicted to fit]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = batch)]
    predict: Vec<u64>,
    /// A session or recording to predict from; may be repeated [default: the latest]
    #[arg(long, value_name = "ID|FILE")]
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
    match asked.predict.is_empty() && asked.recording.is_empty() {
        true => plan(command, asked.json, asked.batch_scale),
        false => {
            let reader = AnswerReader::of_standard_output(asked.json);
            predict(command, &asked.recording, &asked.predict, reader)
        }
    }
}

fn plan(command: &CommandLine, json: bool, batch_scale: f64) -> anyhow::Result<Ending> {
    let (text, problems) = match json {
        true => {
            let (plan, problems) = planned::plan_json(command, batch_scale, &|_| true);
            (remedy::plan_text(&plan) + "\n", problems)
        }
        false => in_words(command, batch_scale),
    };
    for problem in &problems {
        print::complain(problem);
    }
    answer(&text)
}

/// Also what is wrong with the user's settings.
fn in_words(command: &CommandLine, batch_scale: f64) -> (String, Vec<String>) {
    let started = planned::started_instead(command, batch_scale, &|_| true);
    let (mut text, problems) = planned::with_inputs(command, batch_scale, |inputs| {
        shown(&match started.is_empty() {
            true => report::plan::plan(command, inputs),
            false => report::plan::script(command, inputs),
        })
    });
    for training in &started {
        text.push_str(&of_training(training, batch_scale));
    }
    (text, problems)
}

/// The plan of a training that a script starts: of the command as if it was typed.
fn of_training(training: &StartedTraining, batch_scale: f64) -> String {
    let command = &training.started.command;
    let (script, line) = (&training.script, training.started.line);
    let (mut blocks, _) = planned::with_inputs(command, batch_scale, |inputs| {
        let starts = format!("{script} starts, at line {line}");
        report::plan::of_line(command, inputs, &training.found, &starts)
    });
    let words = match training.started.is_whole {
        true => {
            "Each command is what the script would start: start it in its place, or write the number there"
        }
        false => {
            "What has a $ in these commands is computed by the script: write the number there, or fill it in"
        }
    };
    blocks.push(DocumentBlock::detail(words));
    shown(&blocks)
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
