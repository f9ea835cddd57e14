//! Programs whose batch stands in files that the command names in ways of its own, or further away in their own text.

use super::{Changed, Edited, Kind, PLAIN};

const READS_JSON: &str = "import json, re\nparser.add_argument('-p')\nparser.add_argument('-t')\nargs = parser.parse_args()\n\
                          text = re.sub('//.*', '', open(args.t).read())\ntrain(json.loads(text)['optimizer']['batch_size'])\n";

const READS_BY_ITSELF: &str = "import json, pathlib\n\
                               parser.add_argument('--dataset', default='small')\n\
                               parser.add_argument('--batch-size', type=int, default=128)\nargs = parser.parse_args()\n\
                               settings = json.loads(pathlib.Path('settings', args.dataset + '.json').read_text())\n\
                               train(settings['train']['batch_size'])\n";

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind {
            name: "one of several files of settings, with comments",
            files: &[
                ("data.json", "{\"path\": \"x\"}\n"),
                (
                    "train.json",
                    "{ // of the run\n  \"optimizer\": { \"batch_size\": 128, // each\n    \"lr\": 3 } }\n",
                ),
            ],
            program: READS_JSON,
            words: &["train.py", "-p", "data.json", "-t", "train.json"],
            outcome: Changed("train.json", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a file of settings that no word of the command names, beside an argument without effect",
            files: &[
                (
                    "settings/small.json",
                    "{\n  \"train\": {\n    \"batch_size\": 128,\n    \"lr\": 3\n  },\n  \"width\": 7\n}\n",
                ),
                (
                    "settings/other.json",
                    "{\n  \"train\": {\n    \"batch_size\": 128,\n    \"lr\": 5\n  },\n  \"width\": 9\n}\n",
                ),
            ],
            program: READS_BY_ITSELF,
            outcome: Edited("small.json:3", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a gin file",
            files: &[(
                "amazon.gin",
                "# gin\ntrain.lr = 3\ntrain.batch_size = 128\n",
            )],
            program: "import sys\nfrom common import train\n\
                      lines = [line.split(' = ') for line in open(sys.argv[1]) if ' = ' in line]\n\
                      def run(batch_size=32):\n    train(batch_size)\nrun(int(dict(lines)['train.batch_size']))\n",
            words: &["train.py", "amazon.gin"],
            outcome: Changed("amazon.gin", "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "settings behind two stars",
            files: &[
                ("conf.py", "batch_size = 128\nepochs = 3\n"),
                ("data.py", "from conf import *\nrows = batch_size\n"),
            ],
            program: "from data import *\nfrom common import train\ntrain(rows)\n",
            outcome: Edited("conf.py:1", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "accumulation that is a constant beside an argument",
            program: "parser.add_argument('--batch-size', type=int, default=128)\nargs = parser.parse_args()\n\
                      ACCUM_STEPS = 2\ntrain(args.batch_size, accumulate=ACCUM_STEPS)\n",
            outcome: Edited("train.py:6", 4, "trained with 64 x 4"),
            ..PLAIN
        },
        Kind {
            name: "the stage that comes first",
            program: "from common import train\nfrozen_batch = 128\nwhole_batch = 64\nfreezes = True\n\
                      train(frozen_batch if freezes else whole_batch)\n",
            outcome: Edited("train.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
        Kind {
            name: "a script that is called a demo",
            files: &[(
                "demo.py",
                "from common import train\nbatch_size = 128\ntrain(batch_size)\n",
            )],
            words: &["demo.py"],
            outcome: Edited("demo.py:2", 64, "trained with 64 x 1"),
            ..PLAIN
        },
    ]
}
