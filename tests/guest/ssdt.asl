/*
 * What QEMU's own ACPI tables lack: P-states for each processor, and a power meter.
 *
 * The C preprocessor runs first, with -D PROCESSOR_COUNT=<n>: naming a processor that QEMU did not
 * make would make the kernel refuse the whole table. (iasl's own preprocessor has no macros with
 * arguments.)
 *
 * The control registers are I/O ports that no device of the q35 machine claims: a write goes
 * nowhere and a read gives 0xFF. The kernel keeps the frequency it asked for in scaling_cur_freq;
 * acpi-cpufreq has no cpuinfo_cur_freq for registers of this kind.
 */

/* MHz, mW, transition and bus master latency in us, control value, status value. */
#define P_STATE(mhz, mw, value) Package () { mhz, mw, 10, 10, value, value }

/* One byte of an I/O port. */
#define PORT(address) ResourceTemplate () { Register (SystemIO, 8, 0, address, 1) }

/*
 * Every processor is a frequency domain of its own (software coordinated, 0xFD), so that Linux makes
 * one cpufreq policy for each, as on servers.
 */
#define PROCESSOR(name, index, control, status) \
    Scope (\_SB.CPUS.name) { \
        Name (_PPC, 0) \
        Name (_PCT, Package () { PORT (control), PORT (status) }) \
        Name (_PSD, Package () { Package () { 5, 0, index, 0xFD, 1 } }) \
        Method (_PSS) { Return (\_SB.PSTS) } \
    }

DefinitionBlock ("", "SSDT", 2, "WATTIO", "GUEST", 1)
{
    External (\_SB.CPUS, DeviceObj)
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)
    External (\_SB.CPUS.C002, DeviceObj)
    External (\_SB.CPUS.C003, DeviceObj)
    External (\_SB.CPUS.C004, DeviceObj)
    External (\_SB.CPUS.C005, DeviceObj)
    External (\_SB.CPUS.C006, DeviceObj)
    External (\_SB.CPUS.C007, DeviceObj)

    Scope (\_SB)
    {
        Name (PSTS, Package ()
        {
            P_STATE (2400, 90000, 0x18),
            P_STATE (2000, 70000, 0x14),
            P_STATE (1600, 50000, 0x10),
            P_STATE (1200, 35000, 0x0C)
        })

        Device (METR)
        {
            Name (_HID, "ACPI000D")
            Name (_UID, 0)

            /* Measures only (flag 1), in mW, of input power, every 1000 ms; no cap, no trip points. */
            Name (_PMC, Package ()
            {
                0x01, 0, 0, 1000, 1000, 1000, 60000, 0, 0, 0, 0, "wattio", "1", "guest"
            })

            /* 1 mW more with each reading, so that a test tells a new reading from a kept one. */
            Name (MILW, 123000)
            Method (_PMM, 0, Serialized)
            {
                MILW += 1
                Return (MILW)
            }

            Method (_GAI, 0) { Return (1000) }
            Method (_PAI, 1) { Return (0) }
            Method (_PMD, 0) { Return (Package () { \_SB.CPUS }) }
            Method (_STA, 0) { Return (0x0F) }
        }
    }

    PROCESSOR (C000, 0, 0x0900, 0x0910)
#if (PROCESSOR_COUNT > 1)
    PROCESSOR (C001, 1, 0x0901, 0x0911)
#endif
#if (PROCESSOR_COUNT > 2)
    PROCESSOR (C002, 2, 0x0902, 0x0912)
#endif
#if (PROCESSOR_COUNT > 3)
    PROCESSOR (C003, 3, 0x0903, 0x0913)
#endif
#if (PROCESSOR_COUNT > 4)
    PROCESSOR (C004, 4, 0x0904, 0x0914)
#endif
#if (PROCESSOR_COUNT > 5)
    PROCESSOR (C005, 5, 0x0905, 0x0915)
#endif
#if (PROCESSOR_COUNT > 6)
    PROCESSOR (C006, 6, 0x0906, 0x0916)
#endif
#if (PROCESSOR_COUNT > 7)
    PROCESSOR (C007, 7, 0x0907, 0x0917)
#endif
}
