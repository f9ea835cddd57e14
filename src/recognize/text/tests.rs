//! Small programs of each kind, and what is found in them before anything ran.

mod hand_made;
mod ownership;

use super::*;
use crate::command::{CommandLine, Word};
use crate::recognize::{LaunchEnvironment, Recognized};

pub(super) fn command(line: &str) -> CommandLine {
    CommandLine {
        argv: line.split(' ').map(Word::from).collect(),
        ..CommandLine::default()
    }
}

pub(super) fn source(path: &str, text: &str, role: SourceRole) -> ProgramSource {
    ProgramSource {
        path: path.into(),
        text: text.into(),
        role,
    }
}

/// What is found: how sure, and each number with where it stands.
fn found(line: &str, sources: &[ProgramSource], settings: &[NamedSettingsFile]) -> String {
    let text = ProgramText::read(sources, settings);
    let command = command(line);
    let launch = LaunchEnvironment {
        text: Some(&text),
        ..LaunchEnvironment::default()
    };
    said(&Recognized::new(&command, &launch).batch_finding())
}

/// How sure, and each number with where it stands.
pub(super) fn said(finding: &BatchFinding) -> String {
    let spots: Vec<String> = (finding.candidates.iter())
        .map(|spot| format!("{} {} {}", spot.name, spot.value, spot.stands_at()))
        .collect();
    format!("{}: {}", finding.how_sure.words(), spots.join(", "))
}

#[test]
fn a_word_for_what_the_text_has_as_an_entry_of_a_dict_goes_before_it() {
    let text = "defaults = dict(lr=1e-4, global_batch_size=2048, batch_size=-1)\nfor k, v in defaults.items():\n    p.add_argument(f'--{k}', default=v)\n";
    assert_eq!(
        of_script("python a.py --global_batch_size 4096", text),
        "sure: --global_batch_size 4096 typed"
    );
    assert_eq!(
        of_script("python a.py --lr 0.1", text),
        "sure: global_batch_size 2048 constant at a.py:1"
    );
}

#[test]
fn a_batch_that_a_model_is_profiled_with_is_not_the_trainings() {
    let profiled = "def model_profiling(model, size, batch=1):\n    return model(torch.rand(batch, 3, size, size))\nmodel_profiling(net, 224)\n";
    assert_eq!(of_script("python a.py", profiled), "nothing found: ");
    assert_eq!(
        of_script("python a.py", &format!("{profiled}BATCH_SIZE = 64\n")),
        "sure: BATCH_SIZE 64 constant at a.py:4"
    );
}

#[test]
fn a_sampler_that_a_loader_draws_its_batches_from_has_the_batch() {
    let script = "sampler = AspectRatioSampler(train, batch_size=2, drop_last=False)\nloader = DataLoader(train, batch_sampler=sampler)\nsampler_val = AspectRatioSampler(val, batch_size=1)\nloader_val = DataLoader(val, batch_sampler=sampler_val)\n";
    assert_eq!(
        of_script("python a.py", script),
        "sure: batch_size 2 constant at a.py:1"
    );
    // Nothing draws from it: it makes images.
    assert_eq!(
        of_script(
            "python a.py",
            "images = ImageSampler(model, batch_size=2)\n"
        ),
        "nothing found: "
    );
}

#[test]
fn what_is_computed_of_numbers_alone_can_be_edited() {
    for (text, wanted) in [
        ("BATCH_SIZE = 2 ** 7\n", Some(128)),
        ("BATCH_SIZE = 4 * 32 + 1\n", Some(129)),
        ("BATCH_SIZE = 1_024\n", Some(1024)),
        ("BATCH_SIZE = (2 + 2) * 16\n", None),
    ] {
        let sources = [source("/p/a.py", text, SourceRole::Script)];
        let text = ProgramText::read(&sources, &[]);
        let command = command("python a.py");
        let launch = LaunchEnvironment {
            text: Some(&text),
            ..LaunchEnvironment::default()
        };
        let recognized = Recognized::new(&command, &launch);
        let found = recognized.batch_knobs();
        assert_eq!(found.first().map(|knob| knob.value), wanted);
    }
}

