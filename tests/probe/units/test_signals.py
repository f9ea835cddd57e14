"""What a signal's handler of the program's raises while the probe is at work on its thread."""
import functools
import signal
import threading
import types
import unittest

import support  # noqa: F401
from _oomph_probe import hook
from _oomph_probe.common import errors, signals
from _oomph_probe.oom import observer


class Mine(Exception):
    pass


def handler(number, frame):
    raise Mine


class Handler:
    def method(self, number, frame):
        raise Mine

    def __call__(self, number, frame):
        raise Mine


def more(of, number, frame):
    raise Mine


class AtAnyOtherTime(unittest.TestCase):
    """A wrapper of ours is at work on the program's thread, or the probe is being loaded."""

    def setUp(self):
        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        kept = errors.here.is_a_handlers
        self.addCleanup(setattr, errors.here, "is_a_handlers", kept)
        errors.here.is_a_handlers = signals.is_a_handlers

    def catching(self, says):
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception:
            says("at work")

    def test_it_goes_on_to_the_program(self):
        for says in (errors.ours, errors.foreseen, hook.swallowed):
            count = errors.here.count
            with self.subTest(says), self.assertRaises(Mine):
                self.catching(says)
            self.assertEqual(errors.here.count, count, "it is no error of ours")

    def test_an_error_of_ours_does_not(self):
        count = errors.here.count
        for says in (errors.ours, errors.foreseen):
            try:
                raise KeyError("torch")
            except Exception:
                says("at work")
        self.assertEqual(errors.here.count, count + 1)

    def test_nor_does_one_on_another_thread(self):
        found = []

        def work():
            try:
                handler(1, None)
            except Exception:
                errors.ours("at work")
                found.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(found, [True])


class Refusals(unittest.TestCase):
    """What is no Exception, where the program's thread comes into our lines."""

    def setUp(self):
        for name in ("is_refusal", "is_a_handlers"):
            self.addCleanup(setattr, errors.here, name, getattr(errors.here, name))
        errors.here.is_refusal, errors.here.is_a_handlers = hook.is_refusal, signals.is_a_handlers

    def at_work(self, act):
        try:
            act()
        except BaseException:
            errors.refused("at work")

    def test_an_exit_that_a_hook_of_the_programs_asks_for_ends_nothing(self):
        def refuse(event, *about):
            raise SystemExit("no " + event)

        count = errors.here.count
        self.at_work(lambda: refuse("import"))
        self.assertEqual(errors.here.count, count + 1)

    def test_one_of_a_handlers_is_the_programs(self):
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))

        def ends(number, frame):
            raise SystemExit(143)

        signal.signal(signal.SIGUSR1, ends)
        with self.assertRaises(SystemExit):
            self.at_work(lambda: signal.raise_signal(signal.SIGUSR1))

    def test_one_that_comes_in_a_librarys_line_is_the_programs(self):
        thrown = compile("raise SystemExit", threading.__file__, "exec")
        with self.assertRaises(SystemExit):
            self.at_work(lambda: exec(thrown))


class WhileAnOomIsLookedAt(unittest.TestCase):
    def setUp(self):
        self.before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)
        self.parts = []

    def tearDown(self):
        signal.signal(signal.SIGUSR1, self.before[0])
        signal.signal(signal.SIGINT, self.before[1])

    def observe(self, act):
        """Of the parts of an OOM the second one does this."""
        parts = [types.SimpleNamespace(put=lambda *_, **__: None, flush=lambda *_: None)]
        made = observer.Observer(types.SimpleNamespace(live=True), *parts, *[None] * 7)

        def part(name, does=lambda: None):
            def send(*_):
                self.parts.append(name)
                does()

            send.__name__ = name
            return send

        made.send_record, made.send_knobs, made.trace = part("record"), part("knobs", act), part("trace")
        made.send_retainers = made.send_census = made.send_dump = made.waited = part("more")
        made.observe(0, 1, 2, 3)

    def swallowing(self):
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Exception:
            errors.foreseen("a part of a part")

    def test_it_goes_on_to_the_program(self):
        handlers = handler, Handler().method, Handler(), functools.partial(more, 1)
        for each in handlers:
            signal.signal(signal.SIGUSR1, each)
            for act in (lambda: signal.raise_signal(signal.SIGUSR1), self.swallowing):
                count, self.parts = errors.here.count, []
                try:
                    self.observe(act)
                    self.fail(each)
                except Mine as error:
                    trace, names = error.__traceback__, []
                self.assertEqual(self.parts, ["record", "knobs"])
                self.assertEqual(errors.here.count, count, "it is no error of ours")
                while trace is not None:
                    names.append(trace.tb_frame.f_code.co_name)
                    trace = trace.tb_next
                self.assertEqual(names[-2], "observe")

    def test_so_does_ctrl_c(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with self.assertRaises(KeyboardInterrupt):
            self.observe(lambda: signal.raise_signal(signal.SIGINT))

    def test_an_error_of_ours_does_not(self):
        count = errors.here.count
        self.observe(lambda: {}["missing"])
        self.assertEqual((self.parts[-1], errors.here.count), ("more", count + 1))
        self.assertIsNone(errors.here.is_theirs)

    def test_what_a_function_in_ours_place_raises_does_not(self):
        def of_the_program():
            raise SystemExit(99)

        self.observe(of_the_program)
        self.assertEqual(self.parts[-1], "more")

    def test_on_another_thread_there_is_none(self):
        thread = threading.Thread(target=self.observe, args=[lambda: {}["missing"]])
        thread.start()
        thread.join()
        self.assertEqual(self.parts[-1], "more")

    def test_outside_of_an_oom_nothing_is_kept(self):
        signal.signal(signal.SIGUSR1, handler)
        self.swallowing()
        self.assertIsNone(errors.here.theirs)
        self.observe(lambda: None)


class AThreadOfOurs(unittest.TestCase):
    def test_takes_no_signal_but_its_own(self):
        blocked = []

        def run():
            signals.take_none()
            blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        for taken in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM, signal.SIGPROF, signal.SIGRTMIN + 3):
            self.assertIn(taken, blocked[0])
        self.assertNotIn(signal.SIGSEGV, blocked[0])
        self.assertNotIn(signal.SIGTERM, signal.pthread_sigmask(signal.SIG_BLOCK, ()))


if __name__ == "__main__":
    unittest.main()
