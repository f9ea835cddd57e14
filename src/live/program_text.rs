//! The text of a program, read before anything ran: the script, the files of its own that it imports, and the settings that
//! it names. What is in them is for `recognize`.

use crate::command::{CommandLine, Word};
use crate::live::python_path;
use crate::live::torch;
use crate::project_files;
use crate::recognize::text::{
    BatchRules, ConfigRoot, ImportedModule, NamedSettingsFile, PathPart, ProgramSource,
    ProgramText, SettingsNames, SourceRole, added_directories, asked_packages, default_files,
    default_modules, default_words, files_beside, hydra_config, hydra_files, imports, made_files,
    written_files,
};
use crate::recognize::{ConfigFile, ProgramKind, Recognized};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Files of a program that are read.
const MOST_FILES: usize = 64;

/// So far above its script a program's own directory may be.
const MOST_ABOVE: usize = 4;

/// The numbers of a command's program; `None` where it is no script or module that is found.
pub(crate) fn program_text(recognized: &Recognized<'_>) -> Option<ProgramText> {
    let mut reader = ProgramReader::new(recognized)?;
    reader.read_script()?;
    reader.read_configs(recognized);
    reader.read_asked(recognized);
    reader.follow();
    let settings = reader.settings(recognized);
    Some(ProgramText::read(&reader.sources, &settings))
}

/// What the text of a command's program asks of its batch.
pub(crate) fn batch_rules(recognized: &Recognized<'_>) -> BatchRules {
    let settings = ProgramReader::new(recognized).and_then(|mut reader| {
        reader.read_script()?;
        reader.follow();
        Some(reader.settings(recognized))
    });
    let files = program_files(recognized);
    let texts = files.iter().map(|(_, text)| text.as_str());
    BatchRules::read(texts, &settings.unwrap_or_default())
}

/// The files of a command's program with their texts: the script, what it imports of its own, and the configs that the
/// command names.
pub(crate) fn program_files(recognized: &Recognized<'_>) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    if let Some(mut reader) = ProgramReader::new(recognized)
        && reader.read_script().is_some()
    {
        reader.read_configs(recognized);
        reader.read_asked(recognized);
        reader.follow();
        let read = reader.sources.into_iter();
        files.extend(read.map(|source| (source.path, source.text)));
    }
    let cwd = &recognized.command.cwd;
    for named in recognized.named_files() {
        let path = std::fs::canonicalize(cwd.join(&named.name)).ok();
        let Some(path) = path.and_then(|path| path.to_str().map(String::from)) else {
            continue;
        };
        let is_new = files.iter().all(|(known, _)| *known != path);
        if let Some(text) = project_files::config_text(cwd, Path::new(&path)).filter(|_| is_new) {
            files.push((path, text));
        }
    }
    files
}

struct ProgramReader {
    cwd: PathBuf,
    script: PathBuf,
    /// Where modules are looked for, first the script's own directory.
    roots: Vec<PathBuf>,
    sources: Vec<ProgramSource>,
    seen: BTreeSet<PathBuf>,
}

