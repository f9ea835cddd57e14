"""Files of settings that the program has read by itself, without a word of its command that names them: beside its
script, with a number that its model was given, and with what its variables hold now. Which files it has opened is not
watched; they are found by what they say, once memory has run out.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from binascii import crc32

from ..common import errors, frames
from .search import LONGEST_FILE, changed_in_this_run, own_files, settings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line

# What reads each kind, if the program has loaded it.
READERS = {".json": ("json",), ".yaml": ("yaml",), ".yml": ("yaml",), ".toml": ("tomllib", "tomli", "toml")}
# Folders that settings do not lie in, or only those of earlier runs.
PASSED_OVER = frozenset(
    "node_modules site-packages venv env data datasets wandb runs out output outputs results checkpoints logs "
    "lightning_logs mlruns".split()
)
DEEPEST = 4
MOST_ENTRIES = 4000
LARGEST_FILE = 32768
MOST_SECONDS = 0.15
MOST_PARSED = 40
MOST_LEAVES = 5000
# Of what a file says, so much must be in the program's variables: it may add a few names or change some.
SHARE = 0.9
WORDS = re.compile("[A-Z]?[a-z]+")
SETTING = re.compile(rb"""["']?([A-Za-z_][\w.-]*)["']?[ \t]*[:=][ \t]*([0-9]+)(?![\w.])""")


def literals(owners: Owners, stack: Iterable[FrameType], values: set[int]) -> list[Line]:
    """The places of such files where one of `values` stands under a name that has to do with a batch."""
    # Hydra's settings are overridden by words of the command.
    if "hydra" in sys.modules:
        return []
    until = time.monotonic() + MOST_SECONDS
    held: set[tuple[str, Any]] | None = None
    found: list[Line] = []
    parsed = 0
    for path in nearby(until):
        try:
            # As it lies there: `open` gives what this run changes.
            with io.FileIO(path) as file:
                data = file.read(LARGEST_FILE + 1)
            changed = changed_in_this_run(path)
            # What the program has read; its places are told as they are in the file.
            text = data if changed is None else changed.text.encode()
            if len(data) > LARGEST_FILE or not any(places(text, values)):
                continue
            said = set(leaves(parse(path, text.decode()), DEEPEST))
        except Exception:
            errors.foreseen("read a file of settings")
            continue
        parsed += 1
        if held is None:
            held = held_by(owners, stack)
        if said and len(said & held) >= SHARE * len(said):
            for each in places(text, values):
                if changed is not None:
                    each["column"] = changed.column_in_file(each["line"], each["column"])
                found.append({"file": os.path.realpath(path), "crc": crc32(data), **each})
        if parsed >= MOST_PARSED or time.monotonic() > until:
            break
    return without_copies(found, owners)


def without_copies(found: list[Line], owners: Owners) -> list[Line]:
    """Of several files those whose path the program's text names, part by part: each run may have left a copy of its
    settings in a folder of its own."""
    files = {each["file"] for each in found}
    if len(files) < 2:
        return found
    said = b" ".join(map(text_of, own_files(owners)))
    top = os.path.realpath(os.getcwd())
    named = {file for file in files if all(part.encode() in said for part in os.path.relpath(file, top).split(os.sep))}
    return [each for each in found if each["file"] in named] or found


def text_of(path: str) -> bytes:
    try:
        with io.FileIO(path) as file:
            return file.read(LONGEST_FILE)
    except OSError:
        errors.foreseen("read a source")
        return b""


def nearby(until: float) -> Iterator[str]:
    """Files of settings beside the script and where it was started, that no word of the command names."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    tops = [os.path.dirname(os.path.abspath(script))] if type(script) is str else []
    named = {os.path.basename(word.rpartition("=")[2]) for word in sys.argv if type(word) is str}
    folders = [(top, DEEPEST) for top in dict.fromkeys([*tops, os.getcwd()])]
    seen: set[str] = set()
    entries = 0
    began = started_at()
    for folder, depth in folders:
        with os.scandir(folder) as listed:
            for entry in listed:
                entries += 1
                if entries > MOST_ENTRIES or time.monotonic() > until:
                    return
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if depth > 0 and name[0] not in "._" and name.lower() not in PASSED_OVER:
                        folders.append((entry.path, depth - 1))
                # A pipe would wait for a writer.
                elif can_be_read(name) and name not in named and entry.path not in seen and entry.is_file():
                    seen.add(entry.path)
                    # What was written since is what the program says of its own settings.
                    if entry.stat().st_mtime < began:
                        yield entry.path


def started_at() -> float:
    """When this process was started, by the clock of files; never where that is not to be had."""
    try:
        with io.FileIO("/proc/self/stat") as file:
            ticks = int((file.read(4096) or b"").rpartition(b")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except Exception:
        errors.foreseen("when this process was started")
        return float("inf")


def can_be_read(name: str) -> bool:
    """Whether it is a kind that this program reads: json is loaded by many libraries, yaml and toml by itself."""
    return any(reader in sys.modules for reader in READERS.get(os.path.splitext(name)[1].lower(), ()))


def parse(path: str, text: str) -> Any:
    kind = os.path.splitext(path)[1].lower()
    module: Any = next(sys.modules[reader] for reader in READERS[kind] if reader in sys.modules)
    if module.__name__ != "yaml":
        return module.loads(text)
    # A file may have several documents, of which a program makes one.
    documents = [each for each in module.safe_load_all(text) if isinstance(each, dict)]
    return {name: value for each in documents for name, value in each.items()}


def places(text: bytes, values: set[int]) -> Iterator[Line]:
    """Where a text has `"batch_size": 128`, `batch_size: 128` or `batch_size = 128`."""
    for number, line in enumerate(text.split(b"\n"), 1):
        for each in SETTING.finditer(line):
            name, value = each.group(1).decode(), int(each.group(2))
            words = {word.lower() for word in WORDS.findall(name)}
            if value in values or (value == 1 and any(word.startswith("accum") for word in words)):
                yield {"line": number, "column": each.start(2), "name": name, "kind": "setting", "value": value}


def leaves(said: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Each name with a number, a text or a switch in what a file says."""
    for key, value in said.items() if isinstance(said, dict) else ():
        if isinstance(value, (bool, int, float, str)):
            yield str(key), value
        elif depth > 0:
            yield from leaves(value, depth - 1)


def held_by(owners: Owners, stack: Iterable[FrameType]) -> set[tuple[str, Any]]:
    """The same of what the program's own functions have in their variables."""
    held: set[tuple[str, Any]] = set()
    seen: set[int] = set()
    for frame in stack:
        if owners.of(frame.f_code.co_filename) == frames.LIBRARY:
            continue
        for values in (frames.read_locals(frame, lambda values: dict(values)), frame.f_globals):
            for name, value in list(values.items()):
                if type(name) is str and not name.startswith("__"):
                    hold(name, value, held, seen, DEEPEST)
    return held


def hold(name: str, value: Any, held: set[tuple[str, Any]], seen: set[int], depth: int) -> None:
    if type(value) in (bool, int, float, str):
        if len(held) < MOST_LEAVES:
            held.add((name, value))
        return
    if depth == 0 or id(value) in seen or len(seen) > MOST_LEAVES:
        return
    seen.add(id(value))
    for key, inner in settings_in(value):
        if type(key) is str:
            hold(key, inner, held, seen, depth - 1)
