//! What goes before what: the command's words, the files that it names, and what the program's text has as a default.

use crate::recognize::argument::InsertPoint;
use crate::recognize::batch::{Place, WholeBatch};
use crate::recognize::launch::ConfigFile;
use crate::recognize::text::tests::{command, said, source};
use crate::recognize::text::{
    NamedSettingsFile, ProgramSource, ProgramText, SettingsNames, SourceRole,
};
use crate::recognize::{LaunchEnvironment, Recognized};

/// What is found of a command whose script and file say this: how sure, and each number with where it stands.
fn found(line: &str, sources: &[(&str, &str, SourceRole)], file: Option<(&str, &str)>) -> String {
    let sources: Vec<ProgramSource> = (sources.iter())
        .map(|(path, text, role)| source(path, text, *role))
        .collect();
    let text = ProgramText::read(&sources, &[]);
    let command = command(line);
    let named = Recognized::new(&command, &LaunchEnvironment::default()).named_files();
    let read = |(name, text): (&str, &str)| {
        let named = named.iter().find(|named| named.name.ends_with(name));
        let named = named.expect("the command names it");
        ConfigFile {
            bases: Default::default(),
            at: named.at,
            from: named.from,
            name: named.name.clone(),
            text: text.into(),
        }
    };
    let files: Vec<ConfigFile> = file.map(read).into_iter().collect();
    let launch = LaunchEnvironment {
        text: Some(&text),
        files: &files,
        ..LaunchEnvironment::default()
    };
    said(&Recognized::new(&command, &launch).batch_finding())
}

const ARGPARSE: &str = "p.add_argument('--train_batch_size', type=int, default=64)\n";

fn of_script(line: &str, text: &str, file: Option<(&str, &str)>) -> String {
    found(line, &[("/p/train.py", text, SourceRole::Script)], file)
}

#[test]
fn a_default_is_not_sure_where_a_named_file_sets_it_in_a_way_that_is_not_clear() {
    let line = "python train.py --config a.yaml";
    for said in ["[8, 16]", "${oc.env:BS,8}", "&size 8"] {
        let file = format!("train_batch_size: {said}\n");
        let said = of_script(line, ARGPARSE, Some(("a.yaml", &file)));
        assert!(said.starts_with("not sure: "), "{file}: {said}");
    }
    // A file that leaves it open, or says nothing of it.
    for file in ["train_batch_size: auto\n", "lr: 0.1\n"] {
        assert_eq!(
            of_script(line, ARGPARSE, Some(("a.yaml", file))),
            "sure: --train_batch_size 64 default at train.py:1"
        );
    }
    for file in ["train_batch_size: 8\n", "train_batch_size: [8]\n"] {
        assert_eq!(
            of_script(line, ARGPARSE, Some(("a.yaml", file))),
            "sure: train_batch_size 8 config at a.yaml:1"
        );
    }
}

#[test]
fn whether_a_files_batch_is_divided_by_its_accumulation_the_text_knows() {
    let line = "python train.py --config a.yaml";
    let file = "train_batch_size: 8\ngradient_accumulation_steps: 2\n";
    assert_eq!(
        of_script(line, ARGPARSE, Some(("a.yaml", file))),
        "sure: train_batch_size 8 config at a.yaml:1"
    );
    let divides = format!(
        "{ARGPARSE}a.train_batch_size = a.train_batch_size // a.gradient_accumulation_steps\n"
    );
    let said = of_script(line, &divides, Some(("a.yaml", file)));
    assert!(!said.starts_with("sure: "), "{said}");
}

