// Listens to the daemon and hands each status to the view and the charts.

import { Charts } from "/charts.js";
import { clock } from "/format.js";
import { show } from "/view.js";

/** A daemon that works says something with every step. */
const SILENCE_MS_MAX = 10_000;
/** Where the browser does not connect again by itself. */
const RETRY_MS = 3_000;

const lost = document.getElementById("lost");
const charts = new Charts();
let updatedAt = null;
let connected = false;

function tellWhetherAlive() {
  const silentMs = updatedAt === null ? 0 : Date.now() - updatedAt.getTime();
  const last = updatedAt === null ? "" : `, last update ${clock(updatedAt)}`;
  let message = "";
  if (!connected) message = `${updatedAt === null ? "no connection yet" : "connection lost"}${last}; trying again …`;
  else if (silentMs > SILENCE_MS_MAX) message = `connected, but the daemon says nothing${last}`;
  // Text that stays the same is not set again: screen readers would read it again.
  if (lost.textContent !== message) lost.textContent = message;
  lost.hidden = message === "";
}

function listen() {
  const events = new EventSource("/v1/events");
  events.onmessage = (event) => {
    const status = JSON.parse(event.data);
    updatedAt = new Date();
    connected = true;
    show(status);
    charts.add(status);
    tellWhetherAlive();
  };
  events.onerror = () => {
    connected = false;
    tellWhetherAlive();
    // After an answer that is no stream (too many watch already) the browser gives up.
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
  };
}

listen();
setInterval(tellWhetherAlive, 1_000);
