"""Whether a step is made of several parts, by the loops around the model's call and the numbers that they count with."""
import ast
import textwrap
import types
import unittest

import support  # noqa: F401
from _oomph_probe.rehearse import parts, reading


class Parts(unittest.TestCase):
    def adds(self, *texts, **values):
        """Of functions, the innermost first; each calls in its line with `call`."""
        functions = []
        for text in texts:
            lines = textwrap.dedent(text).splitlines()
            (line,) = [at for at, each in enumerate(lines, 1) if "call(" in each]
            body = ast.parse("\n".join(lines)).body
            functions.append(parts.Function(body, line, lambda name: values.get(name, reading.UNKNOWN)))
        return parts.adds_gradients(iter(functions))

    def test_a_loop_inside_of_the_steps(self):
        text = """
            for i in range(1000):
                for _ in range(EVERY):
                    loss = call(next(loader))
                    accelerator.backward(loss / EVERY)
                optimizer.step()
                optimizer.zero_grad()
        """
        self.assertTrue(self.adds(text, EVERY=8))
        self.assertIs(self.adds(text, EVERY=1), False)
        # Pieces of a batch, however many there are.
        self.assertTrue(self.adds(text.replace("range(EVERY)", "batch.split(size)")))

    def test_a_step_in_some_rounds(self):
        text = """
            for i, batch in enumerate(loader):
                loss = call(batch)
                loss.backward()
                if (i + 1) % args.every == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """
        self.assertTrue(self.adds(text, **{"args.every": 4}))
        self.assertFalse(self.adds(text, **{"args.every": 1}))
        self.assertIsNone(self.adds(text))

    def test_a_step_in_each_round(self):
        text = """
            for epoch in range(3):
                for batch in loader:
                    optimizer.zero_grad()
                    loss = call(batch)
                    loss.backward()
                    optimizer.step()
                scheduler.step()
        """
        self.assertIs(self.adds(text), False)
        # One that the program's own switch decides.
        self.assertIsNone(self.adds(text.replace("optimizer.step()", "if ready: optimizer.step()").replace("optimizer.zero_grad()", "pass")))

    def test_one_backward_for_a_loop_of_calls(self):
        text = """
            for batch in loader:
                losses = []
                for view in batch:
                    losses.append(call(view))
                sum(losses).backward()
                optimizer.step()
        """
        self.assertIs(self.adds(text), False)

    def test_a_function_that_goes_back_and_one_that_steps(self):
        inner = """
            loss = criterion(call(batch), labels)
            loss.backward()
        """
        outer = """
            for batch in loader:
                for piece in batch.chunk(4):
                    call(piece)
                optimizer.step()
        """
        self.assertTrue(self.adds(inner, outer))
        self.assertIs(self.adds(inner, outer.replace("for piece in batch.chunk(4)", "if True").replace("piece", "batch")), False)

    def test_what_frameworks_keep_of_it(self):
        def frame(**self_has):
            import sys

            self = types.SimpleNamespace(**self_has)  # noqa: F841
            return sys._getframe()

        self.assertTrue(parts.by_settings([frame(args=types.SimpleNamespace(gradient_accumulation_steps=4))]))
        self.assertIs(parts.by_settings([frame(trainer=types.SimpleNamespace(accumulate_grad_batches=1))]), False)
        state = types.SimpleNamespace(plugin_kwargs={"num_steps": 2})
        self.assertTrue(parts.by_settings([frame(gradient_state=state)]))
        self.assertIsNone(parts.by_settings([frame(args=3)]))

    def test_accelerates_own_way(self):
        text = """
            for batch in loader:
                with accelerator.accumulate(model):
                    loss = call(batch)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
        """
        self.assertIsNone(self.adds(text))


if __name__ == "__main__":
    unittest.main()
