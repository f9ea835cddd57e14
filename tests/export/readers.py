"""What oomph writes for other programs, read by those programs' own readers, and its figures compared with the recording's.

    apt-get install prometheus
    python3 -m venv /tmp/readers && /tmp/readers/bin/pip install pandas tensorboard perfetto
    /tmp/readers/bin/python tests/export/readers.py --oomph target/release/oomph [RECORDING...]

`promtool check metrics` takes the file of --metrics, pandas the table, TensorBoard's EventAccumulator the event files, Perfetto's
trace processor the trace. The last is a program that the `perfetto` package downloads when it is first used; where it cannot,
give it with --trace-processor, or only the rules of the Trace Event Format are checked, which is said. Any other reader that is
missing is an error. Not part of `cargo test`, which needs none of them.
"""

import argparse
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
GIB = float(1 << 30)


class Failed(Exception):
    """What was read is not what was recorded."""


def check(condition, words):
    if not condition:
        raise Failed(words)


class Recording:
    """What a recording says, read without oomph."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        known = {event["pid"] for event in events if event["event"] == "hello"}
        unique = {json.dumps(event, sort_keys=True): event for event in events if event["event"] == "sample"}
        self.samples = [event for event in unique.values() if event["pid"] in known]
        self.pids = {sample["pid"] for sample in self.samples}

    def largest(self, pid, field):
        return max(sample[field] for sample in self.samples if sample["pid"] == pid)


def export(oomph, recording, kind, to):
    subprocess.run([oomph, "export", "--to", kind, recording.path, "-o", to], check=True, stdout=subprocess.DEVNULL)
    return to


def the_table(oomph, recording, directory):
    import pandas

    table = pandas.read_csv(export(oomph, recording, "csv", os.path.join(directory, "table.csv")))
    check(table["seconds"].is_monotonic_increasing, "not in the order of time")
    for column in table.columns:
        text = column in ("source", "gpu_name", "rank")
        check(text or pandas.api.types.is_numeric_dtype(table[column]), "%s is not a column of numbers" % column)
    samples = table[table["allocated_bytes"].notna()]
    check(len(samples) == len(recording.samples), "%d samples of %d" % (len(samples), len(recording.samples)))
    for pid in recording.pids:
        of_pid = samples[samples["pid"] == pid]
        for column, field in (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved")):
            seen, there = of_pid[column].max(), recording.largest(pid, field)
            check(seen == there, "%s of %s: %s instead of %s" % (column, pid, seen, there))
    return "%d rows" % len(table)


def the_event_files(oomph, recording, directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    to = export(oomph, recording, "tensorboard", os.path.join(directory, "events"))
    largest, points = [], 0
    for run in sorted(glob.glob(os.path.join(to, "*"))):
        files = EventAccumulator(run, size_guidance={"scalars": 0})
        files.Reload()
        tags = files.Tags()["scalars"]
        for tag in tags:
            scalars = files.Scalars(tag)
            points += len(scalars)
            steps = [scalar.step for scalar in scalars]
            check(steps == sorted(steps), "%s of %s goes back" % (tag, run))
            check(all(scalar.wall_time > 1e9 for scalar in scalars), "%s has no time of day" % tag)
        if "memory_by_second/allocated_gib" in tags:
            largest.append(max(scalar.value for scalar in files.Scalars("memory_by_second/allocated_gib")))
    there = [recording.largest(pid, "allocated") / GIB for pid in recording.pids]
    # A scalar has 32 bits.
    check(len(largest) == len(there), "%d processes of %d" % (len(largest), len(there)))
    for seen, wanted in zip(sorted(largest), sorted(there)):
        check(abs(seen - wanted) <= 1e-6 * max(wanted, 1.0), "largest allocated %s instead of %s" % (seen, wanted))
    return "%d scalars of %d processes" % (points, len(largest))


def kept_by_mlflow(oomph, recording, directory):
    """A run of MLflow, with a store of files, keeps the event files as artifacts."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    to = export(oomph, recording, "tensorboard", os.path.join(directory, "events"))
    mlflow.set_tracking_uri("file://" + os.path.join(directory, "mlruns"))
    mlflow.set_experiment("memory")
    with mlflow.start_run() as run:
        mlflow.log_artifacts(to)
    client = mlflow.MlflowClient()
    folders = client.list_artifacts(run.info.run_id)
    files = [file for folder in folders for file in client.list_artifacts(run.info.run_id, folder.path)]
    check(files and all(file.file_size > 0 for file in files), "%d files" % len(files))
    return "%d files" % len(files)


