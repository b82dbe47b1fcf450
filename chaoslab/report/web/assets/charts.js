/* The charts of a run: each a panel, made from the part of the data that it draws. */

const STATES = {
  stepping: "", serving: "", starting: "", compiling: "", joining: "nothing merged yet", rejoining: "nothing merged yet", suspected: "no step",
  paused: "stopped from outside", blocked: "its disk refuses", dropped: "alive, no member", dead: "", left: "", ended: "", waiting: "", "in reserve": "",
};

/** All panels, in order; those of which the record has nothing are left out. */
function charts(axis, { run, twin, verdict }) {
  return [
    faultPanel(axis, run, verdict), lanePanel(axis, run), countPanel(axis, run), lossPanel(axis, run, twin),
    gapPanel(axis, run), tokenPanel(axis, run), stepPanel(axis, run), ratePanel(axis, run), delayPanel(axis, run),
  ].filter(Boolean);
}

// ------------------------------------------------------------------------------------- faults

/** A row for each entry of the plan, a bar for each injection of it. */
function faultPanel(axis, run, verdict) {
  if (!run.faults.length) return null;
  const specs = [...new Set(run.faults.map((fault) => fault.spec || fault.injection))];
  const status = new Map((verdict?.injections ?? []).map((one) => [one.id, one.status]));
  return new Panel(axis, {
    id: "faults", title: "Faults", note: "shaded over all charts while they are open", height: specs.length * 24 + 4,
    draw(panel) {
      panel.ground([]);
      run.faults.forEach((fault) => {
        const y = specs.indexOf(fault.spec || fault.injection) * 24 + 4;
        const [x, width] = panel.stretch(fault.from_s, fault.healing_s ?? fault.healed_s ?? axis.end);
        const found = status.get(fault.injection) ?? fault.status;
        const doubted = ["failed", "weak"].includes(found);
        const says = `${fault.injection}: ${fault.fault} on ${fault.targets.join(", ")}, ${found}, from ${axis.label(fault.from_s)}`;
        if (width > 0) panel.inPlot("rect", { class: `fault-bar ${doubted ? "doubted" : ""}`, x, y, width: Math.max(2, width), height: 16, rx: 3 }, shape("title", {}, says));
        if (fault.healing_s !== null && fault.healed_s !== null) {
          const [from, length] = panel.stretch(fault.healing_s, fault.healed_s);
          if (length > 0) panel.inPlot("rect", { class: "fault-bar healing", x: from, y: y + 5, width: length, height: 6 });
        }
      });
      specs.forEach((spec, row) => {
        const whole = panel.name(spec, row * 24 + 16, "strong") ? `${spec}: ` : "";
        const of = run.faults.filter((fault) => (fault.spec || fault.injection) === spec);
        const last = Math.max(...of.map((fault) => fault.healing_s ?? fault.healed_s ?? axis.end));
        const text = whole + (of.length > 1 ? `${of.length} × ${of[0].fault}` : `${of[0].fault} on ${of[0].targets.join(", ")}`);
        const room = axis.width - 8 - axis.x(last);
        const [x, width] = panel.stretch(of[0].from_s, last);
        if (width <= 0) return;
        const length = text.length * 6.2;
        const y = row * 24 + 16;
        if (of.length === 1 && width > length + 12) panel.add("text", { class: "on-bar", x: x + 6, y }, text);
        else if (room > length) panel.add("text", { x: Math.max(axis.x(last), axis.left) + 8, y }, text);
        else if (x - axis.left > length + 12) panel.add("text", { x: x - 8, y, "text-anchor": "end" }, text);
      });
      return run.faults.length;
    },
    read: (time) => run.faults.filter((fault) => fault.from_s <= time && time <= (fault.healing_s ?? fault.healed_s ?? axis.end))
      .map((fault) => `${fault.spec || fault.injection} on ${fault.targets.join(", ")}`).slice(0, 3).join(" · "),
  });
}

// ------------------------------------------------------------------------------------- lanes

