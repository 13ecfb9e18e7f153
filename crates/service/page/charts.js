// Charts of the last 15 minutes, which the program keeps. What a status does not tell is a gap.
//
// `charts(status)` of the program's view gives [{ id, title, format, nothing, lines }]: what a number
// is written as, what to say where there is none, and lines made by `line`.

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

/** A line: its name, which of `LINES` draws it, and its value of a status. */
export function line(label, at, value, { stepped = false } = {}) {
  return { label, at, value: (status) => number(value(status)), stepped };
}

/** One line for each name, with its number among them. */
export function linesOf(names, value) {
  return names.map((name, at) => line(name, at % LINES.length, (status) => value(status, at), { stepped: true }));
}

class Chart {
  constructor({ id, title, format, nothing, lines }, place) {
    const part = (tag, of) => Object.assign(document.createElement(tag), of);
    const name = part("figcaption", { id: `chart-${id}-title`, textContent: title });
    this.target = part("div", { id: `chart-${id}`, className: "chart" });
    this.nothing = part("p", { className: "nothing", textContent: nothing, hidden: true });
    this.figure = part("figure", {});
    this.figure.setAttribute("aria-labelledby", name.id);
    this.figure.append(name, this.target, this.nothing);
    place.append(this.figure);
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
      cursor: { sync: { key: "page" }, drag: { x: false, y: false } },
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
  explain() {
    const empty = this.data.slice(1).every((column) => column.every((value) => value === null));
    this.nothing.hidden = !empty;
    this.target.classList.toggle("empty", empty);
  }

  destroy() {
    this.observer.disconnect();
    this.plot.destroy();
    this.figure.remove();
  }
}

export class Charts {
  /** `describe` gives the charts of a status. */
  constructor(describe) {
    this.describe = describe;
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

  /** What the program kept: shown with the next status, as far as it is not known yet. */
  recall(moments) {
    this.past = moments;
  }

  add(status) {
    this.make(status);
    const known = this.charts[0]?.data[0].at(-1) ?? -Infinity;
    const time = status.utc_ns / 1e9;
    const missed = this.past.filter(({ utc_ns }) => utc_ns / 1e9 > known && utc_ns / 1e9 < time);
    this.past = [];
    for (const chart of this.charts) {
      for (const moment of missed) chart.add(moment.utc_ns / 1e9, moment);
      chart.add(time, status);
      chart.explain();
    }
    if (this.drawing) return;
    // At most once a frame, and not at all while nobody looks.
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      for (const chart of this.charts) chart.draw();
    });
  }

  /** New charts where they are described otherwise: a restart of the program. */
  make(status) {
    const wanted = this.describe(status);
    const key = JSON.stringify(wanted);
    if (key === this.madeFor) return;
    this.madeFor = key;
    for (const chart of this.charts) chart.destroy();
    const place = document.getElementById("charts");
    this.charts = wanted.map((chart) => new Chart(chart, place));
  }
}
