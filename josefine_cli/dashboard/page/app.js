// The pages and their addresses, the stream of views, and the pages of the cluster.
"use strict";
let view = null, previous = null, shownAt = 0;

// The age is that of the last answer with a cluster in it: an error leaves the picture as it was.
const STALE_S = 10;
function showAge() {
  if (!shownAt) return;
  const ageS = Math.floor((performance.now() - shownAt) / 1000);
  const text = ageS < STALE_S ? "" : `The picture is ${span(ageS)} old.`;
  if (at("age").textContent !== text) at("age").textContent = text;
}

function showStatus() {
  const counts = view.counts;
  const trouble = counts.offline ? `, ${counts.offline} partitions without leader` : counts.under_replicated ? `, ${counts.under_replicated} under replicated` : "";
  const said = `${counts.live} of ${counts.brokers} brokers serve, controller ${view.controller}, term ${view.term}${trouble}`;
  if (at("status").textContent !== said) at("status").textContent = said;
  at("status").className = counts.offline ? "bad" : trouble || counts.live < counts.brokers ? "warn" : "good";
  at("cluster").textContent = `cluster ${view.cluster_id}`;
}

function showOverview() {
  const counts = view.counts, lag = view.groups.reduce((sum, row) => sum + row.lag, 0);
  const tiles = [
    ["Brokers", `${counts.live} / ${counts.brokers}`, counts.live < counts.brokers ? "warn" : ""],
    ["Topics", number(counts.topics), ""], ["Partitions", number(counts.partitions ?? 0), ""],
    ["Under replicated", number(counts.under_replicated), counts.under_replicated ? "warn" : ""],
    ["Without leader", number(counts.offline), counts.offline ? "bad" : ""],
    ["Groups", number(view.groups.length + view.groups_omitted), ""], ["Lag", `${number(lag)}${view.groups.some(row => row.partitions_elsewhere) ? " or more" : ""}`, ""],
    ["Open transactions", number(view.transactions.length + view.transactions_omitted), ""],
  ];
  at("tiles").replaceChildren(...tiles.map(([name, value, kind]) => {
    const made = element("div");
    made.append(element("dt", name), element("dd", value, kind));
    return made;
  }));
  drawTraffic(at("traffic"), at("traffic-said"), performance.now() / 1000);
  table(at("brokers"), plural(view.brokers.length, "broker"), [
    ["Broker", row => row.id, true],
    ["State", row => {
      const text = row.answers ? row.state : `${row.state}, does not answer`;
      return row.state === "serving" && row.answers ? word(text, "good") : badge(text, "bad");
    }],
    ["Raft", row => row.role], ["Height", row => row.height, true], ["Leads", row => row.led, true],
    ["Replicas", row => row.replicas, true], ["Rack", row => row.rack], ["Address", row => row.endpoints.join(", ")],
  ], view.brokers);
  showEntries(at("recent"), view.recent ?? [], "newest first");
}

function showChain() {
  drawChain(at("chain"), view.chain);
  const state = row => row.state === "dead" ? badge("dead", "bad") : word(row.state === "open" ? "not yet" : "committed", row.state === "open" ? "warn" : "good");
  table(at("blocks"), `the newest ${view.chain.nodes.length}, newest first`, [
    ["Block", row => row.id], ["State", state], ["What", row => row.what],
  ], [...view.chain.nodes].reverse());
}

function showTransactions() {
  const more = view.transactions_omitted ? `, ${number(view.transactions_omitted)} more are not shown` : "";
  table(at("transactions"), `${view.transactions.length} open${more}`, [
    ["Transactional id", row => row.id, false, row => row.id], ["State", row => row.state, false, row => row.state],
    ["Open for", row => span(Math.round(row.open_ms / 1000)), true, row => row.open_ms],
    ["Partitions", row => row.partitions.join(", ")], ["Coordinator", row => row.broker, true, row => row.broker],
  ], view.transactions);
}

const loud = row => row.kind === "election" ? "warn" : row.kind === "repair" || /\bfenced|does not answer/.test(row.what) ? "bad" : "";
function showEntries(target, rows, caption) {
  const what = row => row.dead ? element("s", row.what) : row.what;
  table(target, caption, [
    ["Seen", row => row.at_ms === null ? word("before", "faint") : word(moment(row.at_ms), "time")],
    ["Kind", row => badge(row.kind, loud(row))], ["What", what],
    ["Block", row => row.dead ? badge(`${row.block} dead`, "bad") : word(row.block, "faint")],
  ], rows);
}

let entries = [];
const KINDS = ["election", "in sync", "fencing", "repair", "broker", "topic", "access", "other"];
function showTimeline() {
  const boxes = [...at("kinds").querySelectorAll("input")];
  const wanted = new Set(boxes.filter(each => each.checked).map(each => each.name));
  const rows = entries.filter(each => wanted.has(KINDS.includes(each.kind) ? each.kind : "other"));
  showEntries(at("timeline"), rows, `${plural(rows.length, "entry").replace(/ys$/, "ies")}, newest first; "before": older than this dashboard`);
}

function openTimeline() {
  repeat(3000, async isShown => {
    const found = await get("/api/timeline");
    if (!isShown()) return;
    if (found.error !== undefined) { part(at("timeline"), found); return; }
    entries = found;
    showTimeline();
  });
}

