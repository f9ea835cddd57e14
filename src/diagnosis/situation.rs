//! What a program was doing when memory ran out, by the calls on its stack: those that the probe recorded, or else those of
//! the traceback in its output. The table is `situations.toml`.

use crate::event::SourceLine;
use crate::oom::TracedCall;
use crate::state::OomIncident;
use regex::Regex;
use serde::{Deserialize, Deserializer, de};
use std::sync::LazyLock;

/// What a row of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// Outputs of an evaluation are put together.
    Gathering,
    CheckpointLoading,
    OptimizerLoading,
    ModelLoading,
    CheckpointSaving,
    /// Adapters are added to the weights that they change.
    Merging,
    /// What a quantized model leaves unquantized becomes fp32.
    CastToFp32,
    /// A model is copied: an average of its weights, a reference.
    ModelCopy,
    /// A model is divided among ranks (FSDP, ZeRO 3), and is there as a whole before.
    Sharding,
    /// Losses are summed or listed with what they were computed from.
    KeptLosses,
    /// A worker of a DataLoader fetches data.
    LoaderWorker,
    /// An array is made as a whole, nothing is read into it yet.
    ArrayMade,
    /// Buffers for the gradients are made while the model is wrapped.
    GradientBuckets,
    /// Text is generated, token by token.
    Generation,
    OptimizerStep,
    /// DeepSpeed's ZeRO 3 gathers parameters for a module.
    ZeroGather,
    /// ZeRO reduces gradients, bucket by bucket.
    ZeroReduce,
    /// ZeRO 1 or 2 gathers the parameters that each rank has updated.
    ZeroUpdate,
    /// Logits, or a loss of them.
    Logits,
    /// Attention whose scores are a matrix in memory.
    AttentionScores,
    /// torch's own attention, whose kernel is chosen by its inputs.
    FusedAttention,
    Autotuning,
    GraphCapture,
    /// An inference engine records its graphs.
    EngineCapture,
    /// A pipeline that makes images or videos.
    Pipeline,
    /// A collective operation, or what sets them up.
    Communicator,
    /// An inference engine takes memory again that it had given back while it slept.
    EngineWakes,
    /// An inference engine, such as vLLM.
    Engine,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SituationRow {
    situation: Situation,
    #[serde(default)]
    function: Vec<String>,
    #[serde(default)]
    file: Vec<String>,
    #[serde(default)]
    not_file: Vec<String>,
    #[serde(default, deserialize_with = "expression")]
    code: Option<Regex>,
    #[serde(default, deserialize_with = "expression")]
    within: Option<Regex>,
    #[serde(default)]
    leaf: bool,
    #[serde(default)]
    directly: bool,
    #[serde(default)]
    beside_models: bool,
    #[serde(default)]
    without: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SituationTable {
    situation: Vec<SituationRow>,
}

static TABLE: LazyLock<SituationTable> = LazyLock::new(|| {
    toml::from_str(include_str!("situations.toml")).expect("situations.toml is valid")
});

/// Where Python keeps its own modules: `/usr/lib/python3.12/copy.py`, `/opt/conda/lib/python3.13t/`, `python311.zip`.
static STANDARD_LIBRARY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"/lib(64)?/python3\.\d+t?/|/python3\d+\.zip/").expect("the expression is valid")
});

fn expression<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(from)?;
    Regex::new(&text).map(Some).map_err(de::Error::custom)
}

/// A row of the table, for somebody who reads about it.
#[derive(Debug, Clone, Copy)]
pub struct RecognizedCalls {
    pub situation: Situation,
    /// Names of functions; where there are none, any.
    pub functions: &'static [String],
    /// Parts of their files' paths; where there are none, any.
    pub files: &'static [String],
    /// An expression for the line of source.
    pub code: Option<&'static str>,
}

/// Every row of the table, in its order.
pub fn recognized_calls() -> impl Iterator<Item = RecognizedCalls> {
    TABLE.situation.iter().map(|row| RecognizedCalls {
        situation: row.situation,
        functions: &row.function,
        files: &row.file,
        code: row.code.as_ref().map(Regex::as_str),
    })
}

