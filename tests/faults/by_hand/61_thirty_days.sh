#!/bin/sh
# Fault 61: much of everything, for as long as is asked for; the memory of both processes is printed every minute and
# must stay where it is after the first. Needs: a release build, `script`. MINUTES=60, or a night.
set -eu
cd "$(dirname "$0")/../../.."
oomph=${OOMPH:-target/release/oomph}
place=$(mktemp -d)
trap 'rm -rf "$place"; kill $! 2> /dev/null || true' EXIT
script -qfc "'$oomph' --no-nvml --record='$place/rec.jsonl' python3 demo/train.py --simulated --scenario none --steps 100000000 --batch-size 32" /dev/null > /dev/null &
sleep 5
for minute in $(seq 0 "${MINUTES:-10}"); do
    for pid in $(pgrep -f "rec.jsonl" | head -2) $(pgrep -n oomph-keeper); do
        echo "minute $minute: $(cat "/proc/$pid/comm") $(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status") KiB of its own"
    done
    ls -l "$place" | awk '{ print "    " $5, $9 }'
    sleep 60
done
