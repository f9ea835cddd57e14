"""What the runs of the zoo come to: a line a run, and the figures that the suite is held to."""

from results import quantile

GIB = 1 << 30
ENOUGH_STEPS = 10


def edited(line):
    """What was changed for the second run, in few words."""
    command = line.get("command") or {}
    changes = {each["name"]: each["value"] for each in command.get("env") or []}.get("OOMPH_EDITS", "")
    return f"{'+'.join(line.get('remedies') or [])} {changes}".strip()


def is_right_edit(program, line):
    """Whether the batch was changed where the manifest says that it stands; `None` where no batch was changed."""
    command = line.get("command") or {}
    if "smaller batch" not in (line.get("remedies") or []):
        return None
    knob = program.knob
    words = " ".join(map(str, command.get("argv", [])))
    env = str(command.get("env") or "")
    options = [option for option in (knob.get("option"), *knob.get("also", ())) if option]
    options = [option.rstrip("=") for option in options] or [f"--{knob['name']}"]
    if knob["is"] in ("typed", "default") and any(
        f"{option} " in f"{words} " or f"{option}=" in words for option in options
    ):
        return True
    if f"batch={knob.get('value')}:" in env:
        # The DataLoader's own argument, where the program has that number from the knob.
        return True
    if "file" in knob:
        return f"{knob['file']}:{knob['line']}" in env or (
            knob["is"] == "config" and knob["file"].rpartition("/")[2] in env + words
        )
    return False


def went_on(line):
    return not line.get("failed") and line.get("steps", 0) >= ENOUGH_STEPS


def is_too_slow_to_tell(line):
    """Whether the second run was ended before it had taken its steps, and had not run out of memory by then."""
    return line["runs"] > 1 and line.get("outcome") == "too slow" and not line.get("failed") and not went_on(line)


def share(part, whole):
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def print_as_alone(results, relaunches):
    """Whether the first run's end is what it would have been with nothing in front of it."""
    alone = {(line["name"], line["times"]): line for line in results.lines if line["what"] == "alone"}
    pairs = [(line, alone[key]) for line in relaunches if (key := (line["name"], line["times"])) in alone]
    ended = [pair for pair in pairs if pair[1]["status"] is not None and "first_exit" in pair[0]]
    same = [
        line["first_exit"].get("code", -line["first_exit"].get("signal", 0)) == other["status"] for line, other in ended
    ]
    print(f"exit status as without oomph    {share(sum(same), len(same))}")
    with_text = [(line, other) for line, other in pairs if other["traceback"] and line.get("traceback")]
    equal = [line["traceback"] == other["traceback"] for line, other in with_text]
    print(f"traceback as without oomph      {share(sum(equal), len(equal))}")
    for (line, other), is_equal in zip(with_text, equal):
        if not is_equal:
            differ = set(line["traceback"]) ^ set(other["traceback"])
            print(f"    {line['name']} {line['times']}: {sorted(differ)[:4]}")


def print_over_bare(results, relaunches):
    """How much longer the program's end takes than with nothing in front of it, from the OOM's record on."""
    alone = {(line["name"], line["times"]): line.get("to_exit") for line in results.lines if line["what"] == "alone"}
    pairs = [(line.get("to_exit"), alone.get((line["name"], line["times"]))) for line in relaunches]
    over = [ours - bare for ours, bare in pairs if ours is not None and bare is not None]
    if over:
        print(f"of it more than without oomph   {quantile(over, 0.5):.2f} s in the median, {max(over):.2f} at most, of {len(over)}")


def print_denied(results):
    """Whether what was offered no smaller batch, or ran out with it, would have run with the least one."""
    lines = [line for line in results.lines if line["what"] == "least"]
    offered = {
        (line["name"], line["times"]) for line in results.lines
        if line["what"] == "relaunch" and "smaller batch" in (line.get("remedies") or [])
    }
    of_program = {}
    for line in lines:
        of_program.setdefault((line["name"], line["times"]), {})[line["batch"]] = line["lasts"]
    for (name, times), tried in of_program.items():
        words = ", ".join(f"{batch} {'lasts' if lasts else 'not known' if lasts is None else 'runs out'}" for batch, lasts in tried.items())
        how = "ran out with a smaller one" if (name, times) in offered else "no smaller batch offered"
        print(f"{name:22} {times:3.1f}x {how}: {words}")
    refused = {key: tried for key, tried in of_program.items() if key not in offered}
    if refused:
        false = sum(any(tried.values()) for tried in refused.values())
        print(f"no smaller batch, but one lasts {share(false, len(refused))}")


def can_not_run(results, line):
    """Whether what did not go on runs out with the least batch too, as `denied` has seen."""
    tried = [
        other["lasts"] for other in results.lines
        if other["what"] == "least" and (other["name"], other["times"]) == (line["name"], line["times"])
    ]
    return bool(tried) and all(lasts is False for lasts in tried)


def print_fits(results):
    """What `oomph fit` found, beside what lasts."""
    lines = [line for line in results.lines if line["what"] == "fit"]
    for line in lines:
        if line["batch"]:
            tried = ", ".join(f"{batch} {'fits' if fits else 'does not'}" for batch, fits, _ in line["tried"])
            lasts = {True: "lasts", False: "RAN OUT", None: "not known"}
            print(
                f"{line['name']:22} fit {line['batch']:5} {lasts[line['lasts']]:9} {line['above']:5} {lasts[line['more_lasts']]:9} ({tried})"
            )
        else:
            print(f"{line['name']:22} fit none: {' '.join(line['why'].split())[-150:]}")
    if lines:
        right = [line["batch"] and line["lasts"] and line["more_lasts"] is False for line in lines]
        print(f"fit: lasts, and 2 % more does not  {share(sum(map(bool, right)), len(lines))}")
        print(f"fit: does not last                 {sum(line.get('lasts') is False for line in lines)}")
        print()


