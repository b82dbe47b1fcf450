/* Texts, times and requests. Text of a run is only ever set as text: nothing here reads HTML. Elements
   and numbers are those of charts.js, which every page has read before its modules. */

/** Set a text, if it differs: an unchanged one is not read aloud again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide. */
export function show(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Fill a list anew, if what it is made of differs. */
export function refill(node, from, make) {
  const known = JSON.stringify(from);
  if (node.dataset.known === known) return;
  node.dataset.known = known;
  node.replaceChildren(...from.map(make));
}

/** Time of the run: 0:07.3, 12:04.0. */
export function clock(value) {
  const tenths = Math.floor(Math.max(0, value) * 10);
  const minutes = Math.floor(tenths / 600);
  return `${minutes}:${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}`;
}

/** Ask the server for something; `answer` says what is wrong, else that it was asked for. */
export async function send(path, body, answer, asked) {
  tell(answer, asked, "dim");
  try {
    const reply = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (reply.ok) return true;
    tell(answer, `not done: ${(await reply.json()).error}`, "bad");
  } catch (error) {
    tell(answer, `not sent (${error.message}): try again`, "bad");
  }
  return false;
}

/** A sentence beside a control. */
export function tell(answer, text, tone) {
  say(answer, text);
  answer.className = `answer ${tone}`;
}
