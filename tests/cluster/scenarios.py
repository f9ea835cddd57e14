"""Jobs over two nodes of a real SLURM, with oomph in front of srun; each scenario returns what it measured."""
import time

from slurm import until
from stage import FITS, Terminal, check, check_one_after_the_other, notes, of_kind

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
AUTO = ("--on-oom", "auto", "--allow", "effective-batch")


def named(text, rank="Rank 1 on n2"):
    check("%s ran out, the only one of 2 ranks." % rank in text, "not named:", text[-3000:])
    check("connection to a rank closed (rank 0)" in text, "what followed:", text[-3000:])


def from_oom_to_next(attempts):
    """Seconds from the last step of the first attempt to the first of the next."""
    first, second = [[each for each in attempts if each[0] == rank] for rank in (0, 1)], None
    ended = max(each[0][2] for each in first)
    second = min(each[1][1] for each in first)
    return round(second - ended, 1)


def check_relaunched(stage, name, steps):
    attempts = stage.attempts(name)
    check(check_one_after_the_other(attempts) == 2, "attempts:", attempts)
    check(all(last == steps for *_, last in attempts[1::2]), "steps:", attempts)
    return from_oom_to_next(attempts)


def steps_seen(stage, recording, rank):
    """The numbers of a rank's steps in the recording so far, in their order in time."""
    events = stage.events(recording)
    pids = {hello["pid"] for hello in of_kind(events, "hello") if hello.get("rank") == rank}
    steps = [(event["at"], event["count"]) for event in of_kind(events, "step") if event["pid"] in pids]
    return [count for _, count in sorted(steps)]


def longest_pause(log, since):
    """Seconds between two steps, at most."""
    times = [float(line.split()[1]) for line in log.read_text().splitlines()]
    times = [each for each in times if each >= since]
    return round(max(after - before for before, after in zip(times, times[1:])), 2)


def one_key(stage):
    """The OOM of rank 1 on node 2, its cause on the screen, one key, finished."""
    command = stage.training("log", "--steps", "30", srun=("-N2", "-n2", "--label"))
    terminal = Terminal(stage, "one-key", ["salloc", "-N2", "-n2", stage.oomph, "--no-nvml", *command])
    try:
        terminal.await_text("ran out, the only one of 2 ranks")
        named_at = time.monotonic()
        screen = terminal.screen()
        check("rank 1" in screen and "n2" in screen, screen)
        terminal.await_text("smaller batch")
        terminal.press("b")
        terminal.await_end()
        took = time.monotonic() - named_at
    finally:
        terminal.close()
    gap = check_relaunched(stage, "log", 30)
    events = stage.only_events()
    proofs = [words for words in notes(events) if words.startswith("no rank of run 1 is left")]
    check(len(proofs) == 1, notes(events))
    named(stage.ask_oomph("explain", stage.recordings()[0].parent.name))
    return {"proof": proofs[0].split(": ")[1], "from the last step to the next first": gap, "from the dialog to the end": round(took, 1)}


def auto(stage):
    """The same unattended, while another step of the same allocation goes on."""
    training = stage.training("log", "--steps", "30", srun=("--label", "--overlap"))
    job = stage.batch("job", AUTO, training, beside="srun --overlap -n1 -N1 sleep 600")
    state = stage.cluster.await_state(job, *ENDED)["JobState"]
    said = stage.said("job")
    check(state == "COMPLETED" and stage.status("job") == [0], state, said[-3000:])
    check("Rank 1 on n2 ran out, the only one of 2 ranks." in said, said[-3000:])
    gap = check_relaunched(stage, "log", 30)
    events = stage.only_events()
    steps = {hello["slurm_step"] for hello in of_kind(events, "hello")}
    check(len(steps) == 2 and steps < {"%s.%d" % (job, step) for step in range(3)}, steps)
    left = [path.name for path in (stage.place / "spool").rglob("*") if path.is_file()]
    check(not left, "left in the spool:", left)
    return {"from the last step to the next first": gap, "runs": len(of_kind(events, "started"))}


