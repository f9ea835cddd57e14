"""Numbers of the program's own sources that the user chose to change: in each of its Pythons such a file is compiled
from its text with these numbers replaced, under the file's own path. The file is not written, and no bytecode is read
or written for it. A file of settings that the program reads by itself is opened as such a text, under its own name;
a source is so too for whoever runs what it reads: `exec(open(…).read())`, `-m cProfile`, `coverage run`.

Named in OOMPH_EDITS, separated by commas: `PATH:LINE:COLUMN:OLD=NEW@CRC`, and for people `~` and what stands before the
number. The column counts bytes of UTF-8 from 0, CRC is that of the file's bytes: where the file is another one by now,
it runs as it is, and its process says so. Run by itself (hook.py) where the variable is set, before there is a package.
"""
import os
import re
import sys
from binascii import crc32

# Annotations are strings here: this file is run by itself.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

VARIABLE = "OOMPH_EDITS"
ENTRY = re.compile(r"([^~]*):(\d+):(\d+):(\d+)=(\d+)@([0-9a-f]{8})(?:~.*)?", re.DOTALL)
NUMBER = re.compile(rb"[0-9][0-9a-zA-Z_.]*")
# What is computed of written numbers alone: `2 ** 7`, `4 * 32`.
ARITHMETIC = re.compile(rb"[0-9][0-9_]*(?:[ \t]*(?:\*\*|//|[*+-])[ \t]*[0-9][0-9_]*){1,8}")
LARGEST_POWER = 64
# What runs a text: a function that has none of these names reads a source to show it, to copy it or to count its lines.
RUNNERS = frozenset(("exec", "compile", "eval"))
# How far above `open` such a function is: behind `Path.read_text`, or the functions with which coverage reads a source.
CALLERS = 5
# The file that `open` is of in a traceback.
OPENS = "<frozen runpy>"


class File:
    """A source with all its changes."""

    def __init__(self, path: str, crc: int) -> None:
        self.path, self.crc = path, crc
        self.changes: List[Any] = []
        # How many bytes stand in the file for a number, by its place.
        self.widths: Dict[Any, int] = {}
        seen = os.stat(path)
        self.identity = seen.st_dev, seen.st_ino
        # Its text as it is compiled, and why it is not; and what its bytes say it in.
        self.text: Optional[str] = None
        self.encoding = "utf-8"
        self.refused: Optional[str] = None

    def edited(self) -> "Optional[str]":
        """Its text with the changes; None where the file is not what they are for."""
        if self.text is None and self.refused is None:
            try:
                self.text = self.read()
            except (OSError, ValueError, LookupError, SyntaxError) as error:
                self.refused = "%s: %s" % (self.path, error)
        return self.text

    def read(self) -> str:
        from importlib.util import decode_source
        from io import BytesIO, FileIO
        from tokenize import detect_encoding

        # `open` is ours for files of settings.
        with FileIO(self.path) as file:
            data = file.readall()
        if crc32(data) != self.crc:
            raise ValueError("the file has changed since")
        if self.path.endswith(".py"):
            self.encoding = detect_encoding(BytesIO(data).readline)[0]
        lines = [line.encode() for line in decode_source(data).split("\n")]
        # From the end of a line to its beginning: a column stays where it is.
        for line, column, old, new in sorted(self.changes, reverse=True):
            text = lines[line - 1]
            end = end_of(text, column, old)
            if end is None:
                raise ValueError("line %d has no %d at byte %d" % (line, old, column))
            self.widths[line, column] = end - column
            lines[line - 1] = text[:column] + b"%d" % new + text[end:]
        return b"\n".join(lines).decode()

    def column_in_file(self, line: int, column: int) -> int:
        """Where a place of the changed text is in the file."""
        for at, start, old, new in sorted(self.changes):
            if at == line and start < column:
                column += self.widths.get((at, start), len(str(old))) - len(str(new))
        return column

    def shown(self) -> str:
        name = os.path.basename(self.path)
        return ", ".join("%s:%d %d → %d" % (name, line, old, new) for line, _, old, new in self.changes)


