/* What the charts rest on: verdict, findings, faults, clocks, accounts, plan. Lists and tables only. */

const SIGNS = { PASS: "✓", FAIL: "✗", UNKNOWN: "?", proved: "✓", weak: "~", failed: "✗", moot: "–" };
const TONES = { PASS: "good", FAIL: "bad", UNKNOWN: "doubt", proved: "good", weak: "doubt", failed: "bad", moot: "dim", good: "good", bad: "bad", fault: "doubt" };

const NARROW = matchMedia("(max-width: 720px)");

/** The outcome, why, and the two answers. */
function headline({ run, verdict, facts }, tools) {
  const outcome = verdict?.outcome ?? (run.has_ended ? "not judged" : "running");
  const about = [
    `seed ${run.seed}`, `fleet ${run.fleet}`, run.algorithm, facts?.run?.started ? `began ${facts.run.started.replace("T", " ").replace(/\..*Z?$/, " UTC")}` : "",
    `took ${seconds(run.end_s)}`, verdict ? `exit code ${verdict.exit_code}` : "",
  ].filter(Boolean).join(" · ");
  const answers = (verdict?.answers ?? []).map((one) => element("div", { class: "card" },
    element("h3", {}, one.question), element("p", { class: `word ${TONES[one.tone] ?? ""}` }, one.word), element("p", {}, coded(one.text))));
  return element("header", { class: "top" },
    element("div", { class: "headline" },
      element("span", { class: `outcome ${TONES[outcome] ?? "dim"}` }, `${SIGNS[outcome] ?? ""} ${outcome}`), element("h1", {}, run.plan || "a run"), tools),
    verdict ? element("p", { class: "sentence" }, coded(`${verdict.sentence}.`)) : element("p", { class: "sentence" }, "There is no verdict on this run yet."),
    element("p", { class: "dim" }, about),
    element("div", { class: "answers" }, answers),
    ...(verdict?.residue ?? []).map((left) => element("p", { class: "bad" }, `Left over: ${left.what} in ${left.where}; ${left.remedy}`)));
}

/** Journal lines that something rests on; a button shows each time in the charts. */
function journalLines(seqs, count, lines, jump) {
  if (!seqs?.length) return null;
  const items = seqs.map((seq) => {
    const [time, kind, source, text] = lines[seq] ?? [];
    if (time === undefined) return element("li", {}, element("span", {}), element("code", { class: "dim" }, `line ${seq + 1}`));
    return element("li", {}, jumper(time, jump), element("code", {}, element("b", {}, kind), ` ${source}, line ${seq + 1} `, element("span", { class: "dim" }, text)));
  });
  const more = count - seqs.length;
  return element("details", {}, element("summary", { class: "dim" }, `Lines of journal.jsonl behind it (${more > 0 ? `the first ${seqs.length} of ` : ""}${count})`),
    element("div", {}, element("ol", { class: "lines" }, items)));
}

function jumper(time, jump) {
  const button = element("button", { type: "button", class: "jump", title: "Show this moment in the charts" }, jump.label(time));
  button.addEventListener("click", () => jump.to(time));
  return button;
}

/** A bar from the bound to what was observed: right within it, left beyond. */
function marginBar(margin) {
  if (margin === null || margin === undefined) return null;
  const share = Math.max(-1, Math.min(1, margin)) * 27;
  return shape("svg", { viewBox: "0 0 56 12", "aria-hidden": "true" },
    shape("line", { class: "frame", x1: 28, x2: 28, y1: 0, y2: 12 }),
    shape("rect", { class: `bar ${margin < 0 ? "bad" : "good"}`, x: share < 0 ? 28 + share : 28, y: 3, width: Math.max(1, Math.abs(share)), height: 6 }));
}

/** What is not PASS, the worst first: above the charts. */
function problems(verdict, jump) {
  const found = verdict.findings.filter((one) => one.outcome !== "PASS");
  if (!found.length) return null;
  return section("findings", "What is not PASS", `${found.length} of ${plural(verdict.findings.length, "check")}`,
    found.map((one, at) => finding(one, verdict.lines, jump, at === 0 && !NARROW.matches)));
}

/** What holds, and what was not judged. */
function passed(verdict, jump) {
  const found = verdict.findings.filter((one) => one.outcome === "PASS");
  const isAll = found.length === verdict.findings.length;
  return section(isAll ? "findings" : "passed", isAll ? "Findings" : "What is PASS", `${found.length} of ${plural(verdict.findings.length, "check")}; the margin is the distance to the bound as a share of it`,
    [...found.map((one) => finding(one, verdict.lines, jump, false)), ...verdict.not_judged.map(notJudged)]);
}

function notJudged([name, reason]) {
  return element("p", { class: "dim" }, "not judged: ", element("code", {}, name), ` ${reason}`);
}