#[test]
fn an_argument_beside_a_file_whose_path_is_made_is_not_sure() {
    let script = "p.add_argument('--batch-size', default=64, type=int)\n";
    let sources = |more: &str| {
        [source(
            "/p/a.py",
            &format!("{script}{more}"),
            SourceRole::Script,
        )]
    };
    let settings = [NamedSettingsFile {
        path: "/p/configs/cifar.json".into(),
        text: "{\"train\": {\"batch_size\": 128}}\n".into(),
        names: SettingsNames::Made,
    }];
    assert_eq!(
        found("python a.py", &sources(""), &settings),
        "not sure: --batch-size 64 default at a.py:1, train.batch_size 128 config at cifar.json:1"
    );
    assert_eq!(
        found("python a.py --batch-size 32", &sources(""), &settings),
        "sure: --batch-size 32 typed"
    );
    // What a file says becomes the argument's default, and the command's word goes before it.
    assert_eq!(
        found(
            "python a.py",
            &sources("p.set_defaults(**json.load(f))\n"),
            &settings
        ),
        "sure: --batch-size 64 default at a.py:1"
    );
}

#[test]
fn a_text_may_ask_that_something_divides_by_the_batch() {
    for (text, wanted) in [
        ("assert self.K % batch_size == 0  # for simplicity\n", true),
        (
            "if (n % args.batch_size) != 0:\n    raise ValueError(n)\n",
            true,
        ),
        ("if i % batch_size == 0:\n    flush()\n", false),
        ("assert batch_size % world_size == 0\n", false),
        ("assert x % 8 == 0\n", false),
    ] {
        assert_eq!(asks_to_divide(text), wanted, "{text}");
    }
}

#[test]
fn of_two_files_of_one_config_the_last_one_that_has_a_setting_counts() {
    let hydra = |path: &str, text: &str, prefix: &str| NamedSettingsFile {
        path: path.into(),
        text: text.into(),
        names: SettingsNames::Hydra(prefix.into()),
    };
    let settings = [
        hydra("/p/loader/default.yaml", "batch_size: 50\n", "loader."),
        hydra("/p/recipe/small.yaml", "loader:\n  batch_size: 8\n", ""),
    ];
    assert_eq!(
        found(
            "python a.py",
            &[source("/p/a.py", "", SourceRole::Script)],
            &settings
        ),
        "sure: loader.batch_size 8 config at small.yaml:2"
    );
}

pub(super) fn of_script(line: &str, text: &str) -> String {
    found(line, &[source("/p/a.py", text, SourceRole::Script)], &[])
}

