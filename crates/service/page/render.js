// Puts into the page what a program describes. Text only ever through textContent.
//
// `describe(status)` of the program's view gives, all of it as text where nothing else is said:
//   title     of the window
//   program, what   the head of the page; mode: { text, kind } or null
//   banners   [{ id, kind, strong, text, shown }]; kind: error, warning, shadow
//   cards     [{ id, title, badge, value, over, notes: [{ id, text, alarm }] }]; badge or null
//   tables    [{ id, title, columns, rows }]; the first column is text, the others are numbers
//   facts     [{ id, title, rows: [[name, value]], shown }]
//   events    [{ utc_ns, severity, message }], the newest last
//   footer    [text]

import * as as from "/format.js";

const element = (id) => document.getElementById(id);

function put(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** A new element with text, or with elements in it, and attributes. */
function make(tag, content, attributes = {}) {
  const made = document.createElement(tag);
  if (typeof content === "string") made.textContent = content;
  else made.append(...content);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(name, value);
  }
  return made;
}

/** Keeps an element's content as long as what it is made of is the same. */
const madeOf = new WeakMap();
function remake(target, from, children) {
  const key = JSON.stringify(from);
  if (madeOf.get(target) === key) return;
  madeOf.set(target, key);
  target.replaceChildren(...children());
}

/** One element for each part in a place, made once for as long as it has its name. */
function each(place, parts, tag, fill) {
  const here = new Map([...place.children].map((child) => [child.dataset.part, child]));
  for (const part of parts) {
    const known = here.get(part.id);
    const target = known ?? document.createElement(tag);
    target.dataset.part = part.id;
    if (!known) place.append(target);
    here.delete(part.id);
    fill(target, part);
  }
  // What was there before any part stays.
  for (const [name, child] of here) if (name !== undefined) child.remove();
}

export function show(page) {
  if (document.title !== page.title) document.title = page.title;
  put(element("program"), page.program);
  put(element("what"), page.what);
  const mode = element("mode");
  mode.hidden = !page.mode;
  mode.className = `badge ${page.mode?.kind ?? ""}`;
  put(mode, page.mode?.text ?? "");
  each(element("banners"), page.banners, "p", banner);
  each(element("cards"), page.cards, "article", card);
  each(element("tables"), page.tables, "section", table);
  each(element("facts"), page.facts, "section", facts);
  events(page.events);
  put(element("footer"), page.footer.join(" · "));
}

function banner(target, { id, kind, strong, text, shown }) {
  target.id = id;
  target.className = `banner ${kind}`;
  target.hidden = !shown;
  remake(target, [strong, text], () => (strong ? [make("strong", strong), ` ${text}`] : [text]));
}

function card(target, { id, title, badge, value, over, notes }) {
  target.id = `${id}-card`;
  target.className = over ? "card over" : "card";
  remake(target, [title, badge, notes.map((note) => note.id)], () => [
    make("h2", [
      make("span", title, { id: `${id}-title` }),
      ...(badge ? [" ", make("span", badge, { id: `${id}-kind`, class: "badge" })] : []),
    ]),
    make("p", "", { class: "big", id }),
    ...notes.map((note) => make("p", "", { id: note.id })),
  ]);
  put(element(id), value);
  for (const note of notes) {
    const line = element(note.id);
    line.className = note.alarm ? "sub alarm" : "sub";
    put(line, note.text);
  }
}

function table(target, { id, title, columns, rows }) {
  const named = `${id}-title`;
  target.setAttribute("aria-labelledby", named);
  remake(target, [title, columns], () => {
    const heads = columns.map((column, at) => make("th", column, { scope: "col", class: at > 0 ? "number" : undefined }));
    const parts = [make("thead", [make("tr", heads)]), make("tbody", [], { id })];
    const wide = { class: "wide", role: "region", "aria-labelledby": named, tabindex: "0" };
    return [make("h2", title, { id: named }), make("div", [make("table", parts)], wide)];
  });
  remake(element(id), rows, () => rows.map(([name, ...numbers]) => make("tr", [
    make("td", name, { title: name }),
    ...numbers.map((number) => make("td", number, { class: "number" })),
  ])));
}

function facts(target, { id, title, rows, shown }) {
  target.hidden = !shown;
  target.setAttribute("aria-labelledby", `${id}-title`);
  remake(target, title, () => [make("h2", title, { id: `${id}-title` }), make("dl", [], { id: `${id}-facts` })]);
  remake(element(`${id}-facts`), rows, () => rows.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
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
  remake(element("events"), list, () => {
    if (list.length === 0) return [make("li", "none so far", { class: "none" })];
    return together(list).map(({ utc_ns, severity, message, times }) => {
      const at = new Date(utc_ns / 1e6);
      const known = Object.hasOwn(MARKS, severity) ? severity : "info";
      return make("li", [
        make("time", as.clock(at), { datetime: at.toISOString(), title: as.day(at) }),
        make("span", MARKS[known], { class: `severity ${known}` }),
        make("span", times > 1 ? `${message} (${times} times)` : message, { class: "message" }),
      ]);
    });
  });
}