def end_of(text: bytes, column: int, value: int) -> "Optional[int]":
    """Where what is written at a byte of a line ends, if it has that value."""
    for written in (ARITHMETIC, NUMBER):
        found = written.match(text, column)
        try:
            if found is not None and computed(found.group().decode()) == value:
                return found.end()
        except (ValueError, ZeroDivisionError):
            pass
    return None


def computed(text: str) -> int:
    """The value of `2 ** 7 + 1`."""
    parts = re.split(r"([+-])", text)
    value = product(parts[0])
    for sign, part in zip(parts[1::2], parts[2::2]):
        value += product(part) if sign == "+" else -product(part)
    return value


def product(text: str) -> int:
    parts = re.split(r"(//|(?<!\*)\*(?!\*))", text)
    value = power(parts[0])
    for sign, part in zip(parts[1::2], parts[2::2]):
        value = value * power(part) if sign == "*" else value // power(part)
    return value


def power(text: str) -> int:
    base, _, rest = text.partition("**")
    exponent = power(rest) if rest else 1
    if exponent > LARGEST_POWER:
        raise ValueError(text)
    return int(int(base, 0) ** exponent)


class Edits:
    """The changed sources of this process."""

    def __init__(self, value: str) -> None:
        self.files: Dict[str, File] = {}
        self.refused: List[str] = []
        # By the name that code objects have for it.
        self.loaded: Dict[str, File] = {}
        # Gives back Python's own `open`, once nothing can be opened that is to be changed.
        self.put_back: Optional[Callable[[], None]] = None
        for entry in value.split(","):
            self.add(entry)

    def add(self, entry: str) -> None:
        try:
            found = ENTRY.fullmatch(entry)
            if found is None:
                raise ValueError("this is no edit")
            path = found.group(1).replace("%2C", ",").replace("%7E", "~").replace("%25", "%")
            file = self.files.get(path)
            if file is None:
                file = self.files[path] = File(path, int(found.group(6), 16))
            file.changes.append(tuple(int(found.group(at)) for at in (2, 3, 4, 5)))
        except (OSError, ValueError) as error:
            self.refused.append("%s: %s" % (entry, error))

    def file(self, path: "Any") -> "Optional[File]":
        """The changed source that a path leads to."""
        try:
            seen = os.stat(path)
        except (OSError, TypeError, ValueError):
            return None
        for file in self.files.values():
            if file.identity == (seen.st_dev, seen.st_ino):
                return file
        return None

    def opened(self, path: "Any", mode: str, is_run: bool = False) -> "Optional[Callable[[str, int], int]]":
        """What opens the changed text of a file that is to be read, of settings or a source that the reader runs, which
        is seen or known by `is_run`; None where it is none of them."""
        if mode.strip("rtbU") or not isinstance(path, (str, bytes, os.PathLike)):
            return None
        name = os.path.basename(os.fsdecode(path))
        if not any(os.path.basename(file.path) == name for file in self.files.values()):
            return None
        file = self.file(path)
        if file is not None and file.path.endswith(".py") and not (is_run or runs_what_it_reads()):
            return None
        text = file.edited() if file is not None else None
        if file is None or text is None:
            return None
        held = os.memfd_create(name)
        os.write(held, text.encode(file.encoding))
        # By the name that code objects have for it, where one is made of it.
        self.loaded[file.path if isinstance(path, bytes) else os.fspath(path)] = file
        self.fill_linecache()

        def opener(path: str, flags: int) -> int:
            try:
                # By its own offset, as a file that is opened has.
                return os.open("/proc/self/fd/%d" % held, flags)
            finally:
                os.close(held)

        return opener

    def code(self, path: str, make: "Callable[[str, str], Any]") -> "Any":
        """What `make` compiles of the changed text; None where the file is none of them, or another one by now."""
        file = self.file(path)
        text = file.edited() if file is not None else None
        if file is None or text is None:
            return None
        code = make(text, path)
        self.loaded[path] = file
        self.fill_linecache()
        loaded = list(self.loaded.values())
        if self.put_back is not None and all(file in loaded for file in self.files.values()):
            self.put_back()
        return code

    def fill_linecache(self, module: "Any" = None) -> None:
        """Sources that are looked up, by torch.jit say, are those that run."""
        cache: Any = getattr(sys.modules.get("linecache"), "cache", None)
        for path, file in self.loaded.items() if type(cache) is dict else ():
            if not file.path.endswith(".py"):
                continue
            lines = [line + "\n" for line in (file.text or "").split("\n")]
            cache[path] = sum(map(len, lines)), None, lines[:-1] if lines[-1] == "\n" else lines, path

    def outcome(self, is_settled: bool) -> "Any":
        """Whether all changes are made in this process, and in words which are, or which are not and why; None where a
        file may yet be loaded."""
        refused = self.refused + [file.refused for file in self.files.values() if file.refused is not None]
        if refused:
            return False, "; ".join(refused)
        loaded = list(self.loaded.values())
        missing = [file.path for file in self.files.values() if file not in loaded]
        if missing:
            return (False, "this process has not loaded " + ", ".join(missing)) if is_settled else None
        return True, ", ".join(file.shown() for file in self.files.values())


