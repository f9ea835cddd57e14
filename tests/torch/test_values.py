"""What a rehearsal answers where a forward asks for values that it does not have.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest
import unittest.mock

import rehearse
import torch
from torch import nn


class Checked(nn.Module):
    """Raises where its input is not what it should be, in two questions; and where there is a number that is none."""

    def __init__(self):
        super().__init__()
        self.inner, self.other = nn.Linear(4, 4), nn.Linear(4, 9)

    def forward(self, x):
        if x.min() < 0 or x.max() > 1:
            raise ValueError("expected x in [0, 1]")
        x = self.inner(x)
        if torch.isnan(x).any():
            return self.other(x).sum()
        assert torch.isfinite(x).all()
        return x.sum()


class Refusing(nn.Module):
    """Raises whatever is answered."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        if x.min() < 0:
            raise ValueError("yes")
        raise ValueError("no")


class Redrawing(nn.Module):
    """Draws again until nothing is drawn that may not be; `says_so`: and prints it."""

    def __init__(self, says_so=False):
        super().__init__()
        self.inner, self.says_so = nn.Linear(4, 4), says_so

    def forward(self, x):
        likely = self.inner(x).softmax(-1)
        drawn = likely.multinomial(1)
        while (drawn == 3).any():
            if self.says_so:
                print("again")
            drawn = likely.multinomial(1)
        return (likely.gather(1, drawn) * x).sum()


class Scored(nn.Module):
    """Says with its loss how many of its guesses were right, as a plain number; `sized`: and takes so many rows."""

    def __init__(self, sized=False):
        super().__init__()
        self.inner, self.sized, self.right = nn.Linear(4, 4), sized, 0

    def forward(self, x, labels):
        guessed = self.inner(x)
        right = torch.eq(guessed.softmax(-1).argmax(-1), labels).sum().item()
        self.right = self.right + right
        if self.sized:
            kept = (labels == 2).sum().item()
            return guessed[:kept].sum()
        return nn.functional.cross_entropy(guessed, labels)


class Looking(nn.Module):
    """Each head looks back as far as a trained number says."""

    def __init__(self):
        super().__init__()
        self.inner, self.span = nn.Linear(4, 4), nn.Parameter(torch.full((2, 1), 0.25))

    def forward(self, x):
        kept = int((self.span.max() * 12).ceil().item())
        return (self.inner(x)[:, :kept].contiguous() * self.span.max()).sum()


class Selecting(nn.Module):
    """Puts what it makes into the columns that a mask of its own names, as adapters of merged projections do."""

    def __init__(self):
        super().__init__()
        self.inner, self.small = nn.Linear(4, 12), nn.Linear(4, 8, bias=False)
        self.chosen = torch.zeros(3, 4, dtype=torch.bool)
        self.chosen[[0, 2]] = True
        self.chosen = self.chosen.view(-1)

    def forward(self, x):
        rows = self.small.weight.new_zeros((len(self.chosen), 4))
        rows[self.chosen] = self.small.weight
        return (self.inner(x) + nn.functional.linear(x, rows)).sum()


class Rolling(nn.Module):
    """Shifts its input by where its strongest frequencies are; `is_size`: makes as much as their sum says."""

    def __init__(self, is_size=False):
        super().__init__()
        self.inner, self.is_size = nn.Linear(8, 8), is_size

    def forward(self, x):
        x = self.inner(x)
        strength, at = torch.topk(x.mean(0), 2)
        if self.is_size:
            return x.sum() + torch.zeros(int(at.sum())).sum()
        return sum((torch.roll(x, -int(at[place]), 1) * strength[place]).sum() for place in range(2))


class Stepping(nn.Module):
    """Goes on in steps as long as numbers say, whose sizes it has checked; `keeps`: and backward needs each of them."""

    def __init__(self, keeps):
        super().__init__()
        self.inner, self.keeps = nn.Linear(64, 64), keeps

    def forward(self, x):
        y, at, last = self.inner(x), x.new_zeros(()), x.sum()
        while at < last:
            if (y > 1e9).any():
                raise ValueError("too far")
            with torch.set_grad_enabled(self.keeps):
                y = torch.tanh(self.inner(y))
            at = at + y.abs().max().detach()
        return self.inner(y).sum()


