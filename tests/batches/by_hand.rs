//! Programs that take their batch in ways of their own: a word by its place, a share of the batch, a file in a format or at a
//! place that few have, one example of many.

use super::{Changed, Edited, Kind, PLAIN};

/// As much of hydra as a program needs that only calls its main.
const HYDRA: &str = "import inspect, os, sys\n\
                     def main(config_path, config_name):\n    def decorate(function):\n        def run():\n            \
                     here = os.path.dirname(inspect.getfile(function))\n            \
                     lines = open(os.path.join(here, config_path, config_name + '.yaml'))\n            \
                     said = dict(line.strip().split(': ') for line in lines)\n            \
                     said.update(word.lstrip('+').split('=') for word in sys.argv[1:])\n            \
                     function(said)\n        return run\n    return decorate\n";

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind {
            name: "a word by its place, beside a total",
            program: "import sys\nfrom common import train\nMICRO_BATCH_SIZE = int(sys.argv[2])\nBATCH_SIZE = 256\n\
                      STEPS = BATCH_SIZE // MICRO_BATCH_SIZE\ntrain(MICRO_BATCH_SIZE, accumulate=STEPS)\n",
            words: &["train.py", "7b", "128", "0.1"],
            outcome: Changed("64", "trained with 64 x 4"),
            ..PLAIN
        },
        Kind {
            name: "a share of the batch",
            program: "parser.add_argument('--batch_size', type=int, default=128)\n\
                      parser.add_argument('--labeled_bs', type=int, default=64)\nargs = parser.parse_args()\n\
                      batch_size = args.batch_size\nothers = batch_size - args.labeled_bs\nassert others > 0\n\
                      train(args.labeled_bs + others)\n",
            outcome: Changed("--labeled_bs", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a file with sections in braces",
            files: &[(
                "run.conf",
                "general {\n  path = ./here\n}\ntrain {\n  rate = 3\n  batch_size = 128\n}\n",
            )],
            program: "parser.add_argument('--conf')\nargs = parser.parse_args()\n\
                      import re\ntrain(int(re.search('batch_size = (.*)', open(args.conf).read())[1]))\n",
            words: &["train.py", "--conf", "run.conf"],
            outcome: Changed("--conf", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a file beside the program, found by the program's own place",
            files: &[("conf/default.json", "{\n  \"batch_size\": 128\n}\n")],
            program: "import json, os\nfrom common import train\n\
                      with open(os.path.join(os.path.dirname(__file__), 'conf', 'default.json')) as file:\n    \
                      settings = json.load(file)\ntrain(settings['batch_size'])\n",
            outcome: Edited("default.json:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a module that the script only calls has hydra's main",
            files: &[
                ("hydra.py", HYDRA),
                ("conf/run.yaml", "rate: 3\nbatch_size: 128\n"),
                (
                    "cli.py",
                    "import hydra\nfrom common import train as fit\n\
                     @hydra.main(config_path='conf', config_name='run')\ndef train(said):\n    fit(int(said['batch_size']))\n",
                ),
            ],
            program: "import cli\ncli.train()\n",
            outcome: Changed("batch_size=64", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "one of many examples",
            program: "from common import train\nclass Config: pass\n\
                      def small():\n    config = Config()\n    config.batch_size = 128\n    train(config.batch_size)\n\
                      def pixels():\n    config = Config()\n    config.batch_size = 128\n    train(config.batch_size)\n\
                      pixels()\n",
            outcome: Edited("train.py:9", 64, "trained with 64 x 1"),
            ..PLAIN
        },
    ]
}