#[test]
fn of_a_files_batches_of_their_own_names_the_one_that_the_loader_takes_counts() {
    let file = "train:\n  coarse_batch_size: 64\n  fine_batch_size: 32\n";
    let line = "python train.py --config a.yaml";
    let text = "c = yaml.load(open(args.config))\ntrain = c['train']\n\
                loader = DataLoader(data, batch_size=train['fine_batch_size'], shuffle=True)\n";
    assert_eq!(
        of_script(line, text, Some(("a.yaml", file))),
        "sure: train.fine_batch_size 32 config at a.yaml:3"
    );
    // That of an evaluation is none, and of both neither is sure.
    for other in [
        text.replace("loader =", "val_loader ="),
        format!("{text}more = DataLoader(data, batch_size=train['coarse_batch_size'])\n"),
    ] {
        let said = of_script(line, &other, Some(("a.yaml", file)));
        assert!(!said.starts_with("sure: "), "{said}");
    }
}

#[test]
fn names_and_values_behind_the_command_go_before_the_text() {
    let text = "cfg.train = CN()\ncfg.train.batch_size = 64\np.add_argument('opts', nargs=argparse.REMAINDER)\n";
    assert_eq!(
        of_script("python train.py --root d train.batch_size 32", text, None),
        "sure: train.batch_size 32 typed"
    );
    assert_eq!(
        of_script(
            "python train.py --force_yml datasets:train:batch_size_per_gpu=8",
            "",
            None
        ),
        "sure: datasets:train:batch_size_per_gpu 8 typed"
    );
    // No setting: what stands behind it is no number.
    assert_eq!(
        of_script("python train.py model.batch_size other.py", text, None),
        "sure: cfg.train.batch_size 64 constant at train.py:2"
    );
}

#[test]
fn options_of_a_class_that_a_nearer_one_is_made_from_are_the_programs() {
    let near = "class TrainOptions(BaseOptions):\n    def initialize(self, p):\n        p.add_argument('--niter', type=int, default=50)\n";
    let base = "class BaseOptions():\n    def initialize(self, p):\n        p.add_argument('--batchSize', type=int, default=4)\n";
    let script = "from options.train_options import TrainOptions\n";
    let sources = |base: &'static str| {
        [
            ("/p/train.py", script, SourceRole::Script),
            ("/p/options/train_options.py", near, SourceRole::Imported),
            ("/p/options/base_options.py", base, SourceRole::Distant),
        ]
    };
    assert_eq!(
        found("python train.py", &sources(base), None),
        "sure: --batchSize 4 default at base_options.py:3"
    );
    let other = "class Other():\n    def initialize(self, p):\n        p.add_argument('--batchSize', type=int, default=4)\n";
    assert_eq!(
        found("python train.py", &sources(other), None),
        "nothing found: "
    );
}

#[test]
fn what_a_loader_takes_as_its_batch_may_have_any_name() {
    let text = "def train():\n    n_img_per_gpu = 16\n    n_workers = 8\n    loader = DataLoader(data, batch_size = n_img_per_gpu, num_workers=n_workers)\n";
    assert_eq!(
        of_script("python train.py", text, None),
        "likely: n_img_per_gpu 16 constant at train.py:2"
    );
    let twice = text.replace("    n_workers", "    n_img_per_gpu = 8\n    n_workers");
    assert_eq!(
        of_script("python train.py", &twice, None),
        "nothing found: "
    );
    let tests = text.replace("loader =", "test_loader =");
    assert_eq!(
        of_script("python train.py", &tests, None),
        "nothing found: "
    );
}

#[test]
fn a_part_of_a_batch_beside_it_is_not_sure() {
    let text = "p.add_argument('--batch_size', type=int)\np.add_argument('--minibatch_size', type=int, default=0)\n";
    assert_eq!(
        of_script(
            "python train.py --minibatch_size 32 --batch_size 512",
            text,
            None
        ),
        "not sure: --minibatch_size 32 typed, --batch_size 512 typed"
    );
    assert_eq!(
        of_script("python train.py --batch_size 512", text, None),
        "sure: --batch_size 512 typed"
    );
    let by_default = text
        .replace("default=0", "default=64")
        .replace("int)", "int, default=512)");
    assert_eq!(
        of_script("python train.py", &by_default, None),
        "not sure: --minibatch_size 64 default at train.py:2, --batch_size 512 default at train.py:1"
    );
}

