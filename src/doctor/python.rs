//! Checks of the command's own Python: its torch, the allocator's settings, and whether the probe will reach it.

use super::{AskedPython, Check, Facts, Keeps, NvmlFacts, PlaceFacts, PythonFacts, TorchFacts};
use crate::recognize::alloc_conf::{
    self, AllocConf, CUDA, Conflict, GENERAL, HIP, Inherited, TorchVersion,
};

const INSTALL: &str = "install a build for your driver: https://pytorch.org/get-started";

pub(super) fn python(facts: &Facts) -> Vec<Check> {
    let is_given = facts.command.given.is_some();
    let (path, asked) = match &facts.command.python {
        PythonFacts::OutOfSight { by, .. } => {
            return vec![Check::warning(
                "python",
                format!("{by}: its Python cannot be seen from here"),
                "to check it, run oomph doctor where the Python runs",
            )];
        }
        PythonFacts::NotFound(word) if is_given => {
            return vec![Check::warning(
                "python",
                format!("no Python interpreter was found for {word}"),
                match word.as_str() {
                    "uv run" => {
                        "uv makes the environment at the first start: uv sync, then ask again"
                    }
                    "conda run" | "mamba run" | "micromamba run" => {
                        "is the environment's name right? `conda env list` has them"
                    }
                    _ => "is the command spelled right, and its environment active?",
                },
            )];
        }
        PythonFacts::NotFound(word) => {
            return vec![Check::warning(
                "python",
                format!("there is no {word} in PATH"),
                "activate an environment, or name the command: oomph doctor -- COMMAND",
            )];
        }
        PythonFacts::Found { path, asked } => (path.display(), asked),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(reason) => {
            return vec![Check::error(
                "python",
                format!("{path} does not run: {reason}"),
                "run it by hand, and repair or recreate its environment",
            )];
        }
    };
    let (major, minor, patch) = asked.version;
    let patch = patch.map_or(String::new(), |patch| format!(".{patch}"));
    let mut finding = format!("{major}.{minor}{patch}, {path}");
    if let Some(why) = &asked.not_run {
        finding.push_str(&format!(" (read from its files, not run: {why})"));
    }
    let python = match (major, minor) < (3, 8) {
        true => Check::warning(
            "python",
            finding,
            "the probe needs Python 3.8 or later; without it there is device memory only",
        ),
        false => Check::ok("python", finding),
    };
    vec![python, torch(facts, asked, is_given)]
}

fn torch(facts: &Facts, asked: &AskedPython, is_given: bool) -> Check {
    let subject = "torch";
    let Some(torch) = &asked.torch else {
        let advice = match is_given {
            true => "install it there, or start the command with the environment that has it",
            false => {
                "activate the environment that has it, or name the command: oomph doctor -- COMMAND"
            }
        };
        return Check::warning(subject, "not installed for this Python", advice);
    };
    let Some(version) = &torch.version else {
        return Check::warning(
            subject,
            format!("{}: its version cannot be read", torch.directory.display()),
            "is the installation complete? pip install --force-reinstall torch",
        );
    };
    let finding = format!("{version}, {}", built_for(torch));
    let has_gpu = matches!(&facts.nvml, NvmlFacts::Answered(driver) if !driver.gpus.is_empty());
    match (&torch.cuda, &torch.rocm) {
        (None, Some(_)) => Check::warning(
            subject,
            finding,
            "NVML does not see AMD GPUs: there is PyTorch's view only",
        ),
        (None, None) if has_gpu => Check::error(
            subject,
            format!("{finding}: it cannot use the GPU"),
            INSTALL,
        ),
        (None, None) => Check::warning(subject, finding, INSTALL),
        (Some(cuda), _) => match (major_of(cuda), newest_cuda(facts)) {
            // Within a major version newer CUDA runs on older drivers.
            (Some(built), Some(runs)) if built > runs => Check::error(
                subject,
                format!(
                    "{finding}, but the driver runs CUDA {runs} at most: torch will find no GPU"
                ),
                format!("update the driver, or install torch for CUDA {runs}"),
            ),
            _ => Check::ok(subject, finding),
        },
    }
}

fn built_for(torch: &TorchFacts) -> String {
    match (&torch.cuda, &torch.rocm) {
        (Some(cuda), _) => format!("built for CUDA {cuda}"),
        (None, Some(rocm)) => format!("built for ROCm {rocm}"),
        (None, None) => "built for CPUs only".into(),
    }
}

