# Run in the guest: wattiod paces the check of a real array. Each fact is a line "key value";
# tests/guest/test_paced.py reads them.

fact() { echo "$1 $2"; }
# Waits until a command succeeds; the guest is slow, and a sleep would be too short or too long.
until_true() { tries=1200; until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; usleep 50000; done; }
limit() { cut -d' ' -f1 $md/sync_speed_max; }
# Refused as long as the pass before is being ended.
check() { echo check > $md/sync_action && [ "$(cat $md/sync_action)" = check ]; } 2>/dev/null
resting() { [ "$(cat $md/sync_action)" = idle ]; }
let_go() { [ "$(limit)" = 400 ] && told | grep -q '"background_pace":1.0,'; }
# The check is begun again when a slow guest saw its end.
slowed() {
    ! resting || check
    limit > /tmp/limit
    told > /tmp/told
    [ "$(cat /tmp/limit)" -lt 400 ] && grep -q '"state":"stable"' /tmp/told &&
        grep -q '"background_pace":0' /tmp/told
} 2>/dev/null
told() { wattiod status --socket /run/wattiod/socket --json; }

# An array without superblocks, put together as md.rst says: the guest has no mdadm.
modprobe raid1
echo md0 > /sys/module/md_mod/parameters/new_array
md=/sys/block/md0/md
echo none > $md/metadata_version
echo raid1 > $md/level
echo 2 > $md/raid_disks
echo 30720 > $md/component_size
for disk in sda sdb; do cat /sys/block/$disk/dev > $md/new_dev; done
echo 0 > $md/dev-sda/slot
echo 1 > $md/dev-sdb/slot
echo none > $md/resync_start
echo active > $md/array_state
echo 50 > $md/sync_speed_min
echo 400 > $md/sync_speed_max
fact degraded "$(cat $md/degraded)"

wattiod run /etc/wattiod.toml 2> /tmp/log & daemon=$!
until_true slowed || { cat /tmp/log; told; cat $md/sync_action $md/sync_completed $md/sync_speed; exit 1; }
fact slowed.limit "$(cat /tmp/limit)"
fact slowed.status "$(cat /tmp/told)"
# No work is left to pace.
echo idle > $md/sync_action
until_true resting || exit 1
until_true let_go || { cat /tmp/log; told; exit 1; }
until_true slowed || { cat /tmp/log; exit 1; }
kill -TERM $daemon; wait $daemon; fact run.exit $?
fact stopped.limit "$(cat $md/sync_speed_max)"
fact stopped.least "$(cat $md/sync_speed_min)"
echo idle > $md/sync_action
