"""Which lines lead to the backwards of a round behind its first, and where a round begins."""
import ast
import types
import unittest

import support  # noqa: F401
from _oomph_probe.rehearse import further, rounds


def lines_of(text):
    return [ast.unparse(each) for each in further.lines_of(ast.parse(text).body, {"loss"})]


@unittest.skipUnless(hasattr(ast, "unparse"), "since Python 3.9")
class Further(unittest.TestCase):
    def test_what_a_further_backward_depends_on(self):
        self.assertEqual(
            lines_of(
                "optimizer.step()\n"
                "print(loss.item())\n"
                "other.zero_grad()\n"
                "real = critic(images)\n"
                "fake = critic(made.detach())\n"
                "total = real - fake\n"
                "shown = total.item()\n"
                "total.backward()\n"
                "other.step()\n"
            ),
            [
                "__oomph_clears__(other)", "real = critic(images)", "fake = critic(made.detach())", "total = real - fake",
                "__oomph_backward__(total, False)",
            ],
        )

    def test_of_a_branch_only_what_leads_to_it(self):
        self.assertEqual(
            lines_of(
                "if step % 2 == 0:\n"
                "    log(step)\n"
                "    score = critic(maker(noise))\n"
                "    scaler.scale(score.mean()).backward(retain_graph=True)\n"
                "    optimizer.step()\n"
            ),
            ["if step % 2 == 0:\n    score = critic(maker(noise))\n    __oomph_backward__(score.mean(), True)"],
        )

    def test_a_gradient_that_is_given_is_no_loss(self):
        self.assertEqual(
            lines_of(
                "score = critic(made)\n"
                "score.backward(one)\n"
                "loss.backward(gradient=weights)\n"
                "accelerator.backward(score)\n"
                "self.manual_backward(score.mean())\n"
            ),
            [
                "score = critic(made)", "__oomph_backward__(score.sum(), False)", "__oomph_backward__(loss.sum(), False)",
                "__oomph_backward__(score, False)", "__oomph_backward__(score.mean(), False)",
            ],
        )

    def test_nothing_where_there_is_none(self):
        self.assertEqual(lines_of("optimizer.step()\noptimizer.zero_grad()\nlosses.append(loss.item())\n"), [])


class Rounds(unittest.TestCase):
    def setUp(self):
        self.rounds, self.model = rounds.Rounds(), object()

    def call(self, place):
        made = types.SimpleNamespace(place=lambda: place, module=lambda model=self.model: model, backwards=0, first=None)
        self.rounds.add(made)
        return made

    def test_it_begins_where_a_place_calls_again_behind_a_backward(self):
        generator, critic = self.call("generator"), self.call("critic")
        self.rounds.backwards += 1
        later = self.call("critic of real ones")
        self.assertIs(self.rounds.first_of(critic), generator)
        self.assertIs(self.rounds.first_of(later), generator)
        self.assertIsNone(self.rounds.first_of(generator))
        self.rounds.backwards += 1
        again = self.call("generator")
        self.assertIsNone(self.rounds.first_of(again))
        self.assertIs(again.first, generator)

    def test_several_views_before_one_backward_are_of_one_round(self):
        views = [self.call("view") for _ in range(4)]
        self.assertIs(self.rounds.first_of(views[-1]), views[0])

    def test_another_model_at_the_same_place_is_another_first(self):
        first = self.call("model")
        self.model = object()
        self.assertIsNot(self.call("model").first, first)


if __name__ == "__main__":
    unittest.main()
