// The cards of power and of what is saved, and the chart of power: the same for every program.

import { line } from "/charts.js";
import * as as from "/format.js";

const isNumber = (value) => typeof value === "number";

export function power(now, shadow) {
  const measured = isNumber(now.measured_w);
  const estimated = isNumber(now.estimated_w);
  const from = [];
  if (measured) from.push(`by ${now.meter ?? "the meter"}`);
  else {
    const unmeasured = typeof now.meter === "string" ? `${now.meter_trouble ?? `${now.meter} told nothing`}` : "there is no meter";
    if (estimated) from.push(`by ${now.model ?? "a model"} (estimate); ${unmeasured}`);
    else from.push(`${unmeasured}, no estimate`);
  }
  if (measured && estimated) from.push(`${shadow ? "would be" : "model says"} ${as.watts(now.estimated_w)} (estimate)`);
  if (isNumber(now.estimated_full_speed_w)) from.push(`at full speed ${as.watts(now.estimated_full_speed_w)} (estimate)`);
  const estimate = estimated ? "estimate" : null;
  return {
    id: "power",
    title: "Power",
    badge: measured ? "measured" : estimate,
    value: as.watts(measured ? now.measured_w : now.estimated_w),
    over: false,
    notes: [{ id: "power-from", text: from.join(" · ") }],
  };
}

/** What it comes to in a year, by which factors. */
function year(saved) {
  if (!saved) return "";
  const { energy_kwh, cost_eur, co2_kg, eur_per_kwh, co2_g_per_kwh } = saved;
  const parts = [as.energy(energy_kwh * 3.6e6), `${as.number(cost_eur)} EUR`, `${as.number(co2_kg)} kg CO₂`];
  return `a year like this: ${parts.join(", ")} (at ${eur_per_kwh} EUR and ${co2_g_per_kwh} g for a kWh)`;
}

export function saved(now, shadow) {
  const known = isNumber(now.estimated_j) && now.estimated_full_speed_j > 0;
  const joules = known ? now.estimated_full_speed_j - now.estimated_j : null;
  const full_j = now.estimated_full_speed_j;
  const why = now.no_estimate ? `no estimate: ${now.no_estimate}` : "no estimate yet";
  return {
    id: "saved",
    title: shadow ? "Would have saved" : "Saved since start",
    badge: "estimate",
    // Both in one unit, so that they can be compared.
    value: as.energy(joules, full_j),
    over: false,
    notes: [
      { id: "saved-share", text: known ? `${as.percent(joules / full_j)} of ${as.energy(full_j)} at full speed` : why },
      { id: "saved-year", text: known ? year(now.estimated_saved_year) : "" },
    ],
  };
}

/** `moment` takes what is shown out of what the page was sent of a point in time. */
export function powerChart(status, shadow, moment) {
  const metered = typeof status.power.meter === "string";
  const value = (key) => (now) => moment(now).power[key];
  return {
    id: "power",
    title: "Power",
    format: as.watts,
    nothing: "Neither a meter nor an estimate tells power.",
    lines: [
      ...(metered ? [line("measured", 0, value("measured_w"))] : []),
      line(shadow ? "would be (estimate)" : "in force (estimate)", 2, value("estimated_w")),
      line("full speed (estimate)", 1, value("estimated_full_speed_w")),
    ],
  };
}
