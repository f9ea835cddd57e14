# The training has ended and was reaped, its number belongs to a stranger by now, and the keeper, which lingers for
# somebody who still holds the output, is told to end the training. The stranger must not notice. To be run as the first
# process of a process namespace, where the next process's number can be chosen.
set -eu
wait_for() {
    n=0
    until eval "$1"; do
        n=$((n + 1))
        [ "$n" -lt 3000 ] || { echo "waited in vain for: $1" >&2; exit 1; }
        sleep 0.01
    done
}

("$OOMPH" --no-nvml --no-record "$TRAINER" setsid:touch:held,until:release until:held touch:trainer until:end; touch over) |
    cat > /dev/null &
wait_for '[ -e trainer ]'
number=$(cat trainer)
keeper=$(awk '/^PPid:/ { print $2 }' "/proc/$number/status")
touch end
wait_for '[ -e over ]'
wait_for '! [ -e /proc/$number ]'
[ "$(cat "/proc/$keeper/comm")" = oomph-keeper ] || { echo 'the keeper is gone' >&2; exit 1; }

stranger=0
n=0
while [ "$stranger" != "$number" ]; do
    n=$((n + 1))
    [ "$n" -lt 100 ] || { echo "no process would be $number" >&2; exit 1; }
    echo $((number - 1)) > /proc/sys/kernel/ns_last_pid
    sleep 1000 &
    stranger=$!
done

for signal in TERM INT QUIT USR1 USR2 HUP; do
    kill "-$signal" "$keeper"
done
wait_for '[ "$(awk "/^ShdPnd:/ { print \$2 }" /proc/$keeper/status)" = 0000000000000000 ]'
touch release
wait_for '! [ -e /proc/$keeper ] || grep -q "^State:.Z" /proc/$keeper/status'
[ "$(cat "/proc/$number/comm")" = sleep ] && echo 'the stranger lives'
