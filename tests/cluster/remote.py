"""Jobs whose shared directory is a file system with a client on each node, as NFS has: attributes are kept for seconds,
and its server may stop. The kernel's own NFS is not needed for it: bindfs serves a directory in user space, and keeps
to what is seen after an open as NFS does.
"""
import contextlib
import signal
import time

from scenarios import AUTO, ENDED, check_relaunched, longest_pause, steps_seen
from slurm import until
from stage import FITS, check, notes

NODES = ("n1", "n2")
# A step takes a fraction of a second; one that waits for the server takes as long as that is stopped.
LONGEST_STEP = 3.0


class Remote:
    """The file system, mounted on the nodes of a job."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.servers = []

    def __enter__(self):
        self.servers = [self.cluster.mount_remote(node) for node in NODES]
        return self

    def __exit__(self, *_):
        for node in NODES:
            self.cluster.unmount_remote(node)

    def send(self, number):
        for server in self.servers:
            server.send_signal(number)

    @contextlib.contextmanager
    def hanging(self):
        self.send(signal.SIGSTOP)
        try:
            yield time.time()
        finally:
            self.send(signal.SIGCONT)


def says(stage, recording, words):
    return lambda: any(words in note for note in notes(stage.events(recording)))


def kept_attributes(stage):
    """The OOM of one rank, unattended, where nodes see each other's files late."""
    with Remote(stage.cluster):
        training = stage.training("log", "--steps", "30")
        job = stage.batch("job", AUTO, training, spool=stage.cluster.remote / "spool")
        state = stage.cluster.await_state(job, *ENDED)["JobState"]
    said = stage.said("job")
    check(state == "COMPLETED" and stage.status("job") == [0], state, said[-3000:])
    check("Rank 1 on n2 ran out, the only one of 2 ranks." in said, said[-3000:])
    gap = check_relaunched(stage, "log", 30)
    last = steps_seen(stage, stage.recordings()[0], 1)
    check(sorted(last)[-1] == 30, "last step seen:", last[-3:])
    return {"from the last step to the next first": gap}


def server_stops(stage):
    """The server stops in the middle and goes on: no step waits, it is said, and afterwards all is seen."""
    with Remote(stage.cluster) as remote:
        training = stage.training("log", "--steps", "500", batch=FITS)
        job = stage.batch("job", AUTO, training, spool=stage.cluster.remote / "spool")
        (recording,) = until("a recording", stage.recordings, 60)
        until("rank 1's steps are recorded", lambda: steps_seen(stage, recording, 1), 60)
        with remote.hanging() as since:
            until("it is said", says(stage, recording, "has not answered for"), 40)
            made = stage.attempts("log")[-1][-1]
            paused = [longest_pause(stage.place / "log" / name, since) for name in ("rank-0", "rank-1")]
        until("it is back", says(stage, recording, "answers again"), 30)
        stage.cluster.await_state(job, *ENDED)
    check(stage.status("job") == [0], stage.said("job")[-2000:])
    check(max(paused) < LONGEST_STEP, "steps waited:", paused)
    seen = steps_seen(stage, recording, 1)
    last = max(seen)
    check(last == 500, "last steps seen:", seen[-5:])
    return {"longest step meanwhile": max(paused), "step at the end of the stop": made, "last step seen of rank 1": last}


def server_stops_for_good(stage):
    """The server stops, and has the recording as well: the ranks end, and the command after them."""
    stage.state = stage.cluster.remote / "state"
    with Remote(stage.cluster) as remote:
        training = stage.training("log", "--steps", "100", batch=FITS)
        job = stage.batch("job", AUTO, training, spool=stage.cluster.remote / "spool")
        until("both ranks make steps", lambda: [last for *_, last in stage.attempts("log")] > [4, 4], 60)
        with remote.hanging() as since:
            until("the command has ended", lambda: stage.status("job"), 120)
            ended = time.time()
        stage.cluster.await_state(job, *ENDED)
    check(stage.status("job") == [0], stage.said("job")[-2000:])
    attempts = stage.attempts("log")
    check([last for *_, last in attempts] == [100, 100], attempts)
    paused = [longest_pause(stage.place / "log" / name, since) for name in ("rank-0", "rank-1")]
    check(max(paused) < LONGEST_STEP, "steps waited:", paused)
    took = round(ended - max(last for _, _, last, _ in attempts), 1)
    check(took < 20, "the end took", took)
    return {"longest step": max(paused), "from the last step to the command's end": took}


ALL = [kept_attributes, server_stops, server_stops_for_good]
