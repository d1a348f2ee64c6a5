// Pipelines, and what may be changed: both only where the command was started so.
"use strict";
// The token comes behind the # of the address, which no server and no log sees; it is kept for this tab alone.
const given = new URLSearchParams(location.hash.slice(1)).get("changes");
if (given) {
  sessionStorage.setItem("changes", given);
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem("changes");

async function change(path, body) {
  const answer = await fetch(path, {
    method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
  });
  return answer.json().catch(() => ({ error: `status ${answer.status}` }));
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
  at("changes-section").hidden = at("changes-link").hidden = false;
  changing(at("create"), "/api/topics/create", form => form.reset());
  changing(at("delete"), "/api/topics/delete", form => form.reset());
  changing(at("produce"), "/api/produce");
}

async function showPipelines() {
  const rows = await fetch("/api/pipelines").then(answer => answer.json()).catch(() => []);
  if (rows === null) return;
  at("pipelines-section").hidden = at("pipelines-link").hidden = false;
  const state = row => row.stops ? word(`a run would stop: ${row.stops}`, "bad")
    : row.unknown ? word(`not known: ${row.unknown}`, "warn") : word("would go on", "good");
  table(at("pipelines"), plural(rows.length, "sink"), [
    ["pipeline", row => row.pipeline], ["sink", row => row.sink], ["table", row => row.table],
    ["records behind", row => row.behind === null ? "" : word(row.behind.toLocaleString("en"), row.behind ? "warn" : "good"), true],
    ["version", row => row.version, true],
    ["last commit", row => row.committed_ms === null ? "" : new Date(row.committed_ms).toLocaleString("sv")],
    ["state", state],
  ], rows);
  setTimeout(showPipelines, 5000);
}
showPipelines();