/// A call on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StackCall<'a> {
    pub file: &'a str,
    pub line: u32,
    /// Without its class.
    pub function: &'a str,
    /// Its line of source, where that is known.
    pub code: &'a str,
}

impl<'a> From<&'a SourceLine> for StackCall<'a> {
    fn from(line: &'a SourceLine) -> StackCall<'a> {
        StackCall {
            file: &line.file,
            line: line.line,
            function: last_part(&line.function),
            code: "",
        }
    }
}

impl<'a> From<&'a TracedCall> for StackCall<'a> {
    fn from(call: &'a TracedCall) -> StackCall<'a> {
        StackCall {
            file: &call.file,
            line: call.line,
            function: last_part(&call.function),
            code: &call.code,
        }
    }
}

/// `forward` of `Net.forward`.
fn last_part(function: &str) -> &str {
    function.rsplit('.').next().unwrap_or(function)
}

impl StackCall<'_> {
    /// `train.py:88`
    pub fn place(&self) -> String {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or_default();
        format!("{name}:{}", self.line)
    }

    /// `train.py:88 in train_step`
    pub fn shown(&self) -> String {
        format!("{} in {}", self.place(), self.function)
    }

    pub fn source(&self) -> SourceLine {
        SourceLine {
            file: self.file.to_string(),
            line: self.line,
            function: self.function.to_string(),
        }
    }

    /// Whether it is of torch, of the code that torch compiled, or of Python itself: they do what another call asks of them.
    fn is_torchs_or_pythons(&self) -> bool {
        let is_torchs = self.is_in("/torch/") || self.is_in("/torchinductor_");
        is_torchs || self.is_compiled() || self.file.starts_with('<') || self.is_pythons()
    }

    /// Whether the probe recorded it as a kernel of what was compiled, whose function is what it makes.
    fn is_compiled(&self) -> bool {
        self.file == "compiled" || self.file.starts_with("compiled region")
    }

    /// `train.py:88 train_step`
    fn path(&self) -> String {
        format!("{} {}", self.place(), self.function)
    }

    /// Whether it calls a module, which runs its forward pass.
    pub fn calls_a_module(&self) -> bool {
        // Until 1.8 it was the operator itself.
        let calls = ["_call_impl", "_wrapped_call_impl", "__call__"].contains(&self.function);
        calls && self.is_in("torch/nn/modules/module.py")
    }

    /// Whether it runs a backward pass.
    pub fn runs_backward(&self) -> bool {
        let backward = ["backward", "_engine_run_backward"].contains(&self.function);
        backward && (self.is_in("torch/_tensor.py") || self.is_in("torch/autograd/"))
    }

    /// Whether it is of a notebook's cell.
    pub fn is_of_a_notebook(&self) -> bool {
        let cell = ["Cell In[", "<ipython-input-", "Input In ["];
        cell.iter().any(|begin| self.file.starts_with(begin)) || self.is_in("/ipykernel_")
    }

    /// Whether it moves or converts a module's parameters.
    pub fn moves_a_module(&self) -> bool {
        let moves = ["_apply", "convert"].contains(&self.function);
        moves && self.is_in("torch/nn/modules/module.py")
    }

    /// Whether its file is of the standard library.
    fn is_pythons(&self) -> bool {
        let path = self.file.replace('\\', "/");
        // On Windows it lies in `Lib`, beside python.exe.
        let is_windows = self.file.contains('\\');
        let within = STANDARD_LIBRARY.is_match(&path) || (is_windows && path.contains("/Lib/"));
        within && !self.is_installed()
    }

    fn is_installed(&self) -> bool {
        self.is_in("site-packages/") || self.is_in("dist-packages/")
    }

    /// Whether it is a library's, of which nobody changes the source.
    pub fn is_librarys(&self) -> bool {
        self.is_torchs_or_pythons() || self.is_installed()
    }

    fn is_in(&self, part: &str) -> bool {
        match self.file.contains('\\') {
            true => self.file.replace('\\', "/").contains(part),
            false => self.file.contains(part),
        }
    }
}

/// Where the memory was requested that there was none of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPlace {
    /// The program's own innermost call: `train.py:88 train_step`.
    pub own: String,
    /// What it called: `elu`, or what a compiled kernel makes: `[logits]`.
    pub called: Option<String>,
}

