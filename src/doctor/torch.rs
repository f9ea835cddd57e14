//! The command's own Python, and the torch that is installed for it.

use super::{AskedPython, Check, Facts, NvmlFacts, PythonFacts, TorchFacts};

const INSTALL: &str = "install a build for your driver: https://pytorch.org/get-started";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
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
        NvmlFacts::Unavailable(_) | NvmlFacts::Silent(_) => None,
    }
}
