/* The live page: the latest sentences when it connects, then those that come, and the state as it is.

   EventSource ─► you · picture · curves · sentence · answer ─► the elements of index.html */

import { Card, arrange } from "./cards.js";
import { drawCurves } from "./curves.js";
import { clock, refill, say, send, show, tell } from "./elements.js";

const $ = (name) => document.getElementById(name);
const SENTENCES = 100;
const COUNTS = ["members", "alive", "stepping", "contributing"];
const CONFIRM_MS = 5000;
const TOO_SOON_MS = 300; /* a double click is one press */

const cards = new Map();
let you = { role: "viewer", name: "", predicted: {} };
let state = null;
let lastSentence = 0;

// ---------------------------------------------------------------- what comes

const HANDLERS = {
  you(message) {
    you = message;
    if (state) draw();
  },
  picture(message) {
    state = message;
    $("sentences").setAttribute("aria-live", "polite"); /* from now on: what was before is not read out */
    draw();
  },
  curves: (message) => drawCurves($("curves"), message),
  sentence: addSentence,
  answer(message) {
    const where = cards.get(message.fault)?.answer ?? $("answer");
    const reason = message.reason ? ` (${message.reason})` : "";
    if (message.is_done) tell(where, `${message.by}: ${message.asked}${reason}`, "good");
    else tell(where, `not done for ${message.by}: ${message.asked}${reason}`, "bad");
  },
};

function connect() {
  const source = new EventSource("/stream");
  source.onopen = () => trouble("");
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    HANDLERS[message.type]?.(message);
  };
  source.onerror = () => {
    if (state?.is_over) {
      source.close();
      trouble("The run is over, and its page is closed. What you see is how it ended.");
      return;
    }
    trouble("The connection is lost; the run goes on. Trying again…");
    if (source.readyState === EventSource.CLOSED) setTimeout(reconnect, 2000);
  };
}

/** After an answer that is no stream: either there are too many, or the cookie is not known. */
async function reconnect() {
  try {
    const { status } = await fetch("/", { method: "HEAD" });
    if (status === 401) {
      trouble("You are not known here any more: open the link that you were given.");
      return;
    }
  } catch {
    /* not there yet */
  }
  connect();
}

function trouble(text) {
  say($("problem"), text);
  show($("problem"), text !== "");
}

// ---------------------------------------------------------------- what is shown

function draw() {
  document.title = `${state.plan}: ${state.moment || "game-day"}`;
  say($("plan"), state.plan);
  say($("phase"), state.is_over ? state.outcome : state.moment || "not started");
  say($("clock"), clock(state.time_s));
  say($("watching"), `${[...state.people, `${plural(state.watching, "page")} open`].join(", ")}${state.missed ? `; ${plural(state.missed, "event")} missed` : ""}`);
  const isOperator = you.role === "operator";
  show($("abort"), isOperator && !state.is_over);
  show($("end"), isOperator && state.can_end);
  show($("note"), Boolean(you.name) && !state.is_over);
  show($("nameless"), !you.name);
  say($("who"), `${state.who[0].toUpperCase()}${state.who.slice(1)}s`);
  say($("counts"), COUNTS.map((name) => `${name} ${state.counts[name] ?? "–"}`).join(" · "));
  refill($("figures"), figures(), ([name, value]) => element("div", {}, element("b", { class: "number" }, value), element("span", {}, name)));
  drawFaults();
  drawLanes();
  refill($("charter"), charter(), (line) => element("p", {}, line));
}

function figures() {
  const since = state.last_round_s === null ? null : Math.max(0, state.time_s - state.last_round_s);
  return [
    [`rounds${state.progress === null ? "" : `, ${Math.floor(100 * state.progress)}\u00a0%`}`, `${state.rounds}`],
    ["longest gap", state.longest_gap_s ? seconds(state.longest_gap_s) : "–"],
    ["since a round", seconds(since) || "–"],
    [`${state.counted}/s`, state.tokens_per_s === null ? "–" : short(state.tokens_per_s)],
  ];
}