#[test]
fn a_short_option_with_a_path_is_no_batch() {
    let file = Some(("a.yaml", "data:\n  batch_size: 12\n"));
    assert_eq!(
        of_script("python main.py -b a.yaml", "", file),
        "sure: data.batch_size 12 config at a.yaml:2"
    );
}

#[test]
fn a_mode_that_does_not_train_has_no_batch() {
    let line = "python main.py --batch_size 8 --mode";
    assert_eq!(
        of_script(&format!("{line} sample"), "", None),
        "nothing found: "
    );
    assert_eq!(
        of_script(&format!("{line} train"), "", None),
        "sure: --batch_size 8 typed"
    );
}

#[test]
fn a_shift_is_a_number() {
    assert_eq!(
        of_script("python train.py", "train(batch_size=4<<10)\n", None),
        "sure: batch_size 4096 constant at train.py:1"
    );
}

/// What a half of the batch changes, and what is said of the whole.
fn halved(line: &str, text: &str, settings: &[NamedSettingsFile]) -> String {
    let sources = [source("/p/a.py", text, SourceRole::Script)];
    let text = ProgramText::read(&sources, settings);
    let command = command(line);
    let launch = LaunchEnvironment {
        text: Some(&text),
        ..LaunchEnvironment::default()
    };
    let source = match Recognized::new(&command, &launch).batch_source() {
        Ok(source) => source,
        Err(why) => return why,
    };
    let knobs = source.sizes.iter().chain(&source.steps);
    let named: Vec<String> = knobs
        .map(|knob| format!("{} {}", knob.name, knob.value))
        .collect();
    let whole = match &source.whole {
        WholeBatch::Follows => "follows",
        WholeBatch::Fixed { name, .. } => name,
        WholeBatch::Kept(why) => why,
    };
    format!(
        "{}: {whole}, {:?}",
        named.join(", "),
        source.bounds.divisor_of
    )
}

#[test]
fn accumulation_that_the_program_computes_of_its_batch_follows_by_itself() {
    let batch = "p.add_argument('--batch-size', type=int, default=16)\n";
    for (line, text, wanted) in [
        (
            "python a.py",
            "{batch}nbs = 64\naccumulate = max(round(nbs / args.batch_size), 1)\n",
            "--batch-size 16: nbs 64 stays; the program computes accumulate, Some(64)",
        ),
        // One batch is more than what is filled up.
        (
            "python a.py --batch-size 128",
            "{batch}nbs = 64\naccumulate = max(round(nbs / args.batch_size), 1)\n",
            "--batch-size 128: follows, None",
        ),
        (
            "python a.py --batch-size 32",
            "{batch}accum_steps = 4096 // (args.batch_size * args.length * get_world_size())\n",
            "--batch-size 32: same effective batch; the program computes accum_steps, Some(32)",
        ),
        // By other names, through products.
        (
            "python a.py",
            "{batch}bs = args.batch_size\ntokens = bs * args.length\nwhole = args.whole\n\
             num_accumulation_rounds = int(np.ceil(whole / tokens))\n",
            "--batch-size 16: same effective batch; the program computes num_accumulation_rounds, Some(16)",
        ),
        // A default that is replaced is not multiplied.
        (
            "python a.py",
            "{batch}p.add_argument('--grad-accum', type=int, default=1)\n\
             p.add_argument('--samples', type=int, default=256)\n\
             args.grad_accum = args.samples // args.batch_size\n",
            "--batch-size 16: samples 256 stays; the program computes grad_accum, Some(256)",
        ),
        // Nothing to compute it of; one that is typed.
        (
            "python a.py",
            "{batch}p.add_argument('--grad-accum', type=int, default=2)\n\
             p.add_argument('--samples', type=int, default=None)\n\
             if args.samples: args.grad_accum = args.samples // args.batch_size\n",
            "--batch-size 16, --grad-accum 2: follows, None",
        ),
        (
            "python a.py --grad-accum 4",
            "{batch}p.add_argument('--grad-accum', type=int, default=None)\n\
             if args.grad_accum is None: args.grad_accum = 256 // args.batch_size\n",
            "--batch-size 16, --grad-accum 4: follows, None",
        ),
        // What is divided by the batch is no accumulation.
        (
            "python a.py",
            "{batch}accum_loss = loss / args.batch_size\nsteps = 256 // args.batch_size\n",
            "--batch-size 16: follows, None",
        ),
        // A letter, which only the formula tells from others.
        (
            "python a.py",
            "B = 64\nT = 32\ntotal = 8192\ngrad_accum = total // (B * T * ranks)\n",
            "B 64: total 8192 stays; the program computes grad_accum, Some(64)",
        ),
    ] {
        let text = text.replace("{batch}", batch);
        assert_eq!(halved(line, &text, &[]), wanted, "{line}\n{text}");
    }
    let settings = NamedSettingsFile {
        path: "/p/conf.yaml".into(),
        text: "data:\n  whole: 512\n  batch_size: 32\ntrainer:\n  devices: 2\n  accumulate_grad_batches: \
               ${div_up:${data.whole}, ${eval:${trainer.devices} * ${data.batch_size}}}\n"
            .into(),
        names: SettingsNames::Hydra(String::new()),
    };
    assert_eq!(
        halved("python a.py data.batch_size=64", "", &[settings]),
        "data.batch_size 64: whole 512 stays; the program computes accumulate_grad_batches, Some(64)"
    );
}

