"""Published training programs of others, as `zoo.toml` lists them: what oomph finds in them against what was written down by
hand from reading them.

    python3 tests/gpu/zoo.py plan --oomph target/debug/oomph --programs DIR [--mirror DIR] [--only NAME]

`plan` needs no GPU: it compares what `oomph plan` says of a program's text with the manifest. Nothing of the programs is run.
The programs are checked out below `--programs`, which is no part of the repository: each at the commit of the manifest, only
its text files, from bare repositories in `--mirror` (OWNER+NAME or OWNER+NAME/repo), or from GitHub where there is none.

Other modes take the same manifest: `Program` has what a mode needs to know of one.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = Path(__file__).with_name("zoo.toml")
# What a program is made of; data, pictures and notebooks stay where they are.
KEPT = (".py", ".yaml", ".yml", ".json", ".toml", ".cfg", ".gin", ".sh")
LARGEST = 1 << 20


@dataclass
class Program:
    """A row of the manifest."""

    name: str
    repository: str
    commit: str
    field: str
    parser: str
    command: str
    knob: dict
    # Whether the reader of texts was written with these at hand ("first") or before they were read ("second").
    set: str = "first"
    moves: str = ""
    note: str = ""
    directory: Path = field(default=Path(), init=False)

    def words(self):
        return shlex.split(self.command)


def programs(options):
    rows = [Program(**row) for row in tomllib.loads(MANIFEST.read_text())["program"]]
    rows = [row for row in rows if options.only is None or options.only in row.name]
    return [row for row in rows if options.set is None or row.set == options.set]


def git(*arguments, **options):
    return subprocess.run(["git", *map(str, arguments)], check=True, capture_output=True, **options).stdout


def repository(program, mirror, into):
    """A bare repository that has the program's commit."""
    if mirror is not None:
        place = mirror / program.repository.replace("/", "+")
        for candidate in (place / "repo", place / "repo" / ".git", place):
            if (candidate / "HEAD").exists():
                return candidate
    place = into / ".git" / program.repository.replace("/", "+")
    if not (place / "HEAD").exists():
        git("init", "--bare", place)
    git("-C", place, "fetch", "--depth=1", f"https://github.com/{program.repository}", program.commit)
    return place


def check_out(program, mirror, into):
    """The program's text files, at its commit."""
    program.directory = into / f"{program.repository.replace('/', '+')}@{program.commit[:12]}"
    if program.directory.exists():
        return
    bare = repository(program, mirror, into)
    listed = git("-C", bare, "ls-tree", "-r", "-l", "-z", program.commit).decode(errors="surrogateescape")
    wanted = []
    for line in listed.rstrip("\0").split("\0"):
        about, name = line.split("\t", 1)
        mode, _, blob, size = about.split()
        if mode.startswith("100") and size.isdigit() and int(size) <= LARGEST and name.endswith(KEPT):
            wanted.append((blob, name))
    making = program.directory.with_suffix(".part")
    answers = git("-C", bare, "cat-file", "--batch", input="".join(f"{blob}\n" for blob, _ in wanted).encode())
    for _, name in wanted:
        head, _, answers = answers.partition(b"\n")
        if head.endswith(b"missing"):
            continue
        length = int(head.split()[2])
        target = making / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(answers[:length])
        answers = answers[length + 1 :]
    making.rename(program.directory)


def planned(oomph, program):
    """What `oomph plan` finds in a program."""
    run = subprocess.run(
        [oomph, "plan", "--json", "--", *program.words()],
        cwd=program.directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if run.returncode:
        raise SystemExit(f"{program.name}: oomph plan ended with {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout)["found"]


def plain(name):
    return name.strip("-+=").replace("-", "_").rpartition(".")[2].lower()


def is_meant(program, spot):
    """Whether a candidate is the knob of the manifest: its place where it has one, else its name and number."""
    knob = program.knob
    names = {plain(name) for name in (knob["name"], knob.get("option", knob["name"]), *knob.get("also", ()))}
    if plain(spot["name"]) not in names or spot["value"] != knob["value"]:
        return False
    if "file" in spot and "file" in knob:
        relative = os.path.relpath(program.directory.resolve() / spot["file"], program.directory.resolve())
        return relative == knob["file"] and spot["line"] == knob["line"]
    return True


def verdict(program, found):
    has_none = program.knob["is"] == "none"
    sure = found["how_sure"]
    if sure in ("sure", "likely"):
        is_right = not has_none and all(is_meant(program, spot) for spot in found["candidates"])
        return "right" if is_right else "wrong"
    if sure == "not_sure":
        return "not sure"
    return "right, nothing" if has_none else "nothing"


def shown(spot):
    place = f"{os.path.basename(spot['file'])}:{spot['line']}" if "file" in spot else ""
    return f"{spot['name']} {spot['value']} {spot['stands']} {place}".rstrip()


def compare_plans(options):
    """The table of what `plan` says, and its totals."""
    counts = Counter()
    for program in programs(options):
        check_out(program, options.mirror, options.programs)
        found = planned(options.oomph.resolve(), program)
        said = verdict(program, found)
        counts[said] += 1
        spots = ", ".join(shown(spot) for spot in found["candidates"]) or found.get("why", "")
        print(f"{program.name:26} {program.parser:26} {said:14} {found['how_sure']:8} {spots}")
    with_knob = sum(counts.values()) - sum(program.knob["is"] == "none" for program in programs(options))
    print()
    for said in ("right", "not sure", "wrong", "nothing", "right, nothing"):
        print(f"{said:14} {counts[said]:3}")
    print(f"right where the text has it: {counts['right']} of {with_knob} ({counts['right'] / max(with_knob, 1):.1%})")
    return 1 if counts["wrong"] else 0


MODES = {"plan": compare_plans}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--oomph", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True, help="where they are checked out")
    parser.add_argument("--mirror", type=Path, help="bare repositories, OWNER+NAME")
    parser.add_argument("--only", help="programs whose name has this")
    parser.add_argument("--set", choices=("first", "second"))
    options = parser.parse_args()
    options.programs.mkdir(parents=True, exist_ok=True)
    return MODES[options.mode](options)


if __name__ == "__main__":
    sys.exit(main())
