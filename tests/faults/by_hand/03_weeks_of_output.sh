#!/bin/sh
# Fault 3: more output than the log holds (two parts of 256 MiB). The log must be the last of it, to the byte, and the
# keeper must not have grown.
# Needs: a release build, 1 GiB in TMPDIR, a minute. GIB=4 for four gibibytes.
set -eu
cd "$(dirname "$0")/../../.."
oomph=${OOMPH:-target/release/oomph}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
bytes=$((${GIB:-1} * 1073741824))
line='seq -f %079.0f 0 99999999999'
"$oomph" --headless --no-nvml --record="$place/rec.jsonl" sh -c "$line | head -c $bytes; touch $place/written; until [ -e $place/go ]; do sleep 0.1; done" > /dev/null 2>&1 | cat &
until [ -e "$place/written" ]; do sleep 0.2; done
keeper=$(pgrep -n oomph-keeper)
grep VmRSS "/proc/$keeper/status"
touch "$place/go"
wait
held=$(cat "$place/rec.output.log.1" "$place/rec.output.log" | wc -c)
cat "$place/rec.output.log.1" "$place/rec.output.log" > "$place/log"
sh -c "$line | head -c $bytes" | tail -c "$held" | cmp - "$place/log"
echo "the log holds the last $held of $bytes bytes, as they were written"
