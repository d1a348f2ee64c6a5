// Draws lines over time: how much the brokers take and give, and the lag of a group.
"use strict";
const SPAN_S = 300, WIDTH_MAX = 1400, CHART_HEIGHT = 150, LEFT = 76, SERIES = ["bytes_in", "bytes_out"];
const points = [];
let counted = null, countedAt = 0;

// A broker that answers no more, or started again, adds nothing; one that came is counted from then on.
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

// A bound of the axis that is easy to read: 1, 2 or 5 times a power of ten.
function bound(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map(each => each * power).find(each => each >= most) ?? most;
}

// `lines`: [[class, [[x in 0…1, value], …]], …].
function drawLines(target, lines, most, scale, ends, label) {
  const width = Math.min(WIDTH_MAX, target.clientWidth);
  if (width < LEFT + 20) return;
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ width, height: CHART_HEIGHT, role: "img" })) svg.setAttribute(key, value);
  svg.setAttribute("aria-label", label);
  const x = share => LEFT + (width - LEFT - 4) * share, y = value => 8 + (CHART_HEIGHT - 30) * (1 - value / most);
  for (const value of [most, most / 2, 0]) {
    shape("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value), class: "grid" }, svg);
    shape("text", { x: LEFT - 6, y: y(value) + 4, class: "scale" }, svg).textContent = scale(value);
  }
  for (const [share, text, side] of [[0, ends[0], "start"], [1, ends[1], "end"]])
    shape("text", { x: x(share), y: CHART_HEIGHT - 4, class: side }, svg).textContent = text;
  for (const [kind, corners] of lines) {
    const places = corners.map(([share, value]) => [x(Math.max(0, share)).toFixed(1), y(value).toFixed(1)]);
    if (places.length === 1) shape("circle", { cx: places[0][0], cy: places[0][1], r: 3, class: kind }, svg);
    else shape("polyline", { points: places.map(each => each.join(",")).join(" "), class: kind }, svg);
  }
  target.replaceChildren(svg);
}

function drawTraffic(target, said, nowS) {
  if (counted === null) return;
  const last = points.at(-1), now = key => last && nowS - last.to < 15 ? last[key] : 0;
  const text = `in ${size(now("bytes_in"))}/s, out ${size(now("bytes_out"))}/s, ${number(Math.round(now("records_in")))} records/s in`;
  if (said.textContent !== text) said.textContent = text;
  const most = bound(Math.max(1, ...points.flatMap(point => SERIES.map(key => point[key]))));
  const share = s => 1 - (nowS - Math.max(s, nowS - SPAN_S)) / SPAN_S;
  const lines = SERIES.map(key => {
    const corners = points.flatMap(point => [[share(point.from), point[key]], [share(point.to), point[key]]]);
    if (last && nowS > last.to) corners.push([share(last.to), now(key)], [1, now(key)]);
    return [key, corners];
  });
  drawLines(target, lines, most, rate => `${size(rate)}/s`, ["5 minutes ago", "now"], `Throughput of the last five minutes, at most ${size(most)}/s; now ${text}`);
}

// `samples`: [[time in ms, lag], …], oldest first.
function drawLag(target, samples) {
  if (!samples.length) { target.replaceChildren(element("p", "no samples yet", "faint")); return; }
  const [from, to] = [samples[0][0], samples.at(-1)[0]];
  const most = bound(Math.max(1, ...samples.map(each => each[1])));
  const corners = samples.map(([ms, lag]) => [to > from ? (ms - from) / (to - from) : 1, lag]);
  const label = `Lag from ${clock(from)} to ${clock(to)}: at most ${number(Math.max(...samples.map(each => each[1])))} records, now ${number(samples.at(-1)[1])}`;
  drawLines(target, [["lag", corners]], most, value => number(Math.round(value)), [clock(from), clock(to)], label);
}
