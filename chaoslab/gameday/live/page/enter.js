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
}

$("enter").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("problem").hidden = true;
  try {
    const answer = await fetch("/enter", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token, name: $("name").value }),
    });
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
