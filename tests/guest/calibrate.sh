# Run in the guest: every setting of a sweep on real cpufreq and hot-plug, with what the kernel
# counted meanwhile. tests/guest/test_calibrate.py makes points of it: the guest has no Python.
#
# fake_power draws, in W, 20 + n (2 + 3 phi) + b (4 + 6 phi) with n active and b busy cores.

set -eu

CPU=/sys/devices/system/cpu
PACKAGE=/sys/class/powercap/intel-rapl:0

# Waits until a command succeeds; the guest is slow, and a sleep would be too short or too long.
until_true() { tries=600; until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; usleep 50000; done; }
fact() { echo "$1 $2"; }
# The energy at a tick of the clock, read without starting a program: again where a slow host let
# another tick come between them.
moment() {
    tries=200
    while :; do
        read -r last _ < /proc/uptime
        while read -r now _ < /proc/uptime && [ "$now" = "$last" ]; do :; done
        read -r energy_uj < $PACKAGE/energy_uj
        read -r after _ < /proc/uptime
        tries=$((tries - 1))
        [ "$after" != "$now" ] && [ $tries -gt 0 ] || break
    done
    fact "$1.ns" "${now%.*}${now#*.}0000000"
    fact "$1.energy_uj" "$energy_uj"
    fact "$1.stat" "$(grep '^cpu[0-9]' /proc/stat | tr '\n' ';')"
}
core_is() { [ "$(cat $CPU/online)" = "$1" ]; }
frequency_is() { [ "$(cat $CPU/cpufreq/policy0/scaling_cur_freq)" = "$1" ]; }

# Idle ticks of all cores until now, and ticks of any kind.
work() { awk '/^cpu[0-9]/ { idle += $5 + $6; for (at = 2; at <= 9; at++) all += $at } END { print idle, all }' /proc/stat; }

# off BEGUN ENDED LOAD: how far the busy share was from that asked for, in thousandths.
off() {
    set -- $1 $2 "$3"
    idle=$(($3 - $1)) all=$(($4 - $2 + 1))
    if [ "$5" = 1 ]; then echo $((1000 * idle / all)); else echo $((1000 * (all - idle) / all)); fi
}

# look NAME CORES: what the kernel counts while a setting lasts.
look() {
    moment "$1.before"
    usleep 1500000
    for cpu in $(seq 0 $(($2 - 1))); do
        fact "$1.khz$cpu" "$(cat $CPU/cpu$cpu/cpufreq/scaling_cur_freq)"
    done
    moment "$1.after"
}

# point NAME KHZ CORES LOAD: half a phi is counted in whole watts, twice.
point() {
    name=$1 khz=$2 cores=$3 load=$4
    for cpu in 1 2 3; do echo 1 > $CPU/cpu$cpu/online; done
    for policy in $CPU/cpufreq/policy*; do echo "$khz" > "$policy/scaling_max_freq"; done
    for cpu in 1 2 3; do [ $cpu -lt "$cores" ] || echo 0 > $CPU/cpu$cpu/online; done
    until_true frequency_is "$khz"
    phi2=$((khz / 1200000)) tasks=
    if [ "$load" = 1 ]; then
        for cpu in $(seq 0 $((cores - 1))); do
            taskset -c "$cpu" sh -c 'while :; do :; done' & tasks="$tasks $!"
        done
    fi
    busy=$((cores * load))
    echo $((20 + cores * 2 + cores * 3 * phi2 / 2 + busy * 4 + busy * 3 * phi2)) > \
        /sys/module/fake_power/parameters/watts
    fact "$name.asked" "$khz $cores $load"
    # What else a slow host has the guest do counts as busy: the most faithful of several looks.
    least=1001 looks=12
    until [ $least -le 60 ] || [ $looks = 0 ]; do
        looks=$((looks - 1))
        begun=$(work)
        look "$name" "$cores" > /tmp/look
        off=$(off "$begun" "$(work)" "$load")
        [ "$off" -ge $least ] || { least=$off; mv /tmp/look /tmp/best; }
    done
    cat /tmp/best
    for task in $tasks; do kill "$task"; wait "$task" 2>/dev/null || true; done
}

for policy in $CPU/cpufreq/policy*; do echo performance > "$policy/scaling_governor"; done
number=0
for khz in 2400000 1200000; do
    for cores in 4 2; do
        for load in 0 1; do
            number=$((number + 1))
            point "point$number" $khz $cores $load
        done
    done
done
