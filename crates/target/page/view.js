// What the page shows of the target: contents only, see /render.js and /charts.js.

import { line, linesOf } from "/charts.js";
import { broken, tails } from "/bounds.js";
import * as as from "/format.js";
import { power, powerChart, saved } from "/power.js";
import { badge, banner, beside, lawsLatency, model, whatWouldBreak, wouldBreak } from "/shadow.js";

const isNumber = (value) => typeof value === "number";
const coreSeconds = (value) => (isNumber(value) ? `${value.toFixed(value >= 10 ? 0 : 2)} core-s` : as.ABSENT);
const perSecond = (value) => (isNumber(value) ? `${as.count(Math.round(value))}/s` : as.ABSENT);

export function describe(shown) {
  const shadow = shown.mode === "observe";
  const forced = typeof shown.forced === "string" && !shown.paused;
  return {
    title: `${shadow ? "SHADOW " : ""}${shown.state ?? shown.policy} · ${shown.name || "wattio-target"}`,
    program: "wattio-target",
    mode: badge(shown.mode),
    what: shown.name ? `${shown.name}: policy ${shown.policy}` : `policy ${shown.policy}`,
    banners: [
      banner(shadow),
      { id: "paused", kind: "warning", strong: "Paused", text: "by an operator: full speed until resumed.", shown: shown.paused },
      { id: "forced", kind: "warning", text: forced ? `⚠ Full speed is forced: ${shown.forced}` : "", shown: forced },
      wouldBreak(shown, shadow),
    ],
    cards: [
      { id: "state", title: "State", badge: null, value: shown.state ?? as.ABSENT, over: whatWouldBreak(shown, shadow) !== "", notes: [{ id: "reason", text: shown.reason }] },
      latency(shown.latency, shadow, shown.bounds ?? []),
      requests(shown.latency),
      reactors(shown, shadow),
      power(shown.power, shadow),
      saved(shown.power, shadow),
    ],
    tables: [volumes(shown.reactors), groups(shown.groups, shadow), background(shown.background)],
    facts: [
      { id: "counts", title: "Since the start", rows: counts(shown, shadow), shown: true },
      { id: "model", title: "Model of this host", rows: model(shown.shadow, shown.power), shown: shadow },
    ],
    events: shown.events,
    footer: [
      `wattio-target ${shown.version}, up ${as.span(shown.uptime_s)}`,
      `${as.span(shown.own.cpu_s)} of processor time, ${as.bytes(shown.own.resident_bytes)}`,
    ],
  };
}

export function charts(shown) {
  const shadow = shown.mode === "observe";
  const names = shown.groups.map((group) => group.name);
  const classes = shown.background.map((one) => one.name);
  return [
    {
      id: "latency",
      title: "Mean latency, its bound and baseline",
      format: as.latency,
      nothing: "No latency yet: no window had requests.",
      lines: [
        line(shadow ? "measured, at full speed" : "mean", 0, ({ latency }) => latency.latency_us_mean),
        ...(shadow ? [line("would be (estimate)", 3, ({ latency }) => latency.latency_us_seen)] : []),
        line("bound", 1, ({ latency }) => latency.bound_us),
        line("baseline", 2, ({ latency }) => latency.baseline_us),
      ],
    },
    {
      id: "requests",
      title: "Requests",
      format: perSecond,
      nothing: "No requests yet.",
      lines: [line("answered", 0, ({ latency }) => latency.requests_per_s)],
    },
    powerChart(shown, shadow, (now) => now),
    {
      id: "cores",
      title: shadow ? "Reactors that would be on" : "Reactors that are on",
      format: (value) => (isNumber(value) ? String(Math.round(value * 10) / 10) : as.ABSENT),
      nothing: "No reactors.",
      lines: linesOf(names, ({ groups }, at) => groups[at]?.cores_active),
    },
    ...(turnsFrequency(shown.groups) ? [{
      id: "frequency",
      title: "Limit of the frequency",
      format: as.hertz,
      nothing: "No frequency is known here.",
      lines: linesOf(names, ({ groups }, at) => groups[at]?.frequency_hz),
    }] : []),
    {
      id: "background",
      title: "Background work that is due, in core-seconds (estimate)",
      format: (value) => (isNumber(value) ? value.toFixed(value >= 10 ? 0 : 2) : as.ABSENT),
      nothing: "No background work is known.",
      lines: classes.map((name, at) => line(name, at, ({ background }) => background[at]?.backlog_core_s_estimated)),
    },
  ];
}