def logged_to_wandb(oomph, recording, directory):
    """A run of W&B that is offline takes the rows of the table and the event files, as `oomph help ci` has it."""
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true")
    import csv

    import wandb

    table = export(oomph, recording, "csv", os.path.join(directory, "table.csv"))
    to = export(oomph, recording, "tensorboard", os.path.join(directory, "events"))
    with wandb.init(project="memory", dir=directory) as run:
        with open(table, encoding="utf-8") as rows:
            rows = [row for row in csv.DictReader(rows) if row["allocated_bytes"]]
        for row in rows:
            run.log({name: float(row[name]) for name in ("seconds", "allocated_bytes", "reserved_bytes")})
        run.log_artifact(to, name="oomph", type="memory")
    written = glob.glob(os.path.join(directory, "wandb", "offline-run-*", "*.wandb"))
    check(len(written) == 1, "%d files of runs" % len(written))
    with open(written[0], "rb") as file:
        found = file.read().count(b"allocated_bytes")
    check(found >= len(rows), "%d rows of %d" % (found, len(rows)))
    return "%d rows" % len(rows)


NOT_HERE = "not here"


def trace_processor():
    """Perfetto's program, downloaded by its package, or NOT_HERE."""
    from perfetto.trace_processor.platform import PlatformDelegate

    try:
        return PlatformDelegate().get_shell_path(None)
    except (OSError, subprocess.CalledProcessError):
        return NOT_HERE


PHASES = set("BEXbneiICMsptfPNODvVcRS(),")


def the_trace(oomph, processor, recording, directory):
    path = export(oomph, recording, "trace", os.path.join(directory, "trace.json"))
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    by_the_rules(events)
    largest = max((e["args"]["allocated"] for e in events if e["ph"] == "C" and "allocated" in e["args"]), default=0.0)
    there = max((sample["allocated"] for sample in recording.samples), default=0) / float(1 << 20)
    check(abs(largest - there) <= 0.001, "largest allocated %s MiB instead of %s" % (largest, there))
    found = in_the_trace_processor(path, processor)
    if found is None:
        return "%d events by the rules; NOT read by Perfetto, whose trace processor is not here" % len(events)
    counters, slices, errors = found
    check(not errors, "Perfetto counts errors: %s" % errors)
    wanted = sum(len(e["args"]) for e in events if e["ph"] == "C")
    check(counters == wanted, "%d counter values of %d" % (counters, wanted))
    wanted = sum(e["ph"] in "Xi" for e in events)
    check(slices == wanted, "%d slices of %d" % (slices, wanted))
    return "%d counter values, %d slices in Perfetto" % (counters, slices)


def by_the_rules(events):
    """The Trace Event Format's rules, and that slices of one thread lie within each other: Perfetto drops others."""
    slices = {}
    for event in events:
        check(isinstance(event["name"], str) and event["ph"] in PHASES and isinstance(event["pid"], int), event)
        if event["ph"] == "M":
            check(isinstance(event["args"]["name"], str), event)
            continue
        check(isinstance(event["ts"], (int, float)) and event["ts"] >= 0, event)
        if event["ph"] == "C":
            values = event["args"].values()
            check(values and all(isinstance(value, (int, float)) for value in values), event)
        elif event["ph"] == "X":
            check(event["dur"] >= 0, event)
            slices.setdefault((event["pid"], event.get("tid")), []).append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "iI":
            check(event.get("s", "t") in "gpt", event)
    for thread, spans in slices.items():
        open_ends = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            check(not open_ends or end <= open_ends[-1], "slices of %s overlap at %s" % (thread, begin))
            open_ends.append(end)


