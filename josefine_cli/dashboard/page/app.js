// Shows what the events tell. Everything that brokers and records say is set as text, never as markup.
"use strict";
const at = id => document.getElementById(id);
const size = bytes => {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${bytes.toFixed(unit && bytes < 100 ? 1 : 0)} ${units[unit]}`;
};
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
let view = null, previous = null, shownAt = 0;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = String(text);
  if (kind) made.className = kind;
  return made;
}

// A column: [heading, row => text | node, is it a number].
function table(target, caption, columns, rows) {
  const made = element("table"), head = element("tr"), body = element("tbody");
  made.append(element("caption", caption));
  for (const [title, , isNumber] of columns) {
    const cell = element("th", title, isNumber ? "number" : "");
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = element("tr");
    for (const [, show, isNumber] of columns) {
      const shown = show(row), cell = element("td", null, isNumber ? "number" : "");
      cell.append(shown instanceof Node ? shown : String(shown ?? ""));
      line.append(cell);
    }
    body.append(line);
  }
  const top = element("thead");
  top.append(head);
  made.append(top, body);
  // Whoever stands in the table with the keyboard stands there afterwards.
  const focused = target.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  target.replaceChildren(made);
  if (focused) [...target.querySelectorAll("[data-key]")].find(each => each.dataset.key === focused)?.focus();
}

const word = (text, kind) => element("span", text, kind);
const rate = (row, key) => {
  const before = previous?.topics?.find(each => each.topic === row.topic);
  const seconds = secondsBetween(previous?.traffic, view.traffic);
  return before && seconds ? `${size(Math.max(0, row[key] - before[key]) / seconds)}/s` : "";
};

// By the clock of a broker that is in both views, 0 without one.
function secondsBetween(before, now) {
  const id = Object.keys(now).find(each => before?.[each]);
  return id ? Math.max(0, now[id].monotonic_ms - before[id].monotonic_ms) / 1000 : 0;
}

// The age is that of the last answer with a cluster in it: an error leaves the picture as it was.
const STALE_S = 10;
const span = s => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
function showAge() {
  if (!shownAt) return;
  const ageS = Math.floor((performance.now() - shownAt) / 1000);
  at("age").textContent = ageS < STALE_S ? "" : `The picture is ${span(ageS)} old.`;
}

function showTopics() {
  const wanted = at("filter").value.toLowerCase();
  const rows = view.topics.filter(row => row.topic.toLowerCase().includes(wanted));
  const name = row => {
    const button = element("button", row.topic, "link");
    button.type = "button";
    button.dataset.key = row.topic;
    button.addEventListener("click", () => showTopic(row.topic));
    return button;
  };
  const state = row => row.offline ? word(`${row.offline} without leader`, "bad")
    : row.under_replicated ? word(`${row.under_replicated} under replicated`, "warn") : word("in sync", "good");
  const more = view.topics_omitted ? `, ${view.topics_omitted} more are not shown` : "";
  table(at("topics"), `${plural(rows.length, "topic")}${more}`, [
    ["topic", name], ["partitions", row => row.partitions, true], ["state", state],
    ["size of all replicas", row => size(row.size), true], ["in", row => rate(row, "bytes_in"), true],
    ["out", row => rate(row, "bytes_out"), true], ["records in since start", row => row.records_in, true],
  ], rows);
}

async function showTopic(name) {
  const answer = await fetch(`/api/topic?name=${encodeURIComponent(name)}`);
  const topic = await answer.json();
  const target = at("topic");
  target.replaceChildren(element("h3", topic.topic), element("div", null, "scroll"));
  table(target.lastChild, plural(topic.partitions.length, "partition"), [
    ["partition", row => row.partition, true],
    ["leader", row => row.leader < 0 ? word("none", "bad") : row.leader, true],
    ["epoch", row => row.leader_epoch, true], ["replicas", row => row.replicas.join(", ")],
    ["in sync", row => word(row.isr.join(", "), row.isr.length < row.replicas.length ? "warn" : "good")],
    ["size", row => size(row.size), true], ["first offset", row => row.start, true], ["end offset", row => row.end, true],
  ], topic.partitions);
  at("browse").elements.topic.value = topic.topic;
  target.focus();
}

function show() {
  at("cluster").textContent = view.cluster_id;
  const counts = view.counts;
  const trouble = counts.offline ? `, ${counts.offline} partitions without leader` : counts.under_replicated ? `, ${counts.under_replicated} under replicated` : "";
  const said = `${counts.live} of ${counts.brokers} brokers serve, controller ${view.controller}, term ${view.term}${trouble}`;
  if (at("status").textContent !== said) at("status").textContent = said;
  at("status").className = counts.offline ? "bad" : trouble || counts.live < counts.brokers ? "warn" : "good";
  drawChain(at("chain"), view.chain);
  addTraffic(view.traffic, performance.now() / 1000);
  drawTraffic(at("traffic"), at("traffic-said"), performance.now() / 1000);
  table(at("blocks"), "newest first", [["block", row => row.id], ["state", row => row.state], ["what", row => row.what]], [...view.chain.nodes].reverse());
  table(at("brokers"), plural(view.brokers.length, "broker"), [
    ["broker", row => row.id, true],
    ["state", row => word(row.answers ? row.state : `${row.state}, does not answer`, row.state === "serving" && row.answers ? "good" : "bad")],
    ["raft", row => row.role], ["height", row => row.height, true], ["leads", row => row.led, true],
    ["replicas", row => row.replicas, true], ["rack", row => row.rack], ["address", row => row.endpoints.join(", ")],
  ], view.brokers);
  showTopics();
  const more = count => count ? `, ${count} more are not shown` : "";
  table(at("groups"), `${plural(view.groups.length, "group")}${more(view.groups_omitted)}`, [
    ["group", row => row.group], ["state", row => row.state], ["members", row => row.members, true],
    ["lag", row => word(row.partitions_elsewhere ? `${row.lag} + ${row.partitions_elsewhere} partitions elsewhere` : row.lag, row.lag ? "warn" : "good"), true],
    ["coordinator", row => row.broker, true],
  ], view.groups);
  table(at("transactions"), `${view.transactions.length} open${more(view.transactions_omitted)}`, [
    ["transactional id", row => row.id], ["state", row => row.state], ["open for", row => `${(row.open_ms / 1000).toFixed(0)} s`, true],
    ["partitions", row => row.partitions.join(", ")], ["coordinator", row => row.broker, true],
  ], view.transactions);
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function shownBytes(row, name) {
  if (row[`${name}_base64`] !== undefined) return element("pre", `base64 ${row[`${name}_base64`]}`);
  if (row[name] === null) return word("null", "faint");
  const cut = row[`${name}_bytes`] > row[name].length && row[name].length >= 16000 ? `\n… ${row[`${name}_bytes`]} bytes` : "";
  return element("pre", pretty(row[name]) + cut);
}

async function browse(offset) {
  const fields = at("browse").elements, query = new URLSearchParams();
  for (const name of ["topic", "partition", "key", "limit"]) if (fields[name].value) query.set(name, fields[name].value);
  if (offset !== undefined) query.set("offset", offset);
  else if (fields.offset.value) query.set("offset", fields.offset.value);
  else if (fields.time.value) query.set("timestamp", Date.parse(fields.time.value));
  at("range").textContent = "reading …";
  const answer = await fetch(`/api/records?${query}`);
  const found = await answer.json().catch(() => ({ error: `status ${answer.status}` }));
  at("next").hidden = Boolean(found.error) || found.next >= found.end;
  at("next").dataset.offset = found.next;
  if (found.error) { at("range").textContent = found.error; at("records").replaceChildren(); return; }
  at("range").textContent = `offsets ${found.start} to ${found.end}, read up to ${found.next}`;
  table(at("records"), plural(found.records.length, "record"), [
    ["offset", row => row.offset, true], ["time", row => row.time], ["key", row => shownBytes(row, "key")],
    ["value", row => shownBytes(row, "value")],
    ["headers", row => element("pre", row.headers.map(each => `${each.name}: ${each.value ?? each.value_base64 ?? "null"}`).join("\n"))],
  ], found.records);
}

at("filter").addEventListener("input", () => view?.topics && showTopics());
at("browse").addEventListener("submit", event => { event.preventDefault(); browse(); });
at("next").addEventListener("click", () => browse(at("next").dataset.offset));
setInterval(() => drawTraffic(at("traffic"), at("traffic-said"), performance.now() / 1000), 2000);
const events = new EventSource("/api/events");
events.onmessage = event => {
  const next = JSON.parse(event.data);
  if (next.error !== undefined) {
    at("status").textContent = next.error;
    at("status").className = "bad";
  } else {
    previous = view;
    shownAt = performance.now();
    view = next;
    show();
  }
  showAge();
};
setInterval(showAge, 1000);
events.onerror = () => { at("status").textContent = "the dashboard does not answer; trying again"; at("status").className = "bad"; };