function finding(one, lines, jump, isOpen) {
  const known = [
    ["observed", one.observed], ["bound", one.bound], ["samples", one.samples ? String(one.samples) : ""],
    ["named", one.culprits.join(", ")], ["codes", one.codes.join(", ")],
  ].filter(([, value]) => value !== "" && value !== null);
  return element("details", { class: "finding", open: isOpen ? "" : null },
    element("summary", {},
      element("span", { class: `tag ${TONES[one.outcome]}` }, `${SIGNS[one.outcome]} ${one.outcome}`), element("code", {}, one.check),
      element("span", { class: "why" }, coded(one.reason)), element("span", { class: "margin" }, marginBar(one.margin), one.margin_text)),
    element("div", {}, pairs([...known, ...Object.entries(one.numbers).map(([key, value]) => [key.replaceAll("_", " "), plain(value)]).filter(([, value]) => value)]),
      journalLines(one.evidence, one.evidence_count, lines, jump)));
}

function faults(verdict, jump) {
  if (!verdict.injections.length) return null;
  return section("injections", "Faults and their evidence", `${verdict.injections_counted}`, verdict.injections.map((one) => injection(one, verdict.lines, jump)));
}

function injection(one, lines, jump) {
  const known = [
    ["settings", plain(one.settings)], ["trigger", one.trigger], ["lasts", one.for_s === null ? "to the end of training" : seconds(one.for_s)],
    ["open", one.from_s === undefined ? undefined : `${jump.label(one.from_s)} to ${one.healing_s === null ? "the end" : jump.label(one.healing_s)}`],
    ["healed", one.healed_s ? `seen at ${jump.label(one.healed_s)}` : undefined],
  ].filter(([, value]) => value !== undefined && value !== "");
  const targets = Object.keys({ ...one.requested, ...one.measured });
  const table = targets.length === 0 ? null : element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Evidence of ${one.id}` }, element("table", {},
    element("thead", {}, element("tr", {}, ["target", "asked", "measured"].map((name) => element("th", {}, name)))),
    element("tbody", {}, alike(targets.map((target) => [target, plain(one.requested[target]), plain(one.measured[target])])).map((row) => element("tr", {}, row.map((text) => element("td", {}, text)))))));
  return element("details", { class: "finding", open: ["proved", "moot"].includes(one.status) ? null : "" },
    element("summary", {},
      element("span", { class: `tag ${TONES[one.status] ?? ""}` }, `${SIGNS[one.status] ?? ""} ${one.status}`), element("code", {}, one.spec ?? one.id),
      element("span", { class: "why" }, coded(`${one.fault} on ${one.targets.join(", ")}: ${one.reason}`)),
      element("span", { class: "margin" }, one.from_s === undefined ? null : jumper(one.from_s, jump))),
    element("div", {}, pairs(known), table, journalLines(one.evidence, one.evidence_count ?? 0, lines, jump)));
}

/** Rows [name, …] that are the same but for the name, as one row with all names. */
function alike(rows) {
  const found = new Map();
  for (const [name, ...rest] of rows) {
    const key = JSON.stringify(rest);
    found.set(key, [...(found.get(key) ?? []), name]);
  }
  return [...found].map(([key, names]) => [names.join(", "), ...JSON.parse(key)]);
}

// ------------------------------------------------------------------------------------- the way back

function clocks(verdict, jump) {
  if (!verdict.clocks.length) return null;
  const longest = Math.max(0.001, ...verdict.clocks.flatMap((row) => [row.up_s, row.joined_s, row.first_step_s, row.first_contribution_s]));
  const heads = ["node", "fault", "gone at", "down", "up", "joined", "first step", "first contribution", `0 to ${seconds(longest)} after the heal`];
  const number = (value, at) => element("td", { class: "number", "data-name": heads[at] }, value === null ? "–" : seconds(value));
  const rows = verdict.clocks.map((row) => element("tr", {},
    element("td", {}, row.node), element("td", {}, row.faults.join(", "), row.is_cut_off ? element("span", { class: "dim" }, " (cut off)") : null),
    element("td", { class: "number", "data-name": heads[2] }, jumper(row.gone_s, jump)),
    ...[row.down_s, row.up_s, row.joined_s, row.first_step_s, row.first_contribution_s].map((value, at) => number(value, at + 3)),
    element("td", { class: "whole" }, row.was_asked ? wayBack(row, longest) : element("span", { class: "dim" }, "not asked to return"))));
  return section("clocks", "The way back", "down: until the heal; the other times count from the beginning of the heal; a first step is known from its next report",
    [element("div", { class: "scroll card", tabindex: 0, role: "region", "aria-label": "The way back" }, element("table", {},
      element("thead", {}, element("tr", {}, heads.map((name, at) => element("th", { class: at > 1 && at < 8 ? "number" : null }, name)))), element("tbody", {}, rows)),
    element("p", { class: "dim" }, "△ up   □ joined   ○ first step   ● first contribution"))]);
}

/** The clocks of one return on a line. */
function wayBack(row, longest) {
  const x = (value) => 8 + (value / longest) * 134;
  const at = (value, draw) => (value === null ? null : draw(x(value)));
  return shape("svg", { class: "way", viewBox: "0 0 150 16", preserveAspectRatio: "xMinYMid meet", role: "img", "aria-label": "clocks on a line" },
    shape("line", { x1: 8, x2: 142, y1: 8, y2: 8 }), at(row.first_contribution_s, (to) => shape("line", { class: "to", x1: 8, x2: to, y1: 8, y2: 8 })),
    at(row.up_s, (to) => shape("path", { d: `M${to - 4} 12L${to} 4L${to + 4} 12Z` })), at(row.joined_s, (to) => shape("rect", { x: to - 3.5, y: 4.5, width: 7, height: 7 })),
    at(row.first_step_s, (to) => shape("circle", { cx: to, cy: 8, r: 4 })), at(row.first_contribution_s, (to) => shape("circle", { class: "end", cx: to, cy: 8, r: 3.5 })));
}

// ------------------------------------------------------------------------------------- accounts of tokens

function ledger(verdict) {
  const totals = verdict.ledger;
  const raw = totals.raw_tokens;
  if (!raw) return null;
  const parts = [["committed", "in rounds that were merged"], ["discarded", "overwritten by what a learner adopted"], ["in_flight", "not yet merged at the end"], ["lost", "with a process that died"]]
    .map(([name, what]) => [name, what, totals[`${name}_tokens`] ?? 0]);
  let from = 0;
  const bars = parts.map(([name, , amount]) => {
    const made = shape("rect", { class: name, x: from * 1000, y: 0, width: (amount / raw) * 1000, height: 26 }, shape("title", {}, `${name.replace("_", " ")}: ${amount}`));
    from += amount / raw;
    return made;
  });
  const rows = parts.map(([name, what, amount]) => element("tr", {}, element("td", {}, element("span", { class: `swatch ${name}` }), name.replace("_", " ")),
    element("td", { class: "number" }, amount.toLocaleString("en")), element("td", { class: "number" }, `${((100 * amount) / raw).toFixed(1)} %`), element("td", { class: "dim" }, what)));
  const lost = Object.entries(totals.lost_by_life_tokens ?? {}).filter(([, amount]) => amount).map(([life, amount]) => `${life}: ${amount.toLocaleString("en")}`).slice(0, 20).join(", ");
  return section("ledger", "Where the tokens went", `${raw.toLocaleString("en")} tokens were trained on; ${plural(totals.rejected_pushes ?? 0, "push").replace("pushs", "pushes")} refused`,
    [element("div", { class: "card" }, shape("svg", { class: "stack", viewBox: "0 0 1000 26", preserveAspectRatio: "none", role: "img", "aria-label": "shares of all tokens" }, shape("rect", { class: "rest", width: 1000, height: 26 }), bars),
      element("div", { class: "scroll" }, element("table", {}, element("tbody", {}, rows))), lost ? element("p", { class: "dim" }, `Lost with: ${lost}`) : null)]);
}

// ------------------------------------------------------------------------------------- what ran

function story(run, jump) {
  const { said, left_out: more } = run.timeline;
  if (!said.length) return null;
  const items = said.map(([time, tone, text]) => element("li", {}, element("span", { class: "number dim" }, jump.label(time)), element("span", { class: TONES[tone] ?? "" }, coded(text))));
  return section("timeline", "What happened", "", [element("details", {}, element("summary", {}, `${plural(said.length, "notable event")}${more ? `, ${more} less notable ones left out` : ""}`),
    element("div", {}, element("ol", { class: "timeline" }, items)))]);
}

function plan({ run, verdict, facts }) {
  if (!facts) return null;
  const about = facts.run;
  const entries = [
    ["repeat it", element("code", {}, facts.repeat)], ["record", element("code", {}, facts.record)],
    ["versions", plain(about.versions ?? { chaoslab: run.version })], ["code", about.git ? `${about.git.commit ?? "no commit"}${about.git.has_changes ? ", with changes" : ""}` : ""],
    ["machine", about.host ? plain(about.host) : ""], ["links", about.links ?? ""],
    ["journal", verdict?.journal ? `${verdict.journal.lines} lines, digest ${verdict.journal.digest}` : "without a digest"],
    ["unreadable", run.unreadable ? `${plural(run.unreadable, "event")} did not keep the contract of its kind` : ""],
  ].filter(([, value]) => value !== "");
  const text = (title, content) => (content ? element("details", {}, element("summary", {}, title), element("div", {}, element("pre", { tabindex: 0 }, content))) : null);
  return section("plan", "Plan, schedule, versions", "", [element("div", { class: "card" }, pairs(entries)),
    text("The plan as it was written", facts.source), text("The plan as it was carried out, with every default", facts.resolved), text("The schedule: whom, when, for how long", facts.schedule)].filter(Boolean));
}

function section(id, title, note, content) {
  return element("section", { id }, element("h2", {}, title), note ? element("p", { class: "dim" }, note) : null, content);
}
