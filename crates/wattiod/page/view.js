// What the page shows of the daemon's status: contents only, see /render.js and /charts.js.

import { line, linesOf } from "/charts.js";
import { broken, tails } from "/bounds.js";
import * as as from "/format.js";
import { power, powerChart, saved } from "/power.js";
import { badge, banner, beside, lawsLatency, model, whatWouldBreak, wouldBreak } from "/shadow.js";

const isNumber = (value) => typeof value === "number";

/** The statuses of all applications; the first one also has what is of the host. */
const applications = (status) => [status, ...(status.others ?? [])];

/** Parts of the page under names of their own, where there are several applications. */
function own(parts, { application }, at) {
  const id = (name) => (at > 0 ? `${name}-${at}` : name);
  return parts.map((part) => ({
    ...part,
    id: id(part.id),
    ...(part.title && application ? { title: `${application}: ${part.title}` } : {}),
    ...(part.notes ? { notes: part.notes.map((note) => ({ ...note, id: id(note.id) })) } : {}),
  }));
}

export function describe(status) {
  const shadow = status.mode === "observe";
  const all = applications(status);
  const each = (parts) => all.flatMap((one, at) => own(parts(one, at), one, at));
  return {
    title: title(all, shadow),
    program: "wattiod",
    mode: badge(status.mode),
    what: what(all),
    banners: [...ofHost(status, shadow), ...each((one) => banners(one, shadow))],
    cards: each((one) => [
      { id: "state", title: "State", badge: null, value: one.state ?? as.ABSENT, over: whatWouldBreak(one, shadow) !== "", notes: [{ id: "reason", text: one.reason }] },
      latency(one.latency, shadow, one.bounds ?? []),
      power(one.power, shadow),
      saved(one.power, shadow),
    ]),
    tables: [groups(all, shadow)],
    facts: each((one) => [
      { id: "counts", title: "Since the start", rows: counts(one, shadow), shown: true },
      { id: "alternation", title: "By turns with full speed", rows: alternation(one.alternation, one.power.meter), shown: Boolean(one.alternation) },
      { id: "knobs", title: "Knobs that follow, best first", rows: (one.followers ?? []).map(follower), shown: (one.followers ?? []).length > 0 },
      { id: "model", title: "Model of this host", rows: model(one.shadow, one.power), shown: shadow || Boolean(one.shadow) },
    ]),
    events: status.events,
    footer: footer(status),
  };
}

function title(all, shadow) {
  const [first, ...others] = all;
  const state = others.length > 0 ? `${all.length} applications` : (first.state ?? first.policy);
  return `${shadow ? "SHADOW " : ""}${state} · ${first.name || "wattiod"}`;
}

const NOTHING = { latency: {}, power: {}, groups: [] };

export function charts(status) {
  const shadow = status.mode === "observe";
  const all = applications(status);
  const moment = (at) => (of) => (at > 0 ? of.others?.[at - 1] : of) ?? NOTHING;
  // A group by its application's place, and its own in that.
  const named = all.flatMap((one, of) => one.groups.map((group, at) => ({ of, at, name: groupName(one, group) })));
  const lines = (value) => linesOf(named.map(({ name }) => name), (now, nth) => {
    const { of, at } = named[nth];
    const group = moment(of)(now).groups[at];
    return group && value(group);
  });
  return [
    ...all.flatMap((one, at) => own([latencyChart(shadow, moment(at)), powerChart(one, shadow, moment(at))], one, at)),
    {
      id: "cores",
      title: "Active cores",
      format: as.cores,
      nothing: "No groups of cores.",
      lines: lines((group) => group.cores_active),
    },
    {
      id: "frequency",
      title: "Limit of the frequency",
      format: as.hertz,
      nothing: "No frequency is known here.",
      lines: lines((group) => group.frequency_hz),
    },
  ];
}

function latencyChart(shadow, moment) {
  const value = (key) => (now) => moment(now).latency[key];
  return {
    id: "latency",
    title: "Mean latency, its bound and baseline",
    format: as.latency,
    nothing: "No latency yet: no window had requests.",
    lines: [
      line(shadow ? "measured, at full speed" : "mean", 0, value("latency_us_mean")),
      ...(shadow ? [line("would be (estimate)", 3, value("latency_us_seen"))] : []),
      line("bound", 1, value("bound_us")),
      line("baseline", 2, value("baseline_us")),
    ],
  };
}

function what(all) {
  const by = all.map((one) => {
    const text = `policy ${one.policy}, latency from ${one.latency.source || "no source"}`;
    return one.application ? `${one.application} by ${text}` : text;
  }).join("; ");
  return all[0].name ? `${all[0].name}: ${by}` : by;
}

/** Why full speed is forced in every other stretch of `wattiod run --alternate`. */
const BY_TURNS = "alternation: full speed by turns";

/** Said once, whatever is governed. */
function ofHost(status, shadow) {
  return [
    banner(shadow),
    { id: "paused", kind: "warning", strong: "Paused", text: "by an operator: full speed until `wattiod resume`.", shown: status.paused },
  ];
}

function banners(status, shadow) {
  const of = status.application ? `${status.application}: ` : "";
  // By turns is as it was asked for, and told by itself.
  const forced = typeof status.forced === "string" && !status.paused && status.forced !== BY_TURNS;
  return [
    { id: "forced", kind: "warning", text: forced ? `⚠ ${of}Full speed is forced: ${status.forced}` : "", shown: forced },
    wouldBreak(status, shadow, of),
  ];
}

