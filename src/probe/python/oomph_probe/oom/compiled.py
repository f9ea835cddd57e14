"""What torch.compile has compiled in this process, as it has kept it itself: how many functions, and how often one was
compiled again for tensors of another size. Only read.
"""

from __future__ import annotations

import os
import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Torch

# torch/_dynamo/utils.py: a record of each compilation, the last 64 (2.3 and later), with why it was made again.
KEPT = "_compilation_metrics"
RESIZED = "size mismatch"
CONFIG, OPTION = "torch._functorch.config", "activation_memory_budget"


def facts(torch: Torch) -> Line | None:
    """For the wire; None where nothing was compiled."""
    try:
        utils: Any = sys.modules.get("torch._dynamo.utils")
        if utils is None or not utils.counters.get("frames"):
            return None
        line: Line = {"functions": int(utils.counters["frames"].get("ok", 0))}
        again: dict[str, int] = {}
        for each in list(getattr(utils, KEPT, ())):
            if RESIZED in (getattr(each, "recompile_reason", None) or ""):
                name = name_of(torch, each)
                again[name] = again.get(name, 0) + 1
        if again:
            line["resized"] = sum(again.values())
            most = max(again, key=lambda name: again[name])
            if most:
                line["of"] = most
        budget = getattr(sys.modules.get(CONFIG), OPTION, None)
        if isinstance(budget, float) and budget < 1.0:
            line["budget"] = round(budget * 100)
        return line
    except Exception:
        errors.foreseen("what was compiled")
        return None


def name_of(torch: Torch, compilation: Any) -> str:
    """`model.py:12 forward`; nothing for a function of torch's own."""
    path = str(getattr(compilation, "co_filename", "") or "")
    home = os.path.dirname(str(getattr(torch, "__file__", "")))
    if not path or path.startswith(home + os.sep):
        return ""
    name, line = getattr(compilation, "co_name", ""), getattr(compilation, "co_firstlineno", "")
    return "%s:%s %s" % (os.path.basename(path), line, name)
