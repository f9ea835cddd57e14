#!/bin/sh
# Faults 57 and 106: few processes may be had (RLIMIT_NPROC). The command runs, if need be without oomph.
# Needs: root, to become a user who has no other process; setpriv.
set -eu
oomph=$(realpath "${OOMPH:-$(dirname "$0")/../../../target/release/oomph}")
user=${USER_ID:-65533}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp "$oomph" "$place/oomph"
chmod 755 "$place" "$place/oomph"
cd "$place"
for most in 1 2 3 4 5 6 7 8 9 10 14 18 22 26 40; do
    status=0
    said=$(setpriv --reuid "$user" --regid "$user" --clear-groups bash -c "ulimit -u $most; exec ./oomph --no-nvml --no-record echo ran" 2>&1) || status=$?
    echo "ulimit -u $most: $status $said"
    case $status/$said in
        0/ran | 0/oomph:*'running the command without oomph'*ran) ;;
        *) echo 'not run' >&2; exit 1 ;;
    esac
done
