"""Whether an evaluation or sampling comes before the next step, by the lines behind the one that failed."""
import ast
import textwrap
import types
import unittest

import support  # noqa: F401
from _oomph_probe.rehearse import reading, statements, upcoming

SAMPLES = """
    for i in range(100):
        for _ in range(2):
            loss = model(next(data))
            loss.backward()
        optimizer.step()
        if i % EVERY == 0:
            model.eval()
            sampled = decode(model, prompt)
"""


class Upcoming(unittest.TestCase):
    def comes(self, text, **values):
        body = ast.parse(textwrap.dedent(text)).body
        (line,) = [at for at, each in enumerate(text.splitlines(), 1) if "model(next" in each]
        path = statements.path_to(body, lambda each: statements.is_at(each, line))
        return upcoming.comes(path, statements.LOOPS, lambda name: values.get(name, reading.UNKNOWN))

    def test_what_surely_comes(self):
        self.assertTrue(self.comes(SAMPLES, i=0, EVERY=100))
        self.assertFalse(self.comes(SAMPLES, i=1, EVERY=100))
        self.assertFalse(self.comes(SAMPLES, i=0), "nobody knows how often")
        self.assertFalse(self.comes(SAMPLES, i=0, EVERY=0))
        last = SAMPLES.replace("i % EVERY == 0", "i > 0 and i % EVERY == 0")
        self.assertFalse(self.comes(last, i=0, EVERY=100))
        either = SAMPLES.replace("i % EVERY == 0", "unknown or not i % EVERY")
        self.assertTrue(self.comes(either, i=0, EVERY=100))
        self.assertTrue(self.comes(SAMPLES.replace("if i % EVERY == 0", "with context"), i=0))

    def test_what_a_function_is_called(self):
        for line in ("test_step(model)", "run_validation()", "self.evalModel(model)", "trainer.validate(model)"):
            self.assertTrue(self.comes(SAMPLES.replace("sampled = decode(model, prompt)", line).replace("model.eval()", "pass"), i=0, EVERY=1))
        for line in ("latest(model)", "contest()", "buffer.sample(64)", "evaluator.log(loss)"):
            self.assertFalse(self.comes(SAMPLES.replace("sampled = decode(model, prompt)", line).replace("model.eval()", "pass"), i=0, EVERY=1))

    def test_functions_that_sample(self):
        sampling = SAMPLES.replace("model.eval()", "pass")
        for line in ("sample_image(n_row=10)", "save_samples(step)", "self.sampleImages()", "run_sampling(model)"):
            self.assertTrue(self.comes(sampling.replace("sampled = decode(model, prompt)", line), i=0, EVERY=1), line)
        for line in ("sample_batch(buffer)", "z = sample_noise(64)", "sample(model)", "resample(data)", "t = sample_timesteps(n)"):
            self.assertFalse(self.comes(sampling.replace("sampled = decode(model, prompt)", line), i=0, EVERY=1), line)

    def test_a_count_that_is_made_before_it(self):
        counted = SAMPLES.replace("if i %", "done = epoch * len(loader) + i\n        if done %")
        self.assertTrue(self.comes(counted, i=0, epoch=0, EVERY=100))
        self.assertFalse(self.comes(counted, i=1, epoch=0, EVERY=100))
        self.assertFalse(self.comes(counted, i=0, epoch=1, EVERY=100), "the loader's length is not known")
        self.assertFalse(self.comes(counted, i=0, epoch=1, done=0, EVERY=100), "what it was before is over")

    def test_what_comes_behind_an_epoch_is_far(self):
        epochs = """
            for epoch in range(3):
                for batch in batches:
                    loss = model(next(data))
                    loss.backward()
                    optimizer.step()
                evaluate(model)
        """
        self.assertFalse(self.comes(epochs, epoch=0))
        self.assertTrue(self.comes(epochs.replace("        optimizer.step()\n", "        optimizer.step(); evaluate(model)\n")))

    def test_what_is_no_evaluation(self):
        for line in ("model.eval()", "print(loss)", "scheduler.step()", "log(loss.item())"):
            self.assertFalse(self.comes(SAMPLES.replace("sampled = decode(model, prompt)", "pass").replace("model.eval()", line), i=0, EVERY=1))

    def test_values_of_a_frame(self):
        arguments = types.SimpleNamespace(every=7)
        read = upcoming.reader(frame_with(arguments))
        self.assertEqual((read("arguments.every"), read("missing.every")), (7, reading.UNKNOWN))
        self.assertIs(read("arguments.missing"), reading.UNKNOWN)


def frame_with(arguments):
    import sys

    return sys._getframe()


if __name__ == "__main__":
    unittest.main()
