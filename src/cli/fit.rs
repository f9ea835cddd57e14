//! The arguments of `oomph fit`.

use super::Conversion;
use super::common::Common;
use crate::app::{FitOptions, Which};
use crate::command::CommandLine;
use crate::units::Bytes;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    override_usage = "oomph fit [OPTIONS] -- [NAME=VALUE...] COMMAND [ARG...]",
    after_help = "The program really runs, each time until N optimizer steps were seen, and may write files as it always \
                  does. Its output goes to stderr, the answer to stdout.\nExit status: 0 if a value was found, 1 if none fits."
)]
pub(super) struct FitArguments {
    /// Optimizer steps of each run; up to four times as many while memory still grows
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    pub(super) steps: u64,
    /// Memory to leave free, in percent of what the run needs
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    pub(super) margin: f64,
    /// Fit another integer argument than the batch: seq_len
    #[arg(long, value_name = "NAME")]
    pub(super) arg: Option<String>,
    /// Replace an argument in these runs only: output_dir=/tmp/fit
    #[arg(long, value_name = "NAME=VALUE", value_parser = replacement)]
    pub(super) replace: Vec<(String, String)>,
    /// Answer for GPUs with this much memory, from one run on this one: 24GiB,40GiB,80GiB
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub(super) room: Vec<Bytes>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Do not ask before the first run
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Run without NVML
    #[arg(long)]
    pub(super) no_nvml: bool,
    /// Record the session to this file
    #[arg(long, value_name = "PATH")]
    pub(super) record: Option<PathBuf>,
}

impl FitArguments {
    pub(super) fn into_options(self, command: CommandLine) -> Conversion<FitOptions> {
        let common = Common {
            headless: true,
            no_nvml: self.no_nvml,
            record: self.record,
            ..Common::default()
        };
        Ok(FitOptions {
            run: common.into_options(command)?,
            steps: self.steps,
            margin: self.margin / 100.0,
            which: self.arg.map_or(Which::Batch, Which::Named),
            replaced: self.replace,
            rooms: self.room,
            json: self.json,
            yes: self.yes,
        })
    }
}

fn percent(text: &str) -> Conversion<f64> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent),
        Ok(_) | Err(_) => Err("choose a share between 0 and 50 percent".into()),
    }
}

fn size(text: &str) -> Conversion<Bytes> {
    Bytes::parse(text).ok_or_else(|| "write a size with its unit, such as 24GiB".into())
}

fn replacement(text: &str) -> Conversion<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) | None => Err("write NAME=VALUE, such as output_dir=/tmp/fit".into()),
    }
}
