"""oomph's loader: Python's `site` imports it at start, because oomph put this directory in front
of PYTHONPATH. That reaches every interpreter the program starts, so it must parse and be harmless
on all of them, 2.7 included; the probe itself is only watched for (hook.py) on 3.8 and later.
Whatever sitecustomize would have run without this one runs after it, as if this were not here.
"""
import os
import sys


def _start():
    here = os.path.dirname(os.path.abspath(__file__))
    # The program sees the sys.path that it would have without oomph; children get PYTHONPATH.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop(__name__, None)
    wanted = sys.version_info >= (3, 8) and os.environ.get("OOMPH_PROBE_SOCKET")
    if wanted and "_oomph_hook" not in sys.modules:
        try:
            # importlib.util would cost more than all the rest; this is what it would find.
            from _frozen_importlib_external import SourceFileLoader
            hook = type(sys)("_oomph_hook")
            hook.__file__ = os.path.join(here, "oomph-probe", "hook.py")
            SourceFileLoader("_oomph_hook", hook.__file__).exec_module(hook)
            sys.modules["_oomph_hook"] = hook
            hook.install()
        except Exception:
            pass
    try:
        import sitecustomize  # the next one on the path; its errors are its own
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    # The import that runs this very file looks for the module once more when it is done.
    sys.modules.setdefault(__name__, ours)


_start()