def runs_what_it_reads() -> bool:
    """Whether one of the program's functions that opens a file just now is one that runs texts."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_globals is globals() or frame.f_code.co_filename == OPENS):
        frame = frame.f_back
    for _ in range(CALLERS):
        if frame is None:
            break
        if not RUNNERS.isdisjoint(frame.f_code.co_names):
            return True
        frame = frame.f_back
    return False


class Script:
    """An entry of sys.path_hooks for the script that Python was started with, and the loader of its code. To Python the
    script is then a place that a `__main__` is found in; before the first line runs, all is as for a script again."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits
        self.path = ""
        self.code: Any = None

    def __call__(self, path: str) -> "Script":
        """Answers Python's own start alone, which asks without a caller."""
        try:
            sys._getframe(1)
        except ValueError:
            try:
                self.code = self.edits.code(path, compiled)
                self.path = path
            except Exception:
                # A syntax error, say, which Python then finds by itself.
                raise ImportError from None
        if self.code is None or path != self.path:
            raise ImportError
        return self

    def find_spec(self, name: str, target: "Any" = None) -> "Any":
        from importlib.machinery import ModuleSpec

        if name != "__main__":
            return None
        loader: Any = self
        spec = ModuleSpec(name, loader, origin=self.path)
        spec.has_location = True
        return spec

    def create_module(self, spec: "Any") -> None:
        return None

    def exec_module(self, module: "Any") -> None:
        exec(self.get_code("__main__"), module.__dict__)

    def get_code(self, name: str) -> "Any":
        # By names that stay no variables of the script's.
        return compile(
            "try:\n    exec(__spec__.loader.begin(globals()), globals())\n"
            "finally:\n    __import__('sys').modules['_oomph_source'].written_out()",
            "<frozen runpy>", "exec", 0, True,
        )

    def begin(self, values: "Dict[str, Any]") -> "Any":
        """The script's code, and the module's names as they are for a script."""
        from _frozen_importlib_external import SourceFileLoader

        values.update(
            __spec__=None,
            __file__=self.path,
            __cached__=None,
            __doc__=None,
            __package__=None,
            __loader__=SourceFileLoader("__main__", self.path),
        )
        if sys.version_info >= (3, 15):
            values.pop("__cached__", None)
        if sys.path[:1] == [self.path]:
            if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
                del sys.path[0]
            else:
                sys.path[0] = os.path.dirname(os.path.realpath(self.path))
        sys.path_importer_cache.pop(self.path, None)
        if self in sys.path_hooks:
            sys.path_hooks.remove(self)
        code, self.code = self.code, None
        return code


