"""Files of settings that a program has read by itself, found by what its variables hold."""
import builtins
import copy
import inspect
import io
import json
import os
import pathlib
import pickle
import sys
import tempfile
import types
import unittest

import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.knobs import settings
from _oomph_probe.patch import source

OWNERS = frames.Owners(None)


def small():
    """No variable of this file, which frames of it would have."""
    return {"train": {"batch_size": 128, "lr": 0.5, "name": "small"}, "width": 7}


def variables_of(loaded):
    """A frame whose function has these settings."""
    here = types.SimpleNamespace(**loaded)
    assert here
    return sys._getframe()


class Settings(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(os.path.realpath(directory.name))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.top)

    def write(self, name, said):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(said, indent=1))
        # From before this process.
        os.utime(path, (0, 0))
        return path

    def found(self, loaded, values=(128,)):
        lines = settings.literals(OWNERS, [variables_of(loaded)], set(values))
        return [(os.path.relpath(each["file"], self.top), each["line"], each["name"]) for each in lines]

    def test_the_one_that_was_read_is_found_by_what_it_says(self):
        self.write("settings/small.json", small())
        self.write("settings/large.json", {"train": {"batch_size": 128, "lr": 0.1, "name": "large"}, "width": 9})
        self.write("data/small.json", small())
        self.assertEqual(self.found({"meta": small()}), [("settings/small.json", 3, "batch_size")])
        self.assertEqual(self.found({"meta": {"lr": 0.5}}), [])
        self.assertEqual(self.found({"meta": small()}, values=(64,)), [])

    def test_a_file_of_several_documents_is_one(self):
        # Stands for PyYAML, which need not be there.
        yaml = types.ModuleType("yaml")
        yaml.safe_load_all = lambda text: (json.loads(each) for each in text.split("---\n") if each.strip())
        before = sys.modules.get("yaml")
        sys.modules["yaml"] = yaml
        self.addCleanup(sys.modules.__setitem__ if before else sys.modules.pop, "yaml", before)
        path = self.write("conf.yaml", {})
        path.write_text('{"training": true}\n---\n{"train": {\n"batch_size": 128,\n"lr": 0.5}}\n---\n7\n')
        os.utime(path, (0, 0))
        held = {"training": True, "train": {"batch_size": 128, "lr": 0.5}}
        self.assertEqual(self.found({"hp": held}), [("conf.yaml", 4, "batch_size")])

    def test_a_copy_that_an_earlier_run_has_left_is_none(self):
        self.write("conf/one.json", small())
        # Written down nowhere, here neither.
        self.write("save/%d/one.json" % (2024 * 10000 + 101), small())
        script = self.top / "train.py"
        script.write_text("config = load('conf/' + args.config, default='one.json')\nkeep('save/' + now() + '/one.json')\n")
        main = sys.modules["__main__"]
        before = main.__dict__.get("__file__")
        main.__file__ = str(script)
        try:
            self.assertEqual(self.found({"meta": small()}), [("conf/one.json", 3, "batch_size")])
        finally:
            main.__file__ = before

    def test_what_the_program_has_written_of_its_own_settings_is_none(self):
        path = self.write("small.json", small())
        self.assertEqual(len(self.found({"meta": small()})), 1)
        path.write_text(json.dumps(small(), indent=1))
        self.assertEqual(self.found({"meta": small()}), [])
        self.write("out/run/small.json", small())
        self.assertEqual(self.found({"meta": small()}), [])

    def test_what_a_word_of_the_command_names_is_left_to_others(self):
        self.write("small.json", small())
        self.assertEqual(len(self.found({"meta": small()})), 1)
        self.addCleanup(setattr, sys, "argv", sys.argv)
        sys.argv = ["train.py", "--config=small.json"]
        self.assertEqual(self.found({"meta": small()}), [])

    def test_files_that_cannot_be_read_are_passed_over(self):
        (self.top / "broken.json").write_text('{"batch_size": 128')
        (self.top / "large.json").write_text('{"batch_size": 128, "more": "%s"}' % ("x" * settings.LARGEST_FILE))
        os.mkfifo(self.top / "pipe.json")
        (self.top / "gone.json").symlink_to(self.top / "nowhere.json")
        (self.top / "bytes.json").write_bytes(b'{"batch_size": 128, "more": "\xff"}')
        self.assertEqual(self.found({"meta": {"batch_size": 128}}), [])

    def test_a_changed_one_is_opened_with_its_changed_text_under_its_own_name(self):
        path = self.write("small.json", small())
        line = settings.literals(OWNERS, [variables_of({"meta": small()})], {128})[0]
        entry = "%s:%d:%d:128=64@%08x" % (path, line["line"], line["column"], line["crc"])
        edits = source.Edits(entry)
        self.assertIsNone(edits.outcome(False))
        for mode in ("w", "r+", "a"):
            self.assertIsNone(edits.opened(path, mode))
        self.assertIsNone(edits.opened(self.top / "other.json", "r"))
        before = len(os.listdir("/proc/self/fd"))
        for mode in ("r", "rb"):
            opener = edits.opened(str(path), mode)
            with open(path, mode, opener=opener) as file:
                self.assertEqual(file.name, str(path))
                self.assertEqual(json.loads(file.read())["train"]["batch_size"], 64)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual(edits.outcome(True), (True, "small.json:%d 128 → 64" % line["line"]))
        self.assertEqual(json.loads(path.read_text()), small())

    def test_what_opens_it_is_what_python_has_in_all_else(self):
        path = self.write("small.json", small())
        line = settings.literals(OWNERS, [variables_of({"meta": small()})], {128})[0]
        entry = "%s:%d:%d:128=64@%08x" % (path, line["line"], line["column"], line["crc"])
        of_python = io.open
        self.addCleanup(setattr, io, "open", of_python)
        self.addCleanup(setattr, builtins, "open", of_python)
        source.open_changed(source.Edits(entry), self.fail)

        class Reader:
            opens = open

            def read(self):
                # No method: Python's own is not bound to the instance.
                with self.opens("small.json") as file:
                    return json.load(file)["train"]["batch_size"]

        self.assertEqual(Reader().read(), 64)
        self.assertIs(builtins.open, io.open)
        self.assertIs(pickle.loads(pickle.dumps(open)), open)
        self.assertIs(copy.deepcopy(open), open)
        self.assertEqual((open.__name__, open.__doc__), (of_python.__name__, of_python.__doc__))
        self.assertEqual(inspect.signature(open), inspect.signature(of_python))
        with self.assertRaises(FileNotFoundError):
            open("nowhere.json")


if __name__ == "__main__":
    unittest.main()
