// Four charts of the last 15 minutes, which the daemon keeps. What a status does not tell is a gap.

import * as as from "/format.js";

const SPAN_S = 15 * 60;
const POINTS_MAX = 20_000;
const HEIGHT = 210;
/** After so long without a status nothing is drawn: nobody knows what was. */
const GAP_S = 10;

/** Colour and pattern of lines, in the picture and below it: told apart by both, also in print. */
const LINES = [
  ["--blue", [], "solid"],
  ["--vermillion", [8, 4], "dashed"],
  ["--green", [2, 3], "dotted"],
  ["--purple", [10, 3, 2, 3], "solid"],
  ["--orange", [5, 2], "dashed"],
  ["--sky", [1, 2], "dotted"],
];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** A line: its name, how it is drawn, and its value of a status. */
function line(label, at, value, { stepped = false } = {}) {
  return { label, at, value: (status) => number(value(status)), stepped };
}

function latencyLines(shadow) {
  return [
    line(shadow ? "measured, at full speed" : "mean", 0, (status) => status.latency.latency_us_mean),
    ...(shadow ? [line("would be (estimate)", 3, (status) => status.latency.latency_us_seen)] : []),
    line("bound", 1, (status) => status.latency.bound_us),
    line("baseline", 2, (status) => status.latency.baseline_us),
  ];
}

function powerLines(shadow, metered) {
  return [
    ...(metered ? [line("measured", 0, (status) => status.power.measured_w)] : []),
    line(shadow ? "would be (estimate)" : "in force (estimate)", 2, (status) => status.power.estimated_w),
    line("full speed (estimate)", 1, (status) => status.power.estimated_full_speed_w),
  ];
}

function groupLines(names, value) {
  return names.map((name, at) => line(name, at % LINES.length, (status) => value(status.groups[at] ?? {}), { stepped: true }));
}

class Chart {
  constructor(id, lines, format) {
    this.target = document.getElementById(id);
    this.nothing = this.target.parentElement.querySelector(".nothing");
    this.lines = lines;
    this.data = [[], ...lines.map(() => [])];
    this.plot = new uPlot(this.options(format), this.data, this.target);
    // In the next frame: a chart that grows within the observer would make it fire again.
    this.observer = new ResizeObserver(() => requestAnimationFrame(() => this.resize()));
    this.observer.observe(this.target);
  }

  options(format) {
    const axis = {
      stroke: () => color("--dim"),
      grid: { stroke: () => color("--line"), width: 1 },
      ticks: { stroke: () => color("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    return {
      width: Math.max(this.target.clientWidth, 200),
      height: HEIGHT,
      cursor: { sync: { key: "wattiod" }, drag: { x: false, y: false } },
      legend: { markers: { width: 3, dash: (_, at) => LINES[this.lines[at - 1].at][2] } },
      scales: {
        x: { time: true, range: (_, min, max) => [Math.min(min ?? 0, (max ?? 0) - 60), max ?? 0] },
        y: { range: (_, min, max) => [0, max > 0 ? max * 1.12 : 1] },
      },
      axes: [
        { ...axis, space: 70, size: 32, values: (_, times) => times.map((time) => as.clock(new Date(time * 1e3))) },
        { ...axis, size: 76, values: (_, values) => values.map((value) => format(value)) },
      ],
      series: [
        { label: "time", value: (_, time) => (time === null ? as.ABSENT : as.clock(new Date(time * 1e3))) },
        ...this.lines.map(({ label, at, stepped }) => ({
          label,
          stroke: () => color(LINES[at][0]),
          dash: LINES[at][1],
          width: 2,
          points: { show: false },
          paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          value: (_, value) => format(value),
        })),
      ],
    };
  }

  resize() {
    const width = this.target.clientWidth;
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  add(time, status) {
    const [times, ...columns] = this.data;
    // A clock that was set back starts the picture again: time only goes to the right.
    if (times.length > 0 && time <= times.at(-1)) for (const column of this.data) column.length = 0;
    else if (times.length > 0 && time - times.at(-1) > GAP_S) {
      times.push(time - 1e-3);
      for (const column of columns) column.push(null);
    }
    times.push(time);
    columns.forEach((column, at) => column.push(this.lines[at].value(status)));
    let old = Math.max(0, times.length - POINTS_MAX);
    while (times[old] < time - SPAN_S) old += 1;
    if (old > 0) for (const column of this.data) column.splice(0, old);
  }

  draw() {
    this.plot.setData(this.data);
    // Below the picture stands what the mouse points at, else the newest.
    if (this.plot.cursor.idx === null) this.plot.setLegend({ idx: this.data[0].length - 1 }, false);
  }

  /** Says why there is nothing to see, where there is nothing. */
  explain(reason) {
    const empty = this.data.slice(1).every((column) => column.every((value) => value === null));
    this.nothing.hidden = !empty;
    this.target.classList.toggle("empty", empty);
    if (empty) this.nothing.textContent = reason;
  }

  destroy() {
    this.observer.disconnect();
    this.plot.destroy();
  }
}

export class Charts {
  constructor() {
    this.charts = [];
    this.madeFor = null;
    this.past = [];
    this.drawing = false;
    const redraw = () => this.charts.forEach((chart) => chart.plot.redraw(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    addEventListener("beforeprint", () => {
      document.documentElement.dataset.print = "";
      redraw();
    });
    addEventListener("afterprint", () => {
      delete document.documentElement.dataset.print;
      redraw();
    });
  }

  /** What the daemon kept: shown with the next status, as far as it is not known yet. */
  recall(moments) {
    this.past = moments;
  }

  add(status) {
    this.make(status);
    const known = this.charts[0].data[0].at(-1) ?? -Infinity;
    const time = status.utc_ns / 1e9;
    const missed = this.past.filter(({ utc_ns }) => utc_ns / 1e9 > known && utc_ns / 1e9 < time);
    this.past = [];
    for (const chart of this.charts) {
      for (const moment of missed) chart.add(moment.utc_ns / 1e9, moment);
      chart.add(time, status);
    }
    this.charts[0].explain("No latency yet: no window had requests.");
    this.charts[1].explain("Neither a meter nor an estimate tells power.");
    this.charts[2].explain("No groups of cores.");
    this.charts[3].explain("No frequency is known here.");
    if (this.drawing) return;
    // At most once a frame, and not at all while nobody looks.
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      for (const chart of this.charts) chart.draw();
    });
  }

  /** New charts where mode or groups are others: a restart of the daemon. */
  make(status) {
    const names = status.groups.map((group) => group.name);
    const metered = typeof status.power.meter === "string";
    const wanted = JSON.stringify([status.mode, names, metered]);
    if (wanted === this.madeFor) return;
    this.madeFor = wanted;
    for (const chart of this.charts) chart.destroy();
    const shadow = status.mode === "observe";
    this.charts = [
      new Chart("chart-latency", latencyLines(shadow), as.latency),
      new Chart("chart-power", powerLines(shadow, metered), as.watts),
      new Chart("chart-cores", groupLines(names, (group) => group.cores_active), as.cores),
      new Chart("chart-frequency", groupLines(names, (group) => group.frequency_hz), as.hertz),
    ];
  }
}