def in_the_trace_processor(path, processor):
    """Counter values, slices and errors as Perfetto's own importer counts them; None without it."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    if processor == NOT_HERE:
        return None
    trace = TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=processor))
    try:
        count = lambda table: next(iter(trace.query("select count(*) as n from " + table))).n
        errors = {
            row.name: row.value for row in trace.query("select name, value from stats where severity = 'error' and value > 0")
        }
        return count("counter"), count("slice"), errors
    finally:
        trace.close()


HOSTILE = 'a "quoted" \\ name\nof two lines'


def the_metrics(oomph, recorded, directory):
    """Of the simulated demo while it runs, runs out of memory and is relaunched, from a directory whose name must be escaped."""
    place = os.path.join(directory, HOSTILE)
    os.makedirs(place)
    metrics = os.path.join(directory, "oomph.prom")
    train = os.path.abspath(os.path.join(ROOT, "demo", "train.py"))
    environment = dict(os.environ, OOMPH_STATE_DIR=directory, OOMPH_RUNTIME_DIR=directory)
    training = subprocess.Popen(
        [oomph, "--headless", "--no-nvml", "--on-oom", "auto", "--record", recorded, "--metrics", metrics]
        + [sys.executable, train, "--simulated", "--batch-size", "64"],
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    versions, samples, written = 0, set(), None
    while training.poll() is None:
        try:
            changed = os.stat(metrics).st_mtime_ns
        except FileNotFoundError:
            continue
        if changed != written:
            written = changed
            versions += 1
            samples |= promtool(metrics)
        time.sleep(0.05)
    check(training.returncode == 0, "the demo ended with %s" % training.returncode)
    last = promtool(metrics)
    check("oomph_allocated_bytes" in samples and "oomph_reserved_bytes" in samples, samples)
    check({"oomph_oom_total", "oomph_allocated_peak_bytes", "oomph_steps_total"} <= last, last)
    return "%d versions of the file, %d families" % (versions + 1, len(samples | last))


def promtool(metrics):
    """The families of the file, which promtool must take without advice on its names."""
    with open(metrics, encoding="utf-8") as file:
        text = file.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    check(done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr)
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--trace-processor", help="Perfetto's program, where it cannot be downloaded")
    parser.add_argument("recordings", nargs="*")
    options = parser.parse_args()
    oomph = os.path.abspath(options.oomph)
    processor = options.trace_processor or trace_processor()
    recordings = [Recording(p) for p in options.recordings or sorted(glob.glob(os.path.join(HERE, "..", "replay", "*.jsonl")))]
    failed = 0

    def report(reader, name, what, *arguments):
        nonlocal failed
        with tempfile.TemporaryDirectory() as directory:
            try:
                print("ok    %-12s %-12s %s" % (reader, name, what(*arguments, directory)))
            except (Failed, OSError, subprocess.CalledProcessError) as error:
                failed += 1
                print("FAIL  %-12s %-12s %s" % (reader, name, error))

    with tempfile.TemporaryDirectory() as directory:
        demo = os.path.join(directory, "demo.jsonl")
        report("promtool", "the demo", the_metrics, oomph, demo)
        if not options.recordings and os.path.exists(demo):
            recordings.append(Recording(demo))
        for recording in recordings:
            report("pandas", recording.name, the_table, oomph, recording)
            report("TensorBoard", recording.name, the_event_files, oomph, recording)
            report("trace", recording.name, the_trace, oomph, processor, recording)
        # They keep what the others read: one recording is enough.
        for reader, module, what in (("MLflow", "mlflow", kept_by_mlflow), ("W&B", "wandb", logged_to_wandb)):
            if importlib.util.find_spec(module):
                report(reader, recordings[0].name, what, oomph, recordings[0])
            else:
                print("      %-12s NOT TRIED: %s is not installed" % (reader, module))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
