//! How well a command matches an entry, by its name and its arguments.

use super::ProgramEntry;
use crate::recognize::argument::{Arguments, Name, is_like};
use crate::recognize::launcher::{CommandLayout, ProgramKind, file_name};

/// What an entry is compared with.
pub(crate) struct ProgramClues<'a> {
    /// The word that names the program.
    pub program: &'a str,
    pub arguments: &'a Arguments<'a>,
}

/// How many of an entry's typical arguments a command has.
struct ShapePoints {
    points: usize,
    strong_hints: usize,
}

/// The score of an argument that hardly any other program has.
const STRONG_HINT_SCORE: usize = 3;

impl ProgramEntry {
    /// `None` if the command does not fit.
    pub(super) fn score(&self, layout: &CommandLayout, seen: &ProgramClues<'_>) -> Option<i32> {
        let of_shape = self.shape(seen)?;
        let is_script = matches!(layout.kind, ProgramKind::Script | ProgramKind::ShellScript);
        let by_path = |patterns: &[String]| {
            is_script
                && patterns.iter().any(|pattern| {
                    if pattern.contains('/') {
                        is_like(&format!("/{}", seen.program), &format!("*/{pattern}"))
                    } else {
                        is_like(file_name(seen.program), pattern)
                    }
                })
        };
        let is_any = |names: &[String], name: &str| names.iter().any(|n| is_like(name, n));
        let by_name = by_path(&self.unique_scripts)
            || layout.kind == ProgramKind::Module && is_any(&self.modules, seen.program)
            || layout.kind == ProgramKind::Executable
                && is_any(&self.consoles, file_name(seen.program))
            || layout
                .launchers
                .iter()
                .any(|launcher| is_any(&self.launchers, &launcher.name));
        let has_shape = !(self.any.is_empty()
            && self.strong_hints.is_empty()
            && self.all.is_empty()
            && self.valued.is_empty()
            && self.positional.is_empty());
        let nothing_to_count = self.any.is_empty() && self.strong_hints.is_empty();
        let enough = nothing_to_count
            || of_shape.points >= self.min_score.unwrap_or(1)
                && of_shape.strong_hints >= self.min_strong_hints;
        let base = if by_name {
            100
        } else if by_path(&self.scripts)
            && (has_shape && enough || self.is_of_user_alone(has_shape))
        {
            50
        } else if self.alone && has_shape && enough {
            20
        } else {
            return None;
        };
        Some(base + self.priority + of_shape.points.min(9) as i32)
    }

    /// An entry by a user with a script and no typical arguments means every command with that
    /// script.
    fn is_of_user_alone(&self, has_shape: bool) -> bool {
        self.source.is_some() && !has_shape
    }

    /// `None` if a condition fails.
    fn shape(&self, seen: &ProgramClues<'_>) -> Option<ShapePoints> {
        let arguments = seen.arguments;
        let has = |spec: &String| arguments.has(Name::new(spec));
        let count = |specs: &[String]| specs.iter().filter(|spec| has(spec)).count();
        let is_any_of =
            |text: &str, patterns: &str| patterns.split('|').any(|pattern| is_like(text, pattern));
        let valued = self.valued.iter().all(|(spec, patterns)| {
            arguments
                .value_of(spec)
                .is_some_and(|value| is_any_of(value, patterns))
        });
        let positional = self.positional.iter().all(|patterns| {
            let mut tokens = arguments.tokens.iter().enumerate();
            tokens.any(|(k, token)| {
                !token.is_option() && arguments.is_positional(k) && is_any_of(token.text, patterns)
            })
        });
        let spelled = !self.equals_only
            || arguments
                .tokens
                .iter()
                .all(|token| !token.is_option() || token.text.contains('='));
        let fits = self.all.iter().all(has)
            && !self.none.iter().any(has)
            && valued
            && positional
            && spelled;
        fits.then(|| {
            let strong_hints = count(&self.strong_hints);
            ShapePoints {
                points: STRONG_HINT_SCORE * strong_hints + count(&self.any),
                strong_hints,
            }
        })
    }
}
