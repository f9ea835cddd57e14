"""Published training programs of others, as `zoo.toml` lists them: what oomph finds in them against what was written down by
hand from reading them.

    python3 tests/gpu/zoo.py plan --oomph target/debug/oomph --programs DIR [--mirror DIR] [--only NAME]

`plan` needs no GPU: it compares what `oomph plan` says of a program's text with the manifest. Nothing of the programs is run.
The programs are checked out below `--programs`, which is no part of the repository: each at the commit of the manifest, only
its text files, from bare repositories in `--mirror` (OWNER+NAME or OWNER+NAME/repo), or from GitHub where there is none.


    python3 tests/gpu/zoo.py run --oomph target/release/oomph --programs DIR --results FILE [--at-once N] [--seconds N]
    python3 tests/gpu/zoo.py fit --oomph target/release/oomph --programs DIR --results FILE [--at-once N] [--seconds N]
    python3 tests/gpu/zoo.py denied --oomph target/release/oomph --programs DIR --results FILE [--at-once N] [--seconds N]
    python3 tests/gpu/zoo.py report --results FILE

`run` and `fit` need an NVIDIA GPU and PyTorch with torchvision: each program that has `data` in the manifest runs as it is, then
with 1/1.5 and 1/4 of the memory that it took, under `--on-oom auto`, and once more so with nothing in front of it, for its exit
status and traceback (`zoo_runs.py`). `fit` asks `oomph fit` for the largest batch in 1/1.5 of it, and whether that and 2 % more last.
`denied` runs with the least batch, in the same memory, what `run` saw no relaunch go on of (`zoo_denied.py`).
What the results have is not run again.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import zoo_data  # noqa: E402
import zoo_denied  # noqa: E402
import zoo_report  # noqa: E402
import zoo_runs  # noqa: E402
import zoo_scripts  # noqa: E402
from results import Results  # noqa: E402

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
    # The script that the command runs, where the repository has it only in a README or a notebook (`zoo_scripts.py`).
    made: str = ""
    # For a run on a GPU, where `data` is given: the command where it differs (data that can be made, a length that a GPU notices),
    # the folder it runs in, what is on PYTHONPATH, what is made, run before and replaced by a stand-in (`zoo_data.py`).
    runs: str = ""
    cwd: str = "."
    path: list = field(default_factory=list)
    data: list | None = None
    before: str = ""
    stubs: list = field(default_factory=list)
    directory: Path = field(default=Path(), init=False)

    def words(self):
        return shlex.split(self.command)


def programs(options):
    rows = [Program(**row) for row in tomllib.loads(MANIFEST.read_text())["program"]]
    rows = [row for row in rows if not options.only or any(part in row.name for part in options.only)]
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
    if not program.directory.exists():
        bare = repository(program, mirror, into)
        check_out_texts(bare, program)
    if program.made and not (program.directory / program.made.partition(" = ")[0]).exists():
        bare = repository(program, mirror, into)
        zoo_scripts.make(
            program.made,
            program.directory,
            lambda path: git("-C", bare, "show", f"{program.commit}:{path}").decode(),
        )


def check_out_texts(bare, program):
    listed = git("-C", bare, "ls-tree", "-r", "-l", "-z", program.commit).decode(errors="surrogateescape")
    wanted = []
    for line in listed.rstrip("\0").split("\0"):
        about, name = line.split("\t", 1)
        mode, _, blob, size = about.split()
        if mode.startswith("100") and size.isdigit() and int(size) <= LARGEST and name.endswith(KEPT):
            wanted.append((blob, name))
    making = program.directory.with_suffix(".part")
    making.mkdir()
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


def take_bare_runs(results, others):
    """What programs need as they are, of other results: on a GPU of another size that is the same."""
    ask = "import torch; print(torch.cuda.get_device_properties(0).total_memory)"
    total = int(subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True).stdout)
    for line in Results(others).lines:
        if line["what"] == "bare" and not results.has(name=line["name"], what="bare"):
            results.add(**{**line, "total": total})


def run_all(options, measure=zoo_runs.measure):
    """Programs on a GPU, several at once; no new one is begun when the time is over."""
    place = zoo_runs.Place(options.oomph.resolve(), options.work.resolve(), options.carried.resolve(), options.seconds_a_run)
    results = Results(options.results)
    if options.bare_from is not None:
        take_bare_runs(results, options.bare_from)
    until = time.monotonic() + options.seconds
    wanted = [program for program in programs(options) if program.data is not None]
    for program in wanted:
        check_out(program, options.mirror, options.programs)
    for shared in {what.partition(" ")[0].partition("/")[0] for program in wanted for what in program.data} - {"carried"}:
        zoo_data.make_once(shared, place.work / "data")
    zoo_data.accept_made_files()

    with ThreadPoolExecutor(options.at_once) as pool:
        list(
            pool.map(
                lambda program: measure(place, program, results, lambda: time.monotonic() < until), wanted
            )
        )
    return zoo_report.report(results, {program.name: program for program in programs(options)})


def fit_all(options):
    return run_all(options, zoo_runs.measure_fit)


def denied_all(options):
    return run_all(options, zoo_denied.measure)


def report_all(options):
    return zoo_report.report(Results(options.results), {program.name: program for program in programs(options)})


MODES = {"plan": compare_plans, "run": run_all, "fit": fit_all, "denied": denied_all, "report": report_all}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--oomph", type=Path)
    parser.add_argument("--programs", type=Path, default=Path("/tmp/oomph-zoo"), help="where they are checked out")
    parser.add_argument("--mirror", type=Path, help="bare repositories, OWNER+NAME")
    parser.add_argument("--only", nargs="+", help="programs whose name has one of these")
    parser.add_argument("--set", help="programs that were written down together: first, second, …")
    parser.add_argument("--bare-from", type=Path, help="results that say what the programs need as they are")
    parser.add_argument("--results", type=Path, default=Path("zoo.jsonl"))
    parser.add_argument(
        "--work", type=Path, default=Path("/tmp/oomph-zoo-work"), help="where they run, with the data made for them"
    )
    parser.add_argument("--carried", type=Path, default=Path("."), help="files that their repositories keep too large")
    parser.add_argument("--at-once", type=int, default=6, help="programs that share the GPU")
    parser.add_argument("--seconds-a-run", type=float, default=zoo_runs.SECONDS, help="a run that takes longer is ended")
    parser.add_argument("--seconds", type=float, default=1e9, help="no run is begun after this long")
    options = parser.parse_args()
    options.programs.mkdir(parents=True, exist_ok=True)
    return MODES[options.mode](options)


if __name__ == "__main__":
    sys.exit(main())
