// What may be changed, where the command was started so.
"use strict";
// The token comes in the part of the address that no server and no log sees; it is kept for this tab alone.
const given = new URLSearchParams(location.hash.slice(1)).get("changes");
if (given) {
  sessionStorage.setItem("changes", given);
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem("changes");

async function change(path, body) {
  try {
    const answer = await fetch(path, {
      method: "POST", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    });
    return await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  } catch { return { error: "the dashboard does not answer" }; }
}

function changing(form, path, after) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const said = form.querySelector("[role=status]");
    said.textContent = "asking …";
    said.className = "";
    const answer = await change(path, Object.fromEntries(new FormData(form)));
    said.textContent = answer.error ?? answer.said;
    said.className = answer.error ? "bad" : "good";
    if (!answer.error) after?.(form);
  });
}

if (token) {
  at("changes-link").hidden = false;
  changing(at("create"), "/api/topics/create", form => form.reset());
  changing(at("delete"), "/api/topics/delete", form => form.reset());
  changing(at("produce"), "/api/produce");
}
