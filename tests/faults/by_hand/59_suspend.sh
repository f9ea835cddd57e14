#!/bin/sh
# Fault 59: the machine sleeps in the middle of a run and of a grace. Nothing is killed by a deadline that passed asleep:
# all of oomph's are on CLOCK_MONOTONIC, which stands still meanwhile.
# Needs: root, a machine that can suspend and wake (rtcwake), a release build. SECONDS_ASLEEP=3600 for an hour.
set -eu
cd "$(dirname "$0")/../../.."
oomph=${OOMPH:-target/release/oomph}
"$oomph" --headless --no-nvml --no-record sh -c 'trap "echo asked; sleep 20; exit 7" TERM; echo ready; while :; do sleep 1; done' &
front=$!
sleep 2
kill -TERM "$front"
rtcwake -m mem -s "${SECONDS_ASLEEP:-120}"
status=0
wait "$front" || status=$?
[ "$status" = 7 ] && echo 'it had its twenty seconds awake' || { echo "ended with $status" >&2; exit 1; }
