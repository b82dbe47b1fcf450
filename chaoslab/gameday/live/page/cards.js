/* A card for each fault of the plan: what it does, what is expected of it, and what can be asked.

   Cards are made once and changed in place, so that nobody loses what they type. */

import { clock, refill, say, send, show, tell } from "./elements.js";

const BUTTONS = [
  ["go", "Go", "Inject it now"],
  ["skip", "Skip", "Leave it out"],
  ["milder", "Milder", "Half as many targets, or half as long"],
  ["stronger", "Stronger", "Twice as many targets, or twice as long"],
  ["heal", "Heal", "Heal it before its time"],
  ["repeat", "Repeat", "Inject it once more"],
];
const STAGES = { "waits": "waits for an operator", "active": "active", "to come": "to come", "over": "over", "skipped": "left out" };
const ORDER = ["waits", "active", "to come", "over", "skipped"];

/** Which buttons make sense. */
function possible(fault) {
  if (fault.stage === "waits") return ["go", "skip", "milder", "stronger"];
  if (fault.stage === "to come") return [...(fault.is_held ? ["go"] : []), "skip", "milder", "stronger"];
  if (fault.stage === "active") return ["heal"];
  return fault.stage === "over" ? ["repeat"] : [];
}

export class Card {
  constructor(spec, nodes) {
    this.spec = spec;
    const id = `fault-${spec}`;
    this.stage = element("span", { class: "pill" });
    this.what = element("p", { class: "what" });
    this.hypothesis = element("p", { class: "hypothesis" });
    this.changed = element("p");
    this.bars = element("ul", { class: "list" });
    this.buttons = new Map(BUTTONS.map(([action, label, does]) => [action, this.button(action, label, does)]));
    this.reason = element("input", { placeholder: "why", maxlength: 300, "aria-label": `Why, for ${spec}`, autocomplete: "off" });
    this.controls = element("div", { class: "controls" }, [...this.buttons.values()], this.reason);
    this.answer = element("p", { class: "answer", role: "status" });
    this.predicted = element("ul", { class: "list" });
    this.summary = element("summary");
    this.form = this.prediction(nodes);
    this.formAnswer = element("p", { class: "answer", role: "status" });
    this.predict = element("details", {}, this.summary, this.form, this.formAnswer);
    this.node = element(
      "article", { class: "card", "aria-labelledby": id },
      element("div", { class: "card-head" }, element("h3", { id }, spec), this.stage),
      this.what, this.hypothesis, this.changed, this.bars, this.controls, this.answer, this.predict, this.predicted,
    );
  }

  button(action, label, does) {
    const made = element("button", { type: "button", title: does, "data-action": action }, label);
    made.addEventListener("click", async () => {
      const order = { action, fault: this.spec, reason: this.reason.value };
      if (await send("/act", order, this.answer, `${action} ${this.spec}: asked for`)) this.reason.value = "";
    });
    return made;
  }

