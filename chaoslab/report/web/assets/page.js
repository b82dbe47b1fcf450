/* The page: draws one value of data. */

/** Draw `data` (see chaoslab/report/web/page.py) into the page. */
function draw(data) {
  const { run, verdict } = data;
  const axis = new TimeAxis(run.end_s, run.has_ended ? run.trained_s - 0.001 : run.end_s);
  const panels = charts(axis, data);
  const ruler = new Panel(axis, { id: "axis", title: "Time", height: 36, draw: (panel) => drawRuler(panel, run) });
  const now = element("output", {});
  const spoken = element("span", { class: "skip", role: "status" });
  const area = element("div", { class: "charts card", id: "charts", tabindex: 0, role: "group", "aria-label": "Charts over one time axis. Arrow keys move the cursor, plus and minus zoom, zero shows all." });
  const [cursor, selection] = ["cursor", "selection"].map((kind) => element("div", { class: kind, hidden: "" }));
  const tool = (text, title, act) => {
    const made = element("button", { type: "button", title }, text);
    made.addEventListener("click", act);
    return made;
  };
  area.append(
    element("div", { class: "axis" },
      element("div", { class: "tools" }, tool("−", "See more", () => axis.zoom(2)), tool("+", "See less, closer", () => axis.zoom(0.5)), tool("All", "See the whole run", () => axis.all()),
        element("span", { class: "dim keys" }, "drag to zoom · ← → cursor · + − 0"), now), ruler.drawing),
    ...folded(panels, run), cursor, selection, spoken);
  const jump = {
    label: (time) => axis.label(time),
    to(time) {
      axis.point(time);
      area.scrollIntoView({ block: "start" });
      area.focus({ preventScroll: true });
    },
  };
  axis.onCursor = () => {
    cursor.hidden = axis.cursor === null;
    if (!cursor.hidden) cursor.style.left = `${inset(area) + axis.x(axis.cursor)}px`;
    now.textContent = axis.cursor === null ? "" : axis.label(axis.cursor);
    panels.forEach((panel) => panel.tell());
    spoken.textContent = axis.cursor === null || document.activeElement !== area ? "" : [now.textContent, ...panels.map((panel) => panel.said.textContent)].filter(Boolean).join("; ");
  };
  axis.onView = () => {
    [ruler, ...panels].forEach((panel) => panel.redraw());
    axis.onCursor();
  };
  const page = document.getElementById("page");
  page.replaceChildren(...[
    headline(data, themeSwitch()), verdict ? problems(verdict, jump) : null, section("over-time", "The run over time", "", [area]),
    ...(verdict ? [passed(verdict, jump), faults(verdict, jump), clocks(verdict, jump), ledger(verdict)] : []), story(run, jump), plan(data),
  ].filter(Boolean));
  steer(axis, area, selection);
  fit(axis, area, [...run.faults.map((fault) => fault.spec || fault.injection), ...run.lanes.map((lane) => lane.node)]);
}

const LINK_CHARTS = ["chart-rates", "chart-delays"];

/** The panels; those of links are closed where no fault acts on a link. */
function folded(panels, run) {
  const nodes = panels.map((panel) => panel.node);
  const links = nodes.filter((node) => LINK_CHARTS.includes(node.id));
  const others = nodes.filter((node) => !links.includes(node));
  if (!links.length || run.links.rows.length) return [...others, ...links];
  return [...others, element("details", { class: "folded" }, element("summary", {}, "Links: no fault acts on them"), links)];
}

/** Keep the charts as wide as there is room for, with the names of rows at their left. */
function fit(axis, area, names) {
  const measure = () => {
    if (hasRoom(axis, area, names)) axis.onView();
  };
  new ResizeObserver(measure).observe(area);
  measure();
}

/** A button that goes through: as the system, light, dark. */
function themeSwitch() {
  const themes = ["system", "light", "dark"];
  const stored = keep("chaoslab-theme");
  let theme = themes.includes(stored) ? stored : "system";
  const button = element("button", { type: "button", title: "Colours: as the system, light or dark" });
  const show = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Colours: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    keep("chaoslab-theme", theme);
    show();
  });
  show();
  return button;
}

/** A choice of the reader, kept by the browser where it allows a file to keep one. */
function keep(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** On paper everything but the plan is open, and closed again after. */
function openForPrint() {
  const opened = [...document.querySelectorAll("details.finding:not([open]), details.finding details:not([open])")];
  opened.forEach((one) => { one.open = true; });
  window.addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }), { once: true });
}

window.addEventListener("beforeprint", openForPrint);
draw(JSON.parse(document.getElementById("data").textContent));