def written_out() -> None:
    """What is buffered stands before what Python says of the script's end, as where it runs a script itself."""
    for stream in (sys.stderr, sys.stdout):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            # Closed, or nobody reads it: Python says nothing of that either.
            continue
        except Exception:
            hook: Any = sys.modules["_oomph_hook"]
            hook.swallowed("write out what is buffered")


def compiled(text: str, path: str) -> "Any":
    return compile(text, path, "exec", 0, True)


def install(as_if: "Callable[..., Any]", swallowed: "Callable[[str], None]") -> Edits:
    """Has the changed files compiled from their changed text: as a script, in a child of multiprocessing, and where
    they are imported or started by `-m`."""
    import runpy
    from _frozen_importlib_external import SourceLoader

    edits = Edits(os.environ[VARIABLE])
    sys.path_hooks.insert(0, Script(edits))

    loader: Any = SourceLoader
    of_loader = loader.get_code

    def get_code(self: "Any", fullname: str) -> "Any":
        code = None
        try:
            code = edits.code(self.get_filename(fullname), lambda text, path: self.source_to_code(text, path))
        except Exception:
            swallowed("compile an edited source")
        return of_loader(self, fullname) if code is None else code

    loader.get_code = as_if(of_loader, get_code)

    run: Any = runpy
    of_file = run._get_code_from_file

    def _get_code_from_file(*args: "Any") -> "Any":
        code = None
        try:
            code = edits.code(args[-1], compiled)
        except Exception:
            swallowed("compile an edited script")
        if code is None:
            return of_file(*args)
        # Before 3.12 the file's name goes with it.
        return code if of_file.__code__.co_argcount == 1 else (code, args[-1])

    run._get_code_from_file = as_if(of_file, _get_code_from_file)
    open_changed(edits, swallowed)
    return edits


def open_changed(edits: Edits, swallowed: "Callable[[str], None]") -> None:
    """Has the changed files opened with their changed text by who reads them as settings, or runs what it reads; until
    all are compiled where they are imported or started, if none is a file of settings."""
    import builtins
    import io

    of_python: Any = io.open
    of_code: Any = io.open_code

    def opener_of(path: "Any", mode: str, is_run: bool = False) -> "Any":
        try:
            return edits.opened(path, mode, is_run)
        except Exception:
            swallowed("open an edited file")
        return None

    def open(self: "Any", file: "Any", mode: "Any" = "r", *args: "Any", **kwargs: "Any") -> "Any":
        opener = opener_of(file, mode, False)
        if opener is not None:
            # The last of its arguments, which nothing passes by its place.
            kwargs["opener"] = opener
        return of_python(file, mode, *args, **kwargs)

    def open_code(self: "Any", path: "Any") -> "Any":
        # Of profilers and debuggers; what imports has its own.
        opener = opener_of(path, "rb", True)
        return of_code(path) if opener is None else of_python(path, "rb", opener=opener)

    builtins.open = io.open = as_builtin(of_python, open)
    io.open_code = as_builtin(of_code, open_code)

    def put_back() -> None:
        if getattr(io.open, "__wrapped__", None) is of_python:
            io.open = of_python
        if getattr(builtins.open, "__wrapped__", None) is of_python:
            builtins.open = of_python
        if getattr(io.open_code, "__wrapped__", None) is of_code:
            io.open_code = of_code

    if not any(not file.path.endswith(".py") for file in edits.files.values()):
        edits.put_back = put_back


def as_builtin(of_python: "Any", function: "Any") -> "Any":
    """A function that stands for one of Python's own."""
    # In a traceback it is Python's, as the other lines of a changed run are.
    function.__code__ = function.__code__.replace(co_filename=OPENS)
    # No function: in a class of the program's (`opens = open`) one would be a method, which Python's is not.
    kind: Any = type(
        "builtin_function_or_method", (), {"__call__": function, "__reduce__": lambda self: of_python.__name__}
    )
    ours = kind()
    for name in ("__name__", "__qualname__", "__doc__"):
        setattr(ours, name, getattr(of_python, name))
    # Where a pickle looks it up.
    ours.__module__ = "io"
    ours.__wrapped__ = of_python
    return ours
