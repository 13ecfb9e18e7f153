// Shadow mode, the same for every program: what would be, by the model of this host.

import * as as from "/format.js";

const isNumber = (value) => typeof value === "number";

/** For the head of the page. */
export const badge = (mode) => (mode === "observe" ? { text: "shadow mode: acts on nothing", kind: "shadow" } : { text: `mode: ${mode}`, kind: "run" });

/** Said once, whatever is governed. */
export const banner = (shadow) => ({
  id: "shadow-banner",
  kind: "shadow",
  strong: "SHADOW MODE",
  text: "— acts on nothing. Settings and savings below are what would be; latency and load are measured on the untouched server.",
  shown: shadow,
});

/** That a bound would be broken; `of` is what is governed, where there are several. */
export function wouldBreak(status, shadow, of = "") {
  const broken = whatWouldBreak(status, shadow);
  return { id: "would-break", kind: "error", text: broken && `⚠ ${of}Estimated: ${broken}.`, shown: broken !== "" };
}

/** From this share of windows above the bound on, shadow mode warns whatever the present one is. */
const BROKEN_SHARE_MAX = 0.05;

/** In shadow mode: that the bound would be broken, now or in many windows. */
export function whatWouldBreak({ bounds = [], latency }, shadow) {
  const judged_us = lawsLatency(latency, shadow);
  const parts = [];
  if (shadow && isNumber(judged_us) && latency.bound_us > 0 && judged_us > latency.bound_us) {
    parts.push("the latency that the setting would give is above its bound");
  }
  for (const { bound, windows, windows_over: over } of shadow ? bounds : []) {
    const share = windows > 0 ? over / windows : 0;
    const named = bounds.length > 1 ? `the bound ${bound}` : "the bound";
    if (share > BROKEN_SHARE_MAX) {
      parts.push(`${named} would have been broken in ${as.percent(share)} of ${as.count(windows)} windows`);
    }
  }
  return parts.join("; ");
}

/** The latency that the law holds against its bound: in shadow mode what it would be. */
export const lawsLatency = (now, shadow) => (shadow ? now.latency_us_seen : now.latency_us_mean);

/** What another law would have brought, in shadow mode. */
export function beside(compared) {
  if (!compared) return [];
  return [
    [`${compared.policy} would have saved (estimate)`, as.percent(compared.estimated_saving_share)],
    [`its mean loss (estimate)`, as.percent(compared.estimated_loss_mean, { sign: true })],
    [`its windows above the bound (estimate)`, `${as.count(compared.violations)} of ${as.count(compared.windows_bounded)}`],
  ];
}

/** How good the model is. */
export function model(shadow, power) {
  if (!shadow) return [["fitted", "not yet"]];
  // A reason that stands beside the savings already is not told again.
  const why = shadow.why === power.no_estimate ? "no, as told above" : `no: ${shadow.why ?? "not yet fitted"}`;
  const windows = shadow.windows_fitted + shadow.windows_kept_out > 0;
  return [
    ["good enough to estimate with", shadow.fitted ? "yes" : why],
    ["error on windows kept out, median", as.percent(shadow.error_median)],
    ["error on windows kept out, 90th percentile", as.percent(shadow.error_p90)],
    ["windows fitted, kept out", windows ? [shadow.windows_fitted, shadow.windows_kept_out].map(as.count).join(", ") : as.ABSENT],
    ["time with an estimate", as.span(power.estimated_span_s)],
  ];
}
