"""The allocator's history of one step, condensed: written down by hand as torch has it."""
import os
import tempfile
import unittest

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.live import snapshot, step_trace

TORCH = "/lib/site-packages/torch/"


class Owners:
    torch_home = TORCH

    def innermost_own(self, paths):
        return next((at for at, path in enumerate(paths) if not path.startswith("/lib") and not frames.is_compiled(path)), None)


def frame(path, line, name="step"):
    return {"filename": path, "line": line, "name": name}


MODEL = [frame(TORCH + "nn/linear.py", 5, "forward"), frame("/home/me/train.py", 10)]
OPTIMIZER = [frame(TORCH + "optim/adam.py", 7), frame("/home/me/train.py", 12)]
RECOMPUTED = [frame("/home/me/train.py", 4), frame(TORCH + "utils/checkpoint.py", 9, "unpack_hook")]


def alloc(address, size, stack, at, stream=0):
    return {"action": "alloc", "addr": address, "size": size, "stream": stream, "time_us": at, "frames": stack}


def free(address, size, at):
    return {"action": "free_completed", "addr": address, "size": size, "stream": 0, "time_us": at}


def block(address, size, stack=()):
    return {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": list(stack)}


def condense(events, blocks=(), began=100, optimizer=None, kinds=None, seen=None, places=None):
    segments = [{"address": 0, "blocks": list(blocks)}]
    modules = step_trace.Modules(seen, places or {})
    return step_trace.condense(segments, events, began, optimizer, kinds or {}, modules, Owners())


class TheTrace(unittest.TestCase):
    def test_names_blocks_by_how_long_ago_they_were_allocated(self):
        line = condense([alloc(8, 1024, MODEL, 101), alloc(9, 512, MODEL, 102, stream=77), free(8, 1024, 103)])
        self.assertEqual(line["trace"], "| 1024 512@1 -2")

    def test_begins_with_what_was_alive_by_address(self):
        events = [alloc(4, 10, MODEL, 101), free(50, 7, 102), alloc(50, 9, MODEL, 103)]
        line = condense(events, [block(4, 10), block(20, 3), block(50, 9)])
        self.assertEqual(line["trace"], "3 7 | 10 -2 9")

    def test_leaves_out_what_was_before_and_what_is_no_block(self):
        events = [alloc(1, 5, MODEL, 99), {"action": "segment_alloc", "addr": 0, "size": 9, "stream": 0, "time_us": 101}]
        self.assertEqual(condense(events)["trace"], "|")

    def test_says_where_what_was_alive_lay(self):
        segments = [
            {"address": 4096, "total_size": 4096, "stream": 0, "blocks": [
                {"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated"},
                {"address": 4608, "size": 1024, "state": "inactive"},
                {"address": 5632, "size": 2560, "requested_size": 2000, "state": "active_allocated"},
            ]},
            # Taken in the step, for a block of the step.
            {"address": 16384, "total_size": 512, "stream": 0, "blocks": [
                {"address": 16384, "size": 512, "requested_size": 500, "state": "active_allocated"},
            ]},
        ]
        events = [
            free(4608, 900, 101),
            {"action": "segment_free", "addr": 8192, "size": 512, "stream": 0, "time_us": 102},
            {"action": "segment_alloc", "addr": 16384, "size": 512, "stream": 0, "time_us": 103},
            alloc(16384, 500, MODEL, 104),
        ]
        modules = step_trace.Modules(None, {})
        line = step_trace.condense(segments, events, 100, None, {}, modules, Owners())
        self.assertEqual(line["trace"], "100 900 2000 | -2 500")
        self.assertEqual(line["layout"], "+4096 . . 2560 +512 -512")

    def test_says_nothing_of_segments_that_grow_and_of_private_pools(self):
        for more in ({"is_expandable": True}, {"segment_pool_id": (0, 1)}):
            segments = [{"address": 0, "total_size": 512, "stream": 0, "blocks": [block(0, 512)], **more}]
            line = step_trace.condense(segments, [], 100, None, {}, step_trace.Modules(None, {}), Owners())
            self.assertNotIn("layout", line)

    def test_a_free_of_what_nobody_allocated_twice_is_left_out(self):
        line = condense([free(50, 7, 101), free(50, 7, 102)])
        self.assertEqual(line["trace"], "7 | -1")


class ThePhases(unittest.TestCase):
    def test_are_told_by_the_stacks_and_the_optimizers_time(self):
        events = [
            alloc(1, 5, MODEL, 101),
            alloc(2, 5, [], 102),
            alloc(3, 5, RECOMPUTED, 103),
            free(3, 5, 104),
            alloc(4, 5, OPTIMIZER, 111),
        ]
        phases = condense(events, optimizer=110)["phases"]
        self.assertEqual(
            [(phase["phase"], phase["from"]) for phase in phases],
            [("forward", 0), ("backward", 1), ("optimizer", 4)],
        )

    def test_an_event_without_a_stack_is_of_the_phase_before(self):
        events = [alloc(1, 5, [], 101), {**alloc(2, 5, None, 102)}]
        self.assertEqual([each["phase"] for each in condense(events)["phases"]], ["backward"])


class TheModules(unittest.TestCase):
    NAMES = {1: "h.0", 2: "h.0.mlp"}

    def test_are_those_that_were_running(self):
        seen = [(100, 1), (102, 2), (104, 1), (106, None)], self.NAMES
        events = [alloc(at, 5, MODEL, at) for at in (101, 102, 103, 105, 107)]
        line = condense(events, seen=seen)
        self.assertEqual(line["modules"], ["h.0", "h.0.mlp"])
        self.assertEqual(line["block_modules"], "1 2*2 1 0")

    def test_of_parameters_and_what_belongs_to_them_are_known_by_address(self):
        seen = [(100, 1)], self.NAMES
        events = [alloc(1, 5, MODEL, 101), alloc(2, 5, OPTIMIZER, 111)]
        line = condense(events, [block(9, 4)], optimizer=110, seen=seen, places={9: "head", 1: "h.0.mlp"})
        self.assertEqual([line["modules"], line["block_modules"]], [["head", "h.0.mlp"], "1 2 0"])

    def test_are_left_out_where_none_was_seen(self):
        self.assertNotIn("modules", condense([alloc(1, 5, MODEL, 101)]))


class TheBackward(unittest.TestCase):
    def test_has_what_a_hook_of_a_module_allocates(self):
        hook = [frame("/home/me/samples.py", 58, "accumulate"), frame(TORCH + "utils/hooks.py", 137, "hook")]
        line = condense([alloc(1, 5, MODEL, 101), alloc(2, 5, hook, 102), alloc(3, 5, [], 103)])
        self.assertEqual([each["phase"] for each in line["phases"]], ["forward", "backward"])


class TheOrigins(unittest.TestCase):
    def test_are_the_programs_lines_with_the_kind_of_what_is_left(self):
        events = [alloc(1, 5, MODEL, 101), free(1, 5, 102), alloc(1, 5, MODEL, 103), alloc(2, 5, [], 104)]
        line = condense(events, [block(9, 4, MODEL)], kinds={9: "parameters", 1: "gradients"})
        self.assertEqual(line["blocks"], "1 2 3 0")
        self.assertEqual([row.get("kind") for row in line["origins"]], ["parameters", None, "gradients"])
        self.assertEqual(line["origins"][1]["line"]["line"], 10)
        self.assertEqual(line["origins"][1]["inside"]["function"], "forward")

    def test_of_a_compiled_backward_are_those_of_its_forward(self):
        with tempfile.TemporaryDirectory() as place:
            paths = {}
            for name, header in (("forward", "0_forward"), ("backward", "0_backward"), ("other", "1_backward")):
                folder = os.path.join(place, name[:2])
                os.mkdir(folder)
                paths[name] = os.path.join(folder, "c%s%s.py" % (name[:2], "x" * 50))
                with open(paths[name], "w") as file:
                    file.write("# AOT ID: ['%s']\n# Topologically Sorted Source Nodes: [y], Original ATen: []\nbuf0 = 1\n" % header)
            apply = frame(TORCH + "autograd/function.py", 9, "apply")
            forward = [frame(paths["forward"], 3, "call"), apply, frame("/home/me/model.py", 40, "forward")]
            events = [
                alloc(8, 1024, forward, 101), alloc(9, 512, [frame(paths["backward"], 3, "call"), apply], 102),
                alloc(10, 256, [frame(paths["other"], 3, "call"), apply], 103),
            ]
            line = condense(events)
        rows = [(row["line"]["file"], row["line"]["function"], row.get("inside", {}).get("file")) for row in line["origins"]]
        compiled = "compiled region"
        self.assertEqual(rows[0][:2], ("/home/me/model.py", "forward"))
        self.assertEqual(rows[1], ("/home/me/model.py", "forward", compiled))
        self.assertEqual(rows[2], (compiled, "[y]", None))
        self.assertEqual([each["phase"] for each in line["phases"]], ["forward", "backward"])

    def test_a_compiled_backward_without_one_line_is_a_region_of_its_function(self):
        with tempfile.TemporaryDirectory() as place:
            paths = {}
            for name, header in (("forward", "0_forward"), ("backward", "0_backward"), ("other", "1_backward")):
                folder = os.path.join(place, name[:2])
                os.mkdir(folder)
                paths[name] = os.path.join(folder, "c%s%s.py" % (name[:2], "x" * 50))
                with open(paths[name], "w") as file:
                    file.write("# AOT ID: ['%s']\n# Topologically Sorted Source Nodes: [y], Original ATen: []\nbuf0 = 1\n" % header)
            called = [
                [frame(paths["forward"], 3, "call"), frame("/home/me/model.py", line, "forward")] for line in (40, 44)
            ]
            backwards = [[frame(paths[name], 3, "call")] for name in ("backward", "other")]
            blocks = [block(at, 512, stack) for at, stack in enumerate(called + backwards)]
            events = [alloc(100 + at, 512, stack, 101 + at) for at, stack in enumerate(called + backwards)]
            rows = [row["line"] for row in condense(events)["origins"]]
            segments = [{"address": 0, "blocks": blocks}]
            held = snapshot.holdings(segments, Owners())[0]
        self.assertEqual([row["line"] for row in rows[:2]], [40, 44])
        region = {"file": "compiled region of model.py:forward", "line": 0, "function": "[y]"}
        self.assertEqual(rows[2:], [region, dict(region, file="compiled region")])
        self.assertEqual([each["line"] for each in held], rows, "and at an OOM too")

    def test_in_a_row_are_counted(self):
        self.assertEqual(step_trace.runs([0, 0, 3, 1, 1, 1]), "0*2 3 1*3")
        self.assertEqual(step_trace.runs([]), "")


if __name__ == "__main__":
    unittest.main()
