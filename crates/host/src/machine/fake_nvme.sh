#!/bin/sh
# Answers as nvme-cli 2.3 does, for nvme_tests.rs. A drive is a file that holds what it says of itself
# (Identify Controller); beside it lie its power state, the calls, and a mark that it is broken.

device=$2
echo "$@" >> "$device.calls"
if [ -e "$device.broken" ]; then
    echo 'NVMe status: Internal Error: (0x6)' >&2
    exit 1
fi
# A zero has no 0x: so nvme-cli prints it.
hexadecimal() { if [ "$1" -eq 0 ]; then echo 00000000; else printf '0x%08x\n' "$1"; fi; }
case "$1 $3" in
"id-ctrl --raw-binary") exec cat "$device" ;;
"get-feature --feature-id=2")
    value=$(cat "$device.state")
    echo "get-feature:0x02 (Power Management), Current value:$(hexadecimal "$value")" ;;
"set-feature --feature-id=2")
    value=${4#--value=}
    [ $((value & 31)) -le 4 ] || { echo 'NVMe status: Invalid Field in Command(0x4002)' >&2; exit 1; }
    echo "$value" > "$device.state"
    echo "set-feature:0x02 (Power Management), value:$(hexadecimal "$value"), cdw12:00000000, save:0" ;;
*) echo "ERROR: Invalid sub-command '$1'" >&2; exit 22 ;;
esac