impl RequestPlace {
    pub fn path(&self, arrow: &str) -> String {
        match &self.called {
            Some(called) => format!("{} {arrow} {called}", self.own),
            None => self.own.clone(),
        }
    }
}

/// The calls on the stack of an OOM, innermost first; empty if they are not known.
#[derive(Debug, Default)]
pub(super) struct CallStack<'a> {
    calls: Vec<StackCall<'a>>,
}

impl<'a> CallStack<'a> {
    pub fn new(oom: &'a OomIncident) -> CallStack<'a> {
        let printed = oom.report.as_ref().map_or(&[][..], |report| &report.stack);
        let recorded = oom.record.as_ref().map_or(&[][..], |record| &record.stack);
        // A printed one has the source; but in a backward pass only the recorded one says what runs.
        let calls = match recorded.is_empty() {
            true => printed.iter().map(StackCall::from).collect(),
            false => with_source(recorded.iter().map(StackCall::from).collect(), printed),
        };
        CallStack { calls }
    }

    /// Calls that are known by their lines alone, innermost first.
    pub fn of_lines(lines: impl Iterator<Item = &'a SourceLine>) -> CallStack<'a> {
        CallStack {
            calls: lines.map(StackCall::from).collect(),
        }
    }

    /// All of them.
    pub fn calls(&self) -> impl Iterator<Item = &StackCall<'a>> {
        self.calls.iter()
    }

    /// The call that shows a situation.
    pub fn doing(&self, situation: Situation) -> Option<StackCall<'a>> {
        let rows = TABLE.situation.iter();
        rows.filter(|row| row.situation == situation)
            .find_map(|row| self.matched(row))
    }

    /// Whether one of the calls is of such a file.
    pub fn is_through(&self, part: &str) -> bool {
        self.calls.iter().any(|call| call.is_in(part))
    }

    /// Whether a function of this name runs inside of a module's call.
    pub fn is_in_a_module(&self, function: &str) -> bool {
        let of_it = |call: &StackCall<'_>| call.function == last_part(function);
        let of_torch = |call: &StackCall<'_>| call.function == "_call_impl";
        let inner = self.calls.iter().position(of_it);
        inner.is_some_and(|at| self.calls[at + 1..].iter().any(of_torch))
    }

    /// The program's own innermost call.
    pub fn own(&self) -> Option<StackCall<'a>> {
        self.calls.iter().find(|call| !call.is_librarys()).copied()
    }

    /// What asked for the memory: the program's own innermost call, and what it called that allocates, where that says more: a
    /// kernel of what was compiled, or a library's function, but no backward pass, in which anything may have.
    pub fn asking(&self) -> Option<RequestPlace> {
        let at = self.calls.iter().position(|call| !call.is_librarys())?;
        let (inside, own) = (&self.calls[..at], &self.calls[at]);
        let kernel = inside.iter().find(|call| call.is_compiled());
        let called = match kernel {
            Some(kernel) => Some(few_names(kernel.function)),
            None => inside
                .first()
                .filter(|_| !inside.iter().any(StackCall::runs_backward))
                .map(|call| call.function.to_string()),
        };
        Some(RequestPlace {
            own: own.path(),
            called: called.filter(|words| !words.trim().is_empty()),
        })
    }

    fn matched(&self, row: &SituationRow) -> Option<StackCall<'a>> {
        let mut calls = self.calls.iter().enumerate();
        let (at, call) = match row.leaf {
            true => calls
                .find(|(_, call)| !call.is_torchs_or_pythons())
                .filter(|(_, call)| row.is_of(call))?,
            false => calls.find(|(_, call)| row.is_of(call))?,
        };
        let (inside, around) = (&self.calls[..at], &self.calls[at + 1..]);
        let is_named =
            |outer: &StackCall<'_>| row.without.iter().any(|name| name == outer.function);
        let is_ruled_out = (row.directly && inside.iter().any(runs_a_model))
            || (row.beside_models && around.iter().any(runs_a_model))
            || around.iter().any(is_named);
        let is_within = row.within.as_ref().is_none_or(|names| {
            let mut all = around.iter().chain([call]);
            all.any(|outer| names.is_match(outer.function))
        });
        (is_within && !is_ruled_out).then_some(*call)
    }
}

