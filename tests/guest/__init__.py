"""A QEMU guest whose kernel has the knobs and meters that test machines lack.

Debian's own kernel under TCG, with cpufreq policies and an ACPI power meter (`ssdt.asl`), powercap
zones and a hwmon power sensor (`fake_power`), disks that stop and start (scsi_debug), processors
that go offline, and, where a run asks for it, a BMC with DCMI (`bmc`). It proves interfaces and
control logic; it says nothing about watts or speed.

`image` builds the pieces into `.cache/guest`, `guest` boots them and runs a script. A test takes
the fixture `guest` of `conftest.py`:

    def test_knob(guest: Guest) -> None:
        done = guest.run([built_static_binary], "wattiod check", cpus=4)
        assert done.exit_code == 0, done.output
"""