#[test]
fn what_is_given_on_as_accumulation_is_one_whatever_it_is_called() {
    let text = "@ex.config\ndef config():\n    batch_size = 4096\n    per_gpu_batchsize = 64\n\
                parts = c[\"batch_size\"] // (c[\"per_gpu_batchsize\"] * num_gpus)\n\
                trainer = Trainer(accumulate_grad_batches=parts)\n";
    let line = "python a.py with per_gpu_batchsize=64";
    assert_eq!(
        halved(line, text, &[]),
        "per_gpu_batchsize 64: batch_size 4096 stays; the program computes parts, Some(64)"
    );
    let of_something_else = text.replace("accumulate_grad_batches", "log_every");
    assert!(!halved(line, &of_something_else, &[]).contains("computes"));
}

#[test]
fn a_constant_that_is_set_again_is_what_it_is_set_to_last() {
    let said = of_script(
        "python a.py",
        "BATCH = 64\nH = 8\nBATCH = 128\ntrain()\n",
        None,
    );
    assert_eq!(said, "sure: BATCH 128 constant at train.py:3");
    // In a branch it may stay.
    let said = of_script(
        "python a.py",
        "BATCH = 64\nif big():\n    BATCH = 128\n",
        None,
    );
    assert!(said.starts_with("not sure: "), "{said}");
}

#[test]
fn what_draws_pictures_is_not_the_training() {
    let text = "class Trainer:\n    def render_samples(self, batch_size=2):\n        pass\n\
                    def train(self):\n        self.render_samples()\n";
    assert!(!of_script("python a.py", text, None).starts_with("sure: "));
}

#[test]
fn an_accumulation_in_the_text_moves_along_with_a_batch_that_is_an_argument() {
    let batch = "p.add_argument('--batch-size', type=int, default=16)\n";
    for (line, text, wanted) in [
        (
            "python a.py",
            "ACCUM_STEPS = 4\n",
            "--batch-size 16, ACCUM_STEPS 4: follows, None",
        ),
        (
            "python a.py --batch-size 8",
            "Trainer(accumulate_grad_batches=2)\n",
            "--batch-size 8, accumulate_grad_batches 2: follows, None",
        ),
        // One of two: not known which.
        (
            "python a.py",
            "accum_steps = 4\naccum_iter = 2\n",
            "--batch-size 16: follows, None",
        ),
    ] {
        let text = format!("{batch}{text}");
        assert_eq!(halved(line, &text, &[]), wanted, "{line}\n{text}");
    }
}

