// Listens to the program and hands each status to its view and the charts.

import { Charts } from "/charts.js";
import { clock } from "/format.js";
import { show } from "/render.js";
import { charts as describeCharts, describe } from "/view.js";

/** A program that works says something with every step. */
const SILENCE_MS_MAX = 10_000;
const RETRY_MS = 2_000;

const lost = document.getElementById("lost");
const charts = new Charts(describeCharts);
let updatedAt = null;
let connected = false;

function tellWhetherAlive() {
  const silentMs = updatedAt === null ? 0 : Date.now() - updatedAt.getTime();
  const last = updatedAt === null ? "" : `, last update ${clock(updatedAt)}`;
  // What is shown is old: it must not look like now.
  const old = updatedAt !== null && (!connected || silentMs > SILENCE_MS_MAX);
  document.body.classList.toggle("old", old);
  let message = "";
  if (!connected) message = `${updatedAt === null ? "no connection yet" : "connection lost"}${last}; trying again …`;
  else if (silentMs > SILENCE_MS_MAX) message = `connected, but the program says nothing${last}`;
  // Text that stays the same is not set again: screen readers would read it again.
  if (lost.textContent !== message) lost.textContent = message;
  lost.hidden = message === "";
}

/** First what the program kept of the last minutes, then each status as it comes. */
async function listen() {
  try {
    const answer = await fetch("/v1/history");
    if (answer.ok) charts.recall((await answer.json()).moments);
  } catch {
    // Not there: the events say so.
  }
  const events = new EventSource("/v1/events");
  events.onmessage = (event) => {
    const status = JSON.parse(event.data);
    updatedAt = new Date();
    connected = true;
    show(describe(status));
    charts.add(status);
    tellWhetherAlive();
  };
  events.onerror = () => {
    connected = false;
    tellWhetherAlive();
    // Not left to the browser: what was missed is asked for first.
    events.close();
    setTimeout(listen, RETRY_MS);
  };
}

listen();
setInterval(tellWhetherAlive, 1_000);
