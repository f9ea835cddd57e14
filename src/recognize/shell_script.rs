//! What a shell script starts: its commands as words, where it sets their variables and arguments itself, so that a plan can
//! be made of them. The script is read as text, nothing of it is run: what it computes (`$(…)`, loops, `getopts`) stays
//! unknown, and a word that holds some of that stays as it is written.

mod words;

use crate::command::{CommandLine, EnvChange, Word};
use std::collections::BTreeMap;
use std::path::Path;
use words::{LogicalLine, ScriptWord, logical_lines, parts_of};

/// Commands that are looked at.
const MOST: usize = 200;

/// A command of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCommand {
    /// Where it begins, counted from 1.
    pub line: u32,
    pub command: CommandLine,
    /// Whether all of its words are known.
    pub is_whole: bool,
}

/// A variable of a script: words, or one text that is split where it is not quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ScriptValue {
    Text(String),
    List(Vec<String>),
    /// It is computed.
    Unknown,
}

/// A variable's name, and what it is set to.
type ScriptVariable = (String, ScriptValue);

/// What is known at a place of a script.
struct ScriptState<'s> {
    variables: BTreeMap<String, ScriptValue>,
    exported: Vec<String>,
    arguments: &'s [String],
    inherited: &'s dyn Fn(&str) -> Option<String>,
}

