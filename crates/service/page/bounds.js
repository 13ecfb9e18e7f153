// How the bounds on latency are kept.

import * as as from "/format.js";

const isNumber = (value) => typeof value === "number";

/** A note for each bound on a percentile: what it may come to, and how many requests take longer. */
export function tails(bounds, shadow) {
  const text = ({ bound, limit_us, requests_over_share: share }) => {
    const over = isNumber(share) ? `, ${as.percent(share)} of requests above it${shadow ? " (estimate)" : ""}` : "";
    return `${bound}: at most ${isNumber(limit_us) ? as.latency(limit_us) : as.ABSENT}${over}`;
  };
  const ofTails = bounds.filter(({ statistic }) => statistic !== "mean");
  return ofTails.map((one, at) => ({ id: `tail-${at}`, text: text(one), alarm: one.kept === false }));
}

/** Rows: in how many windows each bound was broken, and whether that keeps it. */
export function broken(bounds, shadow) {
  const named = bounds.length > 1 || bounds.some(({ statistic }) => statistic !== "mean");
  const label = shadow ? "windows that would have broken" : "windows above";
  const verdict = shadow ? ", would not be kept over the run" : ", not kept over the run";
  return bounds.map(({ bound, windows, windows_over: over, kept }) => {
    const share = windows > 0 ? ` (${as.percent(over / windows)} of ${as.count(windows)})` : "";
    const lost = bound.endsWith(" run") && kept === false;
    return [`${label} ${named ? bound : "the bound"}`, `${as.count(over)}${share}${lost ? verdict : ""}`];
  });
}
