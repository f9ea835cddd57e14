#!/usr/bin/env python3
"""Runs programs bare and under oomph, in every way of running, and compares them byte for byte.

    python3 tests/equality/compare.py --oomph target/debug/oomph [--fast] [--only PATTERN ...] [--ways NAME ...] [--jobs N]

Compared are stdout, stderr, what a terminal got, the order within a stream, files written, the exit status, signals
received, the input that is left over, and a program's own view of its world (`programs/world.py`,
`programs/interpreter.py`). What differs on purpose is in `differences.py`. Fails if anything else differs, and if
something in that list no longer does. `--fast` is the part that `cargo test` runs. Needs Linux and python3; a program or an
interpreter that is not there is left out, and named.
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import programs
import ways
from differences import DIFFERENCES

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN = 300
PAIRS = []


class Pair:
    """One program, in one way: bare, and under oomph."""

    def __init__(self, row, way, version, interpreter):
        self.row, self.way, self.version, self.interpreter = row, way, version, interpreter
        self.name = row.name + (" (%s)" % version if version else "")

    def argv(self):
        given = {"{python}": self.interpreter, "{programs}": os.path.join(HERE, "programs")}
        return [filled(word, given) for word in self.row.argv]


def filled(word, given):
    if isinstance(word, bytes):
        return word
    for name, value in given.items():
        word = word.replace(name, value)
    return word


def interpreter(version):
    """The binary itself: a shim of pyenv's would be a shell that looks for it."""
    found = shutil.which("python" + version)
    for candidate in filter(None, (found,)) and sorted(glob.glob("%s/versions/%s.*/bin/python3" % (pyenv(), version))) + [found]:
        try:
            told = subprocess.run([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError:
            continue
        words = told.stdout.decode().split(None, 1)
        if told.returncode == 0 and words[0] == version:
            return words[1].strip()
    return None


def pyenv():
    return os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))


def environment(place):
    """The same for both, and nothing of the machine's that changes what programs do."""
    return {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "USER": "somebody", "LOGNAME": "somebody", "SHELL": "/bin/sh",
        "XDG_STATE_HOME": os.path.join(place, "state"), "XDG_RUNTIME_DIR": os.path.join(place, "runtime"), "TMPDIR": os.path.join(place, "tmp"),
    }


def one(pair, oomph, top):
    """The items of one run: its names and bytes."""
    # As long for both: a path's length changes what a program writes.
    place = tempfile.mkdtemp(prefix="run-", dir=top)
    for name in ("state", "runtime", "tmp"):
        os.mkdir(os.path.join(place, name), 0o700)
    argv, record = pair.argv(), None
    way = ways.WAYS[pair.way]
    if oomph:
        argv = [oomph] + ([] if way.screen else ["--headless"]) + list(pair.row.options) + argv
        if way.screen:
            record = lambda: log_of(place)
    items = ways.run(argv, way, pair.row, place, environment(place), record).items
    ways.remove(place)
    return items


def log_of(place):
    logs = glob.glob(os.path.join(place, "state", "oomph", "sessions", "*", "output.log"))
    with open(logs[0], "rb") if logs else open("/dev/null", "rb") as file:
        return file.read()


def compared(number, oomph, top):
    """The items of one pair that differ: each with what it was bare, and under oomph."""
    pair = PAIRS[number]
    try:
        bare, under = (spread(one(pair, path, top), pair.row) for path in (None, oomph))
    except Exception:
        return {"the comparison itself": (None, traceback.format_exc().encode())}
    return {name: (bare.get(name), under.get(name)) for name in sorted(set(bare) | set(under)) if bare.get(name) != under.get(name)}


def spread(items, row):
    """Each line of a file of facts is an item of its own; lines of processes that race are sorted."""
    result = {}
    for name, value in items.items():
        if name.startswith("file ") and name.endswith(".facts"):
            seen = {}
            for line in value.partition(b" ")[2].split(b"\n"):
                fact, _, what = line.partition(b" = ")
                key = "%s: %s" % (name[5:-6], fact.decode("utf-8", "backslashreplace"))
                seen[key] = seen[key] + b", " + what if key in seen else what
            result.update(seen)
        elif row.unordered and name in ("stdout", "stderr", "terminal"):
            result[name] = b"\n".join(sorted(value.splitlines()))
        else:
            result[name] = value
    return result


def short(value):
    if value is None:
        return "(nothing)"
    words = repr(value)[1:]
    return words if len(words) <= SHOWN else "%s … (%d bytes)" % (words[:SHOWN], len(value))


