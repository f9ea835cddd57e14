"""The stand-in as a tool sees it: initialisation, statistics, snapshot, observer, hooks, and what autograd holds."""
import json
import unittest

from support import GIB, MIB, python


def ask(code, **changes):
    """Run code that prints one JSON line; its value."""
    status, output, errors = python("import json, sys, torch\n" + code, **changes)
    if status:
        raise AssertionError(errors)
    return json.loads(output.splitlines()[-1])


class Initialisation(unittest.TestCase):
    def test_nothing_is_initialised_before_the_first_allocation(self):
        got = ask(
            """
seen = []
torch.cuda._lazy_call(lambda: seen.append((torch.cuda.is_initialized(), torch._C._cuda_memoryStats(0)
    ["allocation"]["all"]["allocated"])))
try:
    torch._C._cuda_memoryStats(0)
except RuntimeError as error:
    refused = str(error)
before = [torch.cuda.is_initialized(), torch.cuda.memory_stats(), torch.cuda.device_count(), list(seen)]
torch.zeros(4, device="cuda")
torch.cuda._lazy_call(lambda: seen.append("at once"))
print(json.dumps([before, refused, seen, torch.cuda.is_initialized()]))
"""
        )
        self.assertEqual(got[0], [False, {}, 1, []])
        self.assertIn("did you call init?", got[1])
        self.assertEqual(got[2:], [[[False, 0], "at once"], True])

    def test_a_forked_child_is_not_initialised(self):
        got = ask(
            """
import os
torch.zeros(1, device="cuda")
read, write = os.pipe()
if os.fork() == 0:
    try:
        torch.zeros(1, device="cuda")
        word = "worked"
    except RuntimeError as error:
        word = str(error)
    os.write(write, json.dumps([torch.cuda.is_initialized(), word]).encode())
    os._exit(0)
os.wait()
print(os.read(read, 4096).decode())
"""
        )
        self.assertFalse(got[0])
        self.assertIn("Cannot re-initialize CUDA in forked subprocess", got[1])

    def test_the_device_says_that_it_is_simulated(self):
        got = ask(
            "p = torch.cuda.get_device_properties(0); print(json.dumps([p.name, p.total_memory, str(p.uuid),"
            " torch.__version__, torch.cuda.memory.get_allocator_backend()]))",
            OOMPH_SIMULATED_CARD_GIB="8",
        )
        self.assertEqual(got[:2], ["simulated GPU (8 GiB)", 8 * GIB])
        self.assertTrue(got[2].startswith("SIM"))
        self.assertEqual(got[3:], ["2.11.0+simulated", "native"])


class Statistics(unittest.TestCase):
    def test_the_nested_dict_has_the_real_keys(self):
        got = ask("torch.zeros(1, device='cuda'); print(json.dumps(torch._C._cuda_memoryStats(0)))")
        for name in (
            "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
            "inactive_split_bytes", "requested_bytes",
        ):
            self.assertEqual(set(got[name]), {"all", "small_pool", "large_pool"})
            self.assertEqual(set(got[name]["all"]), {"current", "peak", "allocated", "freed"})
        for name in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "max_split_size"):
            self.assertIsInstance(got[name], int)
        self.assertEqual(set(got["oversize_segments"]), {"current", "peak", "allocated", "freed"})

    def test_peaks_are_reset_and_memory_comes_back_with_the_last_reference(self):
        got = ask(
            """
x = torch.zeros(8 << 20, device="cuda")
first = torch.cuda.memory_allocated()
alias = x.view(8, -1)
del x
second = torch.cuda.memory_allocated()
del alias
third = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
torch.cuda.reset_peak_memory_stats()
torch.cuda.empty_cache()
print(json.dumps([first, second, third, torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()]))
"""
        )
        self.assertEqual(got, [32 * MIB, 32 * MIB, [0, 32 * MIB, 32 * MIB], 0, 0])


