"""What the suites of checks share: where one works, how it demands, and how they are run in turn."""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time
import traceback

from terminal import Terminal

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"
MIB = 1 << 20
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Place:
    """Where one check works: a directory of its own, and the binary."""

    def __init__(self, oomph, directory):
        self.oomph = str(pathlib.Path(oomph).resolve())
        self.directory = pathlib.Path(directory)
        self.recording = self.directory / "events.jsonl"

    def headless(self, *command, options=(), seconds=180, env=None):
        """Runs a command headless; answers with the finished process and its events."""
        done = subprocess.run(
            [self.oomph, "--headless", "--record", self.recording, *options, *map(str, command)],
            capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
            env=env, cwd=ROOT,
        )
        return done, self.events()

    def terminal(self, name, *command, options=()):
        return Terminal(
            name, self.directory, [self.oomph, "--record", self.recording, *options, *command]
        )

    def events(self, kind=None):
        lines = []
        for path in [self.recording, *sorted(self.directory.glob("events.jsonl.*"))]:
            if path.exists():
                for line in path.read_text().splitlines():
                    try:
                        lines.append(json.loads(line))
                    except ValueError:
                        pass  # the last line of a recording that is being written
        lines.sort(key=lambda event: event["at"])
        return [event for event in lines if kind in (None, event["event"])]


def of(events, kind):
    return [event for event in events if event["event"] == kind]


def require(condition, text):
    if not condition:
        raise AssertionError(text)


def main(about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", help="keep recordings and screens here")
    args = parser.parse_args()
    passed = failed = 0
    for function in CHECKS:
        name = function.__name__
        if args.only and not any(word in name for word in args.only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(args.keep) / name if args.keep else pathlib.Path(scratch)
            directory.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            try:
                said = function(Place(args.oomph, directory))
                passed += 1
                print(f"ok   {name} ({time.monotonic() - began:.0f} s): {said}", flush=True)
            except Exception as error:  # a check that breaks is a check that failed
                failed += 1
                print(f"FAIL {name}: {error}", flush=True)
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0