#[test]
fn the_limit_of_one_device_is_set_beside_a_total_in_presets_or_in_the_command() {
    let text = "presets = {'a': dict(batch=512), 'b': dict(batch=512)}\n\
                @click.option('--batch', type=parsed, default=None)\n\
                @click.option('--batch-gpu', type=parsed, default=0)\ndef main(**opts): pass\n\
                c.batch_gpu = opts.get('batch_gpu', 0) or None\nrounds = batch // (batch_gpu * ranks)\n";
    let typed = "--batch-gpu 256: batch 256 stays, Some(256)";
    for line in ["python a.py --batch=256", "python a.py --batch 256"] {
        assert_eq!(halved(line, text, &[]), typed);
    }
    assert_eq!(
        halved("python a.py", text, &[]),
        "--batch-gpu 512: batch 512 stays, Some(512)"
    );
}

#[test]
fn a_number_in_a_branch_counts_where_the_command_takes_it() {
    let debug = "p.add_argument('--debug', action='store_true')\n";
    let data = "p.add_argument('--data', default='small')\n";
    let batch = "p.add_argument('--batch-size', type=int, default=64)\n";
    let either = "if args.debug:\n    batch_size = 2\nelse:\n    batch_size = 64\n";
    let one_of = "if args.data == 'small':\n    batch_size = 8\nelif args.data in ['large', 'huge']:\n    batch_size = 4\n\
                  else:\n    raise ValueError\n";
    let replaced = "if args.debug: args.batch_size = 2\n";
    for (line, text, wanted) in [
        (
            "python a.py",
            [debug, either],
            "batch_size 64: follows, None",
        ),
        (
            "python a.py --debug",
            [debug, either],
            "batch_size 2: follows, None",
        ),
        ("python a.py", [data, one_of], "batch_size 8: follows, None"),
        (
            "python a.py --data huge",
            [data, one_of],
            "batch_size 4: follows, None",
        ),
        (
            "python a.py",
            [
                "DEBUG = False\n",
                "if not DEBUG and ready:\n    batch_size = 8\nelse:\n    batch_size = 2\n",
            ],
            "not sure which sets the batch: batch_size 8 (constant at a.py:3), batch_size 2 (constant at a.py:5)",
        ),
        (
            "python a.py",
            [
                "DEBUG = False\n",
                "if DEBUG:\n    batch_size = 8\nfor a in b:\n    f()\nelse:\n    batch_size = 2\n",
            ],
            "batch_size 2: follows, None",
        ),
        // Set again, or by something that is not in the text.
        (
            "python a.py",
            [
                "debug = False\ndebug = f()\n",
                "if debug:\n    batch_size = 8\nelse:\n    batch_size = 2\n",
            ],
            "not sure which sets the batch: batch_size 8 (constant at a.py:4), batch_size 2 (constant at a.py:6)",
        ),
    ] {
        assert_eq!(
            halved(line, &text.concat(), &[]),
            wanted,
            "{line}\n{text:?}"
        );
    }
    let text = [debug, batch, replaced].concat();
    for (line, wanted) in [
        ("python a.py", "--batch-size 64: follows, None"),
        ("python a.py --debug", "args.batch_size 2: follows, None"),
        (
            "python a.py --debug --batch-size 8",
            "args.batch_size 2: follows, None",
        ),
    ] {
        assert_eq!(halved(line, &text, &[]), wanted, "{line}");
    }
}