/// The simple commands of a script that is started with these arguments in this directory, in their order; assignments,
/// `cd` and `export` are followed, branches and loops are read as if each was entered once.
pub fn script_commands(
    text: &str,
    arguments: &[String],
    cwd: &Path,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Vec<ScriptCommand> {
    let mut state = ScriptState {
        variables: BTreeMap::new(),
        exported: Vec::new(),
        arguments,
        inherited,
    };
    let mut directory = cwd.to_path_buf();
    let mut found = Vec::new();
    for line in logical_lines(text).into_iter().take(2000) {
        for (at, part) in parts_of(&line).into_iter().enumerate() {
            if found.len() >= MOST {
                return found;
            }
            let words = without_keywords(part);
            let Some((assigned, words)) = state.take_assignments(words) else {
                continue;
            };
            let Some(first) = words.first() else {
                for (name, value) in assigned {
                    state.variables.insert(name, value);
                }
                continue;
            };
            match first.plain() {
                Some("export" | "declare" | "local" | "readonly" | "typeset") => {
                    state.declare(first.plain(), &words[1..]);
                }
                Some("cd") => {
                    let to = words.get(1).and_then(|word| state.expanded(word));
                    if let Some([to]) = to.as_deref() {
                        directory = directory.join(to);
                    }
                }
                Some("for" | "case" | "select" | "read" | "function") => {
                    if let Some(name) = words.get(1).and_then(ScriptWord::plain) {
                        state.variables.insert(name.into(), ScriptValue::Unknown);
                    }
                }
                _ => found.extend(state.command(&line, at, &assigned, &words, &directory)),
            }
        }
    }
    found
}

/// Without what only says that a command follows: `then python train.py`, `do`, `exec`.
fn without_keywords(mut words: Vec<ScriptWord>) -> Vec<ScriptWord> {
    let is_keyword = |word: &ScriptWord| {
        let keywords = [
            "then", "do", "else", "if", "elif", "while", "until", "!", "time", "exec", "nohup",
            "{", "(", "eval",
        ];
        word.plain().is_some_and(|word| keywords.contains(&word))
    };
    let front = words.iter().take_while(|word| is_keyword(word)).count();
    words.drain(..front);
    words
}

impl ScriptState<'_> {
    /// The assignments before a command, and its words; `None` where only the end of a block stands.
    fn take_assignments(
        &self,
        words: Vec<ScriptWord>,
    ) -> Option<(Vec<ScriptVariable>, Vec<ScriptWord>)> {
        let is_end = |word: &ScriptWord| {
            matches!(
                word.plain(),
                Some("fi" | "done" | "esac" | ";;" | "}" | ")")
            )
        };
        if words.first().is_none_or(is_end) {
            return None;
        }
        let front: Vec<ScriptVariable> = words
            .iter()
            .map_while(|word| self.assignment(word))
            .collect();
        let rest = words.into_iter().skip(front.len()).collect();
        Some((front, rest))
    }

    /// `NAME=value`, `NAME=(a b)`.
    fn assignment(&self, word: &ScriptWord) -> Option<ScriptVariable> {
        let (name, value) = word.assigned()?;
        let value = match value {
            words::Assigned::One(value) => match self.text_of(&value) {
                Some(text) => ScriptValue::Text(text),
                None => ScriptValue::Unknown,
            },
            words::Assigned::List(values) => {
                let all: Option<Vec<Vec<String>>> =
                    values.iter().map(|value| self.expanded(value)).collect();
                all.map_or(ScriptValue::Unknown, |all| ScriptValue::List(all.concat()))
            }
        };
        Some((name, value))
    }

    /// `export NAME=value`, `export NAME`, `local -r NAME=value`.
    fn declare(&mut self, kind: Option<&str>, words: &[ScriptWord]) {
        for word in words {
            let name = match self.assignment(word) {
                Some((name, value)) => {
                    self.variables.insert(name.clone(), value);
                    name
                }
                None => word.plain().unwrap_or_default().to_string(),
            };
            if kind == Some("export") && !name.is_empty() && !name.starts_with('-') {
                self.exported.push(name);
            }
        }
    }

    fn command(
        &self,
        line: &LogicalLine,
        at: usize,
        assigned: &[ScriptVariable],
        words: &[ScriptWord],
        directory: &Path,
    ) -> Option<ScriptCommand> {
        // Behind a pipe nothing is started that trains.
        if line.is_piped_into(at) {
            return None;
        }
        let mut is_whole = true;
        let mut argv = Vec::new();
        for word in words {
            match self.expanded(word) {
                Some(known) => argv.extend(known),
                None => {
                    is_whole = false;
                    argv.push(word.written());
                }
            }
        }
        let exported = self.exported.iter().filter_map(|name| {
            let value = self.variables.get(name)?;
            Some((name, value))
        });
        let own = assigned.iter().map(|(name, value)| (name, value));
        let env = exported.chain(own).filter_map(|(name, value)| match value {
            ScriptValue::Text(text) => Some(EnvChange {
                name: Word::from(name.as_str()),
                value: Some(Word::from(text.as_str())),
            }),
            ScriptValue::List(_) | ScriptValue::Unknown => None,
        });
        let env: Vec<EnvChange> = env.collect();
        let argv: Vec<Word> = argv.iter().map(|word| Word::from(word.as_str())).collect();
        (!argv.is_empty()).then_some(ScriptCommand {
            line: line.line_of(at),
            command: CommandLine {
                argv,
                env,
                cwd: directory.to_path_buf(),
            },
            is_whole,
        })
    }

    /// The words that this becomes; `None` where something of it is not known.
    fn expanded(&self, word: &ScriptWord) -> Option<Vec<String>> {
        if let Some(list) = word.whole_list() {
            return match list {
                "@" | "*" => Some(self.arguments.to_vec()),
                name => match self.variables.get(name)? {
                    ScriptValue::List(words) => Some(words.clone()),
                    ScriptValue::Text(text) => Some(vec![text.clone()]),
                    ScriptValue::Unknown => None,
                },
            };
        }
        let text = self.text_of(word)?;
        match word.is_split() {
            // What is not quoted becomes as many words as it has.
            true => Some(text.split_whitespace().map(String::from).collect()),
            false => Some(vec![text]),
        }
    }

    fn text_of(&self, word: &ScriptWord) -> Option<String> {
        word.text(&|name| self.value(name))
    }

    fn value(&self, name: &str) -> Option<String> {
        if let Ok(place) = name.parse::<usize>() {
            // An argument that is not given is empty.
            return match place {
                0 => None,
                place => Some(self.arguments.get(place - 1).cloned().unwrap_or_default()),
            };
        }
        match name {
            "@" | "*" => Some(self.arguments.join(" ")),
            "#" => Some(self.arguments.len().to_string()),
            "?" | "$" | "!" | "-" => None,
            name => match self.variables.get(name) {
                Some(ScriptValue::Text(text)) => Some(text.clone()),
                Some(ScriptValue::List(words)) => words.first().cloned(),
                Some(ScriptValue::Unknown) => None,
                None => (self.inherited)(name),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(text: &str, arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
        let inherited = |name: &str| (name == "HOME").then(|| "/home/u".to_string());
        let all = script_commands(text, &arguments, Path::new("/work"), &inherited);
        let shown = all.iter().map(|one| {
            let words: Vec<String> = one
                .command
                .argv
                .iter()
                .map(|word| word.to_string_lossy())
                .collect();
            let env: Vec<String> = (one.command.env.iter())
                .map(|change| {
                    let value = change.value.as_ref().map(Word::to_string_lossy);
                    format!(
                        "{}={} ",
                        change.name.to_string_lossy(),
                        value.unwrap_or_default()
                    )
                })
                .collect();
            let whole = if one.is_whole { "" } else { "?" };
            let cwd = one.command.cwd.display();
            format!(
                "{cwd}:{}{whole} {}{}",
                one.line,
                env.concat(),
                words.join("|")
            )
        });
        shown.collect()
    }

    #[test]
    fn a_script_is_read_up_to_the_words_of_its_commands() {
        for (text, arguments, wanted) in [
            (
                "#!/bin/bash\n# python old.py\npython train.py --lr 1e-3 \\\n  --batch 8 # half\n",
                vec![],
                vec!["/work:3 python|train.py|--lr|1e-3|--batch|8"],
            ),
            (
                "BS=8\nexport CUDA_VISIBLE_DEVICES=0,1\nOMP=1 python t.py --bs $BS --name \"a $BS\" --x '${BS}'\n",
                vec![],
                vec![
                    "/work:3 CUDA_VISIBLE_DEVICES=0,1 OMP=1 python|t.py|--bs|8|--name|a 8|--x|${BS}",
                ],
            ),
            (
                "CONFIG=$1\nGPUS=${2:-8}\npython -m torch.distributed.launch --nproc_per_node=$GPUS train.py $CONFIG ${@:3}\n",
                vec!["a.py"],
                vec![
                    "/work:3? python|-m|torch.distributed.launch|--nproc_per_node=8|train.py|a.py|${@:3}",
                ],
            ),
            (
                "ARGS=\"--a 1 --b 2\"\npython t.py $ARGS \"$@\"\n",
                vec!["x y"],
                vec!["/work:2 python|t.py|--a|1|--b|2|x y"],
            ),
            (
                "ARGS=(\n  --a 1 # one\n  --b \"$HOME/x\"\n)\npython t.py \"${ARGS[@]}\"\n",
                vec![],
                vec!["/work:5 python|t.py|--a|1|--b|/home/u/x"],
            ),
            (
                "cd src && python t.py > log.txt 2>&1 &\ncd ..\n",
                vec![],
                vec!["/work/src:1 python|t.py"],
            ),
            (
                "for seed in 1 2; do\n  python t.py --seed $seed --b 4 | tee log\ndone\nif [ -z \"$X\" ]; then python u.py; fi\n",
                vec![],
                vec![
                    "/work:2? python|t.py|--seed|$seed|--b|4",
                    "/work:4? [|-z|$X|]",
                    "/work:4 python|u.py",
                ],
            ),
            (
                "N=$(nvidia-smi -L | wc -l)\npython t.py --n $N\n",
                vec![],
                vec!["/work:2? python|t.py|--n|$N"],
            ),
            (
                "cat <<EOF > c.json\n{\"batch\": 8}\nEOF\npython t.py\n",
                vec![],
                vec!["/work:1 cat", "/work:4 python|t.py"],
            ),
        ] {
            assert_eq!(started(text, &arguments), wanted, "{text}");
        }
    }
}