function latency(now, shadow, bounds) {
  const judged_us = lawsLatency(now, shadow);
  const known = now.bound_us > 0 && isNumber(judged_us);
  const room = known ? (now.bound_us - judged_us) / now.bound_us : null;
  const would = shadow ? `would be ${as.latency(judged_us)} (estimate), ` : "";
  const over = known && room < 0;
  let headroom = `${would}headroom ${as.percent(room)} to the bound of ${as.latency(now.bound_us)}`;
  if (!known) headroom = now.bound_us > 0 ? `bound ${as.latency(now.bound_us)}` : "no bound yet";
  else if (over) headroom = `⚠ ${would}${as.percent(-room)} above the bound of ${as.latency(now.bound_us)}`;
  const parts = [`99th percentile ${as.latency(now.latency_us_p99)}`];
  if (isNumber(now.loss_measured)) parts.push(`loss ${as.percent(now.loss_measured, { sign: true })}`);
  if (isNumber(now.loss_predicted)) {
    parts.push(`${shadow ? "loss would be" : "predicted"} ${as.percent(now.loss_predicted, { sign: true })} (estimate)`);
  }
  if (isNumber(now.tolerance)) parts.push(`tolerance ${as.percent(now.tolerance)}`);
  const ofTails = tails(bounds, shadow);
  // Of percentiles alone there is no bound on the mean to have room to.
  if (ofTails.length > 0 && ofTails.length === bounds.length) headroom = would.replace(/, $/, "");
  const notes = [{ id: "headroom", text: headroom, alarm: over }, ...ofTails, { id: "loss", text: parts.join(" · ") }];
  return { id: "latency", title: "Latency, mean", badge: null, value: as.latency(now.latency_us_mean), over, notes };
}

function requests(now) {
  const oldest = isNumber(now.in_flight_oldest_s) ? `, the oldest for ${as.latency(now.in_flight_oldest_s * 1e6)}` : "";
  const notes = [{ id: "in-flight", text: `${as.count(now.in_flight)} under way${oldest}` }];
  return { id: "requests", title: "Requests", badge: null, value: perSecond(now.requests_per_s), over: false, notes };
}

function reactors(shown, shadow) {
  const notes = [{ id: "busy", text: shown.groups.map((group) => `${as.percent(group.utilisation_clients + group.utilisation_background)} busy`).join(" · ") }];
  return { id: "reactors", title: shadow ? "Reactors that would be on" : "Reactors", badge: shadow ? "estimate" : null, value: `${shown.reactors_active} of ${shown.reactors_total}`, over: false, notes };
}

function volumes(list) {
  const all = list.flatMap((reactor) => reactor.volumes.map((volume) => [reactor.number, volume]));
  return {
    id: "volumes",
    title: "Volumes",
    columns: ["export", "reactor", "holds", "segments free", "devices", "written for each block", "recovery", "damaged"],
    rows: all.map(([reactor, one]) => [
      one.export === "" ? "(no name)" : one.export,
      String(reactor),
      `${as.bytes(one.live_bytes)} of ${as.bytes(one.size_bytes)}${packed(one)}`,
      `${as.count(one.free_segments)} of ${as.count(one.segments)}${starved(one)}`,
      one.failure ?? `${one.devices.join(", ")}${slow(one)}`,
      isNumber(one.write_amplification) ? one.write_amplification.toFixed(2) : as.ABSENT,
      recovery(one),
      `${as.count(one.damaged_blocks)} blocks, ${as.count(one.repaired_blocks)} repaired`,
    ]),
  };
}

function starved(volume) {
  if (!isNumber(volume.starved_s)) return "";
  const stage = volume.checkpoint_stage === null ? "" : `, ${volume.checkpoint_stage}`;
  return `; ⚠ clients have waited ${as.span(volume.starved_s)}, ${as.count(volume.empty_segments)} empty${stage}`;
}

function slow(volume) {
  const isSlow = isNumber(volume.device_oldest_s) && volume.device_oldest_s >= 1;
  return isSlow ? `; ${volume.device_oldest} for ${as.span(volume.device_oldest_s)}` : "";
}

// What a recovery would take, what the last checkpoint took, and the opening at the start.
function recovery(volume) {
  const began = isNumber(volume.recovered_bytes) ? `replayed ${as.bytes(volume.recovered_bytes)}` : "opened";
  const checkpoint = isNumber(volume.checkpoint_s) ? `, checkpoint ${as.latency(volume.checkpoint_s * 1e6)}` : "";
  return `would replay ${as.bytes(volume.replay_bytes)}${checkpoint}; at the start ${began} in ${as.latency(volume.opened_s * 1e6)}`;
}

function packed(volume) {
  return volume.compression === "none" ? "" : `, ${volume.compression}: in ${as.bytes(volume.stored_bytes)}`;
}

const turnsFrequency = (list) => list.some((group) => isNumber(group.frequency_hz));

function groups(list, shadow) {
  return {
    id: "groups",
    title: "Groups",
    columns: ["group", shadow ? "would be on" : "reactors on", "at least", "frequency limit", "busy: clients", "busy: back\u00adground"],
    rows: list.map((group) => [
      group.name,
      `${group.cores_active} of ${group.cores_total}`,
      String(group.cores_min),
      isNumber(group.frequency_hz) ? `${as.hertz(group.frequency_hz)} of ${as.hertz(group.frequency_max_hz)}` : as.ABSENT,
      as.percent(group.utilisation_clients),
      as.percent(group.utilisation_background),
    ]),
  };
}

function background(list) {
  return {
    id: "background",
    title: "Background work",
    columns: ["class", "due (estimate)", "urgency", "may take", "done"],
    rows: list.map((one) => [
      one.name,
      coreSeconds(one.backlog_core_s_estimated),
      as.percent(one.urgency),
      isNumber(one.budget_core_s_per_s) ? `${one.budget_core_s_per_s.toFixed(2)} cores` : "as it becomes due",
      coreSeconds(one.done_core_s),
    ]),
  };
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
  ];
}
