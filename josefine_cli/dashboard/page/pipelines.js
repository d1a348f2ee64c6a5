// The page of pipelines: the graph of each file, how far its sinks are, and what stops them.
"use strict";
const BOX = { width: 240, gapX: 50, gapY: 16, line: 17, top: 10, characters: 31 };

// The row of each node: the first that is free in its column. An arrow over several columns keeps
// its row free in those between, so that it does not run under a box.
function rowsOf(graph) {
  const columns = new Map(graph.nodes.map(node => [node.id, node.column])), rows = new Map(), taken = new Set();
  for (const node of [...graph.nodes].sort((one, other) => one.column - other.column)) {
    let row = 0;
    while (taken.has(`${node.column} ${row}`)) row += 1;
    rows.set(node.id, row);
    taken.add(`${node.column} ${row}`);
    for (const [from, to] of graph.edges) if (from === node.id && to !== "dead_letter")
      for (let between = node.column + 1; between < columns.get(to); between += 1) taken.add(`${between} ${row}`);
  }
  return rows;
}

// A path is cut at its start, everything else at its end.
const fitting = line => line.length <= BOX.characters ? line
  : line.includes("/") ? `…${line.slice(1 - BOX.characters)}` : `${line.slice(0, BOX.characters - 1)}…`;

// `graph`: nodes with column and lines, edges between their ids. Columns go from left to right.
function drawGraph(graph, label) {
  const heights = Math.max(1, ...graph.nodes.map(node => node.lines.length)) * BOX.line + 2 * BOX.top;
  const rows = rowsOf(graph), places = new Map();
  for (const node of graph.nodes) places.set(node.id, [1 + node.column * (BOX.width + BOX.gapX), 1 + rows.get(node.id) * (heights + BOX.gapY)]);
  const width = 2 + Math.max(...[...places.values()].map(each => each[0])) + BOX.width;
  const height = 2 + Math.max(...[...places.values()].map(each => each[1])) + heights;
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ width, height, role: "img", class: "graph" })) svg.setAttribute(key, value);
  svg.setAttribute("aria-label", label);
  for (const [from, to] of graph.edges) {
    const [x1, y1] = places.get(from), [x2, y2] = places.get(to), middle = (x1 + BOX.width + x2) / 2, half = heights / 2;
    shape("path", { d: `M${x1 + BOX.width} ${y1 + half} C${middle} ${y1 + half} ${middle} ${y2 + half} ${x2} ${y2 + half}`, class: to === "dead_letter" ? "dashed" : "" }, svg);
  }
  for (const node of graph.nodes) {
    const [x, y] = places.get(node.id), group = shape("g", {}, svg);
    shape("rect", { x, y, width: BOX.width, height: heights, rx: 5, class: node.shape.replace(" ", "-") }, group);
    shape("title", {}, group).textContent = node.lines.join("\n");
    node.lines.forEach((line, index) => {
      shape("text", { x: x + 10, y: y + BOX.top + 12 + BOX.line * index, class: index ? "" : "strong" }, group).textContent = fitting(line);
    });
  }
  return svg;
}

const verdict = sink => sink.stops ? badge("a run would stop", "bad") : sink.failed ? badge("it failed", "bad")
  : sink.unknown ? badge("not known", "warn") : word("would continue", "good");

function trouble(kind, text, commands) {
  const made = element("div", null, `note ${kind}`);
  made.append(element("p", text));
  if (commands) made.append(element("pre", commands));
  return made;
}

function showPipeline(found) {
  const made = element("article"), graph = element("div", null, "scroll"), sinks = element("div", null, "scroll");
  made.append(element("h3", found.pipeline), graph);
  if (found.error) { made.append(trouble("bad", found.error)); return made; }
  graph.append(drawGraph(found.graph, `Graph of ${found.pipeline}: ${plural(found.graph.nodes.length, "node")}`));
  made.append(sinks);
  table(sinks, plural(found.sinks.length, "sink"), [
    ["Sink", row => row.sink], ["Writes", row => row.table, "wide"], ["State", verdict],
    ["Lag", row => row.behind === null ? word("not known", "faint") : word(plural(row.behind, row.unit), row.behind ? "warn" : "good"), true],
    ["Oldest unread", row => row.lag_ms === null ? "" : row.behind ? `${span(Math.round(row.lag_ms / 1000))} old` : "none", true],
    ["Version", row => row.version ?? "", true], ["Last commit", row => moment(row.committed_ms)],
    ["Between commits", row => row.batch_ms === null ? "" : `${(row.batch_ms / 1000).toFixed(1)} s`, true],
    ["Its rows", row => number(row.rows), true],
  ], found.sinks);
  for (const sink of found.sinks) {
    if (sink.stops) made.append(trouble("bad", `${sink.sink}: ${sink.stops}`, sink.settles));
    if (sink.failed) made.append(trouble("bad", `${sink.sink} failed ${moment(sink.failed_ms)}: ${sink.failed}`));
    if (sink.unknown) made.append(trouble("warn", `${sink.sink}: ${sink.unknown}`));
  }
  if (found.checks.length) {
    const checks = element("div", null, "scroll");
    made.append(checks);
    table(checks, plural(found.checks.length, "check"), [
      ["Check", row => row.name], ["On", row => row.on], ["Condition", row => element("code", row.expr), "wide"], ["Otherwise", row => row.action],
    ], found.checks);
  }
  if (found.dead_letters) {
    const dead = element("div", null, "scroll"), rows = found.dead_letters.counts;
    const total = rows.reduce((sum, row) => sum + row.count, 0);
    made.append(dead);
    table(dead, `${plural(total, "dead letter")} not replayed, in ${found.dead_letters.table}`, [
      ["Source", row => row.source], ["Reason", row => row.reason, "wide"], ["Dead letters", row => number(row.count), true],
    ], rows);
  }
  return made;
}

function showPipelines(found) {
  const target = at("pipelines"), key = JSON.stringify(found);
  // A graph that is scrolled stays so: only what is new is drawn.
  if (target.dataset.shown === key) return;
  target.dataset.shown = key;
  const places = [...target.querySelectorAll(".scroll")].map(each => each.scrollLeft);
  target.replaceChildren(...found.map(showPipeline));
  [...target.querySelectorAll(".scroll")].forEach((each, index) => {
    each.scrollLeft = places[index] ?? 0;
    reachable(each, each.querySelector("caption")?.textContent ?? "Graph of the pipeline");
  });
}

function openPipelines() {
  repeat(5000, async isShown => {
    const found = await get("/api/pipelines");
    if (!isShown()) return;
    if (found === null) at("pipelines").replaceChildren(element("p", "Start the dashboard with --pipeline FILE to see a pipeline here.", "faint"));
    else if (found.error) at("pipelines").replaceChildren(element("p", found.error, "bad"));
    else showPipelines(found);
  });
}
