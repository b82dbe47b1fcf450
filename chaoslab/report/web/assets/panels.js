/* Panels: a title, a drawing over the shared time axis with the faults as bands, and what the drawing
   says at the cursor. A panel knows nothing of what it shows; `charts.js` does. */

const EDGES_MOST = 12;
const NAME_SIGN = 6.2; // usual width of a sign of a name

class Panel {
  /** `draw(panel)` draws, and returns how many values it drew. What there is at a time: `read(time)` is a text
      for the title, `values(time)` a text for each place that was kept by `panel.value`. */
  constructor(axis, { id, title, note = "", height, draw, read = null, values = null, legend = null }) {
    Object.assign(this, { axis, height, draw, read, values });
    this.said = element("output", {});
    this.drawing = shape("svg", { role: "img", "aria-label": `${title}. ${note}` });
    this.node = element("figure", { id: `chart-${id}` },
      element("figcaption", {}, element("b", {}, title), element("span", {}, note), this.said),
      this.drawing, legend);
  }

  redraw() {
    this.drawing.replaceChildren();
    const { axis, height } = this;
    this.drawing.setAttribute("viewBox", `0 0 ${axis.width} ${height}`);
    const clip = `clip-${this.node.id}`;
    this.add("clipPath", { id: clip }, shape("rect", { x: axis.left, y: 0, width: axis.inner, height }));
    this.plot = shape("g", { "clip-path": `url(#${clip})` });
    this.places = [];
    this.drawing.dataset.values = this.draw(this);
  }

  tell() {
    const { cursor, rest } = this.axis;
    if (this.read) this.said.textContent = cursor === null ? "" : this.read(cursor);
    if (this.values) this.values(cursor ?? rest).forEach((text, at) => { this.places[at].textContent = text; });
  }

  /** Keep a place at the right of a row for its value at the cursor. */
  value(y, kind = "") {
    this.places.push(this.add("text", { class: `now ${kind}`, x: this.axis.width - this.axis.right + 6, y }));
  }

  add(tag, attributes, ...children) {
    const made = shape(tag, attributes, ...children);
    this.drawing.append(made);
    return made;
  }

  /** The same, cut off at the ends of the time axis. */
  inPlot(tag, attributes, ...children) {
    if (!this.plot.isConnected) this.drawing.append(this.plot);
    this.plot.append(shape(tag, attributes, ...children));
  }

  /** Faults as bands over the whole height, and the lines of the time axis. */
  ground(faults, top = 0, bottom = this.height) {
    const { axis } = this;
    for (const [time] of axis.ticks()) {
      this.add("line", { class: "grid", x1: axis.x(time), x2: axis.x(time), y1: top, y2: bottom });
    }
    for (const fault of faults) {
      const [x, width] = this.stretch(fault.from_s, fault.healing_s ?? fault.healed_s ?? axis.end);
      if (width <= 0) continue;
      this.add("rect", { class: "band", x, width: Math.max(1, width), y: top, height: bottom - top });
      if (faults.length <= EDGES_MOST) this.add("line", { class: "edge", x1: x, x2: x, y1: top, y2: bottom });
    }
  }

  /** Left edge and width of a stretch of time, as far as it is seen; width 0 if it is not. */
  stretch(from, to) {
    const { axis } = this;
    const low = Math.max(axis.from, from);
    const high = Math.min(axis.to, to);
    return [axis.x(low), high < low ? 0 : axis.x(high) - axis.x(low)];
  }

  /** A name at the left, cut to the room there; the whole name on hovering. Returns whether it was cut. */
  name(text, y, extra = "") {
    const room = Math.floor((this.axis.left - 8) / NAME_SIGN);
    const cut = text.length > room ? `${text.slice(0, room - 1)}…` : text;
    this.add("text", { class: `row-label ${extra}`, x: this.axis.left - 8, y, "text-anchor": "end" }, cut, shape("title", {}, text));
    return cut !== text;
  }

