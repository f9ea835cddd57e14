"""A rehearsal's parts that need no torch: sizes as functions of the batch, what an optimizer keeps, what is noted of
a call, when a rehearsal goes on, and what it is stopped before. Whole ones need torch: tests/torch, tests/gpu."""
import gc
import os
import signal
import sys
import tempfile
import threading
import types
import unittest
import weakref
from unittest import mock

import fake_torch
import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.rehearse import apart, catches, effects, inputs, optimizers, randoms, rehearsals, roots, rounds, sizes
from _oomph_probe.rehearse import work as works


class Sizes(unittest.TestCase):
    def told(self, *sizes_at, batches=(8072, 64, 32), fixed=()):
        """By one batch, and by all of them."""
        traces = [(batch, [str(size) for size in words]) for batch, words in zip(batches, sizes_at)]
        return sizes.by_one(traces[0][1], batches[0], set(fixed)), sizes.by_several(traces, set(fixed))

    def of(self, size, batches=(8072, 64, 32)):
        return self.told(*[[size(batch)] for batch in batches], batches=batches)[1][0]

    def test_batches_that_a_program_can_be_divided_by_none_of_them_is_one(self):
        for batch in range(1, 200):
            first, further = sizes.first_of(batch), sizes.further_of(batch)
            self.assertEqual((first % sizes.PRIME, first % 2), (0, 0))
            self.assertEqual(len({first, *further}), 3, batch)
            self.assertGreater(min(first, *further), 1)
        self.assertEqual((sizes.first_of(12), sizes.further_of(12)), (12 * 1009, (12, 6)))
        self.assertEqual((sizes.first_of(1), sizes.further_of(1)), (2 * 1009, (2, 4)))

    def test_a_multiple_of_the_batch_grows_with_it(self):
        words = [str(8072 * 512), "4096", "-2", str(8072 * 4096)]
        self.assertEqual(sizes.by_one(words, 8072, set()), ["x512", "4096", "-2", "x4096"])

    def test_what_compares_each_sample_with_each_grows_with_the_square(self):
        self.assertEqual(self.of(lambda batch: 4 * batch * batch), "xx4")

    def test_a_parameters_size_never_does(self):
        self.assertEqual(sizes.by_one([str(1009 * 512)], 8072, {1009 * 512}), [str(1009 * 512)])

    def test_one_batch_alone_does_not_tell_these(self):
        # Pairs without those of one with itself; half the batch; a queue beside it.
        for size, word in (
            (lambda batch: 4 * batch * (batch - 1), "xx4+x-4"),
            (lambda batch: 100 * (batch // 2), "x50"),
            (lambda batch: 4 * (batch + 65536), "x4+262144"),
            (lambda batch: batch * 3 // 2, "x3/2"),
            (lambda batch: 1009 * 512, "516608"),
        ):
            self.assertEqual(self.of(size), word)
            for batch in (8072, 64, 32, 12):
                self.assertEqual(sizes.size_at(word, batch), size(batch), word)

    def test_what_is_rounded_grows_with_the_batch(self):
        self.assertEqual(self.of(lambda batch: -(-batch * 12001 // 512) * 512)[:1], "x")

    def test_a_smaller_batch_that_needs_more_is_a_contradiction(self):
        with self.assertRaises(sizes.Contradiction):
            self.told([8072 * 100], [64 * 100], [64 * 200])
        # Another number of events: as many bytes in all, or not.
        few, many = [8072 * 100, 8072 * 100], [64 * 200]
        self.assertEqual(self.told(few, many, batches=(8072, 64))[1], ["x100", "x100"])
        with self.assertRaises(sizes.Contradiction):
            self.told(few, [64 * 400], batches=(8072, 64))


class Optimizers(unittest.TestCase):
    def described(self, name, group, bases=(), state=()):
        kind = type(name, bases or (object,), {})
        optimizer = kind()
        optimizer.param_groups, optimizer.state = [group], dict.fromkeys(state)
        return optimizers.describe(optimizer)

    def test_what_each_keeps_for_a_parameter(self):
        for name, group, states in [
            ("AdamW", {"foreach": None}, 2),
            ("AdamW", {"foreach": None, "amsgrad": True}, 3),
            ("SGD", {"momentum": 0, "foreach": None}, 0),
            ("SGD", {"momentum": 0.9, "foreach": None}, 1),
            ("RMSprop", {"momentum": 0.9, "centered": True}, 3),
        ]:
            self.assertEqual(self.described(name, group)["states"], states, (name, group))

    def test_a_step_that_changes_everything_in_its_place(self):
        plain = {"foreach": None, "momentum": 0.9, "weight_decay": 0, "maximize": False}
        self.assertFalse(self.described("SGD", plain)["foreach"])
        self.assertTrue(self.described("SGD", {**plain, "weight_decay": 1e-4})["foreach"])
        self.assertTrue(self.described("Adam", plain)["foreach"])
        # Of one that is derived from it nobody knows.
        self.assertTrue(self.described("Mine", plain, bases=(type("SGD", (), {}),))["foreach"])

    def test_one_that_is_derived_from_a_known_one(self):
        adam = type("Adam", (), {})
        line = self.described("Mine", {"foreach": False}, bases=(adam,))
        self.assertEqual((line["class"], line["states"], line["foreach"]), ("Mine", 2, False))

    def test_an_unknown_one_says_nothing_of_its_state(self):
        line = self.described("Shampoo", {}, state=("a",))
        self.assertNotIn("states", line)
        self.assertTrue(line["has_state"])


class Notes(unittest.TestCase):
    def shape(self, *shape):
        made = roots.Shape.__new__(roots.Shape)
        made.shape, made.dtype = shape, "float32"
        return made

    def call(self, *args, **kwargs):
        return types.SimpleNamespace(args=args, kwargs=kwargs, told=None)

    def test_the_batch_is_what_most_tensors_begin_with(self):
        call = self.call(self.shape(8, 512), mask=self.shape(8, 512), table=self.shape(512, 64))
        self.assertEqual(inputs.batch_of(call), 8)
        self.assertEqual(inputs.batch_of(self.call([self.shape(3, 4)], {"x": self.shape(3)})), 3)
        self.assertIsNone(inputs.batch_of(self.call(1, "x")))

    def test_a_list_of_images_is_no_batch_of_their_channels(self):
        images = [self.shape(3, 640, 480), self.shape(3, 512, 512)]
        with self.assertRaisesRegex(effects.Stopped, "list of 2 images"):
            inputs.batch_of(self.call(images, [{"boxes": self.shape(5, 4)}]))
        self.assertEqual(inputs.batch_of(self.call([self.shape(8, 3, 96, 96), self.shape(8, 3, 224, 224)])), 8)

    def test_the_states_of_one_recurrent_layer_are_no_images(self):
        states = [self.shape(1, 20, 1024), self.shape(1, 20, 1024)]
        call = self.call(self.shape(20, 30), states)
        call.told = 20
        self.assertEqual(inputs.batch_of(call), 20)

    def lengths(self, *lengths):
        seen, made = inputs.Inputs(), []
        for batch, length in lengths:
            call = self.call(self.shape(batch, length), mask=self.shape(batch, length))
            call.module, call.autocast, call.device = (lambda: self), (False,), "cuda:0"
            seen.add(call)
            made.append(call)
        return made

    def test_the_largest_inputs_so_far_are_rehearsed(self):
        long, short = self.lengths((8, 480), (8, 300))
        self.assertIs(works.largest_like(short), long)
        self.assertTrue(short.seen.differ())
        self.assertEqual(short.seen.line(), {"calls": 2, "least": 600, "most": 960})

    def test_of_ever_new_models_the_latest_ones_are_known(self):
        seen, models = inputs.Inputs(), []
        for number in range(3 * inputs.MOST_MODELS):
            model = type("Model", (), {})()
            # As a search does that lets go of most of its models, and as one that keeps all.
            models += [model] if number % 2 else []
            for length in (480, 300):
                call = self.call(self.shape(8, length))
                call.module, call.autocast, call.device = weakref.ref(model), (False,), "cuda:0"
                seen.add(call)
            self.assertEqual(call.seen.line(), {"calls": 2, "least": 300, "most": 480})
            self.assertLessEqual(len(seen.of_models), inputs.MOST_MODELS)

    def test_inputs_that_are_alike_and_other_batch_sizes(self):
        first, second = self.lengths((8, 300), (8, 300))
        self.assertFalse(second.seen.differ())
        large, small = self.lengths((8, 480), (4, 300))
        self.assertIs(works.largest_like(small), small)

    def test_a_place_that_calls_again_before_a_backward_is_repeated(self):
        seen, model = rounds.Rounds(), Notes
        calls = [types.SimpleNamespace(place=lambda place=place: place, module=lambda: model) for place in "aba"]
        for call, is_repeated in zip(calls, (False, False, True)):
            seen.add(call)
            self.assertEqual(seen.is_repeated(call), is_repeated)
        seen.backwards += 1
        call = types.SimpleNamespace(place=lambda: "a", module=lambda: model)
        seen.add(call)
        self.assertFalse(seen.is_repeated(call))

    def test_plain_values_and_containers_are_noted_and_nothing_else(self):
        torch = types.SimpleNamespace(Tensor=fake_torch.Tensor, nn=None, dtype=int, device=int)
        self.assertEqual(roots.noted(torch, {"a": [1, ("b", None)]}), {"a": [1, ("b", None)]})
        with self.assertRaises(roots.CannotNote):
            roots.noted(torch, object())


class Before(unittest.TestCase):
    def test_what_was_there_at_the_first_call_of_the_round_is_told_of_that_step_and_device_alone(self):
        noted = roots.Roots.__new__(roots.Roots)
        noted.rounds, noted.steps, noted.latest = rounds.Rounds(), 0, None
        self.assertIsNone(noted.at_first_call(0))
        of_device = types.SimpleNamespace(type="cuda", index=0)
        first, second = (types.SimpleNamespace(steps=0, device=of_device, before=before) for before in (70, 90))
        noted.latest = second
        self.assertEqual(noted.at_first_call(0), 90)
        noted.rounds.calls = [first, second]
        self.assertEqual(noted.at_first_call(0), 70)
        self.assertIsNone(noted.at_first_call(1))
        noted.steps = 1
        self.assertIsNone(noted.at_first_call(0))


class Work(works.Work):
    """One whose variants take `SECONDS` each, and all but the first `LATER` if that is less, by a clock of their own."""

    SECONDS, LATER, now = 0.0, float("inf"), 0.0

    def again(self, at, batch, deadline):
        Work.now += min(self.SECONDS, self.LATER)
        self.further = [*getattr(self, "further", []), at]

    def one(self, variant, batch, deadline):
        Work.now += min(self.SECONDS, self.LATER) if self.variants else self.SECONDS
        said = {"checkpointing": variant[0], "amp": variant[1]}
        said["why_not" if deadline.has_come() else "trace"] = "x"
        return said

    def beginning(self, batch):
        return {"batch": batch}


class TheEnd(unittest.TestCase):
    def setUp(self):
        self.lines, self.began = [], Work.now
        wire = mock.Mock(put=lambda line, keep: self.lines.append(line))
        self.steps, lifetime = types.SimpleNamespace(count=0, thread=None), types.SimpleNamespace(live=True)
        self.noted = mock.Mock(rounds=rounds.Rounds(), evaluated=0)
        torch = types.SimpleNamespace(cuda=types.SimpleNamespace(OutOfMemoryError=MemoryError), __file__="/torch/__init__.py")
        self.rehearsals = rehearsals.Rehearsals(torch, 7, lifetime, wire, print, self.steps, self.noted, 2, frames.Owners(None))
        self.printed, self.is_caught = [], True
        device = types.SimpleNamespace(index=0)
        self.call = types.SimpleNamespace(
            told=None, callers=None, function=None, is_evaluation=False, is_evaluated_first=False, is_without_gradients=False,
            key=lambda: "key", autocast=(False,), device=device, module=lambda: self, seen=None, args=[self.shape()], kwargs={}
        )
        for patched in (
            mock.patch.object(sys, "excepthook", lambda *error: self.printed.append(error)),
            mock.patch.object(rehearsals, "Work", Work),
            mock.patch.object(rehearsals, "SLOW_TO_IMPORT", "os"),
            mock.patch.object(rehearsals, "time", types.SimpleNamespace(monotonic=lambda: Work.now)),
            mock.patch.object(works, "time", types.SimpleNamespace(monotonic=lambda: Work.now)),
            mock.patch.object(apart, "run", lambda work, deadline, patience: (work(), None)),
            mock.patch.object(randoms, "Randoms", mock.MagicMock()),
            mock.patch.object(apart, "time", types.SimpleNamespace(monotonic=lambda: Work.now)),
            mock.patch.object(effects, "Guard", mock.MagicMock()),
            mock.patch.object(catches, "may_be_caught", lambda *_: self.is_caught),
        ):
            patched.start()
            self.addCleanup(patched.stop)

    def shape(self):
        made = roots.Shape.__new__(roots.Shape)
        made.shape = (4, 3)
        return made

    def variants(self):
        return [len(line["variants"]) for line in self.lines]

    def test_all_of_them_at_once_where_there_is_time(self):
        hook = sys.excepthook
        self.rehearsals.ran_out(self.call, "forward")
        self.assertEqual(self.variants(), [5])
        self.assertEqual(self.rehearsals.work.further, [4, 2])
        self.assertIs(sys.excepthook, hook)

    def test_what_nobody_can_catch_is_rehearsed_once_with_all_the_time_that_there_is(self):
        self.is_caught = False
        hook = sys.excepthook
        with mock.patch.object(Work, "SECONDS", 0.33):
            self.rehearsals.ran_out(self.call, "forward")
        # The fourth would not end in time.
        self.assertEqual(self.variants(), [3])
        self.assertIs(sys.excepthook, hook)

    def test_a_slow_first_one_leaves_time_for_those_that_are_fast(self):
        work = works.Work.__new__(works.Work)
        work.first_took = work.next_takes = 0.0
        for seconds, expected in ((0.8, 0.56), (0.1, 0.15), (0.6, 0.56)):
            work.took(seconds)
            self.assertAlmostEqual(work.next_takes, expected)

    def test_what_is_left_is_rehearsed_where_nobody_catches_the_error(self):
        with mock.patch.object(Work, "SECONDS", 0.8):
            self.rehearsals.ran_out(self.call, "forward")
            self.assertEqual(self.variants(), [1])
            sys.excepthook(RuntimeError, RuntimeError("out of memory"), None)
        self.assertEqual(self.variants(), [1, 2])
        # Nor was there time for further batches.
        self.assertFalse(hasattr(self.rehearsals.work, "further"))
        self.assertEqual(len(self.printed), 1)

    def test_all_of_them_together_delay_the_end_for_so_long_and_no_longer(self):
        hook = sys.excepthook
        for seconds, variants in ((0.33, [3]), (1.1, [3, 1])):
            began = Work.now
            self.rehearsals.waited(0.1)
            with mock.patch.object(Work, "SECONDS", seconds):
                self.rehearsals.ran_out(self.call, "forward")
            self.assertEqual(self.variants(), variants)
            # None would be begun after that, so nothing is left for the end.
            self.assertIs(sys.excepthook, hook)
            self.assertLessEqual(Work.now - began, 1.5)
            self.rehearsals.done.clear()

    def test_nothing_more_is_where_the_program_went_on_or_was_interrupted(self):
        with mock.patch.object(Work, "SECONDS", 0.8):
            self.rehearsals.ran_out(self.call, "forward")
            sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
            self.steps.count = 1
            sys.excepthook(RuntimeError, RuntimeError("another"), None)
        self.assertEqual(self.variants(), [1])
        self.assertEqual(len(self.printed), 2)

    def test_a_step_that_got_through_is_rehearsed_as_it_was(self):
        self.noted.latest = self.call
        for count in (1, 2, 3):
            self.rehearsals.step_ended(count)
        (line,) = self.lines
        self.assertEqual([(each["checkpointing"], each["amp"]) for each in line["variants"]], [(False, False)])
        self.assertEqual(self.rehearsals.work.further, [4, 2])
        self.noted.latest = None
        self.rehearsals.step_ended(2)
        self.assertEqual(len(self.lines), 1)

    def test_nothing_is_imported_for_a_program_that_may_go_on(self):
        with mock.patch.object(rehearsals, "SLOW_TO_IMPORT", "wave"), mock.patch.dict(sys.modules):
            sys.modules.pop("wave", None)
            self.rehearsals.ran_out(self.call, "forward")
            self.assertEqual((self.lines, "wave" in sys.modules), ([], False))
            sys.excepthook(RuntimeError, RuntimeError("out of memory"), None)
        self.assertEqual(self.variants(), [5])


class NotRehearsed(unittest.TestCase):
    def said(self, *places, version="1.9.0"):
        notes = []
        torch = types.SimpleNamespace(__path__=list(places), __version__=version)
        noted = mock.Mock(latest=None, why_not="AttributeError(...)")
        made = rehearsals.Rehearsals(
            torch, 7, mock.Mock(), mock.Mock(), lambda text, about: notes.append(text), mock.Mock(), noted, 0, frames.Owners(None)
        )
        made.ooms = 1
        made.finish()
        return notes

    def test_a_torch_that_has_no_fake_tensors_is_named_as_the_reason(self):
        why = "the step that failed could not be replayed: %s; what other batches need is only estimated"
        with tempfile.TemporaryDirectory() as home:
            self.assertEqual(self.said(home), [why % "this torch (1.9.0) has no fake tensors, which that takes"])
            simulated = self.said(home, version="2.11.0+simulated")
            self.assertEqual(simulated, [why % "the simulated torch has no fake tensors"])
            os.mkdir(os.path.join(home, "_subclasses"))
            self.assertEqual(self.said(home), [why % "AttributeError(...)"])


class OwnThread(unittest.TestCase):
    def test_what_it_raises_comes_back(self):
        def fail():
            raise ValueError("no")

        self.assertIsInstance(apart.run(fail, apart.Deadline(0), 5)[1], ValueError)
        self.assertEqual(apart.run(lambda: 5, apart.Deadline(0), 5), (5, None))

    def test_the_programs_garbage_is_not_collected_there(self):
        for before in (True, False):
            gc.enable() if before else gc.disable()
            self.addCleanup(gc.enable)
            self.assertEqual(apart.run(gc.isenabled, apart.Deadline(0), 5), (False, None))
            self.assertEqual(gc.isenabled(), before)

    def test_what_a_signals_handler_raises_is_the_programs(self):
        def handler(*_):
            raise KeyError("of the program's")

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        may_end, deadline = threading.Event(), apart.Deadline(float("inf"))
        self.addCleanup(may_end.set)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with self.assertRaises(apart.Interrupted) as raised:
            apart.run(lambda: may_end.wait(60), deadline, 60)
        error = raised.exception.error
        self.assertEqual(repr(error), repr(KeyError("of the program's")))
        # Without our frames.
        self.assertEqual(error.__traceback__.tb_frame.f_code.co_name, "handler")
        self.assertTrue(deadline.has_come())

    def test_it_is_not_waited_for_longer_and_ends_by_itself(self):
        may_end, ended = threading.Event(), threading.Event()

        def work():
            may_end.wait(60)
            ended.set()

        result, error = apart.run(work, apart.Deadline(0), 0.05)
        self.assertEqual((result, type(error)), (None, effects.Stopped))
        self.assertFalse(ended.is_set())
        may_end.set()
        self.assertTrue(ended.wait(60))


if __name__ == "__main__":
    unittest.main()
