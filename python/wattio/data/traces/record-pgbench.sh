#!/bin/sh
# Records traces/pgbench.wtrace: PostgreSQL under pgbench at varying rates, on a file system of its
# own, so that nothing but the database is in the trace.
#
# Needs root, Debian's `postgresql` and `postgresql-contrib`, e2fsprogs, cgroup v1 or v2 with the
# memory controller, 3 GiB below WORK_ROOT, and wattio (WATTIO="uv run wattio", say).
# Takes about five minutes. Usage: traces/record-pgbench.sh [TARGET]
set -eu

target=$(realpath -m "${1:-$(dirname "$0")/pgbench.wtrace}")
wattio=${WATTIO:-wattio}
scale=80             # 80 x 15 MB = 1.2 GB of tables and indexes
shared_buffers=32MB
memory_mib=192       # of the whole database, page cache included: most reads reach the disk
jobs=2
clients=16

bin=$(pg_config --bindir)
work=$(mktemp -d "${WORK_ROOT:-/var/tmp}/wattio-pgbench-XXXXXX")
data=$work/disk/data
group=
loop=

clean() {
    set +e
    [ -d "$data" ] && as_postgres "$bin/pg_ctl" -D "$data" -m immediate stop >"$work/stop.log" 2>&1
    mountpoint -q "$work/disk" && umount "$work/disk"
    [ -n "$loop" ] && losetup -d "$loop"
    [ -n "$group" ] && rmdir "$group"
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

as_postgres() { (cd / && setpriv --reuid=postgres --regid=postgres --clear-groups "$@"); }

# A memory limit over database and page cache, in whichever version of cgroups the machine has.
limit_memory() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/wattio-pgbench
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control
        mkdir "$group"
        echo $((memory_mib << 20)) >"$group/memory.max"
    else
        group=/sys/fs/cgroup/memory/wattio-pgbench
        mkdir "$group"
        echo $((memory_mib << 20)) >"$group/memory.limit_in_bytes"
    fi
}

sql() { as_postgres psql -qXAt -h "$work/socket" -d postgres -c "$1"; }

# phase SECONDS RATE [PGBENCH OPTION...]: that many transactions a second; RATE 0 is no limit.
phase() {
    seconds=$1 rate=$2
    shift 2
    [ "$rate" -gt 0 ] && set -- --rate="$rate" "$@"
    as_postgres pgbench -h "$work/socket" -n -c $clients -j $jobs -T "$seconds" "$@" postgres |
        grep -E '^(tps|number of transactions actually)'
}

load() {
    phase 45 60                                             # a quiet service
    phase 40 150 -b tpcb-like@1 -b select-only@3            # busier, mostly reading
    phase 10 0                                              # a burst: as fast as it goes
    phase 35 40                                             # back to quiet
    sql CHECKPOINT && sync -f "$work/disk"                  # let nothing trickle into the silence:
    sleep 16 && sync -f "$work/disk"                        # the database writes a last snapshot
    sleep 55                                                # no client at all
    phase 45 100 -b tpcb-like@1 -b select-only@1            # and again
}

truncate -s 3G "$work/image"
loop=$(losetup --find --show --direct-io=on "$work/image")
# What the file system would do later by itself must not fall into the silence.
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
mkdir "$work/disk" "$work/socket"
chmod 755 "$work"
mount "$loop" "$work/disk"
mkdir "$data"
chown postgres: "$data" "$work/socket"
chmod 700 "$data"
as_postgres "$bin/initdb" -D "$data" --no-sync >"$work/initdb.log"
cat >>"$data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$work/socket'
shared_buffers = $shared_buffers
max_wal_size = 512MB
checkpoint_timeout = 5min
autovacuum_naptime = 10min
EOF
as_postgres "$bin/pg_ctl" -D "$data" -l "$data/log" -w start >"$work/start.log"
as_postgres pgbench -h "$work/socket" -i -q -s $scale postgres
sql CHECKPOINT
as_postgres "$bin/pg_ctl" -D "$data" -m fast -w stop >"$work/stop.log"

# Start again inside the limit, with nothing cached.
limit_memory
umount "$work/disk"
mount "$loop" "$work/disk"
sh -c 'echo $$ >"$1/cgroup.procs"; shift; cd /; exec "$@"' sh "$group" \
    setpriv --reuid=postgres --regid=postgres --clear-groups \
    "$bin/pg_ctl" -D "$data" -l "$data/log" -w start >"$work/start.log"

$wattio trace record --device "$loop" --duration "255 s" --out "$target" &
recorder=$!
sleep 2
load
wait $recorder
$wattio trace info "$target"
