/* The time axis that all charts share: which part of the run is seen, and where the cursor is. */

class TimeAxis {
  /** From 0 to `end`; without a cursor, values are those of the time `rest`. */
  constructor(end, rest) {
    this.end = Math.max(end, 0.001);
    this.from = 0;
    this.to = this.end;
    this.cursor = null;
    this.rest = rest;
    this.left = 118;
    this.right = 82;
    this.width = 1000;
    this.onView = () => {};
    this.onCursor = () => {};
  }

  /** Where a time lies in a chart, in its own units. */
  x(time) {
    return this.left + ((time - this.from) / (this.to - this.from)) * this.inner;
  }

  get inner() {
    return Math.max(10, this.width - this.left - this.right);
  }

  /** The time at a place. */
  time(x) {
    return this.from + ((x - this.left) / this.inner) * (this.to - this.from);
  }

  /** See this part of the run, at least a hundredth of a second of it. */
  see(from, to) {
    const span = Math.min(this.end, Math.max(0.01, to - from));
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.onView();
  }

  /** Closer for a factor below 1, around the cursor or the middle. */
  zoom(factor) {
    const around = this.cursor !== null && this.cursor >= this.from && this.cursor <= this.to
      ? this.cursor : (this.from + this.to) / 2;
    const share = (around - this.from) / (this.to - this.from);
    const span = Math.min(this.end, (this.to - this.from) * factor);
    this.see(around - share * span, around + (1 - share) * span);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.see(this.from + by, this.to + by);
  }

  all() {
    this.see(0, this.end);
  }

  /** Move the cursor, and the view if it does not show that time; null takes the cursor away. */
  point(time) {
    this.cursor = time === null ? null : Math.min(this.end, Math.max(0, time));
    if (this.cursor !== null && (this.cursor < this.from || this.cursor > this.to)) {
      const half = (this.to - this.from) / 2;
      this.see(this.cursor - half, this.cursor + half);
    }
    this.onCursor();
  }

  /** Times with labels, as many as there is room for. */
  ticks() {
    const room = Math.max(4, Math.floor(this.inner / 72));
    const span = this.to - this.from;
    const unit = span >= 7200 ? 3600 : span >= 180 ? 60 : 1;
    return steps(this.from / unit, this.to / unit, room).map((at) => [at * unit, this.label(at * unit)]);
  }

  /** 12.5 s, or 31:05 in a run of minutes. */
  label(time) {
    if (this.end < 600) return `${Number(time.toFixed(2))} s`;
    const whole = Math.round(time * 10) / 10;
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor((whole % 3600) / 60);
    const rest = Number((whole % 60).toFixed(1));
    const padded = (part) => (part < 10 ? `0${part}` : `${part}`);
    return hours ? `${hours}:${padded(minutes)}:${padded(rest)}` : `${minutes}:${padded(rest)}`;
  }
}

/** Drag, tap and keys on an element move an axis. */
function steer(axis, area, selection) {
  let began = null;
  const at = (event) => event.clientX - area.getBoundingClientRect().left - area.clientLeft - inset(area);
  const isOutside = (x) => x < axis.left - 4 || x > axis.width - axis.right + 4;
  area.addEventListener("pointermove", (event) => {
    const x = at(event);
    if (began === null) {
      axis.point(isOutside(x) ? null : axis.time(x));
      return;
    }
    const [low, high] = [Math.min(began, x), Math.max(began, x)].map((one) => Math.min(axis.width - axis.right, Math.max(axis.left, one)));
    selection.hidden = false;
    selection.style.left = `${low + inset(area)}px`;
    selection.style.width = `${high - low}px`;
  });
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("button, summary") || isOutside(at(event))) return;
    if (event.pointerType !== "touch") began = at(event);
    axis.point(axis.time(at(event)));
  });
  window.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const [low, high] = [began, at(event)].sort((a, b) => a - b);
    began = null;
    selection.hidden = true;
    if (high - low > 6) axis.see(axis.time(Math.max(low, axis.left)), axis.time(Math.min(high, axis.width - axis.right)));
  });
  area.addEventListener("pointerleave", () => { if (began === null) axis.point(null); });
  area.addEventListener("dblclick", () => axis.all());
  area.addEventListener("keydown", (event) => {
    const step = (axis.to - axis.from) / 100;
    const from = axis.cursor === null ? (axis.from + axis.to) / 2 : axis.cursor;
    const keys = {
      ArrowLeft: () => (event.shiftKey ? axis.pan(-0.2) : axis.point(from - step)),
      ArrowRight: () => (event.shiftKey ? axis.pan(0.2) : axis.point(from + step)),
      "+": () => axis.zoom(0.5),
      "=": () => axis.zoom(0.5),
      "-": () => axis.zoom(2),
      0: () => axis.all(),
      Escape: () => axis.point(null),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

/** Space between the edge of the area and its charts. */
function inset(area) {
  return parseFloat(getComputedStyle(area).paddingLeft);
}
