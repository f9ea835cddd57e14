"""What a Python program sees of its own interpreter, a fact a line, in the file that is named."""
import atexit
import codecs
import gc
import io
import locale
import os
import sys
import threading
import time
import warnings

FACTS = []


def fact(name, value):
    FACTS.append("%s = %s" % (name, value))


def main():
    modules = sorted(sys.modules)
    for name in modules:
        fact("module " + name, "loaded")
    for number, entry in enumerate(sys.path):
        fact("path " + entry, "there")
    fact("flags", sys.flags)
    fact("meta_path", [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path])
    fact("path_hooks", len(sys.path_hooks))
    fact("argv", sys.argv)
    fact("orig_argv", getattr(sys, "orig_argv", None))
    fact("executable", sys.executable)
    fact("prefix", (sys.prefix, sys.base_prefix))
    fact("warnoptions", sys.warnoptions)
    fact("xoptions", sys._xoptions)
    fact("filters", [str(each) for each in warnings.filters])
    fact("dont_write_bytecode", sys.dont_write_bytecode)
    fact("hooks", [getattr(sys, name) is getattr(sys, "__%s__" % name, None) for name in ("excepthook", "displayhook", "unraisablehook", "breakpointhook")])
    fact("threading hook", threading.excepthook.__module__)
    fact("trace", (sys.gettrace(), sys.getprofile(), threading._trace_hook, threading._profile_hook))
    fact("threads", [thread.name for thread in threading.enumerate()])
    fact("tasks", len(os.listdir("/proc/self/task")))
    fact("gc", (gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug()))
    fact("switch interval", sys.getswitchinterval())
    fact("recursion limit", sys.getrecursionlimit())
    fact("encoding", (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.getpreferredencoding(False), sys.getdefaultencoding()))
    fact("timezone", time.tzname)
    fact("atexit", atexit._ncallbacks())
    fact("__main__", sorted(vars(sys.modules["__main__"])))
    fact("builtins", sorted(name for name in vars(sys.modules["builtins"]) if name != "_"))
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            fact(name, None)
            continue
        buffer = getattr(stream, "buffer", None)
        fact(name, (type(stream).__name__, type(buffer).__name__, stream.encoding, stream.errors, stream.isatty(),
                    stream.line_buffering, stream.write_through, stream.newlines, stream.name, stream.mode, stream.closed))
    fact("default buffer", io.DEFAULT_BUFFER_SIZE)
    with open(sys.argv[1], "w") as file:
        file.write("".join(line + "\n" for line in FACTS))


main()
