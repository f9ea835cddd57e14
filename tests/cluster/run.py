#!/usr/bin/env python3
"""oomph in front of srun and of torchrun on a cluster that this script installs, starts and takes down.

    python3 tests/cluster/run.py --oomph target/debug/oomph [--torchrun PATH] [--only NAME] [--results FILE]

For a Debian machine of one's own, as root: it installs SLURM, mounts file systems, makes network namespaces. Nothing
of it stays but the packages. The GPUs are the demo's simulated ones.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

import openmpi
import printed
import remote
import rendezvous
import scenarios
import slurm
from stage import Stage

PLACE = "/var/tmp/oomph-cluster"
# Each scenario has ports of its own.
FIRST_PORT, PORTS = 29700, 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--torchrun", help="of a PyTorch, of which one for CPUs will do; without it torchrun is left out")
    parser.add_argument("--only", action="append", default=[], help="the scenario of this name")
    parser.add_argument("--results", help="a file that gets a line of JSON for each scenario")
    parser.add_argument("--keep", action="store_true", help="leaves the cluster's files for a look at them")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root: nodes have mount namespaces of their own")
    chosen = [each for each in scenarios.ALL + remote.ALL + printed.ALL + openmpi.ALL if not args.only or each.__name__ in args.only]
    alone = [each for each in rendezvous.ALL if args.torchrun and (not args.only or each.__name__ in args.only)]
    if not chosen and not alone:
        sys.exit("no scenario is named %s" % ", ".join(args.only))
    slurm.install()
    failed = 0
    with slurm.Cluster(PLACE) as cluster:
        # Where every node sees it, and a build in between changes nothing.
        oomph = shutil.copy(args.oomph, cluster.place / "oomph")
        for number, scenario in enumerate(chosen + alone):
            stage = Stage(cluster, oomph, scenario.__name__, FIRST_PORT + PORTS * number)
            stage.torchrun = args.torchrun
            failed += not passes(scenario, stage, args.results)
            cluster.end_jobs()
    if not args.keep:
        cluster.remove()
    print("%d of %d failed" % (failed, len(chosen + alone)))
    sys.exit(bool(failed))


def passes(scenario, stage, results):
    began = time.monotonic()
    line = {"scenario": scenario.__name__}
    try:
        line["measured"] = scenario(stage)
        word = "ok"
    except Exception as error:
        line["failed"] = "%s: %s" % (type(error).__name__, error)
        word = "FAILED"
        traceback.print_exc()
    line["seconds"] = round(time.monotonic() - began, 1)
    print("%-6s %-22s %6.1f s  %s" % (word, scenario.__name__, line["seconds"], json.dumps(line.get("measured", ""))), flush=True)
    if results:
        with pathlib.Path(results).open("a") as file:
            file.write(json.dumps(line) + "\n")
    return word == "ok"


if __name__ == "__main__":
    main()
