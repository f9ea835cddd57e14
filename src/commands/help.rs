//! `oomph help`: pages that are too long for `--help`. The keys come from the screen's own table,
//! the rest is text in `src/commands/help`; tests compare it with the options and the files it
//! describes.

use super::definition;
use crate::live::{Ending, print};
use crate::ui::keymap;
use clap::{Args, ValueEnum};

const RUN: &str = include_str!("help/run.txt");
const TOML: &str = include_str!("help/toml.txt");
const CLUSTERS: &str = include_str!("help/clusters.txt");
const MAN: &str = include_str!("help/oomph.1");

#[derive(Debug, PartialEq, Args)]
pub(super) struct HelpCommand {
    /// run, keys, toml, man, or a subcommand
    #[arg(value_name = "TOPIC")]
    topic: Option<HelpTopic>,
}

/// What `oomph help` explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum HelpTopic {
    /// What oomph does, its subcommands, and what else can be asked
    #[default]
    Overview,
    /// The options of a run
    Run,
    /// The keys of the screen
    Keys,
    /// What oomph.toml can set
    Toml,
    /// Batch scripts for SLURM, several nodes, login nodes
    Clusters,
    /// The man page, for man -l -
    Man,
    Ls,
    Attach,
    Stop,
    Logs,
    Replay,
    Report,
    Diff,
    Export,
    Plan,
    Explain,
    Fit,
    Doctor,
    Completions,
}

/// Prints a page.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(help: &HelpCommand) -> anyhow::Result<Ending> {
    print::page(&page(help.topic.unwrap_or_default()))
}

/// The page of a topic.
pub fn page(topic: HelpTopic) -> String {
    let name = match topic {
        HelpTopic::Overview => return of_clap(None) + TOPICS,
        HelpTopic::Run => return RUN.into(),
        HelpTopic::Keys => return keymap::plain_text(),
        HelpTopic::Toml => return TOML.into(),
        HelpTopic::Clusters => return CLUSTERS.into(),
        HelpTopic::Man => return MAN.into(),
        HelpTopic::Ls => "ls",
        HelpTopic::Attach => "attach",
        HelpTopic::Stop => "stop",
        HelpTopic::Logs => "logs",
        HelpTopic::Replay => "replay",
        HelpTopic::Report => "report",
        HelpTopic::Diff => "diff",
        HelpTopic::Export => "export",
        HelpTopic::Plan => "plan",
        HelpTopic::Explain => "explain",
        HelpTopic::Fit => "fit",
        HelpTopic::Doctor => "doctor",
        HelpTopic::Completions => "completions",
    };
    of_clap(Some(name))
}

const TOPICS: &str = "
More:
  oomph help run       the options of a run, with examples
  oomph help keys      the keys of the screen
  oomph help toml      what oomph.toml can set
  oomph help clusters  batch scripts for SLURM, several nodes, login nodes
  oomph help man       the man page: oomph help man | man -l -
";

fn of_clap(subcommand: Option<&str>) -> String {
    let mut definition = definition();
    let found = subcommand.and_then(|name| definition.find_subcommand_mut(name));
    match found {
        Some(subcommand) => subcommand.render_long_help().to_string(),
        None => definition.render_help().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_option_of_a_run_is_explained() {
        let definition = super::definition();
        let options = definition.get_arguments().filter(|one| !one.is_hide_set());
        for name in options.filter_map(|option| option.get_long()) {
            let explained =
                ["help", "version"].contains(&name) || RUN.contains(&format!("--{name}"));
            assert!(explained, "oomph help run does not explain --{name}");
        }
    }

    /// The example is the indented part of the page.
    #[test]
    fn the_example_of_oomph_toml_is_read_as_written() {
        let example: String = TOML
            .lines()
            .skip_while(|line| !line.starts_with("    theme"))
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(|line| format!("{}\n", line.trim()))
            .collect();
        assert!(example.contains("[[program]]"), "{example}");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(crate::config::FILE);
        std::fs::write(&path, &example).expect("the example");
        let own = crate::config::SettingsFile {
            path,
            whose: crate::config::Whose::User,
        };
        let settings = crate::config::of_files(&[own]);
        assert_eq!(settings.problems, [] as [String; 0]);
        assert_eq!(settings.theme.expect("a theme").value, "light");
        assert_eq!(settings.alert.expect("an alert").value, "bell");
        let notify = settings.notify.expect("a command").value;
        assert!(notify.ends_with("me@example.org"), "{notify}");
        assert_eq!(settings.programs.len(), 1);
    }

    #[test]
    fn every_topic_has_a_page_of_its_own() {
        let pages: Vec<String> = HelpTopic::value_variants()
            .iter()
            .map(|topic| page(*topic))
            .collect();
        for (n, page) in pages.iter().enumerate() {
            assert!(page.lines().count() > 3, "{page}");
            assert!(!pages[..n].contains(page), "{page}");
        }
    }
}
