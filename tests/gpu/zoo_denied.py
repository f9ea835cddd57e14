"""Where oomph offered no run, or the one that it offered ran out: whether the program would have run with the least batch
after all.

The batch is put where the manifest says that it stands, in a copy of the program: in its command, or in the line of its text.
"""

import re
import shutil
import sys

import zoo_runs

# One sample is what some programs refuse (a norm over the batch), so two are tried first.
LEAST = (2, 1)


def with_batch(place, program, batch):
    """The words that start the program with this batch; its own copy is changed where they can not say it."""
    knob = program.knob
    words = zoo_runs.words_of(program)
    own = re.compile(rf"(?<![\w.]){knob.get('value')}(?![\w.])")
    if knob["is"] == "typed":
        return [own.sub(str(batch), word) if is_of(knob, words, at) else word for at, word in enumerate(words)]
    option = knob.get("option")
    if option is not None:
        return [*words, f"{option}{batch}"] if option.endswith("=") else [*words, option, str(batch)]
    path = place.of(program) / "a" / "b" / "src" / knob["file"]
    lines = path.read_text().splitlines(keepends=True)
    lines[knob["line"] - 1] = own.sub(str(batch), lines[knob["line"] - 1], count=1)
    path.write_text("".join(lines))
    return words


def is_of(knob, words, at):
    """Whether the word at this place is the option with its value, or the value behind it."""
    option = knob["option"].rstrip("=")
    return words[at].startswith(option + "=") or (at > 0 and words[at - 1] == option)


def lasts(place, program, batch, cap):
    """Ten steps with this batch in this much of the GPU; None where the program ended otherwise."""
    folder = place.of(program)
    shutil.rmtree(folder / "a", ignore_errors=True)
    zoo_runs.prepared(place, program)
    words = with_batch(place, program, batch)
    seen, outcome, tail = zoo_runs.watched(
        place, program, f"least-{batch}", [], cap,
        lambda seen: seen.steps(1) >= zoo_runs.STEPS_AFTER or seen.failed(1), words,
    )
    shutil.rmtree(folder / "a", ignore_errors=True)
    if seen.steps(1) >= zoo_runs.STEPS_AFTER:
        return {"lasts": True, "peak": seen.peak(1)}
    return {"lasts": False if seen.failed(1) else None, "steps": seen.steps(1), "outcome": outcome, "tail": tail[-400:]}


def measure(place, program, results, may_begin):
    """Every relaunch of this program that was not offered."""
    try:
        truth = results.find(name=program.name, what="bare")
        for times in zoo_runs.TIMES:
            if not results.has(name=program.name, what="relaunch", times=times):
                continue
            line = results.find(name=program.name, what="relaunch", times=times)
            went_on = line["runs"] > 1 and not line.get("failed")
            if went_on or not line["ran_out"] or program.knob["is"] == "none":
                continue
            for batch in LEAST:
                key = {"name": program.name, "what": "least", "times": times, "batch": batch}
                if not results.has(**key):
                    if not may_begin():
                        return
                    results.add(**key, **lasts(place, program, batch, truth["peak"] / times / truth["total"]))
                if results.find(**key)["lasts"]:
                    break
    except Exception as error:  # one program's trouble is not the others'
        print(program.name, repr(error)[:400], file=sys.stderr, flush=True)