fn major_of(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

fn newest_cuda(facts: &Facts) -> Option<u32> {
    match &facts.nvml {
        NvmlFacts::Answered(driver) => driver.cuda.map(|(major, _)| major),
        NvmlFacts::Unavailable { .. } | NvmlFacts::Silent(_) => None,
    }
}

const ALLOCATOR: &str = "allocator";

pub(super) fn allocator(facts: &Facts) -> Vec<Check> {
    let torch = match &facts.command.python {
        PythonFacts::Found {
            asked: Ok(asked), ..
        } => {
            (asked.torch.as_ref()).and_then(|torch| TorchVersion::parse(torch.version.as_deref()?))
        }
        PythonFacts::Found { .. } | PythonFacts::NotFound(_) | PythonFacts::OutOfSight { .. } => {
            None
        }
    };
    let inherited = Inherited {
        cuda: facts.variable(CUDA),
        hip: facts.variable(HIP),
        general: facts.variable(GENERAL),
    };
    let set: Vec<&str> = [CUDA, HIP, GENERAL]
        .into_iter()
        .filter(|name| facts.variable(name).is_some())
        .collect();
    if set.is_empty() {
        return vec![Check::ok(
            ALLOCATOR,
            "PyTorch's defaults: no variable is set",
        )];
    }
    let unreadable: Vec<Check> = set
        .iter()
        .filter_map(|name| {
            let error = AllocConf::parse(facts.variable(name)?).err()?;
            Some(Check::error(
                ALLOCATOR,
                format!("{name} cannot be read: {error}"),
                "mend it: the training ends at its first use of the GPU",
            ))
        })
        .collect();
    if !unreadable.is_empty() {
        return unreadable;
    }
    let (source, conf) = match alloc_conf::in_force(inherited, torch) {
        Ok(in_force) => in_force,
        // Which one counts depends on torch's version.
        Err(reason) => {
            let advice = "name the command, so that its torch is known: oomph doctor -- COMMAND";
            return vec![Check::warning(ALLOCATOR, reason, advice)];
        }
    };
    let mut checks = Vec::new();
    for name in set.iter().filter(|name| Some(**name) != source) {
        let read = match source {
            Some(read) => format!("this torch reads {read} instead"),
            None => "this torch does not read it".into(),
        };
        checks.push(Check::warning(
            ALLOCATOR,
            format!("{name} is set, and has no effect: {read}"),
            format!("set {CUDA}, which every version reads, and unset {name}"),
        ));
    }
    for (key, value) in conf.settings() {
        checks.push(match alloc_conf::meaning(key, value, torch) {
            Ok(meaning) if key == "backend" && value != "native" => Check::warning(
                ALLOCATOR,
                format!("{key}:{value}: {meaning}"),
                "it has no statistics that oomph could show: device memory only. Remove it to see the curve",
            ),
            Ok(meaning) => Check::ok(ALLOCATOR, format!("{key}:{value}: {meaning}")),
            Err(reason) => Check::error(
                ALLOCATOR,
                reason,
                "mend or remove it: the training ends at its first use of the GPU",
            ),
        });
    }
    checks.extend(
        alloc_conf::conflict(&conf, torch).map(|conflict| match conflict {
            Conflict::Fails(words) => Check::error(ALLOCATOR, words, "remove one of them"),
            Conflict::Hinders(words) => Check::warning(ALLOCATOR, words, "remove one of them"),
        }),
    );
    checks
}

const PROBE: &str = "probe";

/// What follows where it does not.
const OTHERWISE: &str =
    "without the probe there is device memory only, no allocated/reserved curve";

pub(super) fn probe(facts: &Facts) -> Option<Check> {
    let kept_out = |finding: &str, advice: &str| {
        Some(Check::warning(
            PROBE,
            format!("it will not be loaded: {finding}"),
            format!("{advice}; {OTHERWISE}"),
        ))
    };
    if facts.runtime.iter().all(|place| place.problem.is_some()) {
        return kept_out("there is no directory for its files", "see `sockets` below");
    }
    let asked = match &facts.command.python {
        PythonFacts::OutOfSight { by, keeps } => {
            return match keeps {
                Keeps::Nothing => kept_out(
                    &format!("{by}, which does not pass the environment or the files on"),
                    "put oomph inside, in front of python",
                ),
                Keeps::Environment => Some(Check::warning(
                    PROBE,
                    format!(
                        "{by}: it will be loaded if the container has {}",
                        place(facts)
                    ),
                    format!(
                        "bind that directory, or put oomph inside, in front of python; {OTHERWISE}"
                    ),
                )),
                Keeps::Both => Some(Check::ok(
                    PROBE,
                    format!(
                        "{by}: will be loaded from {} into what that starts, if it keeps PYTHONPATH",
                        place(facts)
                    ),
                )),
            };
        }
        // Said of the interpreter already.
        PythonFacts::NotFound(_) | PythonFacts::Found { asked: Err(_), .. } => return None,
        PythonFacts::Found {
            asked: Ok(asked), ..
        } => asked,
    };
    if (asked.version.0, asked.version.1) < (3, 8) {
        return kept_out("this Python is older than 3.8", "use a later one");
    }
    if !asked.reads_pythonpath {
        return kept_out(
            "this Python ignores PYTHONPATH (-I, -E, or frozen)",
            "start it without those options",
        );
    }
    if !asked.imports_site {
        return kept_out(
            "this Python does not import site (-S)",
            "start it without -S",
        );
    }
    let place = place(facts);
    Some(Check::ok(
        PROBE,
        match asked.not_run {
            Some(_) => format!(
                "will be loaded from {place}, if this Python reads PYTHONPATH and imports site as others do"
            ),
            None => format!(
                "will be loaded from {place}: this Python reads PYTHONPATH and imports site"
            ),
        },
    ))
}

/// What the latest session says of errors of the probe's own.
pub(super) fn probe_errors(facts: &Facts) -> Option<Check> {
    let found = facts.probe_errors.as_ref()?;
    let (errors, them) = match found.count {
        1 => ("1 internal error".to_string(), "it"),
        n => (format!("{n} internal errors"), "them"),
    };
    Some(Check::warning(
        "probe errors",
        format!(
            "{errors} in the latest session, {}; the latest: {}",
            found.session, found.latest
        ),
        format!(
            "the training was not touched by {them}; with OOMPH_PROBE_DEBUG=FILE each process writes {them} to FILE.PID, for a report of the bug"
        ),
    ))
}

/// The directory of the probe's files: the first that can be used, and there is one.
fn place(facts: &Facts) -> String {
    let usable = facts.runtime.iter().find(|place| place.problem.is_none());
    usable.map_or(String::new(), |PlaceFacts { path, .. }| {
        path.display().to_string()
    })
}