impl SituationRow {
    fn is_of(&self, call: &StackCall<'_>) -> bool {
        let named =
            self.function.is_empty() || self.function.iter().any(|name| name == call.function);
        let placed = self.file.is_empty() || self.file.iter().any(|part| call.is_in(part));
        let only_by_code = self.function.is_empty() && self.file.is_empty();
        let written = match (&self.code, call.code) {
            (None, _) => true,
            (Some(_), "") => !only_by_code,
            (Some(code), text) => code.is_match(text),
        };
        let excluded = self.not_file.iter().any(|part| call.is_in(part));
        named && placed && written && !excluded
    }
}

/// Whether a call runs a model's forward pass or a backward pass.
fn runs_a_model(call: &StackCall<'_>) -> bool {
    call.calls_a_module() || call.runs_backward()
}

/// Of the names of what a kernel makes, `[logits, view, loss]`, two: the last ones are what is made, where they are known.
fn few_names(made: &str) -> String {
    const NAMES: usize = 2;
    let list = made.trim_matches(['[', ']']);
    let names: Vec<&str> = list.split(", ").filter(|name| *name != "…").collect();
    // An earlier probe has told of the first ones alone.
    let is_cut = list.ends_with('…');
    match (names.len() > NAMES, is_cut) {
        (false, _) => made.to_string(),
        (true, true) => format!("[{}, …]", names[..NAMES].join(", ")),
        (true, false) => format!("[…, {}]", names[names.len() - NAMES..].join(", ")),
    }
}