class Snapshot(unittest.TestCase):
    def test_blocks_carry_the_stack_that_allocated_them(self):
        got = ask(
            """
torch.cuda._lazy_call(lambda: torch.cuda.memory._record_memory_history(
    enabled="state", context="state", stacks="python", max_entries=1))
def keep():
    return torch.zeros(30 << 20, dtype=torch.uint8, device="cuda")
x, y = keep(), keep()
del y
print(json.dumps(torch.cuda.memory._snapshot(0)))
"""
        )
        segments = got["segments"]
        self.assertEqual([segment["total_size"] for segment in segments], [30 * MIB, 30 * MIB])
        self.assertEqual([segment["blocks"][0]["state"] for segment in segments], ["active_allocated", "inactive"])
        self.assertIn("keep", [frame["name"] for frame in segments[0]["blocks"][0]["frames"]])
        self.assertEqual(set(segments[0]["blocks"][0]["frames"][0]), {"filename", "line", "name"})
        self.assertEqual(segments[1]["blocks"][0]["frames"], [])
        self.assertFalse(got["allocator_settings"]["expandable_segments"])

    def test_without_recording_there_are_blocks_and_no_frames(self):
        got = ask("x = torch.zeros(1, device='cuda'); print(json.dumps(torch.cuda.memory_snapshot()))")
        self.assertEqual([block["size"] for block in got[0]["blocks"]], [512, 2 * MIB - 512])
        self.assertEqual(got[0]["blocks"][0]["frames"], [])


OBSERVED = """
import threading
seen = []
def observer(device, requested, limit, free):
    try:
        sys._getframe(1)
        beneath = True
    except ValueError:
        beneath = False
    stats = torch._C._cuda_memoryStats(device)
    seen.append([device, requested, limit, free, beneath, torch.is_grad_enabled(), stats["num_ooms"],
        threading.get_ident() == threading.main_thread().ident, len(torch.cuda.memory._snapshot(device)["segments"])])
torch.cuda._lazy_call(lambda: torch._C._cuda_attach_out_of_memory_observer(observer))
"""


class Observer(unittest.TestCase):
    def test_in_forward_it_is_called_before_the_exception_on_the_same_thread(self):
        got = ask(
            OBSERVED
            + """
try:
    torch.zeros(3 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as error:
    seen.append(str(error)[:19])
print(json.dumps(seen))
""",
            OOMPH_SIMULATED_CARD_GIB="2",
        )
        free = 2 * GIB - 500 * MIB
        self.assertEqual(got, [[0, 3 * GIB, 2 * GIB, free, True, True, 1, True, 0], "CUDA out of memory."])

    def test_in_backward_there_is_no_python_frame_beneath_it_and_gradients_are_off(self):
        got = ask(
            OBSERVED
            + """
x = torch.zeros(200 << 20, device="cuda", requires_grad=True)
loss = x.sin().mean()
try:
    loss.backward()
except torch.OutOfMemoryError:
    seen.append(torch.is_grad_enabled())
print(json.dumps(seen))
""",
            OOMPH_SIMULATED_CARD_GIB="2.2",
        )
        self.assertEqual(len(got), 2)
        self.assertEqual(got[0][4:8], [False, False, 1, False])
        self.assertTrue(got[1])

    def test_what_it_raises_replaces_the_out_of_memory_error(self):
        for backward in (False, True):
            status, _, errors = python(
                """
import torch
def observer(*_):
    raise KeyError("the observer's own")
torch._C._cuda_attach_out_of_memory_observer(observer)
if %r:
    torch.zeros(200 << 20, device="cuda", requires_grad=True).sin().mean().backward()
else:
    torch.zeros(600 << 20, device="cuda")
"""
                % backward,
                OOMPH_SIMULATED_CARD_GIB="2.2",
            )
            self.assertEqual(status, 1)
            self.assertTrue(errors.endswith('KeyError: "the observer\'s own"\n'), errors)
            self.assertNotIn("OutOfMemoryError", errors)

    def test_a_fraction_is_the_third_argument(self):
        got = ask(
            OBSERVED
            + """
torch.cuda.memory.set_per_process_memory_fraction(0.5)
try:
    torch.zeros(GIB_AND_MORE, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
print(json.dumps([seen[0][2], torch.cuda.memory.get_per_process_memory_fraction()]))
""".replace("GIB_AND_MORE", "(1 << 30) + 1"),
            OOMPH_SIMULATED_CARD_GIB="2",
        )
        self.assertEqual(got, [GIB, 0.5])


