// SPDX-License-Identifier: GPL-2.0
/*
 * Power that QEMU does not model, behind the interfaces of real hardware:
 *
 *   /sys/class/powercap/intel-rapl:0      package-0, with a power limit that is kept but not obeyed
 *   /sys/class/powercap/intel-rapl:0:0    dram, a quarter of the package's power
 *   /sys/class/hwmon/hwmon<n>             name fake_power: power1_input, power1_average
 *
 * Energy is watts times passed time, and wraps at range_uj like a hardware counter. Both parameters
 * may be written while the module is loaded (/sys/module/fake_power/parameters): new watts count
 * from the next instant on, so that the counters never jump; a new range takes effect at once.
 */

#include <linux/hwmon.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/powercap.h>

#define DRAM_DIVISOR 4

/* What RAPL reports as range with an energy unit of 61 uJ (32 bits of it). */
#define DEFAULT_RANGE_UJ 262143328850ULL

static DEFINE_MUTEX(energy_lock);
static unsigned int watts = 95;
static unsigned long range_uj = DEFAULT_RANGE_UJ;
static u64 package_uj; /* energy of the package up to `counted_until`, never wrapped */
static ktime_t counted_until;

/* Brings `package_uj` up to now. The caller holds `energy_lock`. */
static void count_energy(void)
{
	s64 passed_us = ktime_us_delta(ktime_get(), counted_until);

	/* W times us is uJ. What is left of a microsecond is counted next time. */
	package_uj += (u64)passed_us * watts;
	counted_until = ktime_add_us(counted_until, passed_us);
}

static int set_watts(const char *text, const struct kernel_param *param)
{
	int error;

	mutex_lock(&energy_lock);
	count_energy();
	error = param_set_uint(text, param);
	mutex_unlock(&energy_lock);
	return error;
}

static int set_range(const char *text, const struct kernel_param *param)
{
	unsigned long value;
	int error = kstrtoul(text, 0, &value);

	if (error)
		return error;
	if (!value)
		return -EINVAL; /* energy is divided by it */
	WRITE_ONCE(range_uj, value);
	return 0;
}

static const struct kernel_param_ops watts_ops = { .set = set_watts, .get = param_get_uint };
static const struct kernel_param_ops range_ops = { .set = set_range, .get = param_get_ulong };

module_param_cb(watts, &watts_ops, &watts, 0644);
MODULE_PARM_DESC(watts, "power of the package and of the hwmon sensor, in W");
module_param_cb(range_uj, &range_ops, &range_uj, 0644);
MODULE_PARM_DESC(range_uj, "where both energy counters wrap, in uJ");

/* powercap: the package and its memory. */

static struct powercap_control_type *control;
static struct powercap_zone package, dram;
static u64 limit_uw = 150000000;
static u64 window_us = 999424;

static int zone_energy(struct powercap_zone *zone, u64 *energy_uj)
{
	u64 total_uj;

	mutex_lock(&energy_lock);
	count_energy();
	total_uj = package_uj;
	mutex_unlock(&energy_lock);
	if (zone == &dram)
		total_uj /= DRAM_DIVISOR;
	*energy_uj = total_uj % READ_ONCE(range_uj);
	return 0;
}

static int zone_range(struct powercap_zone *zone, u64 *value)
{
	*value = READ_ONCE(range_uj);
	return 0;
}

/* The zones are static memory: nothing to free. powercap asks for the function all the same. */
static int zone_release(struct powercap_zone *zone)
{
	return 0;
}

static const struct powercap_zone_ops zone_ops = {
	.get_energy_uj = zone_energy,
	.get_max_energy_range_uj = zone_range,
	.release = zone_release,
};

static int get_limit(struct powercap_zone *zone, int id, u64 *value)
{
	*value = limit_uw;
	return 0;
}

static int set_limit(struct powercap_zone *zone, int id, u64 value)
{
	limit_uw = value;
	return 0;
}

static int get_window(struct powercap_zone *zone, int id, u64 *value)
{
	*value = window_us;
	return 0;
}

static int set_window(struct powercap_zone *zone, int id, u64 value)
{
	window_us = value;
	return 0;
}

static const char *limit_name(struct powercap_zone *zone, int id)
{
	return "long_term";
}

static const struct powercap_zone_constraint_ops limit_ops = {
	.get_power_limit_uw = get_limit,
	.set_power_limit_uw = set_limit,
	.get_time_window_us = get_window,
	.set_time_window_us = set_window,
	.get_name = limit_name,
};

static int register_zones(void)
{
	struct powercap_zone *zone;

	control = powercap_register_control_type(NULL, "intel-rapl", NULL);
	if (IS_ERR(control))
		return PTR_ERR(control);
	zone = powercap_register_zone(&package, control, "package-0", NULL, &zone_ops, 1, &limit_ops);
	if (IS_ERR(zone))
		goto no_package;
	/* powercap wants the functions of limits even where there are none. */
	zone = powercap_register_zone(&dram, control, "dram", &package, &zone_ops, 0, &limit_ops);
	if (IS_ERR(zone))
		goto no_dram;
	return 0;

no_dram:
	powercap_unregister_zone(control, &package);
no_package:
	powercap_unregister_control_type(control);
	return PTR_ERR(zone);
}

static void unregister_zones(void)
{
	powercap_unregister_zone(control, &dram);
	powercap_unregister_zone(control, &package);
	powercap_unregister_control_type(control);
}

/* hwmon: one power sensor. */

static struct platform_device *platform;
static struct device *sensor;

static umode_t sensor_visible(const void *data, enum hwmon_sensor_types type, u32 attribute,
			      int channel)
{
	return 0444;
}

static int sensor_read(struct device *device, enum hwmon_sensor_types type, u32 attribute,
		       int channel, long *power_uw)
{
	*power_uw = READ_ONCE(watts) * 1000000L;
	return 0;
}

static const struct hwmon_ops sensor_ops = { .is_visible = sensor_visible, .read = sensor_read };

static const struct hwmon_channel_info *const sensor_channels[] = {
	HWMON_CHANNEL_INFO(power, HWMON_P_INPUT | HWMON_P_AVERAGE),
	NULL,
};

static const struct hwmon_chip_info sensor_chip = {
	.ops = &sensor_ops,
	.info = (const struct hwmon_channel_info **)sensor_channels,
};

static int register_sensor(void)
{
	platform = platform_device_register_simple("fake_power", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(platform))
		return PTR_ERR(platform);
	sensor = hwmon_device_register_with_info(&platform->dev, "fake_power", NULL, &sensor_chip,
						 NULL);
	if (IS_ERR(sensor)) {
		platform_device_unregister(platform);
		return PTR_ERR(sensor);
	}
	return 0;
}

static void unregister_sensor(void)
{
	hwmon_device_unregister(sensor);
	platform_device_unregister(platform);
}

static int __init fake_power_init(void)
{
	int error;

	/* Parameters given at loading were set before this: nothing counts yet. */
	package_uj = 0;
	counted_until = ktime_get();
	error = register_zones();
	if (error)
		return error;
	error = register_sensor();
	if (error)
		unregister_zones();
	return error;
}

static void __exit fake_power_exit(void)
{
	unregister_sensor();
	unregister_zones();
}

module_init(fake_power_init);
module_exit(fake_power_exit);
MODULE_DESCRIPTION("Fake powercap zones and hwmon power sensor for tests");
MODULE_LICENSE("GPL");