/** A latency; one that the source cannot tell from none is not said to be none. */
function told(us, { latency_us_resolution: coarse_us = 1 }) {
  const is_none = isNumber(us) && (us < 1 || (coarse_us > 1 && us <= 1));
  return is_none ? `< ${as.latency(coarse_us)}` : as.latency(us);
}

function latency(now, shadow, bounds) {
  const judged_us = lawsLatency(now, shadow);
  const known = now.bound_us > 0 && isNumber(judged_us);
  const room = known ? (now.bound_us - judged_us) / now.bound_us : null;
  const would = shadow ? `would be ${told(judged_us, now)} (estimate), ` : "";
  const over = known && room < 0;
  let headroom = `${would}headroom ${as.percent(room)} to the bound of ${as.latency(now.bound_us)}`;
  if (!known) headroom = now.bound_us > 0 ? `bound ${as.latency(now.bound_us)}` : "no bound yet";
  else if (over) headroom = `⚠ ${would}${as.percent(-room)} above the bound of ${as.latency(now.bound_us)}`;
  const parts = [];
  if (isNumber(now.loss_measured)) parts.push(`loss ${as.percent(now.loss_measured, { sign: true })}`);
  if (isNumber(now.loss_predicted)) {
    parts.push(`${shadow ? "loss would be" : "predicted"} ${as.percent(now.loss_predicted, { sign: true })} (estimate)`);
  }
  if (isNumber(now.tolerance)) parts.push(`tolerance ${as.percent(now.tolerance)}`);
  if (isNumber(now.requests_per_s)) parts.push(`${as.count(Math.round(now.requests_per_s))} requests/s`);
  const ofTails = tails(bounds, shadow);
  // Of percentiles alone there is no bound on the mean to have room to.
  if (ofTails.length > 0 && ofTails.length === bounds.length) headroom = would.replace(/, $/, "");
  const notes = [
    { id: "headroom", text: headroom, alarm: over },
    ...ofTails,
    { id: "loss", text: parts.join(" · ") },
  ];
  return { id: "latency", title: "Latency, mean", badge: null, value: told(now.latency_us_mean, now), over, notes };
}

const groupName = ({ application }, group) => (application ? `${application}: ${group.name}` : group.name);

function groups(all, shadow) {
  const active = shadow ? "would be active" : "active cores";
  return {
    id: "groups",
    title: "Groups of cores",
    columns: ["group", active, "at least", "frequency limit", "busy: clients", "busy: back\u00adground"],
    rows: all.flatMap((one) => one.groups.map((group) => [
      groupName(one, group),
      `${group.cores_active} of ${group.cores_total}`,
      String(group.cores_min),
      isNumber(group.frequency_hz) ? `${as.hertz(group.frequency_hz)} of ${as.hertz(group.frequency_max_hz)}` : as.ABSENT,
      as.percent(group.utilisation_clients),
      as.percent(group.utilisation_background),
    ])),
  };
}

/** What governing by turns with full speed has shown: means with 95 % intervals over pairs. */
function alternation(found, meter) {
  if (!found) return [];
  const both = (interval, format) => (interval ? `${format(interval.mean)} ± ${format(interval.half_width)}` : "needs two pairs");
  const by = found.power_is_estimate ? "estimate" : (meter ?? "measured");
  return [
    ["now", found.condition === "governed" ? "governed" : "full speed"],
    ["pairs", as.count(found.pairs)],
    [`power saved (${by})`, both(found.power_w_saved, as.watts)],
    ["mean power at full speed", as.watts(found.power_w_full_speed)],
    ["change of the mean latency", both(found.latency_change, as.percent)],
    ["change of requests per second", both(found.requests_per_s_change, as.percent)],
  ];
}

/** A knob that follows the law, and what its place among them rests on. */
function follower(knob) {
  const { power_w_saved: saved, latency_us_added: added } = knob;
  const both = ({ mean, half_width }, format) => `${format(mean)} ± ${format(half_width)}`;
  const rests_on = saved && added
    ? `saves ${both(saved, as.watts)} for ${both(added, as.latency)}, measured over ${as.count(knob.pairs)} pairs`
    : `as configured, pairs so far: ${as.count(knob.pairs)}`;
  return [knob.name, `${knob.left_out ? `not used: ${knob.left_out}` : "used"}; ${rests_on}`];
}

function counts({ counts: now, compared, bounds = [] }, shadow) {
  const spans = Object.entries(now.state_span_s).map(([state, span_s]) => [`time ${state}`, as.span(span_s)]);
  return [
    ...broken(bounds, shadow),
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
  ];
}

function footer(status) {
  const own = status.own;
  const share = status.uptime_s > 0 ? own.cpu_s / status.uptime_s : null;
  return [
    `wattiod ${status.version}, up ${as.span(status.uptime_s)}`,
    `its own cost: ${share === null ? as.ABSENT : `${(share * 100).toFixed(2)} %`} of a core, ${as.bytes(own.resident_bytes)}`,
    ...(isNumber(own.step_us_mean) ? [`${as.latency(own.step_us_mean)} a step`] : []),
    `newest sample ${as.latency(status.latency.sample_age_s * 1e6)} old`,
  ];
}
