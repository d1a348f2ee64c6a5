// The message browser. What is shown is in the address, so that every page and every record has a link.
"use strict";
const asking = { everyMs: 1500 }, FOLLOWED_MAX = 500, SHORT = 160;
let positions = {}, following = false;

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

// A short value is shown whole; a long one opens.
function opened(text, note) {
  const short = text.replace(/\s+/g, " ");
  if (short.length <= SHORT && !note) return element("code", short);
  const made = element("details"), summary = element("summary");
  summary.append(element("code", short.length > SHORT ? `${short.slice(0, SHORT)} …` : short));
  if (note) summary.append(" ", word(note, "faint"));
  made.append(summary, element("pre", pretty(text)));
  return made;
}

function shownBytes(row, name) {
  if (name === "value" && row.decoded !== undefined) return opened(row.decoded, "decoded");
  const cut = row[`${name}_bytes`] > 65536 ? `the first 64 KiB of ${number(row[`${name}_bytes`])} bytes` : "";
  if (row[`${name}_base64`] !== undefined) return opened(row[`${name}_base64`], row.undecoded && name === "value" ? `base64; ${row.undecoded}` : "base64");
  if (row[name] === null) return word("null", "faint");
  return opened(row[name], cut);
}

const COLUMNS = topic => [
  ["Time", row => word(row.time ? row.time.replace("T", " ").replace("Z", "") : "", "time")],
  ["Partition", row => row.partition, true],
  ["Offset", row => messagesLink(row.offset, { topic, partition: row.partition, offset: row.offset, limit: 1 }), true],
  ["Key", row => shownBytes(row, "key")], ["Value", row => shownBytes(row, "value")],
  ["Headers", row => row.headers.length ? opened(row.headers.map(each => `${each.name}: ${each.value ?? each.value_base64 ?? "null"}`).join("\n")) : ""],
];

function openMessages() {
  const query = page.query, fields = at("browse").elements;
  stopFollowing();
  for (const name of ["topic", "partition", "offset", "key", "search"]) fields[name].value = query.get(name) ?? "";
  fields.limit.value = query.get("limit") ?? "20";
  const ms = Number(query.get("timestamp"));
  fields.time.value = query.get("timestamp") ? new Date(ms - 60000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19) : "";
  at("topic-names").replaceChildren(...(view?.topics ?? []).map(row => { const made = element("option"); made.value = row.topic; return made; }));
  for (const id of ["older", "next"]) at(id).hidden = true;
  at("records").replaceChildren();
  at("range").textContent = query.get("topic") ? "reading …" : "Choose a topic.";
  at("range").className = "";
  if (query.get("topic")) readMessages(page.number);
}

const asText = (by, name) => Object.entries(by).map(([partition, each]) => `${partition}:${each[name]}`).join(",");

async function readMessages(mine) {
  const found = await get(`/api/records?${page.query}`);
  if (page.number !== mine) return;
  at("range").className = found.error === undefined ? "" : "bad";
  if (found.error !== undefined) { at("range").textContent = found.error; return; }
  positions = found.partitions;
  const all = Object.values(positions), rows = found.records, topic = page.query.get("topic");
  const left = all.reduce((sum, each) => sum + Math.max(0, each.end - each.next), 0);
  const before = all.some(each => each.first > each.start);
  at("range").textContent = `${plural(all.reduce((sum, each) => sum + each.end - each.start, 0), "offset")} in ${plural(all.length, "partition")}`
    + (left ? `; ${plural(left, "offset")} after these` : "; up to the end");
  at("next").hidden = !left;
  at("older").hidden = !before || page.query.has("search") || page.query.has("key");
  // The newest are on top; what starts at an offset or a time is in the order of the log.
  const forward = ["offset", "timestamp", "at", "key", "search"].some(name => page.query.has(name));
  table(at("records"), `${plural(rows.length, "record")}, ${forward ? "oldest" : "newest"} first`, COLUMNS(topic), forward ? rows : [...rows].reverse());
}

function goMessages(changes, without) {
  const query = new URLSearchParams(page.query);
  for (const name of without) query.delete(name);
  for (const [name, value] of Object.entries(changes)) if (value) query.set(name, value);
  const to = `#/messages?${query}`;
  if (location.hash === to) openPage();
  else location.hash = to;
}

function stopFollowing() {
  following = false;
  at("follow").setAttribute("aria-pressed", "false");
  at("follow").textContent = "Follow";
}

// New records come on top; the oldest of many leave the page.
function follow() {
  following = true;
  at("follow").setAttribute("aria-pressed", "true");
  at("follow").textContent = "Stop";
  for (const id of ["older", "next"]) at(id).hidden = true;
  const topic = page.query.get("topic");
  let rows = [], next = null, passed = 0;
  at("records").replaceChildren();
  repeat(asking.everyMs, async isShown => {
    if (!following) return;
    const query = new URLSearchParams();
    for (const name of ["topic", "partition", "key", "search"]) if (page.query.get(name)) query.set(name, page.query.get(name));
    query.set("limit", next === null ? "20" : "200");
    // The first look finds the end; from there on nothing is left out.
    if (next === null) { query.delete("key"); query.delete("search"); } else query.set("at", next);
    const found = await get(`/api/records?${query}`);
    if (!isShown() || !following) return;
    if (found.error !== undefined) { at("range").textContent = found.error; at("range").className = "bad"; return; }
    const isFirst = next === null;
    // More than can be shown is passed over: the newest are what is followed.
    const left = Object.values(found.partitions).reduce((sum, each) => sum + each.end - each.next, 0);
    const isTooFast = left > FOLLOWED_MAX;
    next = asText(found.partitions, isTooFast ? "end" : "next");
    if (isTooFast) passed += left;
    if (isFirst && (page.query.get("key") || page.query.get("search"))) found.records = [];
    rows = [...[...found.records].reverse(), ...rows].slice(0, FOLLOWED_MAX);
    at("range").className = "";
    const isOpen = at("records").querySelector("details[open]") !== null;
    at("range").textContent = `following: new records come on top${passed ? `; ${plural(passed, "offset")} came too fast to be shown` : ""}`
      + (isOpen ? "; waiting while a value is open" : "");
    // A value that is being read stays open.
    if (!isOpen) table(at("records"), plural(rows.length, "record"), COLUMNS(topic), rows);
  });
}

at("browse").addEventListener("submit", event => {
  event.preventDefault();
  const fields = at("browse").elements, chosen = {};
  for (const name of ["topic", "partition", "offset", "key", "search", "limit"]) chosen[name] = fields[name].value.trim();
  if (!chosen.offset && fields.time.value) chosen.timestamp = Date.parse(fields.time.value);
  goMessages(chosen, ["topic", "partition", "offset", "timestamp", "key", "search", "limit", "at", "until"]);
});
at("next").addEventListener("click", () => goMessages({ at: asText(positions, "next") }, ["offset", "timestamp", "until", "at"]));
at("older").addEventListener("click", () => goMessages({ until: asText(positions, "first") }, ["offset", "timestamp", "until", "at"]));
at("follow").addEventListener("click", () => {
  if (following) { stopFollowing(); return; }
  if (!at("browse").reportValidity()) return;
  const fields = at("browse").elements;
  for (const name of ["topic", "partition", "key", "search"]) page.query.set(name, fields[name].value.trim());
  follow();
});
