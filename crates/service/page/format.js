// Numbers as people read them. Everything takes what may be absent and then says so with a dash.

export const ABSENT = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A number with about three digits. */
function digits(value) {
  const size = Math.abs(value);
  const places = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return minus(value.toFixed(places));
}

const minus = (text) => text.replace("-", "−");

/** Picks the largest unit, of those given as [factor, name] from large to small, that fits: the
 * value, or another one that it is to be compared with. */
const scaled = (units) => (value, beside = value) => {
  if (!isNumber(value)) return ABSENT;
  const fitting = (size) => units.find(([factor]) => Math.abs(size) >= factor) ?? units.at(-1);
  const common = fitting(beside);
  const tooSmall = value !== 0 && Math.abs(value) < 0.005 * common[0];
  const [factor, name] = tooSmall ? fitting(value) : common;
  return `${digits(value / factor)} ${name}`;
};

export const latency = scaled([[1e6, "s"], [1e3, "ms"], [1, "µs"]]);
export const hertz = scaled([[1e9, "GHz"], [1e6, "MHz"], [1, "Hz"]]);
export const bytes = scaled([[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"], [1, "B"]]);
export const energy = scaled([[3.6e9, "MWh"], [3.6e6, "kWh"], [3.6e3, "Wh"], [1, "J"]]);
export const watts = scaled([[1e3, "kW"], [1, "W"]]);

/** A number without a unit. */
export const number = (value) => (isNumber(value) ? digits(value) : ABSENT);

/** A count, with thin gaps between thousands. */
export function count(value) {
  return isNumber(value) ? value.toLocaleString("en").replaceAll(",", "\u202f") : ABSENT;
}

/** A number of cores; ticks of an axis may fall between two. */
export function cores(value) {
  if (!isNumber(value)) return ABSENT;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${value === 1 ? "core" : "cores"}`;
}

/** A share as a percentage. */
export function percent(share, { sign = false } = {}) {
  if (!isNumber(share)) return ABSENT;
  const size = Math.abs(share * 100);
  const text = (share * 100).toFixed(size >= 10 || size === 0 ? 0 : 1);
  return `${sign && share > 0 ? "+" : ""}${minus(text)} %`;
}

/** A length of time by its two largest units. */
export function span(seconds) {
  if (!isNumber(seconds)) return ABSENT;
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const from = parts.findIndex(([length]) => whole >= length);
  if (from === -1) return "0 s";
  let rest = whole;
  return parts.slice(from, from + 2).map(([length, name]) => {
    const times = Math.floor(rest / length);
    rest -= times * length;
    return times > 0 ? `${times} ${name}` : "";
  }).filter(Boolean).join(" ");
}

/** The browser's wall clock, hh:mm:ss. */
export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, "0")).join(":");
}

/** An ISO date and the time, in the browser's time zone. */
export function day(date) {
  const two = (part) => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;
}
