#!/bin/sh
# GNU parallel in front of oomph, in each of its ways of grouping output; libfaketime in front of it and behind it. Output and
# status must be as without oomph. Needs: parallel, faketime, python3, a release build, a minute.
set -eu
oomph=$(realpath "${OOMPH:-$(dirname "$0")/../../../target/release/oomph}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
export XDG_STATE_HOME="$place/state"
# With it lines of jobs that share a file are torn, bare as well.
unset PYTHONUNBUFFERED
cat > job.py << 'END'
import sys
number = int(sys.argv[1])
for line in range(200):
    print("job", number, "line", line)
print("errors of", number, file=sys.stderr)
sys.exit(number % 3)
END
for grouping in --group --line-buffer --ungroup; do
    for under in bare oomph; do
        prefix=; [ "$under" = bare ] || prefix="$oomph --no-nvml"
        status=0
        parallel --will-cite "$grouping" -j4 $prefix python3 job.py '{}' ::: 1 2 3 4 5 6 > "$under.out" 2> "$under.err" || status=$?
        echo "$status" > "$under.status"
        sort -o "$under.out" "$under.out"
        sort -o "$under.err" "$under.err"
    done
    for part in out err status; do cmp "bare.$part" "oomph.$part"; done
    echo "parallel $grouping: the same"
done
[ "$(seq 1000 | parallel --will-cite --pipe -N100 -j3 "$oomph" --no-nvml wc -l | sort -u)" = 100 ]
status=0
parallel --will-cite --timeout 2 -j2 "$oomph" --no-nvml sleep ::: 7531 7532 2> /dev/null || status=$?
[ "$status" = 2 ]
tries=0
while pgrep -f '^sleep 753[12]$' > /dev/null; do
    tries=$((tries + 1)); [ "$tries" -lt 100 ] || { echo 'jobs that timed out live on' >&2; exit 1; }
    sleep 0.1
done
echo 'parallel --pipe, --timeout: the same'

program='import sys, time; print(time.strftime("%Y")); sys.exit(5)'
for when in '2020-01-01 00:00:00' '+400d' '-5y' '@2038-01-19 03:14:00 x10' '+0 x100' '+0 x0.1'; do
    status=0
    said=$(faketime -f "$when" "$oomph" --no-nvml python3 -c "$program") || status=$?
    [ "$status" = 5 ] && [ "$said" = "$(faketime -f "$when" python3 -c "$program" || true)" ]
    status=0
    inside=$("$oomph" --no-nvml faketime -f "$when" python3 -c "$program") || status=$?
    [ "$status" = 5 ] && [ "$inside" = "$said" ]
    echo "faketime $when: the same, in front and behind"
done