function drawFaults() {
  for (const fault of state.faults) {
    if (!cards.has(fault.spec)) {
      const card = new Card(fault.spec, state.nodes);
      cards.set(fault.spec, card);
      if (you.predicted[fault.spec]) card.recall(you.predicted[fault.spec]);
    }
    cards.get(fault.spec).update(fault, you, state);
  }
  arrange($("cards"), cards, state.faults);
  const waiting = state.faults.filter((fault) => fault.stage === "waits").map((fault) => fault.spec);
  say($("waiting"), state.faults.length === 0 ? "The plan has none." : waiting.length ? `A decision is needed: ${waiting.join(", ")}.` : "");
  const names = ["", ...state.faults.map((fault) => fault.spec)];
  refill($("note").elements.fault, names, (name) => element("option", { value: name }, name || "about no fault"));
}

function drawLanes() {
  const rows = state.lanes.map((lane) => ({
    name: lane.name,
    state: lane.state,
    work: lane.step === null ? "" : `step ${lane.step}${lane.loss === null ? "" : `, loss ${Number(lane.loss).toFixed(3)}`}`,
    faults: lane.faults.join(", "),
  }));
  refill($("lanes"), rows, (row) =>
    element("div", { role: "listitem", class: "lane", "data-state": row.state },
      element("b", {}, row.name), element("span", { class: "state" }, row.state),
      element("span", { class: "number work" }, row.work),
      element("span", { class: "fault" }, row.faults)));
}

function charter() {
  const { owner, facilitator, scribe, responders } = state.charter;
  const people = [["owner", owner], ["facilitator", facilitator], ["scribe", scribe], ["responders", responders.join(", ")]];
  return [
    people.filter(([, name]) => name).map(([role, name]) => `${role}: ${name}`).join(" · "),
    `seed ${state.seed}${state.fleet ? `, fleet ${state.fleet}` : ""}; you are ${you.name || "a viewer"}${you.role === "operator" ? ", operator" : ""}`,
  ].filter(Boolean);
}

/** A sentence that was not shown before, as the first of the list. */
function addSentence(sentence) {
  if (sentence.n <= lastSentence) return;
  lastSentence = sentence.n;
  const line = element("li", { class: sentence.tone }, element("time", { class: "number" }, clock(sentence.time_s)), element("span", {}, sentence.text));
  if (sentence.is_of_start) {
    $("start-lines").prepend(line);
    say($("start-count"), `Start: ${plural($("start-lines").children.length, "line")}`);
    show($("start"), true);
    return;
  }
  const list = $("sentences");
  list.prepend(line);
  while (list.children.length > SENTENCES) list.lastElementChild.remove();
}

// ---------------------------------------------------------------- what can be asked

/** The first press asks, a second one within five seconds confirms. */
function confirmed(button, act) {
  const label = button.textContent;
  let askedAt = null;
  let timer = 0;
  const relax = () => {
    askedAt = null;
    button.textContent = label;
    button.classList.remove("asks");
  };
  button.addEventListener("click", () => {
    if (askedAt === null) {
      askedAt = performance.now();
      button.textContent = button.dataset.again;
      button.classList.add("asks");
      timer = setTimeout(relax, CONFIRM_MS);
    } else if (performance.now() - askedAt > TOO_SOON_MS) {
      clearTimeout(timer);
      relax();
      act();
    }
  });
}

confirmed($("abort"), () => send("/act", { action: "abort" }, $("answer"), "abort: asked for"));
confirmed($("end"), () => send("/act", { action: "end" }, $("answer"), "end: asked for"));

$("note").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = $("note");
  const answer = form.querySelector(".answer");
  const body = { text: form.elements.text.value, fault: form.elements.fault.value };
  if (await send("/note", body, answer, "note: sent")) {
    form.elements.text.value = "";
    tell(answer, "", "dim");
  }
});

connect();
