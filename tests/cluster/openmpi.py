"""Open MPI's mpirun with a host file. A stand-in for ssh starts what runs on the other host: in mount namespaces, and
with no environment but the one that Open MPI passes on.
"""
import os
import shlex
import shutil
import subprocess
import time

from scenarios import AUTO, check_relaunched
from slurm import PRIVATE
from stage import TOO_LARGE, TRAIN, check, of_kind

AGENT = """\
#!/bin/sh
host=$1; shift
exec env -i PATH="$PATH" SLURMD_NODENAME="$host" unshare --mount sh -c %s"$*"
"""


def install():
    if not shutil.which("mpirun"):
        words = ["apt-get", "install", "-y", "--no-install-recommends", "openmpi-bin"]
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)


def passed_on(text):
    """The variables that `oomph help clusters` tells mpirun to pass on."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("    probe=")]
    check(len(lines) == 2, text)
    return subprocess.run(["sh", "-c", "; ".join([*lines, 'echo "$probe"'])], stdout=subprocess.PIPE, text=True).stdout.strip()


def mpirun(stage):
    """The OOM of the rank on the other host, unattended: without SLURM the ranks' own files prove that all are gone."""
    install()
    agent, hosts, log = stage.place / "agent", stage.place / "hosts", stage.place / "log"
    agent.write_text(AGENT % shlex.quote(PRIVATE))
    agent.chmod(0o755)
    hosts.write_text("localhost slots=1\nn2 slots=1\n")
    log.mkdir()
    words = [stage.oomph, "--headless", "--no-nvml", *AUTO, "--", "mpirun", "--hostfile", hosts, "-np", "2"]
    words += ["--mca", "plm_rsh_agent", agent, "--mca", "mca_base_env_list"]
    words += [passed_on(stage.ask_oomph("help", "clusters"))]
    words += ["python3", TRAIN, "--batch-size", TOO_LARGE, "--steps", "30", "--port", stage.port, "--steps-log", log]
    environment = dict(os.environ, **{key: str(value) for key, value in stage.variables().items()})
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    began = time.monotonic()
    done = subprocess.run(
        [str(word) for word in words], env=environment, cwd=stage.place, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240,
    )
    check(done.returncode == 0, done.returncode, done.stdout[-4000:])
    check("Rank 1 on n2 ran out, the only one of 2 ranks." in done.stdout, done.stdout[-4000:])
    gap = check_relaunched(stage, "log", 30)
    events = stage.only_events()
    ranks = {hello["rank"] for hello in of_kind(events, "hello")}
    check(ranks == {0, 1}, "ranks seen:", ranks)
    return {"from the last step to the next first": gap, "seconds": round(time.monotonic() - began, 1)}


ALL = [mpirun]