function lanePanel(axis, run) {
  const height = 27;
  const seen = new Set(run.lanes.flatMap((lane) => lane.spans.map(([, state]) => state)));
  const stateAt = (lane, time) => [...lane.spans].reverse().find(([from]) => from <= time);
  return new Panel(axis, {
    id: "lanes", title: "Nodes", note: "what each was doing; the number is its incarnation", height: run.lanes.length * height + 2,
    legend: laneLegend(seen, run.lanes.some((lane) => lane.adopted.length)),
    draw(panel) {
      panel.ground(run.faults);
      laneMarks(panel);
      run.lanes.forEach((lane, row) => {
        const top = row * height + 3;
        let named = 0;
        lane.spans.forEach(([from, state, life], at) => {
          const to = lane.spans[at + 1]?.[0] ?? axis.end;
          const [x, width] = panel.stretch(from, to);
          if (width <= 0) return;
          const [y, tall] = state === "dead" ? [top + 5, 3] : ["left", "ended"].includes(state) ? [top + 6, 1] : [top, 13];
          panel.inPlot("rect", { class: className(state), x, y, width: Math.max(width, 1), height: tall },
            shape("title", {}, `${lane.node}: ${state}, incarnation ${life}, from ${axis.label(from)} to ${axis.label(to)}`));
          if (life <= named || width < 12 || tall < 13) return;
          named = life;
          panel.inPlot("text", { class: "life", x: x + 4, y: top + 10.5 }, life);
        });
        const usual = 2 * (run.baseline?.gap_s_max ?? 0);
        stretches(lane.contributed, run.marks_width_s, panel, "mark", top + 14.5, 3.5, usual);
        stretches(lane.adopted, run.marks_width_s, panel, "mark adopted", top + 19, 1.5, usual);
        panel.name(lane.node, top + 10.5, run.victims.includes(lane.node) ? "strong" : "");
        panel.value(top + 10.5);
      });
      return run.lanes.reduce((sum, lane) => sum + lane.spans.length, 0);
    },
    values: (time) => run.lanes.map((lane) => stateAt(lane, time)?.[1] ?? ""),
  });
}

function className(state) {
  return state.replaceAll(" ", "-");
}

/** Buckets in which something happened, as thin bars; a pause of up to `pause` seconds is none. */
function stretches(flat, width, panel, kind, y, height, pause = 0) {
  for (let at = 0; at < flat.length;) {
    const first = flat[at];
    let last = first + flat[at + 1];
    for (at += 2; at < flat.length && (flat[at] - last) * width <= pause; at += 2) last = flat[at] + flat[at + 1];
    const [x, wide] = panel.stretch(first * width, last * width);
    if (wide > 0) panel.inPlot("rect", { class: kind, x, y, width: wide, height });
  }
}

/** The patterns that states are drawn with. */
function laneMarks(panel) {
  panel.add("defs", {}, ...patterns());
}

