// Puts a status into the page. Text only ever through textContent.

import * as as from "/format.js";

const element = (id) => document.getElementById(id);

function put(id, text) {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}

function reveal(id, shown) {
  element(id).hidden = !shown;
}

/** A new element with text and a class. */
function make(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Keeps an element's content as long as what it is made of is the same. */
const madeOf = new Map();
function remake(id, from, children) {
  const key = JSON.stringify(from);
  if (madeOf.get(id) === key) return;
  madeOf.set(id, key);
  element(id).replaceChildren(...children());
}

export function show(status) {
  const shadow = status.mode === "observe";
  head(status, shadow);
  banners(status, shadow);
  wouldBreak(status, shadow);
  state(status);
  latency(status.latency, shadow);
  power(status.power, shadow);
  groups(status.groups, shadow);
  counts(status.counts, shadow, status.compared);
  model(status.shadow, shadow, status.power.no_estimate);
  events(status.events);
  footer(status);
}

function head(status, shadow) {
  const mode = element("mode");
  mode.hidden = false;
  mode.className = `badge ${shadow ? "shadow" : "run"}`;
  put("mode", shadow ? "shadow mode: acts on nothing" : `mode: ${status.mode}`);
  const what = `policy ${status.policy}, latency from ${status.latency.source || "no source"}`;
  put("what", status.name ? `${status.name}: ${what}` : what);
  const title = `${shadow ? "SHADOW " : ""}${status.state ?? status.policy} · ${status.name || "wattiod"}`;
  if (document.title !== title) document.title = title;
}

function banners(status, shadow) {
  reveal("shadow-banner", shadow);
  reveal("paused", status.paused);
  const forced = typeof status.forced === "string" && !status.paused;
  reveal("forced", forced);
  put("forced", forced ? `⚠ Full speed is forced: ${status.forced}` : "");
}

/** From this share of windows above the bound on, shadow mode warns whatever the present one is. */
const BROKEN_SHARE_MAX = 0.05;

/** In shadow mode: whether the bound would be broken, now or in many windows. */
function wouldBreak(status, shadow) {
  const { windows_bounded: bounded, violations } = status.counts;
  const share = bounded > 0 ? violations / bounded : 0;
  const now = shadow && isOver(lawsLatency(status.latency, shadow), status.latency.bound_us);
  const often = shadow && share > BROKEN_SHARE_MAX;
  reveal("would-break", now || often);
  const parts = [];
  if (now) parts.push("the latency that the setting would give is above its bound");
  if (often) parts.push(`the bound would have been broken in ${as.percent(share)} of ${as.count(bounded)} windows`);
  put("would-break", parts.length > 0 ? `⚠ Estimated: ${parts.join("; ")}.` : "");
  element("state-card").classList.toggle("over", now || often);
}

/** The latency that the law holds against its bound: in shadow mode what it would be. */
const lawsLatency = (now, shadow) => (shadow ? now.latency_us_seen : now.latency_us_mean);

const isOver = (latency_us, bound_us) => typeof latency_us === "number" && bound_us > 0 && latency_us > bound_us;

function state(status) {
  put("state", status.state ?? as.ABSENT);
  put("reason", status.reason);
}

function latency(now, shadow) {
  put("latency", as.latency(now.latency_us_mean));
  const judged_us = lawsLatency(now, shadow);
  const known = now.bound_us > 0 && typeof judged_us === "number";
  const headroom = known ? (now.bound_us - judged_us) / now.bound_us : null;
  const would = shadow ? `would be ${as.latency(judged_us)} (estimate), ` : "";
  const over = known && headroom < 0;
  element("latency-card").classList.toggle("over", over);
  element("headroom").classList.toggle("alarm", over);
  if (!known) put("headroom", now.bound_us > 0 ? `bound ${as.latency(now.bound_us)}` : "no bound yet");
  else if (over) put("headroom", `⚠ ${would}${as.percent(-headroom)} above the bound of ${as.latency(now.bound_us)}`);
  else put("headroom", `${would}headroom ${as.percent(headroom)} to the bound of ${as.latency(now.bound_us)}`);
  const parts = [];
  if (typeof now.loss_measured === "number") parts.push(`loss ${as.percent(now.loss_measured, { sign: true })}`);
  if (typeof now.loss_predicted === "number") {
    const what = shadow ? "loss would be" : "predicted";
    parts.push(`${what} ${as.percent(now.loss_predicted, { sign: true })} (estimate)`);
  }
  if (typeof now.tolerance === "number") parts.push(`tolerance ${as.percent(now.tolerance)}`);
  if (typeof now.requests_per_s === "number") parts.push(`${as.count(Math.round(now.requests_per_s))} requests/s`);
  put("loss", parts.join(" · "));
}

function power(now, shadow) {
  const measured = typeof now.measured_w === "number";
  const estimated = typeof now.estimated_w === "number";
  reveal("power-kind", measured || estimated);
  put("power-kind", measured ? "measured" : "estimate");
  put("power", as.watts(measured ? now.measured_w : now.estimated_w));
  const from = [];
  if (measured) from.push(`by ${now.meter ?? "the meter"}`);
  else {
    const unmeasured = typeof now.meter === "string" ? `${now.meter_trouble ?? `${now.meter} told nothing`}` : "there is no meter";
    if (estimated) from.push(`by ${now.model ?? "a model"} (estimate); ${unmeasured}`);
    else from.push(`${unmeasured}, no estimate`);
  }
  if (measured && estimated) from.push(`${shadow ? "would be" : "model says"} ${as.watts(now.estimated_w)} (estimate)`);
  if (typeof now.estimated_full_speed_w === "number") {
    from.push(`at full speed ${as.watts(now.estimated_full_speed_w)} (estimate)`);
  }
  put("power-from", from.join(" · "));
  saved(now, shadow);
}

function saved(now, shadow) {
  put("saved-title", shadow ? "Would have saved" : "Saved since start");
  const known = typeof now.estimated_j === "number" && now.estimated_full_speed_j > 0;
  const joules = known ? now.estimated_full_speed_j - now.estimated_j : null;
  // Both in one unit, so that they can be compared.
  const full_j = now.estimated_full_speed_j;
  put("saved", as.energy(joules, full_j));
  const why = now.no_estimate ? `no estimate: ${now.no_estimate}` : "no estimate yet";
  put("saved-share", known
    ? `${as.percent(joules / full_j)} of ${as.energy(full_j)} at full speed`
    : why);
}

function groups(list, shadow) {
  put("cores-column", shadow ? "would be active" : "active cores");
  remake("groups", list, () => list.map((group) => {
    const row = document.createElement("tr");
    const name = make("td", group.name);
    name.title = group.name;
    row.append(
      name,
      make("td", `${group.cores_active} of ${group.cores_total}`, "number"),
      make("td", String(group.cores_min), "number"),
      make("td", `${as.hertz(group.frequency_hz)} of ${as.hertz(group.frequency_max_hz)}`, "number"),
      make("td", as.percent(group.utilisation_clients), "number"),
      make("td", as.percent(group.utilisation_background), "number"),
    );
    return row;
  }));
}

function facts(id, list) {
  remake(id, list, () => list.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
}

/** What another law would have brought, in shadow mode. */
function beside(compared) {
  if (!compared) return [];
  return [
    [`${compared.policy} would have saved (estimate)`, as.percent(compared.estimated_saving_share)],
    [`its mean loss (estimate)`, as.percent(compared.estimated_loss_mean, { sign: true })],
    [`its windows above the bound (estimate)`, `${as.count(compared.violations)} of ${as.count(compared.windows_bounded)}`],
  ];
}

function counts(now, shadow, compared) {
  const spans = Object.entries(now.state_span_s).map(([state, span_s]) => [`time ${state}`, as.span(span_s)]);
  const bounded = now.windows_bounded;
  const share = bounded > 0 ? ` (${as.percent(now.violations / bounded)} of ${as.count(bounded)})` : "";
  facts("counts", [
    [shadow ? "windows that would have broken the bound" : "windows above the bound", `${as.count(now.violations)}${share}`],
    [shadow ? "mean loss over all requests (estimate)" : "mean loss over all requests", as.percent(now.loss_mean, { sign: true })],
    ...beside(compared),
    ["requests", as.count(now.requests)],
    ...spans,
    ["windows in all", as.count(now.windows)],
    ["windows without a latency", as.count(now.windows_missing)],
    ["windows of forced full speed", as.count(now.windows_forced)],
    [shadow ? "setting would have changed" : "setting changed", as.count(now.setting_changes)],
    ["values written to knobs", as.count(now.knob_writes)],
    ["knob failures", as.count(now.knob_failures)],
    ["foreign changes, left alone", as.count(now.foreign_changes)],
    ["samples that could not be had", as.count(now.source_errors)],
    ["returns to full speed", as.count(now.flaps)],
    ["circuit breaker opened", as.count(now.breaker_trips)],
  ]);
}

function model(shadow, isShadow, told) {
  reveal("model", isShadow || Boolean(shadow));
  if (!shadow) {
    facts("model-facts", [["fitted", "not yet"]]);
    return;
  }
  // A reason that stands beside the savings already is not told again.
  const why = shadow.why === told ? "no, as told above" : `no: ${shadow.why ?? "not yet fitted"}`;
  const windows = shadow.windows_fitted + shadow.windows_kept_out > 0;
  facts("model-facts", [
    ["good enough to estimate with", shadow.fitted ? "yes" : why],
    ["error on windows kept out, median", as.percent(shadow.error_median)],
    ["error on windows kept out, 90th percentile", as.percent(shadow.error_p90)],
    ["windows fitted, kept out", windows ? [shadow.windows_fitted, shadow.windows_kept_out].map(as.count).join(", ") : as.ABSENT],
    ["time with an estimate", as.span(shadow.estimated_span_s)],
  ]);
}

const MARKS = { info: "ℹ info", warning: "▲ warning", error: "✖ error" };

/** The newest first; equal ones together, at the time of the last, with how many they are. */
function together(list) {
  const found = new Map();
  for (const event of list.toReversed()) {
    const key = `${event.severity} ${event.message}`;
    const known = found.get(key);
    if (known) known.times += 1;
    else found.set(key, { ...event, times: 1 });
  }
  return [...found.values()];
}

function events(list) {
  remake("events", list, () => {
    if (list.length === 0) return [make("li", "none so far", "none")];
    return together(list).map((event) => {
      const at = new Date(event.utc_ns / 1e6);
      const time = make("time", as.clock(at));
      time.dateTime = at.toISOString();
      time.title = as.day(at);
      const known = Object.hasOwn(MARKS, event.severity) ? event.severity : "info";
      const row = document.createElement("li");
      row.append(time, make("span", MARKS[known], `severity ${known}`), make("span", event.times > 1 ? `${event.message} (${event.times} times)` : event.message, "message"));
      return row;
    });
  });
}

function footer(status) {
  const own = status.own;
  const share = status.uptime_s > 0 ? own.cpu_s / status.uptime_s : null;
  const parts = [
    `wattiod ${status.version}, up ${as.span(status.uptime_s)}`,
    `its own cost: ${share === null ? as.ABSENT : `${(share * 100).toFixed(2)} %`} of a core, ${as.bytes(own.resident_bytes)}`,
  ];
  if (typeof own.step_us_mean === "number") parts.push(`${as.latency(own.step_us_mean)} a step`);
  parts.push(`newest sample ${as.latency(status.latency.sample_age_s * 1e6)} old`);
  put("footer", parts.join(" · "));
}