def first_difference(bare, under):
    """Long values from a little before the place where they part."""
    if bare is None or under is None or max(len(bare), len(under)) <= SHOWN:
        return short(bare), short(under)
    place = next((n for n, (a, b) in enumerate(zip(bare, under)) if a != b), min(len(bare), len(under)))
    cut = max(0, place - 40)
    return tuple("%d bytes, from %d: %s" % (len(value), cut, repr(value[cut:cut + 120])[1:]) for value in (bare, under))


def matches(difference, item, way, name):
    return (any(fnmatch.fnmatchcase(item, each) for each in difference.items) and any(fnmatch.fnmatchcase(way, each) for each in difference.ways)
            and any(fnmatch.fnmatchcase(name, each) for each in difference.programs))


def chosen(args):
    """The pairs to run, and what is left out with its reason."""
    pairs, out, interpreters = [], [], {}
    newest = sys.executable if not args.python else args.python
    for row in programs.ROWS:
        if args.only and not any(fnmatch.fnmatchcase(row.name, each) for each in args.only) or args.fast and not row.fast:
            continue
        if row.needs and not shutil.which(row.needs):
            out.append("%s: no %s here" % (row.name, row.needs))
            continue
        # Of other interpreters than the one that runs this, two ways are enough.
        for version in (None,) if args.fast or not row.pythons else (None,) + row.pythons:
            if version and version not in interpreters:
                interpreters[version] = interpreter(version)
            if version and not interpreters[version]:
                out.append("%s: no python%s here" % (row.name, version))
                continue
            for way in row.ways:
                if version and way not in programs.FOR_VERSIONS or args.fast and way not in row.fast:
                    continue
                if not args.ways or way in args.ways:
                    pairs.append(Pair(row, way, version, interpreters[version] if version else newest))
    return pairs, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--ways", action="append", default=[], choices=sorted(ways.WAYS))
    parser.add_argument("--python", help="for the rows that name no version [the one that runs this]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all", action="store_true", help="shows what is on the list, too")
    args = parser.parse_args()
    oomph, began = os.path.realpath(args.oomph), time.monotonic()
    pairs, left_out = chosen(args)
    if not pairs:
        sys.exit("nothing to run: no program is named so")
    met, failures, occurred = set(), [], 0
    # Forked processes have the pairs; functions of rows cannot be sent to them.
    PAIRS.extend(pairs)
    workers = concurrent.futures.ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("fork"))
    with tempfile.TemporaryDirectory(prefix="equality-") as top, workers as pool:
        futures = {pool.submit(compared, number, oomph, top): pair for number, pair in enumerate(pairs)}
        for future in concurrent.futures.as_completed(futures):
            pair = futures[future]
            for item, (bare, under) in future.result().items():
                listed = [number for number, each in enumerate(DIFFERENCES) if matches(each, item, pair.way, pair.name)]
                met.update((number, pair.way) for number in listed)
                occurred += bool(listed)
                if not listed or args.all:
                    bare, under = first_difference(bare, under)
                    failures += [(pair.name, pair.way, item)] if not listed else []
                    print("%s, %s, %s\n    bare:  %s\n    oomph: %s" % (pair.name, pair.way, item, bare, under), flush=True)
    stale = gone(met, pairs, whole=not (args.only or args.fast or args.ways))
    for line in left_out + stale:
        print(line)
    print("%d programs (%d with their interpreters) in %d ways, %d comparisons in %.0f s: %d differ as listed, %d otherwise, %d listed that no longer do, %d programs left out" % (
        len({pair.row.name for pair in pairs}), len({pair.name for pair in pairs}), len({pair.way for pair in pairs}), len(pairs), time.monotonic() - began, occurred, len(failures), len(stale), len(left_out)))
    sys.exit(bool(failures or stale))


def gone(met, pairs, whole):
    """Listed differences that did not occur, though a program of theirs was run in that way. A part of the programs says
    nothing of those that are listed by a pattern."""
    ran = {(pair.name, pair.way) for pair in pairs}
    lines = []
    for number, each in enumerate(DIFFERENCES):
        if not whole and any("*" in name for name in each.programs):
            continue
        for way in each.ways:
            hit = [name for name, of in ran if fnmatch.fnmatchcase(of, way) and any(fnmatch.fnmatchcase(name, other) for other in each.programs)]
            if hit and not any(number == n and fnmatch.fnmatchcase(w, way) for n, w in met):
                lines.append("no longer differs, so remove it from the list: %s, %s, %s (%s)" % (", ".join(each.programs), way, ", ".join(each.items), each.reason))
    return lines


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
