# Run in the guest: wattiod over cpufreq and hot-plug, beside Redis (processors 0 and 1) and nginx (2
# and 3) under load. The faults of /root/faults come over it until $SPAN_S are over, all of them once
# at least; each begins narrow, and ends so. tests/guest/test_proof.py reads what each took.

cpu=/sys/devices/system/cpu
socket=/run/wattiod/socket
state=/run/wattiod/state
log=/tmp/log
all='0 1 2 3'
fault=start

fail() {
    echo "failed: $fault: $*"
    tail -n 30 $log
    wattiod status --socket $socket
    grep . $cpu/online $cpu/cpufreq/policy*/scaling_max_freq
    ls -l $state
    exit 1
}

# In hundredths of a second since boot: that clock is nobody's to set.
stamp() { read -r now rest < /proc/uptime; now=${now%.*}${now#*.}; }
# Waits until it is so; the guest is slow, and a sleep would be too short or too long.
await() {
    stamp; deadline=$((now + 12000))
    until "$@"; do stamp; [ $now -lt $deadline ] || fail "never: $*"; usleep 10000; done
}
took() { what=$1; shift; stamp; began=$now; await "$@"; stamp; echo "took $fault $what $((now - began))"; }

is_on() { [ $1 = 0 ] || [ "$(cat $cpu/cpu$1/online)" = 1 ]; }
has() { { read -r limit < $cpu/cpufreq/policy$1/scaling_max_freq; } 2> /dev/null && [ $limit = $2 ]; }
full() { for one in $*; do is_on $one && has $one $most || return 1; done; }
narrow() { ! is_on 1 && ! is_on 3 && has 0 1200000 && has 2 1200000; }
keeps() { [ -e $state/snapshot.json ]; }
let_go() { ! keeps; }

said() { grep -c "$1" $log; }
says() { [ $(said "$2") -gt $1 ]; }
# Of the first application.
count() {
    count=$(wattiod status --socket $socket --json 2> /dev/null | grep -o "\"$1\":[0-9]*" | head -n 1)
    count=${count#*:}
}
counts() { count $1 && [ "${count:-0}" -ge $2 ]; }

begin() { wattiod run /etc/wattiod.toml --out /results 2>> $log & daemon=$!; }
start() { begin; took back narrow; }
ended() { wait $daemon; code=$?; [ $code = $1 ] || fail "ended with $code"; }
stop() { kill -TERM $daemon; ended 0; full $all || fail 'left narrow'; let_go || fail 'keeps values'; }
children() { cat /proc/$1/task/$1/children; }
keeper() {
    for keeper in $(children $daemon); do [ "$(cat /proc/$keeper/comm)" = wattiod-keeper ] && return; done
    return 1
} 2> /dev/null
another() { keeper && [ $keeper != $1 ]; }
alone() { ! grep -q wattiod /proc/[0-9]*/comm; } 2> /dev/null

serve_redis() { redis-server --port 6379 --save '' --dir /run > /dev/null & redis=$!; }
serve_nginx() { nginx -e /run/errors -c /etc/nginx.conf & nginx=$!; }
# Asks a server over one connection while it answers, and then over another.
client() {
    while usleep 100000; do
        while read -r pause_us < /tmp/pause; usleep $pause_us; do printf "$2"; done | nc 127.0.0.1 $1
    done
} > /dev/null 2>&1
fill() { dd if=/dev/zero of=$1/filler bs=4k 2> /dev/null; }

# Faults. $1 is drawn.

a_daemon_that_is_killed() {
    case $(($1 % 3)) in 0) set KILL 137 ;; 1) set ABRT 134 ;; 2) set USR1 138 ;; esac
    kill -$1 $daemon; took full full $all; ended $2
    await alone; let_go || fail 'the keeper keeps values'
    start
}
# At any moment of its first steps, some of which it may not have taken yet.
a_daemon_that_is_killed_as_it_starts() {
    stop; begin
    usleep $(($1 % 8 * 500000))
    kill -KILL $daemon; ended 137; took full full $all
    await alone; let_go || fail 'the keeper keeps values'
    start
}
a_daemon_that_is_stopped() {
    kill -STOP $daemon; took full full $all; ended 137
    await alone; start
}
# Another one is there before the daemon is killed, too.
a_keeper_that_is_killed() {
    keeper || fail 'no keeper'
    kill -KILL $keeper; await another $keeper
    a_daemon_that_is_killed $1
}
a_server_that_is_killed() {
    kill -KILL $redis; wait $redis; took full full 0 1
    serve_redis; took back narrow
}
a_source_that_hangs() {
    kill -STOP $redis; took full full 0 1
    kill -CONT $redis; took back narrow
}
# A log cannot tell that its server is gone.
a_server_with_a_log_that_is_killed() {
    kill -KILL $nginx $(children $nginx); wait $nginx
    serve_nginx; took back narrow
}
a_source_of_garbage() {
    workers=$(children $nginx)
    kill -STOP $workers
    head -c 100000 /dev/urandom >> /run/latency.log; took full full 2 3
    kill -CONT $workers; took back narrow
}
# What he wrote is his, also at the end; what he left is put back.
somebody_who_sets_a_frequency() {
    case $(($1 % 2)) in 0) set 0 1 2 3 ;; 1) set 2 0 1 3 ;; esac
    his=$1; shift
    said=$(said "left alone")
    echo 1600000 > $cpu/cpufreq/policy$his/scaling_max_freq; await says $said "left alone"
    kill -TERM $daemon; ended 0
    has $his 1600000 || fail 'his limit is gone'
    full $* || fail 'left narrow'
    echo $most > $cpu/cpufreq/policy$his/scaling_max_freq
    start
}
somebody_who_brings_a_processor_on() {
    his=$(($1 % 2 * 2 + 1)); said=$(said "left alone")
    echo 1 > $cpu/cpu$his/online; await says $said "left alone"
    stop; start
}
# It keeps its limit as long as it is off, which is told.
somebody_who_takes_a_processor_off() {
    said=$(said 'processor 2 is off')
    echo 0 > $cpu/cpu2/online
    case $(($1 % 2)) in 0) set TERM 1 ;; 1) set KILL 137 ;; esac
    kill -$1 $daemon; ended $2; await alone
    says $said 'processor 2 is off' || fail 'the limit is not told'
    ! is_on 2 || fail 'brought on'
    full 0 1 3 || fail 'left narrow'
    echo 1 > $cpu/cpu2/online
    wattiod restore /etc/wattiod.toml > /tmp/restored || fail "$(cat /tmp/restored)"
    full $all || fail 'not restored'
    start
}
somebody_who_pauses() {
    wattiod pause --socket $socket > /dev/null; took full full $all
    wattiod resume --socket $socket > /dev/null; took back narrow
}
a_reload() {
    said=$(said 'configuration reloaded')
    kill -HUP $daemon; await says $said 'configuration reloaded'; took back narrow
}
# By days, ahead or back. Windows go on.
a_clock_that_is_set() {
    days=$(($1 % 2 * 8 - 3))
    date -s "@$(($(date +%s) + days * 86400))" > /dev/null || fail 'not set'
    await count windows; await counts windows $((count + 4)); took back narrow
}
# Old values cannot be kept, so nothing is changed; then they can, and it goes on.
a_disk_of_old_values_that_is_full() {
    stop; fill $state
    begin; await counts knob_failures 1; full $all || fail 'changed without old values'
    rm $state/filler; took back narrow
}
# The host comes first: it is governed without.
a_disk_of_records_that_is_full() {
    said=$(said 'nothing more is recorded')
    fill /results; await says $said 'nothing more is recorded'; took back narrow
    stop; rm /results/filler; start
}

read -r most < $cpu/cpufreq/policy0/cpuinfo_max_freq
mkdir -p $state /results /var/lib/nginx /var/log/nginx
mount -t tmpfs -o size=256k,mode=0700 tmpfs $state
mount -t tmpfs -o size=64m tmpfs /results
echo 50000 > /tmp/pause
serve_redis; serve_nginx
client 6379 'SET key value\r\nGET key\r\n' &
client 8080 'GET / HTTP/1.1\r\nHost: guest\r\n\r\n' &

full $all || fail 'narrow at the start'
start
stamp; over=$((now + SPAN_S * 100))
while read -r number fault pause_us drawn <&3; do
    stamp; [ $number -lt $FAULTS ] || [ $now -lt $over ] || break
    echo $pause_us > /tmp/pause
    usleep $((drawn % 500 * 1000))
    # On a busy machine a source is late now and then, which widens for a moment.
    await narrow
    $fault $drawn
done 3< /root/faults
fault=end
stop
alone || fail 'a process is left'
echo "left $(ls -A $state | tr '\n' ' ')"
stamp; echo "over $now"

modprobe -a virtio_pci virtio_blk
await [ -e /dev/vda ]
tar -cf /dev/vda -C /results . && sync