  /** Labels at the right, at the height of their lines, none over another. */
  labels(wanted) {
    const sorted = wanted.filter((one) => Number.isFinite(one.y)).sort((a, b) => a.y - b.y);
    let free = 9;
    for (const one of sorted) {
      one.y = Math.max(one.y, free);
      free = one.y + 13;
    }
    let limit = this.height - 2;
    for (const one of [...sorted].reverse()) {
      one.y = Math.min(one.y, limit);
      limit = one.y - 13;
    }
    for (const one of sorted) {
      this.add("text", { class: `${one.kind} strong`, x: this.axis.width - this.axis.right + 6, y: one.y + 4 }, one.text);
    }
  }
}

/** Ticks, and the phases of the run above them. */
function drawRuler(panel, run) {
  const { axis } = panel;
  const ticks = axis.ticks();
  for (const [time, label] of ticks) {
    panel.add("line", { class: "frame", x1: axis.x(time), x2: axis.x(time), y1: 31, y2: 36 });
    panel.add("text", { x: axis.x(time), y: 28, "text-anchor": "middle" }, label);
  }
  run.phases.forEach(([from, phase], at) => {
    const [x, width] = panel.stretch(from, run.phases[at + 1]?.[0] ?? axis.end);
    if (width <= 0) return;
    panel.add("line", { class: "frame", x1: x, x2: x, y1: 3, y2: 14 });
    if (width > phase.length * 6.5 + 6) panel.add("text", { x: x + 4, y: 12 }, phase);
  });
  return ticks.length;
}

/** Make an axis as wide as there is room for, with the names of rows at its left; whether there is any. */
function hasRoom(axis, area, names) {
  const wanted = Math.max(...names.map((name) => name.length)) * NAME_SIGN + 10;
  const width = area.clientWidth - 2 * inset(area);
  if (width <= 0) return false;
  axis.width = width;
  [axis.left, axis.right] = width < 560 ? [84, 70] : [Math.max(118, Math.min(wanted, width / 4)), 82];
  return true;
}

/** The places of a row of values in buckets: [[time, value], …] in unbroken pieces. */
function pieces(values, width, axis, later = 0) {
  const reach = Math.max(3, 3 * width);
  const found = [];
  let last = null;
  (values ?? []).forEach((value, at) => {
    const time = (at + 0.5) * width + later;
    if (value === null || time < axis.from - 2 * reach || time > axis.to + 2 * reach) return;
    if (last === null || time - last > reach) found.push([]);
    found[found.length - 1].push([time, value]);
    last = time;
  });
  return found;
}

/** A line with each value the mean of those around it, over this long. */
function smooth(part, over) {
  let [first, last, sum] = [0, 0, 0];
  return part.map(([time]) => {
    for (; last < part.length && part[last][0] <= time + over / 2; last += 1) sum += part[last][1];
    for (; part[first][0] < time - over / 2; first += 1) sum -= part[first][1];
    return [time, sum / (last - first)];
  });
}

/** The value in the bucket of a time, or in the nearest before that is no older than a sample may be. */
function valueAt(values, width, time) {
  const at = Math.floor(time / width);
  const reach = Math.ceil(Math.max(3, 3 * width) / width);
  for (let back = 0; back <= reach; back += 1) {
    const value = values?.[at - back];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/** Lowest and highest of some rows of values in the part that is seen; null without any. */
function extent(rows, width, axis) {
  let [low, high] = [Infinity, -Infinity];
  const first = Math.max(0, Math.floor(axis.from / width));
  for (const values of rows) {
    const last = Math.min((values ?? []).length - 1, Math.ceil(axis.to / width));
    for (let at = first; at <= last; at += 1) {
      const value = values[at];
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high < low ? null : [low, high];
}

/** `M x y L x y …` of the pieces of a line. */
function linePath(parts, x, y) {
  return parts.map((part) => part.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("")
    + (part.length === 1 ? "h1.5" : "")).join("");
}

/** The closed outline between two lines of the same pieces. */
function rangePath(lows, highs, x, y) {
  return highs.map((part, number) => {
    const back = [...(lows[number] ?? part)].reverse();
    const wide = part.length === 1 ? 1 : 0;
    const there = part.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    return `${there}${wide ? "h1.5" : ""}${back.map(([time, value]) => `L${(x(time) + (wide ? 1.5 : 0)).toFixed(1)} ${y(value).toFixed(1)}`).join("")}Z`;
  }).join("");
}