def headless_exit(stage):
    """--on-oom exit names the rank and the next command, and the status is srun's."""
    job = stage.batch("job", ("--on-oom", "exit"), stage.training("log", "--steps", "30"))
    plain = stage.batch("plain", None, stage.training("plain-log", "--steps", "30"))
    for each in (job, plain):
        stage.cluster.await_state(each, *ENDED)
    named(stage.said("job"))
    check("--batch-size 20" in stage.said("job"), stage.said("job")[-2000:])
    check(stage.status("job") == stage.status("plain") == [1], stage.status("job"), stage.status("plain"))
    check(len(stage.attempts("log")) == 2, stage.attempts("log"))
    return {"status": stage.status("job")[0]}


def once(signals):
    """Without the repetitions of SIGTERM."""
    return [name for place, name in enumerate(signals) if name != "SIGTERM" or name not in signals[:place]]


def both_sides(stage, options, end, steps="100000"):
    """The same training with oomph and without, ended in the same way at the same time."""
    names = {"job": AUTO, "plain": None}
    jobs = {}
    for name, oomph in names.items():
        # A rank that has lost the others waits, so that its own end is the scheduler's.
        training = stage.training(name + "-log", "--steps", steps, "--hang", batch=FITS)
        jobs[name] = stage.batch(name, oomph, training, options=options)
    for name in names:
        until("both ranks of %s make steps" % name, lambda: len(stage.attempts(name + "-log")) == 2, 60)
    end(jobs)
    states = {name: stage.cluster.await_state(job, *ENDED, seconds=180)["JobState"] for name, job in jobs.items()}
    check(states["job"] == states["plain"], states)
    # At a time limit SLURM sends SIGTERM to the step and then to the job; a rank that has ended by then misses
    # the second one, with oomph or without.
    signals = {name: {rank: once(got) for rank, got in stage.signals(name + "-log").items()} for name in names}
    check(signals["job"] == signals["plain"], signals)
    # The batch script is killed as well, and lives long enough to say it or not.
    statuses = [stage.status(name) for name in names]
    check(not all(statuses) or statuses[0] == statuses[1], *(stage.said(name)[-2000:] for name in names))
    check("out of memory" not in stage.said("job"), stage.said("job")[-2000:])
    check(len(stage.attempts("job-log")) == 2, "started again:", stage.attempts("job-log"))
    return {"state": states["job"], "signals of each rank": sorted(signals["job"].values())[0], "statuses": statuses}


def scancel(stage):
    """A cancelled job: the same signals and statuses as without oomph, and nothing is started."""
    return both_sides(stage, (), lambda jobs: [stage.cluster.ask("scancel", job) for job in jobs.values()])


def scancel_after_oom(stage):
    """Rank 1 runs out, rank 0 hangs, and the job is cancelled: that ends it, and auto starts nothing."""
    training = stage.training("log", "--steps", "30", "--hang")
    job = stage.batch("job", AUTO, training)
    stage.await_words("job", "rank 0 waits")
    stage.cluster.ask("scancel", job)
    state = stage.cluster.await_state(job, *ENDED)["JobState"]
    check(state == "CANCELLED", state)
    check(len(stage.attempts("log")) <= 2, "started again:", stage.attempts("log"))
    runs = len(of_kind(stage.only_events(), "started"))
    check(runs == 1, runs, stage.said("job")[-2000:])
    return {"state": state, "runs": runs}


def time_limit(stage):
    """--signal reaches every rank once, then the limit ends the job."""
    # SLURM looks every 30 s or so, and sends the signal up to a minute early.
    measured = both_sides(stage, ("--time=2", "--signal=USR1@30"), lambda jobs: None)
    check(measured["signals of each rank"].count("SIGUSR1") == 1, measured)
    return measured


