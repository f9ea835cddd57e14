#!/bin/sh
# Fault 1: a gibibyte on a terminal and through a pipe, beside util-linux's `script` and a bare pipe.
# Needs: a release build, `script`, a machine with nothing else to do, two minutes.
cd "$(dirname "$0")/../../.." && exec python3 tests/bench/run.py --only relay