def report(results, programs):
    print_fits(results)
    bare = {line["name"]: line for line in results.lines if line["what"] == "bare"}
    relaunches = [line for line in results.lines if line["what"] == "relaunch" and line["name"] in programs]
    # cuDNN may have taken more than it needed, and then takes less.
    got_through = [line for line in relaunches if not line["ran_out"] and line["outcome"] != "ended"]
    ended = [line for line in relaunches if not line["ran_out"] and line["outcome"] == "ended"]
    relaunches = [line for line in relaunches if line["ran_out"]]
    for name, line in bare.items():
        if line["steps"] == 0:
            print(f"{name:24} did not run: {' | '.join(line.get('tail', '').strip().splitlines()[-2:])[-220:]}")
    errors, allocated, inside, fits_false, rehearsed, delays, edits = [], [], [], [], [], [], []
    for line in relaunches:
        prediction = line.get("prediction") or {}
        peak, reserved = line.get("peak"), line.get("reserved")
        off = (prediction["peak"] - peak) / peak if prediction.get("peak") and peak and went_on(line) else None
        within = prediction.get("reserved_within") or prediction.get("within")
        held = within[0] <= reserved <= within[1] if within and reserved and went_on(line) else None
        if off is not None:
            errors.append(abs(off))
        if held is not None:
            inside.append(held)
        is_rehearsed = any(why is None for _, _, why in line.get("rehearsed", []))
        rehearsed.append(is_rehearsed)
        if is_rehearsed and off is not None:
            allocated.append(abs(off))
        if prediction.get("fits") and line.get("failed"):
            fits_false.append(line["name"])
        if line.get("to_exit"):
            delays.append(line["to_exit"])
        right = is_right_edit(programs[line["name"]], line)
        edits.append(right)
        print(
            "%-22s %3.1fx cap %6.2f %-7s %-5s %-34s steps %3s peak %6.2f (%s) reserved %6.2f in %s basis %s fits %s exit %.1f s %s"
            % (
                line["name"],
                line["times"],
                line["cap"] / GIB,
                "on" if went_on(line) else "STOPPED" if line["runs"] > 1 else "no run",
                {True: "right", False: "WRONG", None: "-"}[right],
                edited(line)[-34:],
                line.get("steps", "-"),
                (peak or 0) / GIB,
                "-" if off is None else f"{off:+.1%}",
                (reserved or 0) / GIB,
                "-"
                if within is None
                else f"{within[0] / GIB:.2f}-{within[1] / GIB:.2f}{'' if held in (True, None) else ' OUTSIDE'}",
                prediction.get("basis"),
                prediction.get("fits"),
                line.get("to_exit") or 0,
                ""
                if is_rehearsed
                else line.get("why_not") or [why for _, _, why in line.get("rehearsed", [])][:1] or "no rehearsal",
            )
        )
    changed = [right for right in edits if right is not None]
    print()
    print(f"programs that ran as they are   {share(sum(line['steps'] > 0 for line in bare.values()), len(bare))}")
    print(
        f"ran with less memory as it is    {len(got_through)} {[(line['name'], line['times']) for line in got_through]}"
    )
    if ended:
        print(f"ended before memory ran out     {len(ended)} {[(line['name'], line['times']) for line in ended]}")
    slow = [line for line in relaunches if is_too_slow_to_tell(line)]
    if slow:
        print(f"too slow to tell                {len(slow)} {[(line['name'], line['times'], line['steps']) for line in slow]}")
    relaunches = [line for line in relaunches if line not in slow]
    print(f"first relaunch went on          {share(sum(map(went_on, relaunches)), len(relaunches))}")
    able = [line for line in relaunches if went_on(line) or not can_not_run(results, line)]
    print(f"of those that run at any batch  {share(sum(map(went_on, able)), len(able))}")
    print(
        f"batch edited where it stands    {share(sum(map(bool, changed)), len(edits))}, wrong {sum(not right for right in changed)}"
    )
    print(f"'fits' that did not             {len(fits_false)} {fits_false}")
    print(f"rehearsed                       {share(sum(rehearsed), len(rehearsed))}")
    for what, values in (("allocated peak, all", errors), ("allocated peak, rehearsed", allocated)):
        if values:
            print(
                f"{what:31} off by {quantile(values, 0.5):.2%} in the median, {quantile(values, 0.95):.2%} at the 95th percentile"
            )
    print(f"reserved inside its interval    {share(sum(inside), len(inside))}")
    took = [line["micros"] / 1e6 for line in relaunches if line.get("micros")]
    if took:
        print(f"of it the rehearsals            {quantile(took, 0.5):.2f} s in the median, {max(took):.2f} at most")
    print_as_alone(results, relaunches)
    if delays:
        print(f"from the OOM to the exit        {quantile(delays, 0.5):.2f} s in the median, {max(delays):.2f} at most")
    print_over_bare(results, relaunches)
    print_denied(results)
    return 0