#[test]
fn an_option_that_argparse_takes_cut_short_is_found() {
    let batch = "p.add_argument('--batch-size', type=int, default=16)\n";
    let norm = "p.add_argument('--batch-norm', action='store_true')\n";
    let steps = "p.add_argument('--accumulation-steps', type=int, default=1)\n";
    for (line, text, wanted) in [
        (
            "python a.py --b 8",
            [batch, steps],
            "--b 8, --accumulation-steps 1: follows, None",
        ),
        (
            "python a.py --bat=8 --acc 4",
            [batch, steps],
            "--bat 8, --acc 4: follows, None",
        ),
        // Of several that begin so, none.
        (
            "python a.py --bat 8",
            [batch, norm],
            "--batch-size 16: follows, None",
        ),
        (
            "python a.py --batch-s 8",
            [batch, norm],
            "--batch-s 8: follows, None",
        ),
        (
            "python a.py --bat 8",
            [batch, "ArgumentParser(allow_abbrev=False)\n"],
            "--batch-size 16: follows, None",
        ),
    ] {
        assert_eq!(halved(line, &text.concat(), &[]), wanted, "{line}");
    }
}

#[test]
fn what_only_scales_the_learning_rate_is_no_batch() {
    let batch = "p.add_argument('--batch-size', default=32, type=int, help='total batch size for all GPUs')\n";
    let scale = "p.add_argument('--bs_per_gpu', default=32, type=int, help='batch size per GPU for auto-rescale learning rate')\n";
    for (line, wanted) in [
        ("python a.py --batch 64", "--batch 64: follows, None"),
        ("python a.py", "--batch-size 32: follows, None"),
    ] {
        assert_eq!(halved(line, &[batch, scale].concat(), &[]), wanted);
    }
}

/// The command with an option for half of the batch.
fn with_option(line: &str, text: &str) -> String {
    let sources = [source("/p/a.py", text, SourceRole::Script)];
    let text = ProgramText::read(&sources, &[]);
    let command = command(line);
    let launch = LaunchEnvironment {
        text: Some(&text),
        ..LaunchEnvironment::default()
    };
    let source = Recognized::new(&command, &launch).batch_source();
    let source = source.expect("a batch");
    let Place::Added(added) = &source.sizes[0].place else {
        return "typed".into();
    };
    let InsertPoint::Before(at) = added.gap else {
        return "inside".into();
    };
    let mut words: Vec<String> = line.split(' ').map(String::from).collect();
    words.splice(at..at, added.saying(source.sizes[0].value / 2));
    words.join(" ")
}

#[test]
fn an_option_is_added_where_the_parser_reads_it() {
    let batch = "p.add_argument('--batch-size', type=int, default=16)\n";
    let rest = "p.add_argument('opts', nargs=argparse.REMAINDER)\n";
    let commands =
        "s = p.add_subparsers()\nt = s.add_parser('train')\nt.add_argument('--lr', type=float)\n";
    let of_command = "s = p.add_subparsers()\nt = s.add_parser('train')\nt.add_argument('--batch-size', default=32)\n\
                      e = s.add_parser('eval')\ne.add_argument('--batch-size', default=8)\n";
    for (line, text, wanted) in [
        (
            "python a.py --lr 1",
            [batch, ""],
            "python a.py --lr 1 --batch-size 8",
        ),
        (
            "python a.py --lr 1 A.B 2",
            [batch, rest],
            "python a.py --batch-size 8 --lr 1 A.B 2",
        ),
        (
            "python a.py --lr 1 -- x",
            [batch, ""],
            "python a.py --lr 1 --batch-size 8 -- x",
        ),
        (
            "python a.py -- x",
            [batch, ""],
            "python a.py --batch-size 8 -- x",
        ),
        (
            "python a.py --seed 1 train --lr 1",
            [batch, commands],
            "python a.py --seed 1 --batch-size 8 train --lr 1",
        ),
        (
            "python a.py train --lr 1",
            [of_command, ""],
            "python a.py train --lr 1 --batch-size 16",
        ),
        (
            "python a.py train A.B 1",
            [of_command, "t.add_argument('opts', nargs='...')\n"],
            "python a.py train --batch-size 16 A.B 1",
        ),
    ] {
        assert_eq!(with_option(line, &text.concat()), wanted, "{line}");
    }
}

