//! `oomph help`: pages that are too long for `--help`. The keys come from the screen's own table, the errors from the tables
//! that recognize them; the rest is text in `src/commands/help`; tests compare it with the options and the files it
//! describes.

use super::definition;
use crate::live::{Ending, print};
use crate::report::errors;
use crate::ui::keymap;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command, ValueEnum};

const RUN: &str = include_str!("help/run.txt");
const TOML: &str = include_str!("help/toml.txt");
const CLUSTERS: &str = include_str!("help/clusters.txt");
const CI: &str = include_str!("help/ci.txt");
const JSON: &str = include_str!("help/json.txt");
const AGENTS: &str = include_str!("help/agents.txt");
const MAN: &str = include_str!("help/oomph.1");

#[derive(Debug, PartialEq, Args)]
pub(super) struct HelpCommand {
    /// run, keys, errors, toml, ci, agents, json, man, or a subcommand
    #[arg(value_name = "TOPIC", default_value = OVERVIEW, hide_default_value = true)]
    topic: String,
    /// Markdown is for a web site: each text of `errors` has an anchor of its own
    #[arg(long, value_enum, default_value_t = HelpFormat::Text, hide_default_value = true)]
    format: HelpFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HelpFormat {
    Text,
    Markdown,
}

const OVERVIEW: &str = "overview";
const ERRORS: &str = "errors";

/// A page that is no subcommand's.
struct HelpPage {
    name: &'static str,
    about: &'static str,
    text: fn() -> String,
}

const PAGES: [HelpPage; 10] = [
    HelpPage {
        name: OVERVIEW,
        about: "What oomph does, its subcommands, and what else can be asked",
        text: || definition().render_help().to_string() + TOPICS,
    },
    HelpPage {
        name: "run",
        about: "The options of a run",
        text: || RUN.into(),
    },
    HelpPage {
        name: "keys",
        about: "The keys of the screen",
        text: keymap::plain_text,
    },
    HelpPage {
        name: ERRORS,
        about: "Every text of an error that is recognized, what it means and what helps",
        text: errors::text,
    },
    HelpPage {
        name: "toml",
        about: "What oomph.toml can set",
        text: || TOML.into(),
    },
    HelpPage {
        name: "clusters",
        about: "Batch scripts for SLURM, several nodes, login nodes",
        text: || CLUSTERS.into(),
    },
    HelpPage {
        name: "ci",
        about: "oomph check in GitHub Actions, GitLab and Slurm",
        text: || CI.into(),
    },
    HelpPage {
        name: "agents",
        about: "oomph mcp: what coding agents can ask, and how to add it",
        text: || AGENTS.into(),
    },
    HelpPage {
        name: "json",
        about: "The schemas of --json, and the exit statuses",
        text: || JSON.to_string() + crate::query::SCHEMAS,
    },
    HelpPage {
        name: "man",
        about: "The man page, for man -l -",
        text: || MAN.into(),
    },
];

/// Words that somebody may ask for, and the topic that has the answer.
const ASKED_AS: [(&str, &str); 7] = [
    ("batch", "fit"),
    ("oom", ERRORS),
    ("leak", ERRORS),
    ("slurm", "clusters"),
    ("config", "toml"),
    ("oomph.toml", "toml"),
    ("notify", "toml"),
];

/// Gives `oomph help` its topics: the pages, and the subcommands that `definition` has.
pub(super) fn with_topics(mut definition: Command) -> Command {
    let topic = |name: String| {
        let asked = ASKED_AS.iter().filter(|(_, topic)| *topic == name);
        let asked: Vec<&str> = asked.map(|(word, _)| *word).collect();
        PossibleValue::new(name).aliases(asked)
    };
    let pages = PAGES
        .iter()
        .map(|page| topic(page.name.to_owned()).help(page.about));
    let subcommands = definition.get_subcommands().map(Command::get_name);
    let subcommands = subcommands
        .filter(|name| *name != "help")
        .map(str::to_owned);
    let topics = pages.chain(subcommands.map(topic));
    let topics = PossibleValuesParser::new(topics.collect::<Vec<_>>());
    if let Some(help) = definition.find_subcommand_mut("help") {
        *help = std::mem::take(help).mut_arg("topic", |topic| topic.value_parser(topics));
    }
    definition
}

/// What can be asked of `oomph help`.
pub fn topics() -> Vec<String> {
    let definition = definition();
    let help = definition.find_subcommand("help");
    let topics = help.into_iter().flat_map(Command::get_arguments);
    let topics = topics.filter(|argument| argument.get_id() == "topic");
    let names = topics.flat_map(clap::Arg::get_possible_values);
    names.map(|topic| topic.get_name().to_owned()).collect()
}

/// Prints a page.
///
/// # Errors
/// Standard output could not be written.
pub(super) fn run(help: &HelpCommand) -> anyhow::Result<Ending> {
    print::page(&match help.format {
        HelpFormat::Text => page(topic_of(&help.topic)),
        HelpFormat::Markdown => markdown(topic_of(&help.topic)),
    })
}

/// The topic that a word stands for.
fn topic_of(word: &str) -> &str {
    let asked = ASKED_AS.iter().find(|(asked, _)| *asked == word);
    asked.map_or(word, |(_, topic)| topic)
}

/// The page of a topic as Markdown: a page that is laid out for a terminal stays as it is.
fn markdown(topic: &str) -> String {
    match topic {
        ERRORS => errors::markdown(),
        topic => format!(
            "# oomph help {topic}\n\n```text\n{}\n```\n",
            page(topic).trim_end()
        ),
    }
}

/// The page of a topic; nothing for what is none.
pub fn page(topic: &str) -> String {
    if let Some(page) = PAGES.iter().find(|page| page.name == topic) {
        return (page.text)();
    }
    let mut definition = definition();
    let subcommand = definition.find_subcommand_mut(topic);
    subcommand.map_or(String::new(), |found| found.render_long_help().to_string())
}

const TOPICS: &str = "
More:
  oomph help run       the options of a run, with examples
  oomph help keys      the keys of the screen
  oomph help errors    every error's text that is recognized, what it means and what helps
  oomph help toml      what oomph.toml can set
  oomph help clusters  batch scripts for SLURM, several nodes, login nodes
  oomph help ci        oomph check in GitHub Actions, GitLab and Slurm
  oomph help json      the schemas of --json, and the exit statuses
  oomph help man       the man page: oomph help man | man -l -
";

#[cfg(test)]
mod tests {
    use super::*;

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
    fn markdown_of_the_errors_is_laid_out_and_other_pages_stay_as_they_are() {
        assert!(markdown(ERRORS).contains("</a>CUDA out of memory\n"));
        let keys = markdown("keys");
        assert!(
            keys.contains(&format!("```text\n{}", page("keys").trim_end())),
            "{keys}"
        );
    }

    #[test]
    fn every_topic_has_a_page_of_its_own() {
        let pages: Vec<String> = topics().iter().map(|topic| page(topic)).collect();
        for (n, page) in pages.iter().enumerate() {
            assert!(page.lines().count() > 3, "{page}");
            assert!(!pages[..n].contains(page), "{page}");
        }
    }

    #[test]
    fn words_that_are_asked_for_lead_to_a_topic() {
        let all = topics();
        for (word, topic) in ASKED_AS {
            assert!(all.iter().any(|known| known == topic), "{topic}");
            assert!(!all.iter().any(|known| known == word), "{word}");
            let asked = definition().try_get_matches_from(["oomph", "help", word]);
            assert!(asked.is_ok(), "{word}");
            assert_eq!(topic_of(word), topic);
        }
    }

    #[test]
    fn help_knows_every_subcommand() {
        let definition = definition();
        let topics = topics();
        for subcommand in definition.get_subcommands().map(Command::get_name) {
            let is_known = topics.iter().any(|topic| topic == subcommand);
            assert!(
                is_known != (subcommand == "help"),
                "oomph help {subcommand}"
            );
        }
        assert!(topics.len() > PAGES.len(), "{topics:?}");
    }
}
