#!/bin/sh
# Fault 57: no process may be had for the command (RLIMIT_NPROC). 125, and why.
# Needs: root, to become a user who has no other process; setpriv.
set -eu
oomph=$(realpath "${OOMPH:-$(dirname "$0")/../../../target/release/oomph}")
user=${USER_ID:-65533}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$oomph" "$place/oomph"
chmod 755 "$place" "$place/oomph"
cd "$place"
for most in 1 2 3 4 5 6 8; do
    status=0
    said=$(setpriv --reuid "$user" --regid "$user" --clear-groups sh -c "ulimit -u $most; exec ./oomph --no-nvml --no-record echo ran" 2>&1) || status=$?
    echo "ulimit -u $most: $status $said"
    case $status/$said in
        0/ran | 125/oomph:*) ;;
        *) echo 'neither run nor refused with a reason' >&2; exit 1 ;;
    esac
done