  prediction(nodes) {
    const boxes = [...nodes, "nobody"].map((name) =>
      element("label", { class: "box" }, element("input", { type: "checkbox", name: "hit", value: name }), name));
    const number = (name) => element("input", { type: "number", name, min: 0, step: "any", inputmode: "decimal" });
    const form = element(
      "form", { class: "predict" },
      element("label", {}, "Does training go on?", element("select", { name: "continues" },
        element("option", { value: "" }, "–"), element("option", { value: "yes" }, "yes"), element("option", { value: "no" }, "no"))),
      element("label", {}, "Longest gap between rounds, s", number("gap_s")),
      element("label", {}, "Back after the heal in, s", number("back_s")),
      element("fieldset", {}, element("legend", {}, "Who is hit?"), boxes),
      element("button", { type: "submit" }, "Predict"),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await send("/predict", this.answers(), this.formAnswer, "prediction: sent")) tell(this.formAnswer, "prediction: kept", "good");
    });
    return form;
  }

  /** What is filled in; what is not is null. */
  answers() {
    const given = new FormData(this.form);
    const number = (name) => (given.get(name) === "" ? null : Number(given.get(name)));
    const hit = given.getAll("hit");
    return {
      fault: this.spec,
      continues: given.get("continues") === "" ? null : given.get("continues") === "yes",
      gap_s: number("gap_s"),
      back_s: number("back_s"),
      hit: hit.length ? hit.filter((name) => name !== "nobody") : null,
    };
  }

  /** Fill in what this browser sent before it was loaded again. */
  recall(answers) {
    const fields = this.form.elements;
    if (answers.continues !== null) fields.continues.value = answers.continues ? "yes" : "no";
    for (const name of ["gap_s", "back_s"]) fields[name].value = answers[name] ?? "";
    for (const box of this.form.querySelectorAll("[name=hit]")) {
      const { hit } = answers;
      box.checked = Boolean(hit) && (hit.includes(box.value) || (box.value === "nobody" && !hit.length));
    }
    tell(this.formAnswer, "prediction: sent before", "dim");
  }

  update(fault, you, { time_s: now, is_over: isOver }) {
    this.node.dataset.stage = fault.stage;
    const isOperator = you.role === "operator";
    say(this.stage, fault.stage === "waits" && isOperator ? "waits for you" : STAGES[fault.stage]);
    const on = fault.targets.length ? ` on ${fault.targets.join(", ")}` : "";
    const at = fault.trigger ? ` (${fault.trigger})` : "";
    say(this.what, `${fault.fault}${fault.bars.length || fault.changed ? "" : on}${at}`);
    say(this.hypothesis, fault.hypothesis ? `Expected: ${fault.hypothesis}` : "");
    say(this.changed, fault.changed && !fault.bars.length ? `Changed to: ${fault.changed}` : "");
    if (fault.stage === "skipped") say(this.changed, fault.skipped);
    refill(this.bars, fault.bars.map((bar) => barText(bar, now)), (text) => element("li", {}, text));
    const able = isOperator && !isOver ? possible(fault) : [];
    for (const [action, button] of this.buttons) show(button, able.includes(action));
    show(this.reason, able.length > 0);
    show(this.controls, able.length > 0);
    const isOpen = !fault.bars.length && fault.stage !== "skipped" && !isOver;
    show(this.predict, isOpen);
    show(this.form, Boolean(you.name));
    say(this.summary, `What do you predict? ${plural(fault.predictions, "prediction")} so far, shown once it is injected`);
    refill(this.predicted, fault.predicted, (one) => element("li", {}, predictedText(one)));
  }
}

/** Cards in the order in which they matter; who types goes on typing. */
export function arrange(list, cards, faults) {
  const rank = (fault) => ORDER.indexOf(fault.stage);
  const sorted = [...faults].sort((one, other) => rank(one) - rank(other));
  const focused = document.activeElement;
  sorted.forEach((fault, at) => {
    const { node } = cards.get(fault.spec);
    if (list.children[at] !== node) list.insertBefore(node, list.children[at] ?? null);
  });
  if (focused && focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}

function barText(bar, now) {
  const from = `${clock(bar.from_s)} ${bar.targets.join(", ")}: ${bar.status}`;
  const until = bar.heals_s === null ? "" : `, heals in ${Math.max(0, Math.ceil(bar.heals_s - now))} s`;
  return bar.healed_s === null ? `${from}${until}` : `${from} at ${clock(bar.healed_s)}${wayBack(bar)}`;
}

/** Who contributes again, and how long that took since the heal. */
function wayBack(bar) {
  if (!bar.takes_away) return "";
  const back = Object.entries(bar.back_after_s).map(([name, after]) => `${name} back after ${seconds(after)}`);
  return `; ${back.join(", ") || "nobody is back yet"}`;
}

function predictedText(one) {
  const said = [];
  if ("continues" in one) said.push(one.continues ? "training goes on" : "training stops");
  if ("gap_s" in one) said.push(`longest gap ${seconds(one.gap_s)}`);
  if ("hit" in one) said.push(`hit: ${one.hit.join(", ") || "nobody"}`);
  if ("back_s" in one) said.push(`back ${seconds(one.back_s)} after the heal`);
  return `${one.by} predicted: ${said.join("; ")}`;
}
