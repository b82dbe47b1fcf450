/* Exchange of a link for a cookie. The token stands behind the sign #, which no browser sends to a
   server; it is sent in the body of a POST, and taken out of the address and of the history. */

const token = location.hash.slice(1);
history.replaceState(null, "", "/enter");

const $ = (name) => document.getElementById(name);
const isOperator = token.startsWith("o-");

if (token) {
  $("nothing").hidden = true;
  $("enter").hidden = false;
  $("name-row").hidden = isOperator;
  if (isOperator) $("as").textContent = "You are an operator: you may do everything. The link can be used once.";
  (isOperator ? $("enter").querySelector("button") : $("name")).focus();
  tellOf();
}

/** Which run it is, as whom, and who is there; a link that is none says so before a name is typed. */
async function tellOf() {
  try {
    const answer = await post("/invitation", { token });
    const told = await answer.json();
    if (!answer.ok) {
      refuse(told.error, answer.status);
      return;
    }
    $("run").textContent = told.plan;
    document.title = `${told.plan}: enter`;
    if (isOperator) $("as").textContent = `You are ${told.name}, an operator: you may do everything. The link can be used once.`;
    const where = [told.fleet && `fleet ${told.fleet}`, told.outcome || told.moment || "not started"].filter(Boolean).join(", ");
    $("people").textContent = `${where}. ${told.people.length ? `${told.people.join(", ")} watch it.` : "Nobody with a name watches it yet."}`;
    $("people").hidden = false;
  } catch (error) {
    refuse(`the page cannot be reached (${error.message}): try again`);
  }
}

function post(path, body) {
  return fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

$("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("problem").hidden = true;
  try {
    const answer = await post("/enter", { token, name: $("name").value });
    if (answer.ok) location.replace("/");
    else refuse((await answer.json()).error, answer.status);
  } catch (error) {
    refuse(`the page cannot be reached (${error.message}): try again`);
  }
});

function refuse(why, status) {
  $("problem").textContent = why;
  $("problem").hidden = false;
  $("again").hidden = status !== 403;
}
