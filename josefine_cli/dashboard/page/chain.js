// Draws the picture of the chain; where each block stands was decided before (chain_picture.py).
"use strict";
const STEP = 46, LANE = 44, RADIUS = 9, SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

function drawChain(target, picture) {
  const place = node => [STEP * (node.column - first + 0.6), LANE * (node.lane + 0.6)];
  const first = Math.min(...picture.nodes.map(node => node.column));
  const width = STEP * (picture.columns - first + 0.4), height = LANE * picture.lanes + 12;
  const svg = document.createElementNS(SVG, "svg");
  const dead = picture.nodes.filter(node => node.state === "dead").length;
  for (const [key, value] of Object.entries({ width, height, role: "img" })) svg.setAttribute(key, value);
  svg.setAttribute("aria-label", `${picture.nodes.length} blocks, ${dead} of them on dead branches`);
  const nodes = new Map(picture.nodes.map(node => [node.id, node]));
  for (const [parent, child] of picture.edges) {
    const [x1, y1] = place(nodes.get(parent)), [x2, y2] = place(nodes.get(child));
    shape("line", { x1, y1, x2, y2, class: nodes.get(child).state }, svg);
  }
  for (const node of picture.nodes) {
    const [x, y] = place(node);
    const group = shape("g", {}, svg);
    shape("title", {}, group).textContent = `${node.id} ${node.state}: ${node.what}`;
    if (node.state === "dead") shape("rect", { x: x - RADIUS, y: y - RADIUS, width: 2 * RADIUS, height: 2 * RADIUS, class: "dead" }, group);
    else shape("circle", { cx: x, cy: y, r: RADIUS, class: node.state }, group);
    shape("text", { x, y: y + 22 }, group).textContent = node.id;
  }
  const atEnd = target.scrollLeft + target.clientWidth >= target.scrollWidth - STEP;
  target.replaceChildren(svg);
  if (atEnd) target.scrollLeft = target.scrollWidth;
}