function patterns() {
  const ground = () => shape("rect", { class: "ground", width: 6, height: 6 });
  return [
    shape("pattern", { id: "dots", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, ground(),
      shape("circle", { class: "dots", cx: 1.5, cy: 1.5, r: 1.5 }), shape("circle", { class: "dots", cx: 4.5, cy: 4.5, r: 1.5 })),
    shape("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, ground(),
      shape("rect", { class: "stripes", width: 3.2, height: 6 })),
  ];
}

function laneLegend(seen, hasAdopted) {
  const sign = (kind, tall, y) => shape("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, shape("rect", { class: kind, x: 1, y, width: 20, height: tall }));
  const states = Object.keys(STATES).filter((state) => seen.has(state) && !["waiting", "left", "ended"].includes(state));
  const shown = states.map((state) => element("span", {}, state === "dead" ? sign("dead", 3, 5) : sign(className(state), 10, 1), STATES[state] ? `${state}: ${STATES[state]}` : state));
  return element("div", { class: "legend" }, shown,
    element("span", {}, sign("mark", 4, 4), "contributed to a round"),
    hasAdopted ? element("span", {}, sign("mark adopted", 2, 5), "adopted a fragment") : null);
}

// ------------------------------------------------------------------------------------- counts

/** Four numbers that are easily taken for one, each in a row of its own. */
function countPanel(axis, run) {
  const rows = Object.entries(run.counts.rows).filter(([, row]) => row);
  if (!rows.length) return null;
  const most = Math.max(1, run.lanes.length - 1, ...rows.flatMap(([, row]) => row.filter((value) => value !== null)));
  const width = run.counts.width_s;
  return new Panel(axis, {
    id: "counts", title: `${run.who[0].toUpperCase()}${run.who.slice(1)}s`, note: `four different numbers, each row from 0 to ${most}`, height: rows.length * 30,
    draw(panel) {
      panel.ground(run.faults);
      return rows.map(([name, row], number) => {
        const bottom = number * 30 + 27;
        const y = (value) => bottom - (value / most) * 22;
        panel.add("line", { class: "frame", x1: axis.left, x2: axis.width - axis.right, y1: bottom, y2: bottom });
        const parts = pieces(row, width, axis);
        panel.inPlot("path", { class: "count", d: areaPath(parts, axis, y, bottom) });
        panel.name(name, bottom - 7);
        panel.value(bottom - 7);
        return parts.flat().length;
      }).reduce((a, b) => a + b, 0);
    },
    values: (time) => rows.map(([, row]) => valueAt(row, width, time) ?? ""),
  });
}

/** Steps from one value to the next, closed at the bottom. */
function areaPath(parts, axis, y, bottom) {
  return parts.map((part) => {
    const [first, last] = [part[0], part[part.length - 1]];
    const top = part.map(([time, value], at) => (at ? `H${axis.x(time).toFixed(1)}` : "") + `V${y(value).toFixed(1)}`).join("");
    return `M${axis.x(first[0]).toFixed(1)} ${bottom}${top}V${bottom}H${axis.x(last[0] === first[0] ? first[0] : last[0]).toFixed(1)}Z`;
  }).join("");
}

// ------------------------------------------------------------------------------------- curves

/** Horizontal lines with labels, and the function from a value to its place. */
function valueAxis(panel, low, high, unit, number = 4) {
  const { axis, height } = panel;
  const [top, bottom] = [8, height - 6];
  const y = (value) => bottom - ((value - low) / (high - low || 1)) * (bottom - top);
  for (const at of steps(low, high, number)) {
    panel.add("line", { class: "grid", x1: axis.left, x2: axis.width - axis.right, y1: y(at), y2: y(at) });
    panel.add("text", { x: axis.left - 8, y: y(at) + 4, "text-anchor": "end" }, short(at, unit));
  }
  panel.add("line", { class: "frame", x1: axis.left, x2: axis.left, y1: top, y2: bottom });
  return y;
}

function lossPanel(axis, run, twin) {
  const width = run.losses.width_s;
  const everybody = !run.losses.survivors.mean || !run.losses.victims.mean;
  const curves = [
    { kind: "survivors", label: everybody ? `all ${run.who}s` : "survivors", data: run.losses.survivors, width },
    { kind: "victims", label: everybody ? `all ${run.who}s` : "victims", data: run.losses.victims, width },
    { kind: "twin", label: "twin", data: twin?.survivors ?? {}, width: twin?.width_s ?? width },
  ].filter((curve) => curve.data.mean);
  if (!curves.length) return null;
  const begins = (data, one) => ((data.mean ?? []).findIndex((value) => value !== null) + 0.5) * one;
  const later = twin?.survivors.mean ? Math.min(...curves.filter((curve) => curve.kind !== "twin").map((curve) => begins(curve.data, curve.width))) - begins(twin.survivors, twin.width_s) : 0;
  curves.forEach((curve) => { curve.later = curve.kind === "twin" && Number.isFinite(later) ? later : 0; });
  const dots = [["run", run.losses.evaluated, 0], ["twin", twin?.evaluated ?? [], later]];
  const settled = run.baseline?.at_s ?? 0;
  const note = `training loss, mean and range${dots[0][1].length ? "; ● on held-out data" : ""}${twin ? "; the twin from the same first step on" : ""}`;
  return new Panel(axis, {
    id: "loss", title: "Loss", note, height: 200,
    draw(panel) {
      panel.ground(run.faults);
      const part = { from: axis.to > settled ? Math.max(axis.from, settled) : axis.from, to: axis.to };
      const found = curves.map((curve) => extent([curve.data.low, curve.data.high], curve.width, part)).filter(Boolean);
      const seen = dots.flatMap(([, points]) => points).filter(([time]) => time >= part.from && time <= part.to).map(([, loss]) => loss);
      const low = Math.min(...found.map((one) => one[0]), ...seen);
      const high = Math.max(...found.map((one) => one[1]), ...seen);
      if (!(high >= low)) return 0;
      const y = valueAxis(panel, low, high === low ? low + 1 : high, "");
      const first = Math.max(...curves.map((curve) => curve.data.mean.find((value) => value !== null)));
      const below = Math.max(...curves.map((curve) => (curve.data.mean.findLastIndex((value) => value > high) + 1) * curve.width + curve.later));
      if (first > high && part.from > axis.from) panel.add("text", { x: axis.x(Math.max(axis.from, below)) + 8, y: 12 }, `↑ from ${short(first)}`);
      const over = (axis.to - axis.from) / 60;
      const number = drawCurves(panel, curves.map((curve) => ({ ...curve, over })), y);
      for (const [kind, points, shift] of dots) {
        for (const [time, loss, tokens] of points) {
          if (y(loss) > 0) panel.inPlot("circle", { class: `dot ${kind}`, cx: axis.x(time + shift), cy: y(loss), r: 3 }, shape("title", {}, `${kind}: held-out loss ${loss} at ${short(tokens)} committed tokens`));
        }
      }
      return number;
    },
    read: (time) => curves.map((curve) => said(curve.label, valueAt(curve.data.mean, curve.width, time - (curve.later ?? 0)))).filter(Boolean).join(" · "),
  });
}

function said(label, value, text = short) {
  return value === null ? "" : `${label} ${text(value)}`.trim();
}

/** Ranges, lines over them, and labels at their ends beside those `wanted`; how many values there were. */
function drawCurves(panel, curves, y, wanted = []) {
  const { axis } = panel;
  let number = 0;
  for (const curve of curves) {
    const of = (values) => pieces(values, curve.width, axis, curve.later);
    const parts = of(curve.data.mean).map((part) => smooth(part, curve.over ?? 0));
    if (curve.data.low) {
      const [lows, highs] = [curve.data.low, curve.data.high].map(of);
      panel.inPlot("path", { class: `range ${curve.kind}`, d: rangePath(lows, highs, axis.x.bind(axis), y) });
    }
    panel.inPlot("path", { class: `line ${curve.kind}`, d: linePath(parts, axis.x.bind(axis), y) });
    const end = parts.flat().filter(([time]) => time <= axis.to).pop();
    if (end) wanted.push({ text: curve.label, kind: curve.kind, y: y(end[1]) });
    number += parts.flat().length;
  }
  panel.labels(wanted);
  return number;
}

/** Each gap between two rounds as a box as wide and as high as it was long. */
function gapPanel(axis, run) {
  const { gap_s: gaps, width_s: width, open_s: open, last_s: last, abandoned, merged } = run.rounds;
  if (!gaps.length) return null;
  const boxes = gaps.flatMap((gap, at) => (gap === null ? [] : [[(at + 0.5) * width, gap]]));
  const usual = run.baseline?.gap_s_max;
  const since = run.baseline?.at_s ?? 0;
  return new Panel(axis, {
    id: "gaps", title: "Rounds", note: `${short(merged)} merged; height: time since the round before; dashed: the baseline's longest`, height: 120,
    draw(panel) {
      panel.ground(run.faults);
      const visible = boxes.filter(([time, gap]) => time >= axis.from && time - gap <= axis.to);
      const isOpen = open > 0.01 && last < axis.to;
      const high = Math.max(usual ?? 0, ...visible.map(([, gap]) => gap), isOpen ? open : 0, 0.001) * 1.08;
      const y = valueAxis(panel, 0, high, "s", 3);
      for (const [time, gap] of visible) {
        panel.inPlot("rect", { class: "gap", x: axis.x(time - gap), y: y(gap), width: Math.max(1, axis.x(time) - axis.x(time - gap)), height: y(0) - y(gap) },
          shape("title", {}, `no round for ${seconds(gap)} before ${axis.label(time)}`));
      }
      if (isOpen) panel.inPlot("rect", { class: "gap open", x: axis.x(last), y: y(open), width: Math.max(1, axis.x(last + open) - axis.x(last)), height: y(0) - y(open) });
      stretches(abandoned, width, panel, "cut", y(0) - 2, 4);
      const labels = [];
      if (usual) {
        panel.add("line", { class: "reference", x1: axis.left, x2: axis.width - axis.right, y1: y(usual), y2: y(usual) });
        labels.push({ text: "baseline", kind: "", y: y(usual) });
      }
      const worst = visible.filter(([time]) => time > since).reduce((a, b) => (b[1] > (a?.[1] ?? 0) ? b : a), null);
      if (worst && worst[1] > (usual ?? 0) * 1.5) {
        const middle = axis.x(worst[0] - worst[1] / 2);
        panel.add("text", { class: "row-label strong", x: Math.min(Math.max(middle, axis.left + 40), axis.width - axis.right - 40), y: y(worst[1]) - 3, "text-anchor": "middle" }, `longest: ${seconds(worst[1])}`);
      }
      panel.labels(labels);
      return boxes.length;
    },
    read(time) {
      const box = boxes.find(([end, gap]) => time <= end && time >= end - gap);
      return box ? `no round for ${seconds(box[1])}` : "";
    },
  });
}

function tokenPanel(axis, run) {
  const { raw, committed, width_s: width, over_s: over } = run.tokens;
  if (!committed.length && !raw.length) return null;
  const usual = run.baseline?.tokens_per_s;
  const curves = [
    { kind: "raw", label: "trained", data: { mean: raw }, width },
    { kind: "committed", label: "committed", data: { mean: committed }, width },
  ];
  return new Panel(axis, {
    id: "tokens", title: `${run.counted[0].toUpperCase()}${run.counted.slice(1)} per second`, note: `trained by all ${run.who}s, and committed by rounds${usual ? `; baseline ${short(usual)}` : ""}; mean over ${over} s`, height: 150,
    draw(panel) {
      panel.ground(run.faults);
      const found = extent([raw, committed], width, axis) ?? [0, 1];
      const y = valueAxis(panel, 0, Math.max(found[1], usual ?? 0, 1) * 1.05, "");
      if (usual) {
        panel.add("line", { class: "reference", x1: axis.left, x2: axis.width - axis.right, y1: y(usual), y2: y(usual) });
      }
      return drawCurves(panel, curves, y, usual ? [{ text: "baseline", kind: "", y: y(usual) }] : []);
    },
    read: (time) => curves.map((curve) => said(curve.label, valueAt(curve.data.mean, width, time))).filter(Boolean).join(" · "),
  });
}

// ------------------------------------------------------------------------------------- rows of values

/** A row for each learner or link: the same scale in all, values at the right. */
function rowPanel(axis, { id, title, note, rows, height, low, high, text, logarithmic = false, lines = 1, faults, draw, value }) {
  const scale = logarithmic ? (one) => Math.log10(Math.max(one, low)) : (one) => one;
  const share = (one) => (scale(one) - scale(low)) / (scale(high) - scale(low) || 1);
  const range = `each row ${text(low)} to ${text(high)}${logarithmic ? ", logarithmic" : ""}`;
  return new Panel(axis, {
    id, title, note: `${note}; ${range}`, height: rows.length * height + 2,
    draw(panel) {
      panel.ground(faults);
      return rows.map((row, number) => {
        const bottom = (number + 1) * height - 3;
        const y = (one) => bottom - Math.min(1, Math.max(0, share(one))) * (height - 8);
        panel.add("line", { class: "frame", x1: axis.left, x2: axis.width - axis.right, y1: bottom, y2: bottom });
        const drawn = draw(panel, row, y, bottom);
        panel.name(row.name, bottom - height / 2 + 7, row.isHit ? "strong" : "");
        for (let line = 0; line < lines; line += 1) panel.value(bottom - height / 2 + 7 + (line - (lines - 1) / 2) * 13, line ? "up" : lines > 1 ? "down" : "");
        return drawn;
      }).reduce((a, b) => a + b, 0);
    },
    values: (time) => rows.flatMap((row) => value(row, time)),
  });
}

/** A filled range between lowest and highest. */
function drawRange(panel, row, width, kind, y, data) {
  if (!data.low) return 0;
  const { axis } = panel;
  const [lows, highs] = [data.low, data.high].map((values) => pieces(values, width, axis));
  panel.inPlot("path", { class: kind, d: rangePath(lows, highs, axis.x.bind(axis), y) });
  return highs.flat().length;
}

function stepPanel(axis, run) {
  const width = run.step_times.width_s;
  const rows = run.lanes.map((lane) => lane.node).filter((name) => run.step_times.rows[name]?.high)
    .map((name) => ({ name, data: run.step_times.rows[name], usual: run.baseline?.step_ms[name], isHit: run.victims.includes(name) }));
  if (!rows.length) return null;
  const values = rows.flatMap((row) => row.data.high.filter((one) => one !== null)).sort((a, b) => a - b);
  const usual = Math.max(0, ...rows.map((row) => row.usual ?? 0));
  const high = Math.max(values[Math.floor((values.length - 1) * 0.99)], usual * 1.5);
  return rowPanel(axis, {
    id: "steps", title: "Step time", note: `of each ${run.who}; dashed: its own baseline`, rows, height: 34, low: 0, high: ceiling(high), text: milliseconds, faults: run.faults,
    draw(panel, row, y) {
      if (row.usual) panel.add("line", { class: "reference", x1: axis.left, x2: axis.width - axis.right, y1: y(row.usual), y2: y(row.usual) });
      return drawRange(panel, row, width, `step ${row.isHit ? "hit" : ""}`, y, row.data);
    },
    value: (row, time) => said("", valueAt(row.data.high, width, time), milliseconds),
  });
}

/** The next round number. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((one) => one >= value * 0.999);
}

/** Rows of links: those that a fault shaped, and one for all others. */
function linkRows(run, keys) {
  const rows = run.links.rows.map((row) => ({ ...row, name: row.link, isHit: true }));
  const { others } = run.links;
  const name = rows.length ? `${plural(others.number, "other")}` : `all ${others.number}`;
  if (others.number) rows.push({ ...others, name, asked: [] });
  return rows.filter((row) => keys.some((key) => row[key].high));
}

function span(rows, keys) {
  const values = rows.flatMap((row) => keys.flatMap((key) => [...(row[key].low ?? []), ...(row[key].high ?? [])])).filter((one) => one > 0);
  const [low, high] = values.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, 0]);
  const first = Math.floor(Math.log10(low));
  return [10 ** first, 10 ** Math.max(first + 1, Math.ceil(Math.log10(high)))];
}

