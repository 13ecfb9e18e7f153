// Figures that can be looked into: hover for values, drag to zoom, double-click to see all again.
"use strict";
(() => {
  const HEIGHT = 260;
  const MARK = 6;
  const narrow = matchMedia("screen and (max-width: 48rem)").matches;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Black is the ink of the page, which is light in the dark.
  const ink = (colour) => (colour === "#000000" ? css("--ink") : colour);
  const spoken = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
  const tick = (value) => (value === null ? "" : spoken(value));

  // What is shaded behind the curves, as in the still figure.
  function shade(plot, bands) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const { colour, opacity, stretches, top } of bands) {
      ctx.globalAlpha = opacity;
      ctx.fillStyle = colour;
      for (const [start, end] of stretches) {
        const [left, right] = [start, end].map((x) => plot.valToPos(x, "x", true));
        ctx.fillRect(left, bbox.top + bbox.height * (1 - top), Math.max(right - left, 1), bbox.height * top);
      }
    }
    ctx.restore();
  }

  function names(bands) {
    const line = document.createElement("p");
    line.className = "bands";
    for (const { label, colour, opacity } of bands) {
      const mark = document.createElement("i");
      mark.style.background = colour;
      mark.style.opacity = Math.min(1, 2 * opacity);
      const item = document.createElement("span");
      item.append(mark, label);
      line.append(item, " ");
    }
    return line;
  }

  // The marks by which curves are told apart without colours: some ten of each in what is shown.
  function marks(plot, at, { marker, colour }) {
    if (!marker || !plot.series[at].show) return;
    const { min, max } = plot.scales.x;
    const x = plot.data[0];
    const shown = [...x.keys()].filter((index) => x[index] >= min && x[index] <= max && typeof plot.data[at][index] === "number");
    const every = Math.max(1, Math.floor(shown.length / 10));
    const size = MARK * devicePixelRatio;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = ink(colour);
    for (let place = 0; place < shown.length; place += every) {
      const [left, top] = [plot.valToPos(x[shown[place]], "x", true), plot.valToPos(plot.data[at][shown[place]], "y", true)];
      // Whole at the edge of the picture, and none beyond it.
      if (top < bbox.top || top > bbox.top + bbox.height) continue;
      ctx.beginPath();
      for (const [right, up] of marker) ctx.lineTo(left + size * right, top - size * up);
      ctx.fill();
    }
    ctx.restore();
  }

  // Two strokes across the y axis where it leaves something out, and what that is.
  function cuts(plot, panel) {
    if (panel.y_max === null) return;
    const { ctx, bbox } = plot;
    const one = devicePixelRatio;
    const strokes = (height) => {
      for (const shift of [-2, 2]) {
        ctx.moveTo(bbox.left - 5 * one, height + (shift + 2) * one);
        ctx.lineTo(bbox.left + 5 * one, height + (shift - 2) * one);
      }
    };
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--ink");
    ctx.lineWidth = 1.2 * one;
    ctx.setLineDash([]);
    ctx.beginPath();
    if (plot.scales.y.min > 0) strokes(bbox.top + bbox.height - 5 * one);
    if (panel.cut && plot.scales.y.max === panel.y_max) {
      strokes(bbox.top + 5 * one);
      ctx.textAlign = "right";
      ctx.textBaseline = "top";
      ctx.fillText(panel.cut, bbox.left + bbox.width - 4 * one, bbox.top + 4 * one);
    }
    ctx.stroke();
    ctx.restore();
  }

  // A curve's line and mark for the legend, as in the still figure.
  function sample({ colour, dashes, marker }) {
    const name = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(name, "svg");
    const shape = (kind, values) => {
      const one = document.createElementNS(name, kind);
      for (const [key, value] of Object.entries(values)) one.setAttribute(key, value);
      svg.append(one);
    };
    svg.setAttribute("viewBox", "0 0 28 12");
    shape("path", { d: "M0 6H28", stroke: ink(colour), "stroke-width": 1.6, "stroke-dasharray": dashes.join(" ") });
    if (marker) shape("polygon", { points: marker.map(([x, y]) => `${14 + MARK * x},${6 - MARK * y}`).join(" "), fill: ink(colour) });
    return svg;
  }

  function options(panel, width, key) {
    const axis = { stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 } };
    const log = panel.log ? { distr: 3 } : {};
    const ends = [panel.x[0], panel.x.at(-1)];
    // Spikes leave the top of the whole picture, as in the still one; zoomed in they are seen.
    const upTo = (plot, low, high) => {
      const { min, max } = plot.scales.x;
      const whole = min === null || (min <= ends[0] && max >= ends[1]);
      if (whole && panel.y_max !== null) return [panel.y_min, panel.y_max];
      return [low, high > low ? high : low + 1];
    };
    return {
      width,
      height: HEIGHT,
      hooks: {
        drawClear: [(plot) => shade(plot, panel.bands)],
        drawSeries: [(plot, at) => marks(plot, at, panel.series[at - 1] ?? {})],
        draw: [(plot) => cuts(plot, panel)],
      },
      legend: { markers: { width: 0 } },
      cursor: { sync: { key }, drag: { x: true, y: false } },
      scales: { x: { time: false, ...log }, y: panel.log ? log : { range: upTo } },
      axes: [panel.x_label, panel.y_label].map((label, at) => ({ ...axis, label, size: at ? 70 : 46, values: (_, values) => values.map(tick) })),
      series: [
        { label: panel.x_label, value: (_, value) => spoken(value) },
        ...panel.series.map(({ label, colour, dashes, stepped }) => ({
          label,
          stroke: () => ink(colour),
          dash: dashes,
          width: 1.6,
          spanGaps: panel.span_gaps,
          points: { show: false },
          paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
          value: (_, value) => spoken(value),
        })),
      ],
    };
  }

  document.querySelectorAll("figure.live").forEach((figure, number) => {
    const button = figure.querySelector("button");
    const still = figure.querySelector("a");
    let place = null;
    const turn = () => {
      if (place) {
        place.remove();
        place = null;
      } else {
        place = document.createElement("div");
        place.className = "plots";
        figure.insertBefore(place, still);
        let told = "";
        for (const panel of JSON.parse(figure.querySelector("script").textContent)) {
          const data = [panel.x, ...panel.series.map(({ values }) => values)];
          const line = names(panel.bands);
          if (line.textContent !== told) place.append(line);
          told = line.textContent;
          const plot = new uPlot(options(panel, place.clientWidth, `figure-${number}`), data, place);
          plot.root.querySelectorAll(".u-series .u-marker").forEach((mark, at) => at && mark.replaceChildren(sample(panel.series[at - 1])));
          new ResizeObserver(([{ contentRect }]) => plot.setSize({ width: contentRect.width, height: HEIGHT })).observe(place);
        }
      }
      figure.classList.toggle("open", place !== null);
      button.textContent = place ? "Still figure" : "Hover and zoom";
      button.setAttribute("aria-pressed", String(place !== null));
    };
    button.hidden = false;
    button.addEventListener("click", turn);
    // The letters of a still figure that is shrunk to a telephone cannot be read.
    if (narrow && !figure.querySelector("picture")) turn();
  });
})();
