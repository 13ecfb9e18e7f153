# Tries every knob and meter of the guest once. Prints one "key value" per line, and judges nothing:
# that is for test_guest.py. What cannot be read or written at all ends it.

set -eu

CPU=/sys/devices/system/cpu
CGROUP=/sys/fs/cgroup
PACKAGE=/sys/class/powercap/intel-rapl:0
DRAM=$PACKAGE:0

say() {
    echo "$1 $2"
}

# wait_for COMMAND...: until it succeeds, at most 20 s.
wait_for() {
    tries=200
    until "$@" || [ "$tries" -eq 0 ]; do
        tries=$((tries - 1))
        usleep 100000
    done
}

file_says() {
    [ "$(cat "$1")" = "$2" ]
}

frequency() {
    cd "$CPU/cpufreq"
    for policy in policy*; do
        say "$policy.driver" "$(cat "$policy/scaling_driver")"
        say "$policy.cpus" "$(cat "$policy/affected_cpus")"
        say "$policy.governors" "$(cat "$policy/scaling_available_governors")"
        say "$policy.frequencies" "$(cat "$policy/scaling_available_frequencies")"
        echo 1600000 > "$policy/scaling_max_freq"
        say "$policy.max" "$(cat "$policy/scaling_max_freq")"
        echo 2400000 > "$policy/scaling_max_freq"
        for governor in conservative ondemand performance powersave schedutil userspace; do
            echo "$governor" > "$policy/scaling_governor"
            say "$policy.$governor" "$(cat "$policy/scaling_governor")"
        done
        echo 1200000 > "$policy/scaling_setspeed"
        say "$policy.current" "$(cat "$policy/scaling_cur_freq")"
    done
}

energy() {
    say package.name "$(cat "$PACKAGE/name")"
    say dram.name "$(cat "$DRAM/name")"
    before=$(cat "$PACKAGE/energy_uj")
    between=$(cat "$DRAM/energy_uj")
    usleep 100000
    after=$(cat "$PACKAGE/energy_uj")
    say package.before "$before"
    say dram.between "$between"
    say package.after "$after"

    # One joule more than now is some 10 ms away, so some reading is less than the one before.
    range=$((after + 1000000))
    echo "$range" > /sys/module/fake_power/parameters/range_uj
    say package.range "$(cat "$PACKAGE/max_energy_range_uj")"
    tries=1000
    while reading=$(cat "$PACKAGE/energy_uj"); [ "$reading" -ge "$after" ] && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        usleep 1000
    done
    say package.wrapped "$reading"
}

power() {
    for sensor in /sys/class/hwmon/*; do
        if [ -e "$sensor/device/power1_average" ]; then
            say acpi.power_uw "$(cat "$sensor/device/power1_average")"
        elif file_says "$sensor/name" fake_power; then
            fake=$sensor
        fi
    done
    say fake.power_uw "$(cat "$fake/power1_input")"
    echo 40 > /sys/module/fake_power/parameters/watts
    say fake.lower_uw "$(cat "$fake/power1_average")"
    say bmc.reading "$(ipmitool dcmi power reading | grep Instantaneous)"
}

hotplug() {
    say cpus.first "$(cat "$CPU/online")"
    for cpu in 1 2 3; do
        echo 0 > "$CPU/cpu$cpu/online"
    done
    say cpus.fewest "$(cat "$CPU/online")"
    for cpu in 1 2 3; do
        echo 1 > "$CPU/cpu$cpu/online"
    done
    say cpus.last "$(cat "$CPU/online")"
    say cpus.policies "$(cat "$CPU"/cpufreq/policy*/affected_cpus | tr '\n' ' ')"
}

# Field 39 of stat is the processor a task ran on last; its name is one word here.
task_is_on() {
    [ "$(cut -d ' ' -f 39 "/proc/$1/stat")" = "$2" ]
}

cpuset() {
    say cgroup.controllers "$(cat "$CGROUP/cgroup.subtree_control")"
    mkdir "$CGROUP/pool"
    while :; do :; done &
    task=$!
    echo 2 > "$CGROUP/pool/cpuset.cpus"
    echo "$task" > "$CGROUP/pool/cgroup.procs"
    wait_for task_is_on "$task" 2
    say task.before "$(cut -d ' ' -f 39 "/proc/$task/stat")"
    echo 1 > "$CGROUP/pool/cpuset.cpus"
    wait_for task_is_on "$task" 1
    say task.after "$(cut -d ' ' -f 39 "/proc/$task/stat")"
    say task.allowed "$(grep Cpus_allowed_list "/proc/$task/status" | cut -f 2)"
    kill "$task"
}

disk() {
    device=/sys/block/sda/device
    say disk.rotational "$(cat /sys/block/sda/queue/rotational)"
    for scsi_disk in "$device"/scsi_disk/*; do
        echo 1 > "$scsi_disk/manage_runtime_start_stop"
    done
    echo 200 > "$device/power/autosuspend_delay_ms"
    echo auto > "$device/power/control"
    wait_for file_says "$device/power/runtime_status" suspended
    say disk.idle "$(cat "$device/power/runtime_status")"
    say disk.stops "$(dmesg | grep -c '\[sda\] Stopping disk')"
    say disk.read "$(dd if=/dev/sda bs=4k count=1 iflag=direct 2> /dev/null | wc -c)"
    say disk.starts "$(dmesg | grep -c '\[sda\] Starting disk')"
}

tracing() {
    say trace.event "$(cat /sys/kernel/tracing/events/block/block_rq_complete/enable)"
}

clock() {
    say clock.source "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
}

for part in clock frequency energy power hotplug cpuset disk tracing; do
    "$part"
done