#[test]
fn each_way_of_declaring_a_number_is_read() {
    for (line, text, wanted) in [
        (
            "python a.py train",
            "\"\"\"\nUsage:\n    a.py train [options]\n\nOptions:\n    -h --help  show this.\n    -b N, --batch-size=<int>  batch size\n                              [default: 32]\n    --dropout=<float>  dropout [default: 0.3]\n\"\"\"\nargs = docopt(__doc__)\n",
            "sure: --batch-size 32 default at a.py:7",
        ),
        (
            "python a.py",
            "p.add_argument('-b', '--batch-size', default=64, type=int)\n",
            "sure: --batch-size 64 default at a.py:1",
        ),
        (
            "python a.py",
            "p.add_argument('--batchSz', type=int, default=64)\n",
            "sure: --batchSz 64 default at a.py:1",
        ),
        (
            "python a.py --batch-sz 16 --block-sz 16",
            "CONFIG = {'--batch-sz': {'type': int, 'default': 64}}\n",
            "sure: --batch-sz 16 typed",
        ),
        (
            "python a.py -b 8",
            "p.add_argument('-b', '--batch-size', default=64, type=int)\n",
            "sure: -b 8 typed",
        ),
        (
            "python a.py",
            "SIZE = 4 * 8\ngroup.add_argument(\n  '--bs', dest='batch_size',\n  default=SIZE)\n",
            "sure: --bs 32 default at a.py:3",
        ),
        (
            "python a.py",
            "@click.command()\n@click.option('--batch', help='Total batch size', default=512)\ndef main(batch): pass\n",
            "sure: --batch 512 default at a.py:2",
        ),
        // An option for one device's batch beside a total is what would be added.
        (
            "torchrun --nproc_per_node=4 a.py",
            "@click.option('--batch', help='Total batch size', type=click.IntRange(min=1), default=512)\n\
             @click.option('--batch-gpu', help='Limit batch size per GPU', type=click.IntRange(min=1))\n\
             def main(batch, batch_gpu): pass\n",
            "sure: --batch-gpu 128 not set, declared at a.py:2",
        ),
        (
            "python a.py --batch-size 96",
            "p.add_argument('--batch-size', type=int, default=64)\n\
             p.add_argument('--per-gpu', type=int, default=0)\n\
             each = args.per_gpu or args.batch_size // world_size\n",
            "sure: --per-gpu 96 not set, declared at a.py:2",
        ),
        // Nothing shows that the program divides it.
        (
            "python a.py",
            "p.add_argument('--batch-size', type=int, default=64)\n\
             p.add_argument('--per-gpu', type=int)\n",
            "sure: --batch-size 64 default at a.py:1",
        ),
        // Of two options either may be meant.
        (
            "python a.py",
            "p.add_argument('--batch-size', type=int, default=64, help='total batch size')\n\
             p.add_argument('--batch-gpu', type=int)\n\
             p.add_argument('--micro-batch-size', type=int)\n",
            "sure: --batch-size 64 default at a.py:1",
        ),
        (
            "python a.py",
            "loader = DataLoader(data, batch_size=128 // args.n_gpu, shuffle=True)\n",
            "sure: batch_size 128 constant at a.py:1",
        ),
        (
            "python a.py",
            "loader = DataLoader(data, batch_size=128 // n if n else 1)\n",
            "nothing found: ",
        ),
        (
            "python a.py",
            "import typer\napp = typer.Typer()\n@app.command()\ndef main(batch_size: int = typer.Option(16, help='x')): pass\n",
            "sure: --batch-size 16 default at a.py:4",
        ),
        (
            "python a.py",
            "flags.DEFINE_integer('batch_size', 128, 'batch size')\n",
            "sure: --batch_size 128 default at a.py:1",
        ),
        (
            "python a.py",
            "def train(base, batch_size: int = 128, micro_batch_size: int = 4): pass\nfire.Fire(train)\n",
            "sure: --micro_batch_size 4 default at a.py:1",
        ),
        (
            "python a.py",
            "@dataclass\nclass Args:\n    seed: int = 1\n    batch_size: int = 32\nargs = tyro.cli(Args)\n",
            "sure: --batch-size 32 default at a.py:4",
        ),
        (
            "python a.py",
            "@dataclass\nclass Data:\n    batch_size: int = field(default=8)\nparser = HfArgumentParser((Model, Data))\n",
            "sure: --batch_size 8 default at a.py:3",
        ),
        (
            "python a.py",
            "class Data:\n    batch_size: int = 64\nclass Config:\n    data: Data = Data()\ncs.store(name='config', node=Config)\n",
            "sure: data.batch_size 64 default at a.py:2",
        ),
        (
            "python a.py",
            "p.add_argument('--n_rand', type=int, default=32*32, help='batch size (rays)')\n",
            "likely: --n_rand 1024 default at a.py:1",
        ),
        (
            "python a.py",
            "batch_size = 64\n",
            "sure: batch_size 64 constant at a.py:1",
        ),
        (
            "python a.py",
            "config = {'lr': 3, 'batch_size': 16}\nEVAL_BATCH_SIZE = 32\n",
            "sure: batch_size 16 constant at a.py:1",
        ),
        (
            "python a.py",
            "train = DataLoader(trainset, batch_size=128)\ntest = DataLoader(testset, batch_size=100)\n",
            "sure: batch_size 128 constant at a.py:1",
        ),
        (
            "python a.py",
            "def evaluate(batch_size=50): pass\ndef sample(batch_size=32): pass\n\
             def fit(data, batch_size=100): pass\nfit(d)\nsample(batch_size=3)\n",
            "sure: batch_size 100 constant at a.py:3",
        ),
        (
            "python a.py",
            "total_batch_size = 524288\nB = 64  # micro batch size\nT = 1024  # length\n",
            "likely: B 64 constant at a.py:2",
        ),
        // A number in quotes, which the program makes an integer of.
        (
            "python a.py",
            "p.add_argument('--bs', default='512')\n",
            "sure: --bs 512 default at a.py:1",
        ),
        // The loader that is given what is not for training.
        (
            "python a.py",
            "tr = DataLoader(MNIST('d', train=True), batch_size=128)\nte = DataLoader(MNIST('d', train=False), batch_size=100)\n",
            "sure: batch_size 128 constant at a.py:1",
        ),
        (
            "python a.py",
            "one = load(path, split='train', batch_size=16)\ntwo = load(path, split='validation', batch_size=8)\n",
            "sure: batch_size 16 constant at a.py:1",
        ),
        (
            "python a.py",
            "# N is batch size; H is the width.\nN, H = 64, 1000\nM = 3\n",
            "likely: N 64 constant at a.py:2",
        ),
        // The stage that comes first.
        (
            "python a.py",
            "frozen_batch = 16\nwhole_batch = 8\nfreezes = True\nb = frozen_batch if freezes else whole_batch\n",
            "likely: frozen_batch 16 constant at a.py:1, whole_batch 8 constant at a.py:2",
        ),
        (
            "python generate.py",
            "batch_size = 8\nloss.backward()\n",
            "sure: batch_size 8 constant at a.py:1",
        ),
        (
            "python a.py",
            "f\"{x!r:>{w}} {'batch_size = 3'}\"\n'''\nbatch_size = 5\n'''\n# batch_size = 6\nbatch_size = 7\n",
            "sure: batch_size 7 constant at a.py:6",
        ),
    ] {
        assert_eq!(of_script(line, text), wanted, "{text}");
    }
}

