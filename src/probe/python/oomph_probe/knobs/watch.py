"""Has the numbers noted that a parser of command lines makes of its words, and the program's sources compiled as the
user changed them. Run by itself (hook.py) in a Python that imports such a parser, or is told of such a change.
"""
import sys

# Annotations are strings here: this file is run by itself, before there is a package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

hook: "Any" = sys.modules["_oomph_hook"]

# Parsers of command lines: the class, if any, the function that has parsed, and the reader of `knobs/parsers.py`.
PARSERS = {
    "argparse": ("ArgumentParser", "_parse_known_args", "argparse"),
    "click.core": ("Command", "parse_args", "click"),
    "typer._click.core": ("Command", "parse_args", "click"),
    "absl.flags._flagvalues": ("FlagValues", "__call__", "absl"),
    "fire.core": (None, "_MakeParseFn", "fire"),
    "tyro._calling": (None, "callable_with_args", "tyro"),
}


def watch_sources(wanted: "Dict[str, Callable[[Any], None]]") -> None:
    source: Any = hook.run_by_itself("_oomph_source", "patch", "source.py")
    edits = source.install(as_if, hook.swallowed)
    sys.modules["_oomph_source"] = source
    source.edits = edits
    wanted["linecache"] = edits.fill_linecache


def watch_parser(module: "Any") -> None:
    name, method, kind = PARSERS[module.__name__]
    owner = getattr(module, name) if name else module
    original = getattr(owner, method)

    def parse(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            # Its traceback is as it would be without us; before Python 3.11 `raise` puts this frame back.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        note(kind, self, args, result)
        return result

    def make(function: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        parsed = original(function, *args, **kwargs)

        def parse(words: "Any") -> "Any":
            result = parsed(words)
            note(kind, function, args, result)
            return result

        return parse

    setattr(owner, method, uncounted(as_if(original, make if kind == "fire" else parse)))


def uncounted(ours: "Any") -> "Any":
    """The function, with a frame that the levels of `warnings.warn(…, stacklevel=…)` do not count: they pass over those
    of the import machinery, and know them by the file's name."""
    ours.__code__ = ours.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return ours


def as_if(original: "Any", ours: "Any") -> "Any":
    """A function that looks like the original, also where an exception passes through it."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__wrapped__"):
        setattr(ours, name, original if name == "__wrapped__" else getattr(original, name))
    code = original.__code__
    ours.__code__ = ours.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
    )
    return ours


def note(kind: str, owner: "Any", args: "Any", result: "Any") -> None:
    try:
        parsers: Any = sys.modules.get("_oomph_parsers")
        if parsers is None:
            parsers = sys.modules["_oomph_parsers"] = hook.run_by_itself("_oomph_parsers", "knobs", "parsers.py")
        parsers.note(kind, owner, args, result)
    except Exception:
        hook.swallowed("note what was parsed")