impl ProgramReader {
    fn new(recognized: &Recognized<'_>) -> Option<ProgramReader> {
        let command = recognized.command;
        let word = command.argv.get(recognized.layout.program)?.as_str()?;
        let cwd = command.cwd.clone();
        let mut roots = python_path::directories(recognized);
        let script = match recognized.layout.kind {
            ProgramKind::Script => cwd.join(word),
            ProgramKind::Module => {
                roots.insert(0, cwd.clone());
                // As a project that is installed from here has it.
                roots.extend([cwd.join("src")]);
                let parts: Vec<String> = word.split('.').map(String::from).collect();
                let found = module_script(&roots, &parts);
                // One that is installed, and not of this project.
                found.or_else(|| {
                    let packages = site_packages(recognized.command)?;
                    let found = module_script(std::slice::from_ref(&packages), &parts);
                    roots.push(packages);
                    found
                })?
            }
            ProgramKind::Executable => {
                let module = console_module(recognized, word)?;
                roots.extend([cwd.clone(), cwd.join("src")]);
                roots.extend(site_packages(recognized.command));
                let parts: Vec<String> = module.split('.').map(String::from).collect();
                module_file(&roots, &parts)?
            }
            ProgramKind::Code
            | ProgramKind::ShellScript
            | ProgramKind::ShellString
            | ProgramKind::Image
            | ProgramKind::Remote
            | ProgramKind::Missing => return None,
        };
        if recognized.layout.kind == ProgramKind::Script {
            roots.insert(0, script.parent()?.to_path_buf());
            // A script of a project's folder (`tools/train.py`) imports the package that is installed from here.
            roots.extend([cwd.clone(), cwd.join("src")]);
        }
        Some(ProgramReader {
            cwd,
            script,
            roots,
            sources: Vec::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Takes a file in; its text, if it was not read before.
    fn read(&mut self, path: &Path, role: SourceRole) -> Option<String> {
        if self.sources.len() >= MOST_FILES {
            return None;
        }
        let path = std::fs::canonicalize(self.cwd.join(path)).ok()?;
        if !self.seen.insert(path.clone()) {
            return None;
        }
        let text = project_files::config_text(&self.cwd, &path)?;
        self.sources.push(ProgramSource {
            path: path.to_str()?.into(),
            text: text.clone(),
            role,
        });
        Some(text)
    }

    fn read_script(&mut self) -> Option<()> {
        let script = self.script.clone();
        self.read(&script, SourceRole::Script).map(drop)
    }

    /// Configs in Python that the command names.
    fn read_configs(&mut self, recognized: &Recognized<'_>) {
        for named in recognized.named_files() {
            if named
                .name
                .extension()
                .is_some_and(|extension| extension == "py")
            {
                self.read(&named.name, SourceRole::Config);
            }
        }
        // One that an option's default names: `--hp_file` of which nothing is typed.
        let Some(script) = self.sources.first() else {
            return;
        };
        let words = &recognized.command.argv[recognized.layout.arguments.clone()];
        let is_typed = |option: &String| {
            let mut words = words.iter().filter_map(Word::as_str);
            words.any(|word| word.split('=').next() == Some(option.as_str()))
        };
        for (options, file) in default_modules(&script.text) {
            if !options.iter().any(is_typed) {
                self.read(Path::new(&file), SourceRole::Config);
            }
        }
    }

    /// The modules that the script imports by what it is told: `import_module("models." + args.model)` of `--model TextCNN`.
    fn read_asked(&mut self, recognized: &Recognized<'_>) {
        let Some(script) = self.sources.first() else {
            return;
        };
        let packages = asked_packages(&script.text);
        if packages.is_empty() {
            return;
        }
        let words = &recognized.command.argv[recognized.layout.arguments.clone()];
        let typed = words.iter().filter_map(Word::as_str);
        let mut words: Vec<String> = typed
            .filter_map(|word| word.rsplit('=').next())
            .map(String::from)
            .collect();
        let defaults = default_words(&script.text).into_iter();
        let is_typed = |name: &str| {
            let mut typed = recognized.command.argv.iter().filter_map(Word::as_str);
            typed.any(|word| {
                let option = word.split('=').next().unwrap_or(word);
                option.trim_start_matches('-').replace('-', "_") == name
            })
        };
        let defaults = defaults.filter(|(name, _)| !is_typed(name));
        words.extend(defaults.map(|(_, word)| word));
        let is_name = |word: &&String| {
            let is_of_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
            !word.is_empty() && word.bytes().all(is_of_one)
        };
        for word in words.iter().filter(is_name) {
            for package in &packages {
                let parts = package.split('.').chain(word.split('.'));
                let parts: Vec<String> = parts.map(String::from).collect();
                if let Some(file) = module_file(&self.roots, &parts) {
                    self.read(&file, SourceRole::Imported);
                }
            }
        }
    }

    /// Adds the directories that a source adds to where modules are looked for.
    fn add_roots(&mut self, source: &Path, text: &str) {
        let Some(directory) = source.parent() else {
            return;
        };
        for added in added_directories(text) {
            let added = std::fs::canonicalize(directory.join(added));
            self.roots.extend(added.ok().filter(|root| root.is_dir()));
        }
    }

    /// The script's own roots, and those of what it imports: `import _init_paths` may stand before what needs it or not.
    fn find_roots(&mut self) {
        let script = self
            .sources
            .iter()
            .find(|one| one.role == SourceRole::Script);
        let Some((path, text)) = script.map(|one| (PathBuf::from(&one.path), one.text.clone()))
        else {
            return;
        };
        self.add_roots(&path, &text);
        for module in imports(&text) {
            if let Some(file) = self.imported(&path, &module)
                && let Some(text) = project_files::config_text(&self.cwd, &file)
            {
                self.add_roots(&file, &text);
            }
        }
    }

    /// Reads what the script and the configs import, and what that imports; what a package's own file passes on counts as if
    /// it were imported from where it is.
    fn follow(&mut self) {
        self.find_roots();
        let mut pending: VecDeque<(PathBuf, String, SourceRole)> = self
            .sources
            .iter()
            .map(|source| {
                (
                    PathBuf::from(&source.path),
                    source.text.clone(),
                    SourceRole::Imported,
                )
            })
            .collect();
        while let Some((path, text, role)) = pending.pop_front() {
            for module in imports(&text) {
                let Some(file) = self.imported(&path, &module) else {
                    continue;
                };
                let Some(text) = self.read(&file, role) else {
                    continue;
                };
                let is_package = file.file_name().is_some_and(|name| name == "__init__.py");
                match (is_package || module.is_whole, role) {
                    (true, role) => pending.push_back((file, text, role)),
                    (false, SourceRole::Distant) => {}
                    (false, _) => pending.push_back((file, text, SourceRole::Distant)),
                }
            }
        }
    }

    fn imported(&self, from: &Path, module: &ImportedModule) -> Option<PathBuf> {
        if module.level == 0 {
            return module_file(&self.roots, &module.parts);
        }
        let mut directory = from.parent()?;
        for _ in 1..module.level {
            directory = directory.parent()?;
        }
        module_file(&[directory.to_path_buf()], &module.parts)
    }

    /// The files of settings that the program names itself: an option's default, hydra's config and the groups that it is
    /// composed of.
    fn settings(&self, recognized: &Recognized<'_>) -> Vec<NamedSettingsFile> {
        let Some(source) = self.sources.first() else {
            return Vec::new();
        };
        let words = &recognized.command.argv[recognized.layout.arguments.clone()];
        let words: Vec<&str> = words.iter().filter_map(Word::as_str).collect();
        let is_typed = |option: &String| {
            words
                .iter()
                .any(|word| word.split('=').next() == Some(option.as_str()))
        };
        let defaults = default_files(&source.text).into_iter();
        let defaults = defaults.filter(|(options, _)| !options.iter().any(is_typed));
        let defaults = defaults
            .filter_map(|(_, file)| self.settings_file(Path::new(&file), SettingsNames::InFile));
        let mut files: Vec<NamedSettingsFile> = defaults.collect();
        let made = made_files(&source.text);
        let known = match made.is_empty() {
            true => Vec::new(),
            false => default_words(&source.text),
        };
        for parts in &made {
            files.extend(self.made_file(parts, &words, &known));
        }
        let written = self
            .sources
            .iter()
            .flat_map(|source| written_files(&source.text));
        for file in written.take(MOST_FILES) {
            let read = self.settings_file(Path::new(&file), SettingsNames::InFile);
            let is_new =
                |read: &NamedSettingsFile| files.iter().all(|other| other.text != read.text);
            files.extend(read.filter(is_new));
        }
        for source in &self.sources {
            let beside = files_beside(&source.text);
            let names = match beside.is_alone {
                true => SettingsNames::InFile,
                false => SettingsNames::Among,
            };
            let Some(directory) = Path::new(&source.path).parent() else {
                continue;
            };
            for file in beside.files {
                let read = self.settings_file(&directory.join(file), names.clone());
                let is_new =
                    |read: &NamedSettingsFile| files.iter().all(|other| other.text != read.text);
                files.extend(read.filter(is_new));
            }
        }
        // Where the script only calls it, the module has it: `from package.cli import train`.
        let mut near = self
            .sources
            .iter()
            .filter(|source| source.role != SourceRole::Distant);
        let of_hydra = near.find_map(|source| {
            let files = self.of_hydra(&source.path, &source.text, &words);
            (!files.is_empty()).then_some(files)
        });
        files.extend(of_hydra.unwrap_or_default());
        files.extend(
            recognized
                .launch
                .files
                .iter()
                .flat_map(|file| self.chain(file)),
        );
        files
    }

    /// The files that the command's config builds on, and itself behind them; nothing where one could not be read.
    fn chain(&self, file: &ConfigFile) -> Vec<NamedSettingsFile> {
        let is_python = |name: &Path| name.extension().is_some_and(|ending| ending == "py");
        if file.bases.read.is_empty() || file.bases.has_others || is_python(&file.name) {
            return Vec::new();
        }
        let bases = file.bases.read.iter().rev();
        let bases = bases.map(|base| (&base.name, &base.text));
        let all = bases.chain([(&file.name, &file.text)]);
        let all = all.filter(|(name, _)| !is_python(name));
        all.map(|(name, text)| {
            let path = self.cwd.join(name);
            NamedSettingsFile {
                text: text.clone(),
                path: std::fs::canonicalize(&path)
                    .unwrap_or(path)
                    .display()
                    .to_string(),
                names: SettingsNames::Chain,
            }
        })
        .collect()
    }

    /// A file whose path the program makes of what options say: as they are typed, or by their defaults.
    fn made_file(
        &self,
        parts: &[PathPart],
        words: &[&str],
        defaults: &[(String, String)],
    ) -> Option<NamedSettingsFile> {
        let mut path = String::new();
        for part in parts {
            match part {
                PathPart::Written(written) => path.push_str(written),
                PathPart::Option(attribute) => {
                    let plain = |word: &str| word.trim_start_matches('-').replace('-', "_");
                    let mut all = words.iter().enumerate();
                    let typed = all.find_map(|(at, word)| match word.split_once('=') {
                        Some((name, value)) => (plain(name) == *attribute).then_some(value),
                        None => (word.starts_with("--") && plain(word) == *attribute)
                            .then(|| words.get(at + 1).copied())?,
                    });
                    let mut defaults = defaults.iter();
                    let mut default = || defaults.find(|(name, _)| name == attribute);
                    path.push_str(typed.or_else(|| Some(default()?.1.as_str()))?);
                }
            }
        }
        let path = Path::new(&path);
        let is_settings = path.extension().is_some_and(|ending| ending != "py");
        is_settings.then(|| self.settings_file(path, SettingsNames::Made))?
    }

    fn of_hydra(&self, script: &str, text: &str, words: &[&str]) -> Vec<NamedSettingsFile> {
        let Some(config) = hydra_config(text, words) else {
            return Vec::new();
        };
        let Some(beside) = Path::new(script).parent() else {
            return Vec::new();
        };
        let roots = match config.root {
            ConfigRoot::Source => vec![beside],
            // Where it was started, or above the script.
            ConfigRoot::Project => std::iter::once(self.cwd.as_path())
                .chain(beside.ancestors().take(MOST_ABOVE))
                .collect(),
        };
        let has_it = |root: &&&Path| root.join(&config.directory).is_dir();
        let beside: &Path = roots.iter().find(has_it).copied().unwrap_or(beside);
        let in_directory = |directory: &Path, name: &str| directory.join(format!("{name}.yaml"));
        let path = |name: &str| {
            let own = in_directory(&beside.join(&config.directory), name);
            let added = config
                .added
                .as_ref()
                .map(|added| in_directory(&self.cwd.join(added), name));
            added
                .filter(|added| !own.is_file() && added.is_file())
                .unwrap_or(own)
        };
        let read = |name: &str| project_files::config_text(&self.cwd, &path(name));
        let files = hydra_files(&config, words, &read).into_iter();
        files
            .filter_map(|file| {
                self.settings_file(&path(&file.name), SettingsNames::Hydra(file.prefix))
            })
            .collect()
    }

    fn settings_file(&self, path: &Path, names: SettingsNames) -> Option<NamedSettingsFile> {
        Some(NamedSettingsFile {
            text: project_files::config_text(&self.cwd, path)?,
            path: self.cwd.join(path).display().to_string(),
            names,
        })
    }
}

/// The module that a console script runs: as the project that is here declares it, or as the script itself imports it.
fn console_module(recognized: &Recognized<'_>, name: &str) -> Option<String> {
    let cwd = &recognized.command.cwd;
    let declaring = ["pyproject.toml", "setup.cfg", "setup.py"];
    let declared = declaring.iter().find_map(|file| {
        let text = project_files::config_text(cwd, Path::new(file))?;
        declared_module(&text, name)
    });
    declared.or_else(|| {
        let script = cwd.join(
            torch::interpreter_of(recognized.command)?
                .parent()?
                .join(name),
        );
        let text = project_files::config_text(cwd, &script)?;
        let mut lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("from "));
        let module = lines.find_map(|line| Some(line.split_once(" import ")?.0.to_string()))?;
        Some(module).filter(|_| text.starts_with("#!"))
    })
}

/// `name = "package.module:main"`, in whatever a project's console scripts are declared.
fn declared_module(text: &str, name: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let quotes = ['"', '\'', ' ', '\t'];
    text.lines().find_map(|line| {
        let (before, target) = line.split_once('=')?;
        let before = before.trim_end_matches(quotes).trim_start_matches(quotes);
        let script = before.rsplit(quotes).next()?;
        let (module, _) = target.trim_start_matches(quotes).split_once(':')?;
        let is_it = script == name && !module.is_empty() && module.chars().all(is_part);
        is_it.then(|| module.to_string())
    })
}

/// Where the packages of the command's Python are.
pub(crate) fn site_packages(command: &CommandLine) -> Option<PathBuf> {
    let interpreter = torch::interpreter_of(command)?;
    let torch = project_files::torch_directory(&interpreter)?;
    torch.parent().map(Path::to_path_buf)
}

/// What `python -m` runs of a module.
fn module_script(roots: &[PathBuf], parts: &[String]) -> Option<PathBuf> {
    let inside = module_file(roots, &[parts.to_vec(), vec!["__main__".into()]].concat());
    inside.or_else(|| module_file(roots, parts))
}

/// The file of a module, below the first of these that has it.
fn module_file(roots: &[PathBuf], parts: &[String]) -> Option<PathBuf> {
    let path = parts.iter().collect::<PathBuf>();
    roots.iter().find_map(|root| {
        let module = root.join(&path);
        let file = module.with_extension("py");
        let package = module.join("__init__.py");
        let found = [file, package].into_iter().find(|file| file.is_file());
        found.filter(|_| !parts.is_empty() || module.join("__init__.py").is_file())
    })
}