#[test]
fn what_is_not_sure_or_not_there_is_said() {
    for (text, wanted) in [
        (
            "batch_size = 64\ntrain_bs = 32\n",
            "not sure: batch_size 64 constant at a.py:1, train_bs 32 constant at a.py:2",
        ),
        (
            "p.add_argument('--gail-batch-size', type=int, default=128)\n",
            "not sure: --gail-batch-size 128 default at a.py:1",
        ),
        // Without a default there is no number, whatever else is called so.
        (
            "@click.option('--batch', type=int)\ndef main(batch): pass\ndef loop(batch_size=4): pass\nloop()\n",
            "nothing found: ",
        ),
        // What was parsed is overwritten; what is computed from it is not.
        (
            "p.add_argument('--batch-size', type=int, default=4)\nargs.batch_size = args.envs * args.steps\n",
            "nothing found: ",
        ),
        (
            "p.add_argument('--batch-size', type=int, default=4)\na.total = a.batch_size\na.batch_size = a.total // ranks\n",
            "sure: --batch-size 4 default at a.py:1",
        ),
        // The fields of what a wrapped function takes.
        (
            "@dataclass\nclass C:\n    batch_size: int = 8\n    other: int = 3\n@draccus.wrap()\ndef train(cfg: C):\n    pass\n",
            "sure: --batch_size 8 default at a.py:3",
        ),
        // Which of the two it is depends on what is not in the text.
        (
            "one_batch = 16\ntwo_batch = 8\nb = one_batch if args.one else two_batch\n",
            "not sure: one_batch 16 constant at a.py:1, two_batch 8 constant at a.py:2",
        ),
        (
            "p.add_argument('--testsize', type=int, default=100, help='the batch size of users for testing')\n",
            "nothing found: ",
        ),
        ("epochs = 64\n", "nothing found: "),
        ("def broken(:\n  batch_size = (\n", "nothing found: "),
    ] {
        assert_eq!(of_script("python a.py", text), wanted, "{text}");
    }
}

#[test]
fn what_another_file_declares_counts_where_the_program_gets_to_it() {
    let script = |text: &str| source("/p/a.py", text, SourceRole::Script);
    let imported = |text: &str| source("/p/b.py", text, SourceRole::Imported);
    let declares = "def options():\n    p.add_argument('--batch-size', type=int, default=64)\n";
    let sure = "sure: --batch-size 64 default at b.py:2";
    let nothing = "nothing found: ";
    for (one, two, wanted) in [
        ("from b import options\nargs = options()\n", declares, sure),
        ("from b import other\n", declares, nothing),
        // A function of the same name of its own.
        (
            "from b import x\ndef options(): pass\noptions()\n",
            declares,
            nothing,
        ),
        (
            "import b\n",
            "if __name__ == '__main__':\n    p.add_argument('--batch-size', type=int, default=64)\n",
            nothing,
        ),
        (
            "import b\n",
            "loader = DataLoader(dataset=d, batch_size=1, shuffle=s)\n",
            "not sure: batch_size 1 constant at b.py:1",
        ),
        (
            "import b\n",
            "def config():\n    c = Node()\n    c.train.batch_size = 64\n    c.eval.batch_size = 8\n",
            "sure: c.train.batch_size 64 constant at b.py:3",
        ),
    ] {
        let sources = [script(one), imported(two)];
        assert_eq!(found("python a.py", &sources, &[]), wanted, "{one}\n{two}");
    }
}