#[test]
fn a_file_that_goes_over_what_was_parsed_sets_the_batch() {
    let parser = "p.add_argument('--batch-size', type=int, default=16)\np.add_argument('--config', default='c.yaml')\n\
                  args = p.parse_args()\n";
    let settings = [NamedSettingsFile {
        path: "/p/c.yaml".into(),
        text: "lr: 1\nbatch_size: 64\n".into(),
        names: SettingsNames::InFile,
    }];
    let of_file = "batch_size 64: follows, None";
    for (over, wanted) in [
        (
            "with open(args.config) as f:\n    vars(args).update(yaml.safe_load(f))\n",
            of_file,
        ),
        (
            "c = yaml.safe_load(open(args.config))\nargs.__dict__.update(c)\n",
            of_file,
        ),
        (
            "c = json.load(f)\nfor key, value in c.items():\n    setattr(args, key, value)\n",
            of_file,
        ),
        // Defaults go under it, and other settings are no arguments.
        (
            "p.set_defaults(**yaml.safe_load(open(args.config)))\n",
            "--batch-size 8: follows, None",
        ),
        (
            "c = yaml.safe_load(f)\nother.__dict__.update(c)\n",
            "--batch-size 8: follows, None",
        ),
    ] {
        let text = format!("{parser}{over}");
        assert_eq!(
            halved("python a.py --batch-size 8", &text, &settings),
            wanted,
            "{over}"
        );
    }
}

#[test]
fn what_a_batch_is_divided_by_for_its_accumulation_is_what_the_device_takes() {
    let text = "BATCH_SIZE = 16\nMAX_BATCH_SIZE = 4\nloader = DataLoader(data, batch_size=BATCH_SIZE)\n\
                grad_accum_every = BATCH_SIZE / MAX_BATCH_SIZE\n";
    let said = of_script("python a.py", text, None);
    assert!(said.contains("MAX_BATCH_SIZE"), "{said}");
}

#[test]
fn the_classes_of_an_episode_are_its_batch_where_nothing_else_is() {
    let way = "p.add_argument('--train-way', type=int, default=30)\np.add_argument('--test-way', type=int, default=5)\n";
    let shots = "p.add_argument('--shot', type=int, default=1)\np.add_argument('--query', type=int, default=15)\n";
    let line = "python train.py";
    assert_eq!(
        of_script(line, &format!("{way}{shots}"), None),
        "likely: --train-way 30 default at train.py:1"
    );
    assert_eq!(
        of_script(
            "python train.py --train-way 20",
            &format!("{way}{shots}"),
            None
        ),
        "likely: --train-way 20 typed"
    );
    // Without samples of each it may be anything, and a batch of tasks goes before it.
    assert_eq!(of_script(line, way, None), "nothing found: ");
    let tasks = "p.add_argument('--task_num', type=int, default=4, help='meta batch size')\n";
    assert_eq!(
        of_script(line, &format!("{way}{shots}{tasks}"), None),
        "likely: --task_num 4 default at train.py:5"
    );
}

#[test]
fn what_the_program_calls_its_batch_where_it_takes_it_is_one() {
    let file = "voc_batch_size = 32\ntts_rate = 1e-4\n";
    for (script, wanted) in [
        (
            "import hparams as hp\nbatch_size = hp.voc_batch_size\n",
            "likely: voc_batch_size 32 constant at hparams.py:1",
        ),
        (
            "import hparams as hp\nif a.gan:\n    loader = DataLoader(data, batch_size=hp.voc_batch_size)\n",
            "not sure: voc_batch_size 32 constant at hparams.py:1",
        ),
        (
            "import hparams as hp\ndef evaluate():\n    batch_size = hp.voc_batch_size\n",
            "not sure: voc_batch_size 32 constant at hparams.py:1",
        ),
        (
            "import hparams as hp\nprint(hp.voc_batch_size)\n",
            "not sure: voc_batch_size 32 constant at hparams.py:1",
        ),
    ] {
        let sources = [
            ("/p/train.py", script, SourceRole::Script),
            ("/p/hparams.py", file, SourceRole::Imported),
        ];
        assert_eq!(found("python train.py", &sources, None), wanted, "{script}");
    }
}
