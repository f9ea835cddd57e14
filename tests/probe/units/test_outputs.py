"""Evaluations of transformers' Trainer move their outputs to RAM: its own argument, for the time of an evaluation."""
import sys
import types

from patching import PatchTest


class Outputs(PatchTest):
    def library(self, imported=True, loops=("evaluation_loop",)):
        module = types.ModuleType("transformers.trainer")
        seen = self.seen = []

        class Trainer:
            def __init__(self, typed=None):
                self.args = types.SimpleNamespace(eval_accumulation_steps=typed)

        def loop(self, dataloader, description="Evaluation"):
            """Evaluates."""
            seen.append(self.args.eval_accumulation_steps)
            if dataloader is None:
                raise ValueError("no data")
            return [description]

        for name in loops:
            setattr(Trainer, name, loop)
        module.Trainer = Trainer
        if imported:
            sys.modules[module.__name__] = module
            self.addCleanup(sys.modules.pop, module.__name__, None)
        return module

    def test_the_argument_is_set_for_an_evaluation_and_put_back(self):
        trainer = self.library().Trainer()
        made = self.patch("eval_outputs=2")
        self.assertEqual(trainer.evaluation_loop([1], description="Prediction"), ["Prediction"])
        self.assertEqual((self.seen, trainer.args.eval_accumulation_steps), ([2], None))
        self.assertEqual(self.outcome(made, "eval_outputs"), "applied")
        self.assertEqual(type(trainer).evaluation_loop.__doc__, "Evaluates.")

    def test_an_evaluation_that_fails_puts_it_back_too(self):
        trainer = self.library().Trainer()
        self.patch("eval_outputs=2")
        with self.assertRaises(ValueError):
            trainer.evaluation_loop(None)
        self.assertIsNone(trainer.args.eval_accumulation_steps)

    def test_of_a_typed_number_the_smaller_one_counts(self):
        cls = self.library().Trainer
        self.patch("eval_outputs=4")
        for typed in (1, 4, 9):
            trainer = cls(typed)
            trainer.evaluation_loop([1])
            self.assertEqual(trainer.args.eval_accumulation_steps, typed)
        self.assertEqual(self.seen, [1, 4, 4])

    def test_a_library_that_is_imported_later_is_patched_then(self):
        module = self.library(imported=False, loops=("evaluation_loop", "prediction_loop"))
        made = self.patch("eval_outputs=1")
        self.assertEqual(self.outcome(made, "eval_outputs"), None)
        made.imported(module)
        module.Trainer().prediction_loop([1])
        self.assertEqual(self.seen, [1])
        self.assertIn("after each batch", self.words(made, "eval_outputs"))

    def test_where_there_is_no_trainer_it_says_so(self):
        made = self.patch("eval_outputs=1")
        made.settle()
        self.assertEqual(self.outcome(made, "eval_outputs"), "declined")
        self.library(loops=())
        made = self.patch("eval_outputs=1")
        self.assertIn("in another way", self.words(made, "eval_outputs"))

    def test_a_number_that_is_none_is_refused(self):
        self.library()
        for value in ("0", "off", ""):
            made = self.patch("eval_outputs=" + value)
            self.assertEqual(self.outcome(made, "eval_outputs"), "declined")
