"""oomph's loader: Python's `site` imports it at startup, because oomph put this directory at the front
of PYTHONPATH. Every interpreter that the program starts runs it, so it must parse and be harmless on
all of them, even 2.7; only on 3.8 and later does it watch for torch (hook.py). The sitecustomize that
Python would have found otherwise is imported afterwards, as if this one did not exist.
"""
import os
import sys


def _start():
    here = os.path.dirname(os.path.abspath(__file__))
    # The program gets the sys.path that it would have without oomph; children inherit PYTHONPATH.
    ours = (here,)
    spool = os.environ.get("OOMPH_PROBE_SPOOL")
    if spool:
        # There are two copies: one for this node, and one that other nodes see.
        ours = (here, os.path.join(spool, "probe"), os.path.dirname(os.environ.get("OOMPH_PROBE_SOCKET", here)))
    before = list(sys.path)
    sys.path[:] = [entry for entry in sys.path if entry not in ours]
    module = sys.modules.pop(__name__, None)
    wanted = sys.version_info >= (3, 8) and os.environ.get("OOMPH_PROBE_SOCKET")
    if sys.version_info >= (3, 8):
        # importlib.util would take longer than everything else here; this is what it would return.
        from _frozen_importlib_external import SourceFileLoader as Loader
        # Programs that go through sys.modules (reloaders) take it that each module has a spec.
        from _frozen_importlib import ModuleSpec
        if sys.pycache_prefix:
            # Nothing of ours is kept where the user's bytecode is, this file included.
            try:
                place = os.path.join(here, "oomph-probe", "beside.py")
                loader = Loader("_oomph_beside", place)
                beside = type(sys)("_oomph_beside")
                beside.__spec__ = ModuleSpec("_oomph_beside", None)
                beside.__spec__.origin = place
                exec(loader.source_to_code(loader.get_data(place), "<oomph-probe/beside.py>"), beside.__dict__)
                beside.take_back(__spec__.cached, sys.pycache_prefix)
                sys.modules["_oomph_beside"] = beside
                Loader = beside.Beside
            except Exception:
                pass
    if wanted and "_oomph_hook" not in sys.modules:
        try:
            hook = type(sys)("_oomph_hook")
            hook.__file__ = os.path.join(here, "oomph-probe", "hook.py")
            hook.__spec__ = ModuleSpec("_oomph_hook", None)
            hook.__spec__.origin = hook.__file__
            code = Loader("_oomph_hook", hook.__file__).get_code("_oomph_hook")
            # As the hook does with what it loads.
            import _imp
            _imp._fix_co_filename(code, "<oomph-probe/hook.py>")
            exec(code, hook.__dict__)
            sys.modules["_oomph_hook"] = hook
            hook.install()
        except Exception:
            try:
                errors = type(sys)("_oomph_errors")
                place = os.path.join(here, "oomph-probe", "common", "errors.py")
                Loader("_oomph_errors", place).exec_module(errors)
                errors.ours("start")
            except Exception:
                pass
    if sys.version_info >= (3, 8) and [entry for entry in before[:1] if entry not in ours]:
        # Somebody in front of us has had its turn and may still be on the path.
        behind = type(sys)("_oomph_behind")
        Loader("_oomph_behind", os.path.join(here, "oomph-probe", "behind.py")).exec_module(behind)
        behind.look(before, ours)
    try:
        import sitecustomize  # the next one on the path; its errors are its own
    except ImportError as error:
        # If there is none, `site` is told so, and the program may import one that it has beside itself. Not who runs this
        # file by itself: it has found one, and goes on.
        if getattr(error, "name", "sitecustomize") != "sitecustomize" or getattr(module, "_start", None) == _start:
            raise
    except Exception:
        raise
    except BaseException as error:
        # SystemExit, say: Python ends over it, and says where it came from.
        if sys.version_info >= (3, 8):
            ending = type(sys)("_oomph_ending")
            place = os.path.join(here, "oomph-probe", "ending.py")
            Loader("_oomph_ending", place).exec_module(ending)
            ending.like_pythons(error, os.path.abspath(__file__), place)
        raise
    # The import that runs this file looks the module up again when it is done.
    sys.modules.setdefault(__name__, module)


_start()