/// The recorded calls with the source that was printed of them.
fn with_source<'a>(recorded: Vec<StackCall<'a>>, printed: &'a [TracedCall]) -> Vec<StackCall<'a>> {
    let source = |call: &StackCall<'a>| {
        let same = |one: &&TracedCall| one.line == call.line && one.file == call.file;
        printed
            .iter()
            .find(same)
            .map_or("", |one| one.code.as_str())
    };
    recorded
        .into_iter()
        .map(|call| StackCall {
            code: source(&call),
            ..call
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oom::OomReport;
    use crate::units::Moment;

    fn doing(calls: &[(&str, &str, &str)]) -> Vec<Situation> {
        let stack = calls.iter().map(|(file, function, code)| TracedCall {
            file: (*file).into(),
            line: 7,
            function: (*function).into(),
            code: (*code).into(),
        });
        let report = OomReport {
            stack: stack.collect(),
            ..OomReport::default()
        };
        let incident = OomIncident::of_report(Moment::ZERO, report);
        let stack = CallStack::new(&incident);
        let mut found: Vec<Situation> = Vec::new();
        for row in &TABLE.situation {
            if !found.contains(&row.situation) && stack.doing(row.situation).is_some() {
                found.push(row.situation);
            }
        }
        found
    }

    const LIB: &str = "/v/lib/python3.12/site-packages/";

    fn lib(path: &str) -> String {
        format!("{LIB}{path}")
    }

    #[test]
    fn an_optimizer_that_calls_a_closure_is_no_optimizers_step() {
        let step = lib("torch/optim/adamw.py");
        let module = lib("torch/nn/modules/module.py");
        assert_eq!(
            doing(&[(&step, "_init_group", ""), (&step, "step", "")]),
            [Situation::OptimizerStep]
        );
        let inside = [
            ("/srv/net.py", "forward", ""),
            (&module, "_call_impl", ""),
            (&step, "step", ""),
        ];
        assert!(doing(&inside).is_empty());
        let scheduler = lib("torch/optim/lr_scheduler.py");
        assert!(doing(&[("/srv/net.py", "load", ""), (&scheduler, "get_lr", "")]).is_empty());
    }

    #[test]
    fn a_model_that_is_loaded_is_no_checkpoint() {
        let (serialization, modeling) = (
            lib("torch/serialization.py"),
            lib("transformers/modeling_utils.py"),
        );
        let load = [
            (serialization.as_str(), "_load", ""),
            ("/srv/fit.py", "main", "torch.load(path)"),
        ];
        assert_eq!(doing(&load), [Situation::CheckpointLoading]);
        let model = [
            (serialization.as_str(), "_load", ""),
            (modeling.as_str(), "from_pretrained", ""),
        ];
        assert_eq!(doing(&model), [Situation::ModelLoading]);
    }

    #[test]
    fn pythons_own_files_are_nobodys_code() {
        let (storage, tensor) = (lib("torch/storage.py"), lib("torch/_tensor.py"));
        let saved = [
            (
                storage.as_str(),
                "clone",
                "return type(self)(self.nbytes(), device=self.device).copy_(self)",
            ),
            (
                storage.as_str(),
                "__deepcopy__",
                "new_storage = self.clone()",
            ),
            (
                "/usr/lib/python3.12/copy.py",
                "deepcopy",
                "y = copier(memo)",
            ),
            (
                tensor.as_str(),
                "__deepcopy__",
                "new_storage = self._typed_storage()._deepcopy(memo)",
            ),
            (
                "/usr/lib/python3.12/copy.py",
                "deepcopy",
                "y = copier(memo)",
            ),
            (
                "/usr/lib/python3.12/copy.py",
                "_reconstruct",
                "value = deepcopy(value, memo)",
            ),
            (
                "/srv/fit.py",
                "keep_best",
                "best = copy.deepcopy(model.state_dict())",
            ),
        ];
        assert_eq!(doing(&saved), [Situation::CheckpointSaving]);
        let is_librarys = |file| {
            StackCall {
                file,
                line: 1,
                function: "f",
                code: "",
            }
            .is_librarys()
        };
        for file in [
            "/usr/lib/python3.12/copy.py",
            "/opt/conda/lib/python3.13t/contextlib.py",
            "/usr/lib64/python3.9/copy.py",
            "/app/python311.zip/copy.py",
            r"C:\Python312\Lib\copy.py",
            r"C:\Python312\Lib\site-packages\timm\models.py",
            "<frozen importlib._bootstrap>",
            "/usr/lib/python3/dist-packages/yaml.py",
            "/tmp/torchinductor_me/vl/cvl3fj.py",
        ] {
            assert!(is_librarys(file), "{file}");
        }
        for file in [
            "/srv/lib/train.py",
            "/home/me/python3.12/train.py",
            r"C:\work\library\train.py",
        ] {
            assert!(!is_librarys(file), "{file}");
        }
    }

    #[test]
    fn a_list_is_an_evaluations_only_inside_of_one() {
        let cat = ("/srv/fit.py", "evaluate", "logits = torch.cat(outputs)");
        assert_eq!(doing(&[cat]), [Situation::Gathering]);
        let training = ("/srv/fit.py", "train", "x = torch.cat(parts)");
        assert!(doing(&[training]).is_empty());
        // A model that is called in an evaluation may put tensors together as well.
        let module = lib("torch/nn/modules/module.py");
        let inside = ("/srv/net.py", "forward", "return torch.cat(parts)");
        assert!(
            doing(&[
                inside,
                (&module, "_call_impl", ""),
                ("/srv/fit.py", "evaluate", "")
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_path_of_windows_is_read_as_well() {
        let path = r"C:\v\Lib\site-packages\torch\nn\functional.py";
        assert_eq!(doing(&[(path, "cross_entropy", "")]), [Situation::Logits]);
    }

    #[test]
    fn scores_of_an_attention_by_their_source() {
        for code in [
            "att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))",
            "att = F.softmax(att, dim=-1)",
            "dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale",
            "attn = attn.softmax(dim=-1)",
            "attn = q @ k.mT",
        ] {
            assert_eq!(
                doing(&[("/srv/net.py", "forward", code)]),
                [Situation::AttentionScores],
                "{code}"
            );
        }
        for code in [
            "x = self.attn(self.norm(x))",
            "y = x @ self.weight",
            "probs = F.softmax(x, dim=-1)",
        ] {
            assert!(
                doing(&[("/srv/net.py", "forward", code)]).is_empty(),
                "{code}"
            );
        }
    }
}
