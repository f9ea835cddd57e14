"""A real SLURM on one machine: a controller, a few slurmd and munge, each node in a mount namespace of its own.

`slurmd -N` lets several nodes run on one machine (Debian's build has multiple-slurmd). What nodes of a cluster
do not share, a node here does not share either: /tmp, /run and /dev/shm are private to it. The directory of
the cluster itself is what they share.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

PORT = 17310
# Of each node, and as many CPUs: ranks take turns on those that there are.
GPUS = 8
# Its commands know the cluster by this.
CONFIGURATION = """\
ClusterName=oomph
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket
SlurmctldPort={port}
StateSaveLocation={place}/state
SlurmctldPidFile={place}/slurmctld.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdSpoolDir={place}/spool-%n
SlurmdPidFile={place}/slurmd-%n.pid
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=20
KillWait=5
MinJobAge=600
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""
PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge", "bindfs"]
PRIVATE = "mount --make-rprivate / && for it in /tmp /run /dev/shm; do mount -t tmpfs tmpfs $it; done && "


def install():
    if all(shutil.which(name) for name in ("slurmctld", "slurmd", "sbatch", "munged", "bindfs")):
        return
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], check=True, env=environment, stdout=subprocess.DEVNULL)


def until(what, condition, seconds=60.0):
    """Waits for a condition, and returns what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError("after %d s still not: %s" % (seconds, what))
        time.sleep(0.1)


class Cluster:
    def __init__(self, place, nodes=3):
        self.place = pathlib.Path(place)
        self.nodes = ["n%d" % (number + 1) for number in range(nodes)]
        self.processes = {}
        self.namespaces = {}
        self.shared = self.place / "shared"
        # A shared file system of one MiB.
        self.small = self.place / "small"
        # One that each node has a client of its own for, with what NFS's keeps of a file's attributes.
        self.remote = self.place / "remote"
        self.behind = self.place / "behind"
        self.knows_nodes = "mount --bind %s/hosts /etc/hosts && " % self.place
        self.environment = dict(os.environ, SLURM_CONF=str(self.place / "slurm.conf"))
        for name in list(self.environment):
            if name.startswith(("SLURM_", "SBATCH_", "OOMPH_")) and name != "SLURM_CONF":
                del self.environment[name]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        subprocess.run(["umount", self.small], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.place, ignore_errors=True)
        for name in ("state", "shared", "small", "remote", "behind", "munge", *("spool-" + node for node in self.nodes)):
            (self.place / name).mkdir(parents=True, mode=0o755)
        # Mounted before the nodes start, so that all of them have it.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.small], check=True)
        self.configure()
        munge = self.place / "munge"
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        self.spawn(
            "munged",
            ["munged", "--foreground", "--force", "--key-file=%s/key" % munge, "--socket=%s/socket" % munge]
            + ["--pid-file=%s/pid" % munge, "--log-file=%s/log" % munge, "--seed-file=%s/seed" % munge],
        )
        until("munge's socket", (munge / "socket").exists)
        self.spawn("slurmctld", ["slurmctld", "-D"])
        for node in self.nodes:
            self.start_node(node)
        self.await_nodes(self.nodes)

    def configure(self):
        lines = [
            "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d Gres=gpu:%d RealMemory=4000 State=UNKNOWN"
            % (node, socket.gethostname(), PORT + 1 + number, GPUS, GPUS)
            for number, node in enumerate(self.nodes)
        ]
        text = CONFIGURATION.format(host=socket.gethostname(), place=self.place, port=PORT, nodes="\n".join(lines))
        (self.place / "slurm.conf").write_text(text)
        # GPUs that are only counted: SLURM wants a file for each.
        for number in range(GPUS):
            (self.place / ("gpu%d" % number)).touch()
        (self.place / "gres.conf").write_text("Name=gpu File=%s/gpu[0-%d]\n" % (self.place, GPUS - 1))
        hosts = pathlib.Path("/etc/hosts").read_text() + "".join("127.0.0.1 %s\n" % node for node in self.nodes)
        (self.place / "hosts").write_text(hosts)
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")

    def start_node(self, node):
        self.spawn(node, ["unshare", "--mount", "sh", "-c", PRIVATE + self.knows_nodes + "exec slurmd -D -N " + node])

    def mount_remote(self, node):
        """A client of a file system in user space, in the node's namespace; the process that serves it."""
        namespace = "/proc/%d/ns/mnt" % self.processes[node].pid
        until("the node's namespace", lambda: os.readlink(namespace) != os.readlink("/proc/self/ns/mnt"))
        mount = ["bindfs", "-f", "-o", "attr_timeout=3,entry_timeout=3,negative_timeout=3", self.behind, self.remote]
        self.spawn("remote-" + node, ["nsenter", "--mount=" + namespace, *map(str, mount)])
        mounts = pathlib.Path("/proc/%d/mounts" % self.processes[node].pid)
        until("the mount on " + node, lambda: str(self.remote) in mounts.read_text())
        return self.processes["remote-" + node]

    def unmount_remote(self, node):
        process = self.processes.pop("remote-" + node)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)

    def await_nodes(self, nodes):
        def ready():
            states = dict(line.split() for line in self.ask("sinfo", "-h", "-N", "-o", "%N %T").splitlines())
            return all(states.get(node) == "idle" for node in nodes)

        until("the nodes %s are idle" % nodes, ready)

    def spawn(self, name, words):
        log = open(self.place / (name + ".out"), "ab")
        # If this script is killed they end too.
        words = ["setpriv", "--pdeathsig", "TERM", *words]
        self.processes[name] = subprocess.Popen(
            words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def kill_node(self, node):
        """Its slurmd dies; what it has started goes on, as on a real node."""
        process = self.processes.pop(node)
        self.namespaces[node] = os.readlink("/proc/%d/ns/mnt" % process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def revive_node(self, node):
        """Ends what the dead slurmd has left, and starts another."""
        for process in self.left_of(node):
            os.kill(process, signal.SIGKILL)
        self.start_node(node)
        self.ask("scontrol", "update", "nodename=" + node, "state=resume")
        self.await_nodes([node])

    def left_of(self, node):
        """The processes in the node's mount namespace, which is nobody else's."""
        namespace = self.namespaces[node]
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/ns/mnt" % process) == namespace:
                    found.append(int(process))
            except OSError:
                pass
        return found

    def remove(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def stop(self):
        if "slurmctld" in self.processes:
            self.end_jobs()
        for name, process in reversed(list(self.processes.items())):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            del self.processes[name]
        subprocess.run(["umount", self.small], stderr=subprocess.DEVNULL)

    def end_jobs(self):
        subprocess.run(["scancel", "--full", "-u", "root"], env=self.environment, capture_output=True)
        try:
            until("all jobs have ended", lambda: not self.ask("squeue", "-h").strip(), 30)
        except (TimeoutError, subprocess.CalledProcessError):
            pass

    def ask(self, *words):
        return subprocess.run(words, env=self.environment, check=True, capture_output=True, text=True).stdout

    def submit(self, script, *options, variables=()):
        """A job of a batch script; its number."""
        words = ["sbatch", "--parsable", *options]
        done = subprocess.run(words, env=dict(self.environment, **dict(variables)), input=script, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout.strip().split(";")[0]

    def about(self, job):
        """What the controller knows of a job, as KEY=VALUE."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def await_state(self, job, *states, seconds=120.0):
        return until("job %s is %s" % (job, "/".join(states)), lambda: self.state(job, states), seconds)

    def state(self, job, states):
        about = self.about(job)
        return about if about["JobState"] in states else None