#[test]
fn files_of_settings_that_the_program_names_are_read() {
    let parser = "p.add_argument('--config', '-c', default='conf/vae.yaml')\np.add_argument('--out', default='o.json')\n";
    assert_eq!(
        default_files(parser),
        [(
            vec!["--config".to_string(), "-c".into()],
            "conf/vae.yaml".into()
        )]
    );
    let part = |option: &str| PathPart::Option(option.into());
    let written = |text: &str| PathPart::Written(text.into());
    assert_eq!(
        made_files(
            "f = open(args.work_path + '/config.yaml')\ng = os.path.join('conf', a.b.config)\nh = x + '/y.txt'\n"
        ),
        [
            vec![written("conf"), written("/"), part("config")],
            vec![part("work_path"), written("/config.yaml")],
        ]
    );
    assert_eq!(
        made_files(
            "p = os.path.join(args.config_dir, args.dataset + '.json')\nq = os.path.join(a.root, 'x.jpg')\n"
        ),
        [vec![
            part("config_dir"),
            written("/"),
            part("dataset"),
            written(".json")
        ]]
    );
    assert_eq!(
        made_files(
            "path = 'config/' + args.config\nq = 'runs/' + args.a.name + '.yaml'\nr = 'x/' + name\n"
        ),
        [
            vec![written("config/"), part("config")],
            vec![written("runs/"), part("name"), written(".yaml")],
        ]
    );
    assert_eq!(
        default_words(
            "p.add_argument('--config-dir', default='./configs', type=str)\np.add_argument('--n', default=3)\n"
        ),
        [("config_dir".to_string(), "./configs".to_string())]
    );
    assert_eq!(
        written_files(
            "c = yaml.load(open('./config.yaml'), Loader=l)\nhook('other.json')\nopen('log.json', 'w')\n\
             open('more.json', mode='a')\np.add_argument('--c', default='x.yaml')\nprint('notes.txt')\n"
        ),
        ["./config.yaml", "other.json"]
    );
    let file = |names| NamedSettingsFile {
        path: "/p/conf/mnist.yaml".into(),
        text: "# data\nbatch_size: 128\nval_batch_size: 8\n".into(),
        names,
    };
    let sources = [source("/p/a.py", "", SourceRole::Script)];
    assert_eq!(
        found(
            "python a.py",
            &sources,
            &[file(SettingsNames::Hydra("data.".into()))]
        ),
        "sure: data.batch_size 128 config at mnist.yaml:2"
    );
    assert_eq!(
        found("python a.py", &sources, &[file(SettingsNames::InFile)]),
        "sure: batch_size 128 config at mnist.yaml:2"
    );
    // The training's of several.
    let of_each = NamedSettingsFile {
        text: "batch_size:\n  train: 512\n  val: 256\n".into(),
        ..file(SettingsNames::Hydra("data.".into()))
    };
    assert_eq!(
        found("python a.py", &sources, &[of_each]),
        "sure: data.batch_size.train 512 config at mnist.yaml:2"
    );
}

#[test]
fn a_script_that_hydra_configures_is_not_another_projects_of_its_name() {
    let named = |line: &str| {
        let command = command(line);
        let launch = LaunchEnvironment::default();
        let recognized = Recognized::new(&command, &launch);
        recognized.known.is_some()
    };
    assert!(named(
        "python main_pretrain.py --model mae_vit_large_patch16"
    ));
    assert!(!named(
        "python main_pretrain.py --config-path conf --config-name a.yaml"
    ));
}

