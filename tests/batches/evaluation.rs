//! Programs that run out of memory in an evaluation: its own number is changed, and never the training's where that would do
//! nothing.

use super::{Changed, Edited, Kind, Left, PLAIN};

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind {
            name: "an evaluation's own default",
            program: "parser.add_argument('--batch-size', type=int, default=8)\n\
                      parser.add_argument('--test-batch-size', type=int, default=512)\nargs = parser.parse_args()\n\
                      evaluate(train(args.batch_size), args.test_batch_size)\n",
            outcome: Changed("train.py --test-batch-size 130", "evaluated with 130"),
            ..PLAIN
        },
        Kind {
            name: "an evaluation's own word",
            program: "parser.add_argument('--bs', type=int, default=8)\n\
                      parser.add_argument('--val-bs', type=int, default=8)\nargs = parser.parse_args()\n\
                      evaluate(train(args.bs), args.val_bs)\n",
            words: &["train.py", "--val-bs", "512", "--bs", "16"],
            outcome: Changed("--val-bs 130 --bs 16", "evaluated with 130"),
            ..PLAIN
        },
        Kind {
            name: "an evaluation's own constant",
            program: "from common import train, evaluate\nbatch_size = 8\nEVAL_BATCH_SIZE = 512\n\
                      evaluate(train(batch_size), EVAL_BATCH_SIZE)\n",
            outcome: Edited("train.py:3", 130, "evaluated with 130"),
            ..PLAIN
        },
        Kind {
            name: "an evaluation's own setting",
            files: &[(
                "settings.json",
                "{\"batch_size\": 8, \"test_batch\": 512}\n",
            )],
            program: "import json\nparser.add_argument('--config')\nsettings = json.load(open(parser.parse_args().config))\n\
                      evaluate(train(settings['batch_size']), settings['test_batch'])\n",
            words: &["train.py", "--config", "settings.json"],
            outcome: Changed("settings.json", "evaluated with 130"),
            ..PLAIN
        },
        Kind {
            name: "an evaluation before the first step",
            program: "parser.add_argument('--batch-size', type=int, default=8)\n\
                      parser.add_argument('--eval-batch-size', type=int, default=512)\nargs = parser.parse_args()\n\
                      evaluate(Net(256).cuda(), args.eval_batch_size)\ntrain(args.batch_size)\n",
            outcome: Changed("train.py --eval-batch-size 130", "trained with 8 x 1"),
            ..PLAIN
        },
        Kind {
            name: "an evaluation of one sample",
            program: "parser.add_argument('--batch-size', type=int, default=8)\nargs = parser.parse_args()\n\
                      evaluate(train(args.batch_size), 1, length=300 * 1024)\n",
            outcome: Left("the evaluation already takes one sample at a time (1×307200×256)"),
            ..PLAIN
        },
    ]
}
