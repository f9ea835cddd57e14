#!/bin/sh
# Fault 51 at a relaunch: the disk of the state, of the sockets and of TMPDIR is full from the start, or becomes full just before
# memory runs out. The relaunch takes place all the same, and ends with 0.
# Needs: root (a tmpfs of 1 MiB), python3, a release build, two minutes.
set -eu
cd "$(dirname "$0")/../../.."
oomph=${OOMPH:-target/release/oomph}
place=$(mktemp -d)
small=$place/small
mkdir "$small"
mount -t tmpfs -o size=1m tmpfs "$small"
trap 'umount "$small"; rm -rf "$place"' EXIT
fill() { dd if=/dev/zero of="$small/filler" bs=1k 2> /dev/null || true; }
for when in start oom; do
    rm -rf "${small:?}"/*
    mkdir -m 700 "$small/run" "$small/tmp"
    [ "$when" = oom ] || fill
    XDG_STATE_HOME=$small XDG_RUNTIME_DIR=$small/run TMPDIR=$small/tmp "$oomph" --no-nvml --on-oom auto --headless \
        python3 -u demo/train.py --simulated --batch-size 64 --steps 10 > "$place/out" 2> "$place/err" &
    front=$!
    if [ "$when" = oom ]; then
        until grep -q 'step 1/' "$place/out"; do kill -0 "$front"; sleep 0.05; done
        fill
    fi
    status=0
    wait "$front" || status=$?
    grep '^oomph:' "$place/err"
    tail -1 "$place/out"
    [ "$status" = 0 ] && grep -q 'relaunching' "$place/err" && grep -q 'finished 10 steps' "$place/out"
    echo "full from the $when on: relaunched, and finished"
done