#[test]
fn where_it_is_not_sure_each_number_has_a_name_of_its_own() {
    let script = "def first(batch_size=64):\n    pass\ndef second(batch_size=32):\n    pass\nfirst()\nsecond()\n";
    let sources = [source("/p/a.py", script, SourceRole::Script)];
    let text = ProgramText::read(&sources, &[]);
    let command = command("python a.py");
    let launch = LaunchEnvironment {
        text: Some(&text),
        ..LaunchEnvironment::default()
    };
    let recognized = Recognized::new(&command, &launch);
    let args: Vec<String> = (recognized.batch_finding().candidates.into_iter())
        .filter_map(|spot| spot.arg)
        .collect();
    assert_eq!(args, ["a.py:1", "a.py:3"]);
    for (arg, value) in args.iter().zip([64, 32]) {
        let found = recognized.named_in_text(arg);
        assert_eq!(
            found.iter().map(|knob| knob.value).collect::<Vec<_>>(),
            [value]
        );
    }
    let possible = recognized.possible_batches();
    let evidence: Vec<&str> = possible.iter().map(|one| one.evidence.as_str()).collect();
    assert_eq!(
        evidence,
        ["64, constant at a.py:1", "32, constant at a.py:3"]
    );
}

#[test]
fn the_size_of_a_micro_batch_that_is_added_beside_a_total_is_no_default() {
    let line = "python scripts/image_train.py --data_dir images --batch_size 128";
    assert_eq!(
        found(line, &[], &[]),
        "sure: --microbatch 128 not set, declared"
    );
}

#[test]
fn a_total_stays_and_accumulation_moves_along() {
    let edited = |line: &str, text: &str| {
        let sources = [source("/p/a.py", text, SourceRole::Script)];
        let text = ProgramText::read(&sources, &[]);
        let command = command(line);
        let launch = LaunchEnvironment {
            text: Some(&text),
            ..LaunchEnvironment::default()
        };
        let source = Recognized::new(&command, &launch).batch_source()?;
        let steps: Vec<u64> = source.steps.iter().map(|knob| knob.value).collect();
        Ok::<_, String>((source.at_once, steps, source.bounds.divisor_of))
    };
    let two =
        "p.add_argument('--batch-size', default=64)\np.add_argument('--accum-iter', default=2)\n";
    assert_eq!(edited("python a.py", two), Ok((64, vec![2], None)));
    assert_eq!(
        edited("python a.py --batch-size 8", two),
        Ok((8, vec![2], None))
    );
    let total = "total_batch_size = 512\nbatch_size = 64\n";
    assert_eq!(edited("python a.py", total), Ok((64, vec![], Some(512))));
    let divides = "p.add_argument('--train_batch_size', default=64)\np.add_argument('--accum_steps', default=2)\n\
                   micro = args.train_batch_size // args.accum_steps\n";
    for (command, at_once, steps) in [
        ("python a.py", 32, 2),
        ("python a.py --train_batch_size 48", 24, 2),
        ("python a.py --train_batch_size 48 --accum_steps 3", 16, 3),
    ] {
        assert_eq!(edited(command, divides), Ok((at_once, vec![steps], None)));
    }
}

#[test]
fn a_parser_further_away_counts_where_there_is_none_nearer() {
    let far = "def parse():\n    p.add_argument('--bpr_batch', default=2048, type=int, help='the batch size of training')\n";
    let sources = |near: &str| {
        [
            source("/p/a.py", near, SourceRole::Script),
            source("/p/world.py", "args = parse()\n", SourceRole::Imported),
            source("/p/options.py", far, SourceRole::Distant),
        ]
    };
    assert_eq!(
        found("python a.py", &sources("import world\n"), &[]),
        "likely: --bpr_batch 2048 default at options.py:2"
    );
    let own = "import world\np.add_argument('--epochs', type=int, default=3)\n";
    assert_eq!(found("python a.py", &sources(own), &[]), "nothing found: ");
}

#[test]
fn a_script_that_only_evaluates_is_no_training_whatever_it_imports() {
    let trains = source(
        "/p/b.py",
        "def fit():\n    loss.backward()\n",
        SourceRole::Imported,
    );
    for (text, wanted) in [
        ("import b\nbatch_size = 8\n", "nothing found: "),
        (
            "import b\nbatch_size = 8\nb.fit()\n",
            "sure: batch_size 8 constant at a.py:2",
        ),
    ] {
        let sources = [source("/p/a.py", text, SourceRole::Script), trains.clone()];
        assert_eq!(found("python eval.py", &sources, &[]), wanted, "{text}");
    }
}

