"""The loss of a rehearsal is the program's, by the lines that call its model; and what these bind stays.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest

import losses_of
import on_cpu
import rehearse
import torch
import torch.nn.functional as F

WIRE = on_cpu.install(patience=rehearse.PATIENCE)


def lines_of(function):
    """What is said when it runs out of memory."""
    del WIRE.lines[:]
    WIRE.forget()
    try:
        function()
    except torch.OutOfMemoryError:
        pass
    (line,) = WIRE.lines
    return line


def sizes(line):
    return sorted({word for word in line["variants"][0]["trace"].split() if not word.startswith("-")})


class Losses(unittest.TestCase):
    def is_its_own(self, function):
        line = lines_of(function)
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["own_loss"], function.__name__)
        return line

    def test_all_ways(self):
        for function in (
            losses_of.log_likelihood, losses_of.squared, losses_of.in_one_line, losses_of.by_a_function_of_its_own,
            losses_of.by_a_module_of_its_own, losses_of.by_a_method, losses_of.by_what_a_method_returns,
            losses_of.a_sum, losses_of.under_autocast, losses_of.flat_targets, losses_of.kept_until_bound_again,
            losses_of.let_go, losses_of.of_a_dict, losses_of.with_a_figure_to_print,
            losses_of.by_an_attribute, losses_of.up_to_the_longest, losses_of.with_a_gradient_that_is_given,
            losses_of.with_one_for_a_single_number,
        ):
            with self.subTest(function.__name__):
                self.is_its_own(function)

    def test_no_other_loss_is_added(self):
        """Log-softmax in the model and its NLL: nothing of the logits' size is made by a cross-entropy."""
        trace = self.is_its_own(losses_of.log_likelihood)["variants"][0]["trace"].split()
        logits = "x%d" % (losses_of.CLASSES * 4)
        # The head's, the log-softmax's, and their two gradients.
        self.assertEqual(trace.count(logits), 4)

    def test_what_is_kept_until_it_is_bound_again(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        line = self.is_its_own(losses_of.kept_until_bound_again)
        self.assertIn(logits, held_of(line))
        self.assertIn(logits, held_of(self.is_its_own(losses_of.of_a_dict)))
        self.assertNotIn(logits, held_of(self.is_its_own(losses_of.let_go)))
        # A function that ends lets go of its variables.
        self.assertEqual(held_of(self.is_its_own(losses_of.by_a_method)), [])

    def outliving(self, function):
        """The sizes of what is held until bound again, of what there is more of after each step, and of what may be held."""
        line = self.is_its_own(function)
        return [held_of(line, name) for name in ("held", "grows", "may_hold")]

    def test_what_is_put_into_a_list(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        held, grows, may = self.outliving(losses_of.appended)
        self.assertEqual((grows, may), ([logits], []))
        self.assertNotIn(logits, held)
        # Only now and then, and made behind backward.
        held, grows, may = self.outliving(losses_of.appended_behind)
        self.assertEqual((grows, may, held.count(logits)), ([], [logits], 1))
        # One that is made anew in each step is let go of before the next.
        held, grows, may = self.outliving(losses_of.appended_to_a_list_of_its_own)
        self.assertEqual((held.count(logits), grows, may), (1, [], []))

    def test_what_is_put_into_a_list_of_its_own_is_a_part_of_the_loss(self):
        """Three calls of the model, of which memory ran out in the first."""
        words = self.is_its_own(losses_of.gathered)["variants"][0]["trace"].split()
        self.assertIn("x%d" % (2 * losses_of.CLASSES * 4), words)
        hidden = "x%d" % (4 * losses_of.WIDTH * 4)
        self.assertEqual(words.count(hidden) % 3, 0)

    def test_what_is_an_attribute(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        held, grows, may = self.outliving(losses_of.collected)
        self.assertEqual((held, grows, may), ([logits], [logits], []))
        self.assertIn(logits, self.outliving(losses_of.by_an_attribute)[0])

    def test_what_is_deleted_or_bound_again_behind_backward(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        self.assertEqual(self.outliving(losses_of.deleted), [[], [], []])
        # The state, not the output.
        self.assertEqual(self.outliving(losses_of.carried_over)[0].count(logits), 1)

    def test_where_the_lines_do_not_tell_both_are_said(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        self.assertEqual(self.outliving(losses_of.returned), [[], [], [logits]])
        self.assertEqual(held_of(lines_of(losses_of.unknown), "may_hold"), [logits])

    def test_a_model_that_is_copied_later(self):
        self.assertTrue(self.is_its_own(losses_of.averaged)["copies_model"])
        self.assertNotIn("copies_model", self.is_its_own(losses_of.deleted))

    def test_when_the_gradients_are_let_go_of(self):
        for function, when in (
            (losses_of.cleared_first, "forward"), (losses_of.cleared_between, "backward"),
            (losses_of.set_to_zero, "never"), (losses_of.deleted, "unknown"),
            (losses_of.cleared_first_and_between, "forward"), (losses_of.cleared_once_and_between, "backward"),
        ):
            with self.subTest(function.__name__):
                self.assertEqual(self.is_its_own(function).get("zero_grad"), when)

    def test_one_that_nothing_seen_goes_backward_from(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        for function in (
            losses_of.by_a_framework, losses_of.in_a_branch_of_its_backward, losses_of.evaluated_first,
        ):
            with self.subTest(function.__name__):
                trace = self.is_its_own(function)["variants"][0]["trace"].split()
                self.assertEqual(trace.count(logits), 4)
        self.assertEqual(losses_of.HISTORY, [])

    def test_one_that_the_model_keeps(self):
        logits = "x%d" % (losses_of.CLASSES * 4)
        trace = self.is_its_own(losses_of.kept_by_its_model)["variants"][0]["trace"].split()
        # The head's, the log-softmax's, and their two gradients: no second loss.
        self.assertEqual(trace.count(logits), 4)
        self.assertFalse(lines_of(losses_of.of_which_it_keeps_a_part)["own_loss"])

    def test_where_it_is_not_to_be_found_it_is_assumed(self):
        line = lines_of(losses_of.unknown)
        self.assertIsNone(rehearse.why_not(line))
        self.assertFalse(line["own_loss"])

    def test_one_that_changes_what_is_outside_does_so_in_a_copy(self):
        self.is_its_own(losses_of.changes_something)
        self.assertEqual(losses_of.HISTORY, [])

    def test_nothing_of_the_programs_goes_backward(self):
        line = lines_of(losses_of.by_one_of_an_earlier_step)
        self.assertFalse(line["own_loss"])
        earlier, loss = losses_of.EARLIER
        self.assertEqual([each.grad for each in earlier.parameters()], [None] * 4)
        # Its graph is still there.
        loss.backward()

    def test_the_peak_is_that_of_the_real_step(self):
        line = self.is_its_own(losses_of.log_likelihood)
        real = losses_of.Model("log")
        real.runs_out = False
        y = torch.randint(losses_of.CLASSES, (512,))
        bound = []

        def loss(output):
            bound.append(output)
            return F.nll_loss(output, y)

        peak = rehearse.real_peak(real, torch.randn(512, losses_of.WIDTH), loss=loss)
        self.assertLess(abs(rehearse.peak(line, 512) / peak - 1), 0.02)


def held_of(line, name="held"):
    """The sizes of what outlives the step in this way."""
    variant = line["variants"][0]
    made = [word for word in variant["trace"].split() if not word.startswith("-")]
    return [made[number] for number in variant.get(name, ())]


if __name__ == "__main__":
    unittest.main()