function ratePanel(axis, run) {
  const rows = linkRows(run, ["up", "down"]);
  if (!rows.length) return null;
  const width = run.links.width_s;
  const [low, high] = span(rows, ["up", "down"]);
  return rowPanel(axis, {
    id: "rates", title: "Link rate", note: `↓ to the ${run.who}, ↑ from it, while payloads arrive; dashed: asked for by the plan`, rows, height: 46, low, high, text: rate, logarithmic: true, faults: run.faults,
    draw(panel, row, y, bottom) {
      drawAsked(panel, row, bottom, (asked) => [asked[1], asked[2]], y);
      return drawRange(panel, row, width, "range line down", y, row.down) + drawRange(panel, row, width, "range line up", y, row.up);
    },
    lines: 2,
    value: (row, time) => [said("↓", valueAt(row.down.high, width, time), rate), said("↑", valueAt(row.up.high, width, time), rate)],
  });
}

function delayPanel(axis, run) {
  const rows = linkRows(run, ["delay_ms"]);
  if (!rows.length) return null;
  const width = run.links.width_s;
  const [low, high] = span(rows, ["delay_ms"]);
  return rowPanel(axis, {
    id: "delays", title: "Link delay", note: "round trip; dashed: the usual and what the plan adds", rows, height: 40, low, high, text: milliseconds, logarithmic: true, faults: run.faults,
    draw(panel, row, y, bottom) {
      const usual = Math.min(...(row.delay_ms.low ?? []).filter((one) => one !== null));
      drawAsked(panel, row, bottom, (asked) => [asked[3] > 0 ? asked[3] + (Number.isFinite(usual) ? usual : 0) : null], y);
      return drawRange(panel, row, width, "range line down", y, row.delay_ms);
    },
    value: (row, time) => said("", valueAt(row.delay_ms.high, width, time), milliseconds),
  });
}

/** What faults asked of a link, from each change to the next; at the bottom where it was cut. */
function drawAsked(panel, row, bottom, pick, y) {
  const { axis } = panel;
  row.asked.forEach((asked, at) => {
    const to = row.asked[at + 1]?.[0] ?? axis.end;
    const [x, width] = panel.stretch(asked[0], to);
    if (width <= 0) return;
    for (const value of new Set(pick(asked))) {
      if (value !== null) panel.inPlot("line", { class: "asked", x1: x, x2: x + width, y1: y(value), y2: y(value) });
    }
    if (asked[4]) panel.inPlot("rect", { class: "cut", x, y: bottom - 3, width, height: 3 }, shape("title", {}, "cut by a fault"));
  });
}