#[test]
fn a_short_b_of_another_option_is_no_batch() {
    let backups = "p.add_argument('-b', '--backup_every', type=int, default=25000)\n";
    assert_eq!(of_script("python a.py", backups), "nothing found: ");
    assert_eq!(of_script("python a.py -b 100", backups), "nothing found: ");
    let tests = "p.add_argument('-b', '--batch-size-test', default=256, type=int)\n\
                 p.add_argument('--batch-size', default=2000, type=int)\n";
    assert_eq!(
        of_script("python a.py", tests),
        "sure: --batch-size 2000 default at a.py:2"
    );
}

#[test]
fn a_number_of_tasks_that_is_described_as_a_batch_is_one() {
    let text = "p.add_argument('--task_num', type=int, help='meta batch size, namely task num', default=32)\n\
                p.add_argument('--n_way', type=int, help='n way', default=5)\n";
    assert_eq!(
        of_script("python a.py", text),
        "likely: --task_num 32 default at a.py:1"
    );
}

#[test]
fn a_constant_of_a_module_further_away_counts_where_it_is_named_and_nothing_nearer_has_one() {
    let read = "DataLoader(data, params.batch_size)\n";
    let sources = |text: &str| {
        [
            source(
                "/p/a.py",
                "from net.train import train\n",
                SourceRole::Script,
            ),
            source("/p/net/train.py", text, SourceRole::Imported),
            source(
                "/p/net/params.py",
                "batch_size = 100\n",
                SourceRole::Distant,
            ),
        ]
    };
    assert_eq!(
        found("python a.py", &sources(read), &[]),
        "sure: batch_size 100 constant at params.py:1"
    );
    assert_eq!(found("python a.py", &sources(""), &[]), "nothing found: ");
    assert_eq!(
        found(
            "python a.py",
            &sources(&format!("BATCH_SIZE = 8\n{read}")),
            &[]
        ),
        "sure: BATCH_SIZE 8 constant at train.py:1"
    );
}

#[test]
fn of_a_files_sections_those_that_the_text_names_count() {
    let text = "network: {dim: 8}\nbatch_size: 128\nlinear:\n  batch_size: 64\n";
    let line = "python a.py --config a.yaml";
    let of = |script: &str| {
        let text_of_script =
            ProgramText::read(&[source("/p/a.py", script, SourceRole::Script)], &[]);
        let command = command(line);
        let file = crate::recognize::ConfigFile {
            bases: Default::default(),
            at: 3,
            from: 0,
            name: "a.yaml".into(),
            text: text.into(),
        };
        let launch = LaunchEnvironment {
            text: Some(&text_of_script),
            files: std::slice::from_ref(&file),
            ..LaunchEnvironment::default()
        };
        let finding = Recognized::new(&command, &launch).batch_finding();
        finding.candidates.first().map(|spot| spot.name.clone())
    };
    assert_eq!(
        of("net = Net(**opt.network)\n").as_deref(),
        Some("batch_size")
    );
    assert_eq!(of("net = Net(**opt.network, x=opt['linear'])\n"), None);
    // It reads its file in a way of its own.
    assert_eq!(of("config = load(path)\n"), None);
}

/// A constant is not sure where a file that belongs to the named one may say another number.
#[test]
fn beside_a_file_that_builds_on_others_the_text_is_not_sure() {
    let script = "batch_size = 12\nloader = DataLoader(data, batch_size=batch_size)\n";
    let how_sure = |text: &str| {
        let text_of_script =
            ProgramText::read(&[source("/p/a.py", script, SourceRole::Script)], &[]);
        let command = command("python a.py --config a.yaml");
        let file = crate::recognize::ConfigFile {
            bases: Default::default(),
            at: 3,
            from: 0,
            name: "a.yaml".into(),
            text: text.into(),
        };
        let launch = LaunchEnvironment {
            text: Some(&text_of_script),
            files: std::slice::from_ref(&file),
            ..LaunchEnvironment::default()
        };
        let finding = Recognized::new(&command, &launch).batch_finding();
        (finding.how_sure, finding.candidates.len())
    };
    assert_ne!(how_sure("lr: 3\n").0, HowSure::NotSure);
    for key in ["$include", "_BASE_", "extends"] {
        let text = format!("lr: 3\n{key}:\n  - conf/base.yml\n");
        assert_eq!(how_sure(&text), (HowSure::NotSure, 1), "{key}");
    }
}