class Hooks(unittest.TestCase):
    def test_global_optimizer_hooks_wrap_the_step(self):
        got = ask(
            """
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
seen = []
def look(word):
    def hook(optimizer, args, kwargs):
        tensors = [t for state in optimizer.state.values() for t in state.values()]
        seen.append([word, sum(t.nbytes for t in tensors if t.is_cuda), sum(p.grad.numel() * p.grad.element_size()
            for g in optimizer.param_groups for p in g["params"]), torch.is_grad_enabled()])
    return hook
register_optimizer_step_pre_hook(look("before"))
handle = register_optimizer_step_post_hook(look("after"))
layer = torch.nn.Linear(256, 256, bias=False).to("cuda")
optimizer = torch.optim.AdamW(layer.parameters())
for turn in range(2):
    layer(torch.zeros(8, 256, device="cuda")).mean().backward()
    optimizer.step()
    handle.remove()
print(json.dumps(seen))
"""
        )
        weight = 256 * 256 * 4
        self.assertEqual(
            got,
            [
                ["before", 0, weight, True],
                ["after", 2 * weight, weight, True],
                ["before", 2 * weight, weight, True],
            ],
        )

    def test_module_hooks_see_calls_and_failures(self):
        got = ask(
            """
from torch.nn.modules import module
seen = []
module.register_module_forward_pre_hook(lambda m, args: seen.append("pre " + type(m).__name__))
module.register_module_forward_hook(lambda m, args, out: seen.append("post " + type(m).__name__), always_call=True)
class Broken(torch.nn.Module):
    def forward(self, x):
        raise OSError
try:
    torch.nn.Sequential(torch.nn.ReLU(), Broken())(torch.zeros(1))
except OSError:
    pass
print(json.dumps(seen))
"""
        )
        self.assertEqual(
            got, ["pre Sequential", "pre ReLU", "post ReLU", "pre Broken", "post Broken", "post Sequential"]
        )


class Autograd(unittest.TestCase):
    def test_activations_live_until_backward_has_passed_them(self):
        got = ask(
            """
layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(4)]).to("cuda")
def allocated():
    return torch.cuda.memory_allocated() // (512 * 512 * 4)
x = torch.zeros(512, 512, device="cuda")
counts = [allocated()]
with torch.no_grad():
    layers(x)
counts.append(allocated())
loss = layers(x).mean()
counts.append(allocated())
loss.backward()
counts.append(allocated())
del loss
for p in layers.parameters():
    p.grad = None
counts.append(allocated())
print(json.dumps(counts))
"""
        )
        # Four weights and x; in the graph the three inner inputs; after backward four gradients.
        self.assertEqual(got, [5, 5, 8, 9, 5])

    def test_recomputation_keeps_inputs_alone_and_gives_the_same_gradients(self):
        got = ask(
            """
from torch.utils.checkpoint import checkpoint
unit = 2048 * 512 * 4
def block():
    return torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(4)]).to("cuda")
blocks = [block() for _ in range(4)]
x = torch.zeros(2048, 512, device="cuda")
def measure(call):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = x
    for one in blocks:
        y = call(one, y)
    loss = y.mean()
    del y
    held = torch.cuda.memory_allocated() - before
    loss.backward()
    gradients = [p.grad is not None and p.grad.shape == p.shape for one in blocks for p in one.parameters()]
    for one in blocks:
        one.zero_grad()
    return [held // unit, all(gradients), torch.cuda.max_memory_allocated() - before]
plain = measure(lambda one, y: one(y))
again = measure(lambda one, y: checkpoint(one, y, use_reentrant=False))
print(json.dumps([plain[:2], again[:2], again[2] < plain[2]]))
"""
        )
        # Inputs of 15 layers within the graph; of 3 blocks with recomputation (x is there anyway).
        self.assertEqual(got, [[15, True], [3, True], True])

    def test_a_second_backward_is_refused_unless_the_graph_was_kept(self):
        status, _, errors = python(
            """
import torch
x = torch.zeros(4, device="cuda", requires_grad=True)
loss = x.sin().mean()
loss.backward(retain_graph=True)
loss.backward()
loss.backward()
"""
        )
        self.assertEqual(status, 1)
        self.assertIn("Trying to backward through the graph a second time", errors)

    def test_autocast_halves_what_linear_layers_keep_and_copies_weights_once(self):
        got = ask(
            """
layer = torch.nn.Linear(512, 512, bias=False).to("cuda")
x = torch.zeros(512, 512, device="cuda")
before = torch.cuda.memory_allocated()
with torch.autocast("cuda", dtype=torch.bfloat16):
    y = layer(x)
    z = layer(y)
    inside = torch.cuda.memory_allocated() - before
del y, z
print(json.dumps([inside, torch.cuda.memory_allocated() - before]))
"""
        )
        # bfloat16: x's cast, the weight's, y and z; all gone with the graph and the context.
        self.assertEqual(got, [4 * 512 * 512 * 2, 0])


if __name__ == "__main__":
    unittest.main()