def requeue(stage):
    """A job that is put back into the queue runs again, and each time has a recording of its own."""
    training = stage.training("log", "--steps", "200", batch=FITS)
    job = stage.batch("job", AUTO, training, options=("--requeue",))
    until("both ranks make steps", lambda: len(stage.attempts("log")) == 2, 60)
    stage.cluster.ask("scontrol", "requeue", job)
    # SLURM waits two minutes before a requeued job may start.
    until("it runs again", lambda: len(stage.attempts("log")) == 4, 240)
    until("each rank has ended its steps", lambda: stage.cluster.state(job, ("COMPLETED",)), 120)
    recordings = [path.parent.name for path in stage.recordings()]
    check(len(recordings) == 2, recordings)
    runs = [len(of_kind(stage.events(path), "started")) for path in stage.recordings()]
    check(runs == [1, 1], runs)
    check("out of memory" not in stage.said("job"), stage.said("job")[-2000:])
    return {"recordings": recordings}


def node_dies(stage):
    """The slurmd of node 2 dies, rank 0 runs out of memory and rank 1 hangs there: it may still write to the
    checkpoint directory, so nothing is started, and the user gets the command."""
    training = stage.training("log", "--steps", "30", "--hang", "--odd-rank", "0", srun=("--label", "--no-kill", "-K1"))
    job = stage.batch("job", AUTO, training, options=("--no-kill", "--no-requeue"))
    until("the ranks have begun", lambda: stage.said("job").count("batch") >= 2, 60)
    stage.cluster.kill_node("n2")
    try:
        state = stage.cluster.await_state(job, *ENDED, seconds=300)["JobState"]
        said = stage.said("job")
        runs = len(of_kind(stage.only_events(), "started"))
        check(runs == 1, "started again:", runs, said[-3000:])
    finally:
        stage.cluster.revive_node("n2")
    return {"state": state, "runs": runs, "words": [line for line in said.splitlines() if "not relaunched" in line][:1]}


def full_disk(stage):
    """The shared disk fills up in the middle: no step waits for it, and once there is room all is seen again."""
    small = stage.cluster.small
    ballast = small / "ballast"
    training = stage.training("log", "--steps", "600", batch=FITS)
    job = stage.batch("job", AUTO, training, spool=small / "spool")
    (recording,) = until("a recording", stage.recordings, 60)
    until("rank 1's steps are recorded", lambda: steps_seen(stage, recording, 1), 60)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    full_at = time.time()
    time.sleep(15)
    while_full = longest_pause(stage.place / "log" / "rank-1", full_at)
    seen = steps_seen(stage, recording, 1)[-1]
    made = stage.attempts("log")[-1][-1]
    ballast.unlink()
    stage.cluster.await_state(job, *ENDED, seconds=240)
    check(stage.status("job") == [0], stage.said("job")[-2000:])
    check([last for *_, last in stage.attempts("log")] == [600, 600], stage.attempts("log"))
    check(seen < made, "it was not full:", seen, made)
    check(steps_seen(stage, recording, 1)[-1] == 600, "last step seen:", steps_seen(stage, recording, 1)[-1])
    return {"longest step while full": while_full, "step then, and the last one seen": [made, seen], "last one seen at the end": 600}


def directory_goes_away(stage):
    """The shared directory is gone for a while: that is said, and afterwards all is seen again."""
    spool, away = stage.place / "spool", stage.place / "away"
    training = stage.training("log", "--steps", "400", batch=FITS)
    job = stage.batch("job", AUTO, training)
    (recording,) = until("a recording", stage.recordings, 60)
    until("rank 1's steps are recorded", lambda: steps_seen(stage, recording, 1), 60)
    spool.rename(away)
    until("it is said", lambda: any("cannot be read" in words for words in notes(stage.events(recording))), 30)
    away.rename(spool)
    until("it is back", lambda: any("is there again" in words for words in notes(stage.events(recording))), 30)
    stage.cluster.await_state(job, *ENDED)
    check(stage.status("job") == [0], stage.said("job")[-2000:])
    last = steps_seen(stage, recording, 1)[-1]
    check(last == 400, "last step seen:", last)
    return {"status": 0, "last step seen of rank 1": last}


ALL = [one_key, auto, headless_exit, scancel, scancel_after_oom, time_limit, requeue, node_dies, full_disk, directory_goes_away]
