/* Curves of the last minutes, drawn anew with each message by the charts of a report (charts.js).

   curves ─► padded ─► lanePanel · tokenPanel · lossPanel ─► one time axis below them */

/** Draw them into an element. */
export function drawCurves(area, message) {
  const run = padded(message);
  const axis = new TimeAxis(run.end_s, run.end_s);
  [axis.from, axis.to] = [run.from_s, axis.end];
  if (!hasRoom(axis, area, run.lanes.map((lane) => lane.node))) return;
  const ruler = new Panel(axis, { id: "axis", title: "Time", height: 36, draw: (panel) => drawRuler(panel, run) });
  const panels = [lanePanel(axis, run), tokenPanel(axis, run), lossPanel(axis, run, null), ruler].filter(Boolean);
  area.replaceChildren(...panels.map((panel) => panel.node));
  for (const panel of panels) {
    panel.redraw();
    panel.tell();
  }
}

/** Rows of values from the beginning of the run on, as charts expect them. */
function padded(run) {
  const pad = (values) => [...Array(run.first).fill(null), ...values];
  for (const rows of [run.tokens, run.losses.survivors, run.losses.victims]) {
    for (const [name, values] of Object.entries(rows)) {
      if (Array.isArray(values)) rows[name] = pad(values);
    }
  }
  return run;
}
