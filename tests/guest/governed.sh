# Run in the guest: wattiod on real cpufreq, cgroup v2, powercap and hot-plug. Each fact is a line
# "key value"; tests/guest/test_wattiod.py reads them.

fact() { echo "$1 $2"; }
facts() {
    # The set in force: the kernel takes no empty list back while tasks are in the group.
    fact "$1.cpuset" "$(cat /sys/fs/cgroup/server/cpuset.cpus.effective)"
    fact "$1.online" "$(cat /sys/devices/system/cpu/online)"
    for cpu in 0 1; do
        fact "$1.frequency$cpu" "$(cat /sys/devices/system/cpu/cpufreq/policy$cpu/scaling_max_freq)"
    done
    fact "$1.snapshot" "$(ls /run/wattiod/state/snapshot.json 2>/dev/null)"
}
# Waits until a command succeeds; the guest is slow, and a sleep would be too short or too long.
until_true() { tries=600; until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; usleep 50000; done; }
narrowed() { [ -e /run/wattiod/state/snapshot.json ] && [ "$(cat /sys/devices/system/cpu/online)" = 0-1 ]; }
# Narrow from the first of these facts to the last: a source that a busy host makes late widens again.
governed() {
    narrowed && wattiod status --socket /run/wattiod/socket --json > /tmp/status &&
        grep -q '"measured_w":[0-9]' /tmp/status && facts governed > /tmp/governed && narrowed
}
# Stopped while it is narrow.
held() { kill -STOP $daemon; narrowed || { kill -CONT $daemon; return 1; }; }

mkdir /sys/fs/cgroup/server
sleep 600 & echo $! > /sys/fs/cgroup/server/cgroup.procs
fact doctor "$(wattiod doctor /etc/wattiod.toml > /tmp/doctor && echo right || cat /tmp/doctor | tr '\n' ';')"
fact doctor.text "$(tr '\n' ';' < /tmp/doctor)"

facts before
wattiod run /etc/wattiod.toml 2> /tmp/log & daemon=$!
until_true governed || { cat /tmp/log; exit 1; }
cat /tmp/governed
fact status "$(cat /tmp/status)"
kill -TERM $daemon; wait $daemon; fact run.exit $?
facts ended

wattiod run /etc/wattiod.toml 2> /tmp/log & daemon=$!
until_true held || { cat /tmp/log; exit 1; }
kill -KILL $daemon; wait $daemon
facts killed
wattiod restore /etc/wattiod.toml > /tmp/restored; fact restore.exit $?
fact restore.text "$(tr '\n' ';' < /tmp/restored)"
facts restored

# What its keeper puts back: nobody calls restore.
back() { [ ! -e /run/wattiod/state/snapshot.json ]; }
for end in ABRT STOP; do
    wattiod run /root/kept.toml 2> /tmp/log & daemon=$!
    until_true narrowed || { cat /tmp/log; exit 1; }
    kill -$end $daemon
    until_true back || { cat /tmp/log; exit 1; }
    wait $daemon
    case $end in ABRT) facts kept.aborted ;; STOP) facts kept.stopped ;; esac
done

# Somebody takes a processor off while its frequency is limited.
limit3() { cat /sys/devices/system/cpu/cpufreq/policy3/scaling_max_freq 2> /dev/null; }
slowed() { [ "$(limit3)" = 1200000 ]; }
fact unplugged.before "$(limit3)"
wattiod run /root/unplugged.toml 2> /tmp/log & daemon=$!
until_true slowed || { cat /tmp/log; exit 1; }
echo 0 > /sys/devices/system/cpu/cpu3/online
kill -TERM $daemon; wait $daemon; fact unplugged.exit $?
fact unplugged.log "$(tr '\n' ';' < /tmp/log)"
echo 1 > /sys/devices/system/cpu/cpu3/online
fact unplugged.back "$(limit3)"
wattiod restore /root/unplugged.toml > /tmp/restored; fact unplugged.restore.exit $?
fact unplugged.after "$(limit3)"

# Heat limits the frequency while the daemon does, and the host cools down before the daemon ends,
# afterwards, or after a kill.
heat() {
    for device in /sys/class/thermal/cooling_device*; do
        [ "$(cat "$device/type")" != Processor ] || echo "$1" > "$device/cur_state"
    done
}
# The cooling devices were made before there were frequencies: made again, they know these.
for cpu in 0 1 2 3; do
    echo cpu$cpu > /sys/bus/cpu/drivers/processor/unbind
    echo cpu$cpu > /sys/bus/cpu/drivers/processor/bind
done
warm() { [ "$(limit3)" = 2000000 ]; }
hot() { [ "$(limit3)" = 1600000 ]; }
for end in cooled hot killed; do
    wattiod run /root/heated.toml 2> /tmp/log & daemon=$!
    until_true warm || { cat /tmp/log; exit 1; }
    heat 1
    until_true hot || { echo "no heat"; exit 1; }
    # Longer than the daemon takes to look at all places again.
    sleep 8
    fact heated.$end.hot "$(limit3)"
    case $end in
        cooled) heat 0; until_true warm; sleep 3; fact heated.cooled.later "$(limit3)" ;;
    esac
    case $end in killed) kill -KILL $daemon ;; *) kill -TERM $daemon ;; esac
    wait $daemon; fact heated.$end.exit $?
    case $end in killed) wattiod restore /root/heated.toml > /tmp/restored; fact heated.$end.exit $? ;; esac
    heat 0
    fact heated.$end.log "$(tr '\n' ';' < /tmp/log)"
    sleep 1
    fact heated.$end.after "$(limit3)"
done
