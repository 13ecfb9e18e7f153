#!/bin/sh
# Answers as nvme-cli 2.3 does, for nvme_tests.rs. A drive is a file that holds what it says of itself
# (Identify Controller); beside it lie its power state, the calls, and a mark that it is broken.

device=$2
echo "$@" >> "$device.calls"
if [ -e "$device.broken" ]; then
    echo 'NVMe status: Internal Error: (0x6)' >&2
    exit 1
fi
case "$1 $3" in
"id-ctrl --raw-binary") exec cat "$device" ;;
"get-feature --feature-id=2")
    printf 'get-feature:0x02 (Power Management), Current value:0x%08x\n' "$(cat "$device.state")" ;;
"set-feature --feature-id=2")
    value=${4#--value=}
    [ $((value & 31)) -le 4 ] || { echo 'NVMe status: Invalid Field in Command: (0x2)' >&2; exit 2; }
    echo "$value" > "$device.state"
    printf 'set-feature:0x02 (Power Management), value:0x%08x, cdw12:00000000, save:0\n' "$value" ;;
*) echo "ERROR: Invalid sub-command '$1'" >&2; exit 22 ;;
esac