function openAccess() {
  const anybody = text => text === "" ? word("default", "faint") : text ?? "";
  repeat(30000, async isShown => {
    const found = await get("/api/access");
    if (!isShown()) return;
    const of = name => found.error === undefined ? found[name] : found;
    part(at("acls"), of("acls"), rows => table(at("acls"), plural(rows.length, "rule"), [
      ["Principal", row => row.principal, false, row => row.principal], ["Host", row => row.host],
      ["Permission", row => word(row.permission, row.permission === "deny" ? "bad" : "good"), false, row => row.permission],
      ["Operation", row => row.operation, false, row => row.operation], ["Resource", row => row.resource, false, row => row.resource],
      ["Name", row => row.name, false, row => row.name], ["Pattern", row => row.pattern],
    ], rows));
    part(at("users"), of("users"), rows => table(at("users"), plural(rows.length, "password"), [
      ["User", row => row.user, false, row => row.user], ["Mechanism", row => row.mechanism], ["Iterations", row => number(row.iterations), true],
    ], rows));
    part(at("quotas"), of("quotas"), rows => table(at("quotas"), plural(rows.length, "quota"), [
      ["User", row => anybody(row.user)], ["Client id", row => anybody(row.client_id)],
      ["Producer, bytes/s", row => number(row.bounds.producer_byte_rate), true], ["Consumer, bytes/s", row => number(row.bounds.consumer_byte_rate), true],
      ["Thread, %", row => number(row.bounds.request_percentage), true],
    ], rows));
  });
}

// What each page does when it opens, and with each view.
const PAGES = {
  overview: { show: showOverview }, topics: { show: showTopics }, topic: { open: openTopic },
  messages: { open: openMessages }, groups: { show: showGroups }, group: { open: openGroup },
  transactions: { show: showTransactions }, chain: { show: showChain }, timeline: { open: openTimeline },
  access: { open: openAccess }, pipelines: { open: openPipelines }, changes: {}, unknown: {},
};
const ONE = { topics: "topic", groups: "group" };

// `#/topics/orders`, `#/messages?topic=orders&offset=42`.
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, argument] = path.split("/", 2);
  const found = argument && ONE[name] ? ONE[name] : name || "overview";
  let text = "";
  try { text = decodeURIComponent(argument ?? ""); } catch { return { name: "unknown", argument: "", query: "" }; }
  return { name: Object.hasOwn(PAGES, found) && (found !== "changes" || token) ? found : "unknown", argument: text, query: query ?? "" };
}

function openPage() {
  if (location.hash === "#main") return;
  const isFirst = page.number === 0, { name, argument, query } = address();
  page.timers.forEach(clearTimeout);
  Object.assign(page, { name, argument, query: new URLSearchParams(query), timers: [], number: page.number + 1 });
  for (const each of document.querySelectorAll(".page")) each.hidden = each.dataset.page !== name;
  for (const each of document.querySelectorAll("nav a")) {
    const section = Object.keys(ONE).find(one => ONE[one] === name) ?? (name === "overview" ? "" : name);
    if (each.getAttribute("href") === `#/${section}`) {
      each.setAttribute("aria-current", "page");
      // In a narrow window the links are a row that scrolls.
      each.parentElement.scrollLeft = each.offsetLeft - each.parentElement.offsetLeft - 40;
    } else each.removeAttribute("aria-current");
  }
  PAGES[name].open?.(argument);
  if (view) PAGES[name].show?.();
  const title = document.querySelector(`[data-page=${name}] h2`);
  document.title = name === "overview" ? "Josefine" : `${title.textContent} – Josefine`;
  // A screen reader reads the heading of the page that was opened.
  if (!isFirst) title.focus({ preventScroll: true });
  if (!isFirst) scrollTo(0, 0);
}

at("filter").addEventListener("input", () => view && showTopics());
at("internal").addEventListener("change", () => view && showTopics());
at("group-filter").addEventListener("input", () => view && showGroups());
for (const kind of KINDS) {
  const label = element("label", null, "check"), box = element("input");
  Object.assign(box, { type: "checkbox", name: kind, checked: true });
  label.append(box, ` ${kind}`);
  at("kinds").append(label);
}
at("kinds").addEventListener("change", showTimeline);
if (token) preparedReset();
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); at("main").focus(); });
addEventListener("hashchange", openPage);
addEventListener("resize", () => {
  if (view) PAGES[page.name].show?.();
  if (page.name === "group" && samples.length) drawLag(at("lag"), samples);
  for (const each of document.querySelectorAll(".page:not([hidden]) .scroll:not(#chain)"))
    reachable(each, each.querySelector("caption")?.textContent ?? "Graph of the pipeline");
});
openPage();

get("/api/pipelines").then(found => { at("pipelines-link").hidden = found === null || found.error !== undefined; });
setInterval(() => { if (page.name === "overview") drawTraffic(at("traffic"), at("traffic-said"), performance.now() / 1000); }, 2000);
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
    addTraffic(view.traffic, performance.now() / 1000);
    showStatus();
    PAGES[page.name].show?.();
  }
  showAge();
};
setInterval(showAge, 1000);
events.onerror = () => { at("status").textContent = "the dashboard does not answer; trying again"; at("status").className = "bad"; };
