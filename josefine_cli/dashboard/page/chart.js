// Draws how much the brokers take and give, from their counters since the page was opened.
"use strict";
const SPAN_S = 300, WIDTH_MAX = 960, CHART_HEIGHT = 140, LEFT = 76, SERIES = ["bytes_in", "bytes_out"];
const points = [];
let counted = null, countedAt = 0;

// A broker that answers no more, or began anew, adds nothing; one that came is counted from then on.
// The time between two counts is that of the broker's own clock: answers are on their way for
// different times, and by the times of their arrival a rate would show spikes.
function rateOf(before, now, key) {
  let sum = 0;
  for (const [id, counts] of Object.entries(now)) {
    const ms = before[id] ? counts.monotonic_ms - before[id].monotonic_ms : 0;
    if (ms > 0) sum += Math.max(0, counts[key] - before[id][key]) * 1000 / ms;
  }
  return sum;
}

// A view that comes again (a page that connects again gets the last one) is no pause of the traffic.
const isAgain = traffic => counted !== null && Object.keys(traffic).length > 0
  && Object.entries(traffic).every(([id, counts]) => counted[id]?.monotonic_ms === counts.monotonic_ms);

function addTraffic(traffic, nowS) {
  if (isAgain(traffic)) return;
  if (counted !== null && nowS > countedAt) {
    const point = { from: countedAt, to: nowS };
    for (const key of [...SERIES, "records_in"]) point[key] = rateOf(counted, traffic, key);
    points.push(point);
  }
  counted = traffic;
  countedAt = nowS;
  while (points.length && points[0].to < nowS - SPAN_S) points.shift();
}

function drawTraffic(target, said, nowS) {
  if (counted === null) return;
  const last = points.at(-1), now = key => last && nowS - last.to < 15 ? last[key] : 0;
  const width = Math.min(WIDTH_MAX, target.clientWidth);
  const text = `in ${size(now("bytes_in"))}/s, out ${size(now("bytes_out"))}/s, ${Math.round(now("records_in")).toLocaleString("en")} records/s in`;
  if (said.textContent !== text) said.textContent = text;
  const most = Math.max(1, ...points.flatMap(point => SERIES.map(key => point[key])));
  const x = s => LEFT + (width - LEFT) * (1 - (nowS - Math.max(s, nowS - SPAN_S)) / SPAN_S);
  const y = rate => 8 + (CHART_HEIGHT - 24) * (1 - rate / most);
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ width, height: CHART_HEIGHT, role: "img" })) svg.setAttribute(key, value);
  svg.setAttribute("aria-label", `Throughput of the last five minutes, at most ${size(most)}/s; now ${text}`);
  for (const [rate, label] of [[most, `${size(most)}/s`], [0, "0"]]) {
    shape("line", { x1: LEFT, x2: width, y1: y(rate), y2: y(rate), class: "grid" }, svg);
    shape("text", { x: LEFT - 6, y: y(rate) + 4, class: "scale" }, svg).textContent = label;
  }
  for (const [s, label, side] of [[nowS - SPAN_S, "5 minutes ago", "start"], [nowS, "now", "end"]])
    shape("text", { x: x(s), y: CHART_HEIGHT - 2, class: side }, svg).textContent = label;
  for (const key of SERIES) {
    const corners = points.flatMap(point => [[point.from, point[key]], [point.to, point[key]]]);
    if (last && nowS > last.to) corners.push([last.to, now(key)], [nowS, now(key)]);
    shape("polyline", { points: corners.map(([s, rate]) => `${x(s).toFixed(1)},${y(rate).toFixed(1)}`).join(" "), class: key }, svg);
  }
  target.replaceChildren(svg);
}