class Thinning(nn.Module):
    """Looks for points that are far from each other, one after the other, with a mask for what is nearer now. Without
    any it takes those features that say so."""

    def __init__(self, points):
        super().__init__()
        self.inner, self.points = nn.Linear(3, 1024), points

    def forward(self, x):
        distance, last = x.new_full(x.shape[:2], 1e10), x.new_zeros(x.shape[0], dtype=torch.long)
        rows, chosen = torch.arange(x.shape[0]), []
        for _ in range(self.points):
            chosen.append(last)
            now = ((x - x[rows, last, :].unsqueeze(1)) ** 2).sum(-1)
            is_nearer = now < distance
            distance[is_nearer] = now[is_nearer]
            last = distance.max(-1)[1]
        y = self.inner(x)
        return (y * distance.unsqueeze(-1)).sum() if self.points else y[y > 0].sum()


class Values(unittest.TestCase):
    def test_a_loop_that_keeps_memory_ends_the_rehearsal_and_others_have_one_turn(self):
        why_not = rehearse.why_not(rehearse.said(Stepping(True), torch.rand(8, 64)))
        self.assertRegex(why_not, r"^how often a loop runs depends on the values of tensors \(test_values.py:\d+\)$")
        self.assertIsNone(rehearse.why_not(rehearse.said(Stepping(False), torch.rand(8, 64))))

    def test_masks_of_little_are_no_reason_for_another_rehearsal(self):
        shares, said = [], rehearse.work.Work.said

        def with_shares(work, *args):
            shares.append(work.shares)
            return said(work, *args)

        for points in (12, 0):
            with unittest.mock.patch.object(rehearse.work.Work, "said", with_shares):
                line = rehearse.said(Thinning(points), torch.rand(4, 32, 3))
            self.assertIsNone(rehearse.why_not(line))
            self.assertTrue(line["assumes_values"])
        # Forward asks for its places, and so does backward.
        self.assertEqual(shares, [[], [2, 2]])

    def test_a_place_is_no_size(self):
        line = rehearse.said(Rolling(), torch.zeros(16, 8))
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["assumes_values"])
        # What is computed of places may be anything.
        self.assertIn("depends on the values", rehearse.why_not(rehearse.said(Rolling(True), torch.zeros(16, 8))))

    def test_how_many_guesses_are_right_is_no_size(self):
        x, labels = torch.rand(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
        said = rehearse.said(Scored(), x, labels, reads_values=True)
        self.assertIsNone(rehearse.why_not(said))
        self.assertTrue(said["assumes_values"])
        # How many labels are of a kind may be one.
        said = rehearse.said(Scored(sized=True), x, labels)
        self.assertIn("depends on the values", rehearse.why_not(said))

    def test_a_few_trained_numbers_are_read(self):
        line = rehearse.said(Looking(), torch.rand(8, 12, 4))
        self.assertIsNone(rehearse.why_not(line))
        self.assertNotIn("assumes_values", line)
        # Three of twelve.
        self.assertIn("x%d" % (3 * 4 * 4), line["variants"][0]["trace"].split())

    def test_a_mask_that_the_model_keeps_is_read(self):
        line = rehearse.said(Selecting(), torch.rand(8, 4))
        self.assertIsNone(rehearse.why_not(line))
        self.assertNotIn("assumes_values", line)

    def test_a_check_that_raises_is_passed(self):
        line = rehearse.said(Checked(), torch.rand(8, 4))
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["assumes_values"])
        # The way that is taken where something is no number makes nine of each sample.
        self.assertNotIn("x36", line["variants"][0]["trace"].split())
        self.assertEqual(line["batch"], 8)

    def test_a_loop_that_asks_before_each_turn_ends(self):
        for says_so in (False, True):
            line = rehearse.said(Redrawing(says_so), torch.rand(8, 4))
            self.assertIsNone(rehearse.why_not(line))
            self.assertTrue(line["assumes_values"])
        # Nothing was printed, so nothing was drawn again.
        again, not_again = (rehearse.said(Redrawing(each), torch.rand(8, 4))["variants"][0]["trace"].split()
                            for each in (False, True))
        self.assertEqual(again.count("x8"), not_again.count("x8") + 1)

    def test_what_raises_whatever_is_answered_is_said(self):
        self.assertEqual(rehearse.why_not(rehearse.said(Refusing(), torch.rand(8, 4))), "ValueError: no")
