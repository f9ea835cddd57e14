"""torch.load goes to the CPU where the program leaves that open, hands on what it loads, and loads plain tensors."""
import collections
import os
import pickle
import sys
import tempfile
import types
import zipfile

from patching import PatchTest

from _oomph_probe.oom import checkpoint
from _oomph_probe.patch import loading


class Loading(PatchTest):
    def setUp(self):
        super().setUp()
        module = types.ModuleType("torch.serialization")
        self.calls = calls = []

        def load(f, map_location=None, pickle_module=None, **kwargs):
            calls.append((f, map_location, kwargs))
            return {}

        module.load = self.torch.load = self.original = load
        self.torch.dtype = type(None)
        self.module = module
        sys.modules["torch.serialization"] = module
        self.addCleanup(sys.modules.pop, "torch.serialization", None)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "model.pt")
        self.write(collections.OrderedDict(a=1))

    def write(self, thing, protocol=2):
        with zipfile.ZipFile(self.path, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps(thing, protocol))

    def resume(self, *args, **kwargs):
        """Hands on what it loads."""
        self.torch.load(*args, **kwargs)
        return lambda model, state: model.load_state_dict(state)

    def test_a_plain_checkpoint_that_is_handed_on_goes_to_the_cpu(self):
        def resume(model):
            model.load_state_dict(self.torch.load(self.path, weights_only=True))

        made = self.patch("load=cpu")
        resume(types.SimpleNamespace(load_state_dict=lambda state: None))
        self.assertEqual(self.calls, [(self.path, "cpu", {"weights_only": True})])
        self.assertEqual(self.words(made, "load"), "map_location=cpu in 1 call of torch.load")

    def left_alone(self, act):
        made = self.patch("load=cpu")
        act()
        self.assertNotEqual(self.calls[-1][1], "cpu")
        self.assertEqual(self.outcome(made, "load"), "declined")
        return self.words(made, "load")

    def hand_on(self, *args, **kwargs):
        model = types.SimpleNamespace(load_state_dict=lambda state: None)
        model.load_state_dict(self.torch.load(*args, **kwargs))

    def test_what_the_program_says_counts(self):
        self.assertIn("map_location", self.left_alone(lambda: self.hand_on(self.path, "cuda:1")))
        self.assertEqual(self.calls[-1][1], "cuda:1")

    def test_other_uses_of_what_is_loaded_are_left_alone(self):
        def use():
            return self.torch.load(self.path)

        # The test's own functions name it: as if another stack.
        names = loading.CALLERS
        loading.CALLERS = 1
        self.addCleanup(setattr, loading, "CALLERS", names)
        self.assertIn("load_state_dict", self.left_alone(use))

    def test_what_is_more_than_tensors_in_containers_is_left_alone(self):
        self.write({"model": types.SimpleNamespace(a=1)})
        self.assertIn("types.SimpleNamespace", self.left_alone(lambda: self.hand_on(self.path)))

    def test_other_formats_and_files_are_left_alone(self):
        self.write({"a": collections.OrderedDict()}, protocol=4)
        self.assertIn("STACK_GLOBAL", self.left_alone(lambda: self.hand_on(self.path)))
        self.afresh()
        with open(self.path, "wb") as file:
            file.write(b"old")
        self.assertIn("before torch 1.6", self.left_alone(lambda: self.hand_on(self.path)))
        self.afresh()
        with open(self.path, "rb") as file:
            self.assertIn("not load from a path", self.left_alone(lambda: self.hand_on(file)))

    def test_a_file_that_is_not_there_is_the_programs_own_error(self):
        made = self.patch("load=cpu")
        self.hand_on(self.path + ".none")
        self.assertEqual(self.calls[-1][1], None)
        self.assertEqual(self.outcome(made, "load"), "declined")

    def test_a_name_that_begins_like_a_plain_one_is_not_plain(self):
        self.assertFalse(loading.is_plain("builtins setattr"))
        self.assertFalse(loading.is_plain("torch load"))
        self.assertTrue(loading.is_plain("torch FloatStorage"))
        self.assertTrue(loading.is_plain("torch._utils _rebuild_tensor_v2"))

    def test_the_record_of_an_oom_says_what_is_loaded(self):
        code = types.SimpleNamespace(co_name="load", co_filename="/v/torch/serialization.py", co_flags=0, co_names=())
        inner = types.SimpleNamespace(f_code=code, f_locals={"f": self.path, "map_location": None})
        own = types.SimpleNamespace(co_name="resume", co_filename="/srv/train.py", co_names=("torch", "load_state_dict"))
        outer = types.SimpleNamespace(f_code=own, f_back=None, f_globals={})
        self.assertEqual(checkpoint.of([inner, outer]), {"bytes": os.path.getsize(self.path)})
        inner.f_locals["map_location"] = "cuda"
        self.assertIn("map_location", checkpoint.of([inner, outer])["left"])
        self.assertIsNone(checkpoint.of([outer]))
