// Elements, tables, numbers and requests. Everything that brokers and records say is set as text, never as markup.
"use strict";
const at = id => document.getElementById(id);
const size = bytes => {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${bytes.toFixed(unit && bytes < 100 ? 1 : 0)} ${units[unit]}`;
};
const number = count => count === null || count === undefined ? "" : count.toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
const span = s => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : s < 172800 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 86400)} days`;
const moment = ms => ms === null || ms === undefined || ms < 0 ? "" : new Date(ms).toLocaleString("sv");
const clock = ms => new Date(ms).toLocaleTimeString("sv");

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = String(text);
  if (kind) made.className = kind;
  return made;
}
const word = (text, kind) => element("span", text, kind);
const badge = (text, kind) => element("span", text, `badge ${kind}`);

// A link to a page; `key` finds it again after the table was drawn again.
function link(text, to) {
  const made = element("a", text);
  made.href = to;
  made.dataset.key = to;
  return made;
}
const topicLink = name => link(name, `#/topics/${encodeURIComponent(name)}`);
const groupLink = name => link(name, `#/groups/${encodeURIComponent(name)}`);
const messagesLink = (text, query) => link(text, `#/messages?${new URLSearchParams(query)}`);

// A column: [heading, row => text | node, is it a number (or a class), row => value to sort by].
// The roles are those of the elements: they stay where a narrow window lays rows out as cards.
function table(target, caption, columns, rows) {
  const made = element("table"), head = element("tr"), body = element("tbody"), top = element("thead");
  for (const [each, role] of [[made, "table"], [head, "row"], [body, "rowgroup"], [top, "rowgroup"]]) each.setAttribute("role", role);
  made.append(element("caption", caption));
  if (!rows.length) made.className = "empty";
  const sorted = Number(target.dataset.sorted ?? -1), way = target.dataset.way === "down" ? -1 : 1;
  const by = columns[sorted]?.[3];
  const ordered = by ? [...rows].sort((one, other) => {
    const [a, b] = [by(one), by(other)];
    return way * (a < b ? -1 : a > b ? 1 : 0);
  }) : rows;
  columns.forEach(([title, , isNumber, value], index) => {
    const cell = element("th", value ? null : title, isNumber === true ? "number" : "");
    cell.scope = "col";
    cell.setAttribute("role", "columnheader");
    if (value) {
      const button = element("button", title, "sort");
      button.type = "button";
      button.dataset.key = `sort ${title}`;
      button.addEventListener("click", () => {
        target.dataset.way = sorted === index && way === 1 ? "down" : "up";
        target.dataset.sorted = index;
        table(target, caption, columns, rows);
      });
      if (sorted === index) cell.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      cell.append(button);
    }
    head.append(cell);
  });
  for (const row of ordered) {
    const line = element("tr");
    line.setAttribute("role", "row");
    for (const [, show, kind] of columns) {
      const shown = show(row), cell = element("td", null, kind === true ? "number" : kind || "");
      cell.setAttribute("role", "cell");
      cell.append(shown instanceof Node ? shown : String(shown ?? ""));
      line.append(cell);
    }
    body.append(line);
  }
  top.append(head);
  made.append(top, body);
  // What is the same stays: a text that is being selected, for one.
  if (target.childElementCount === 1 && target.firstElementChild.isEqualNode(made)) { reachable(target, caption); return; }
  // The keyboard's focus stays where it is, although the table is a new one.
  const focused = target.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  target.replaceChildren(made);
  if (focused) [...target.querySelectorAll("[data-key]")].find(each => each.dataset.key === focused)?.focus();
  reachable(target, caption);
}

// What is wider than the window is scrolled with the keyboard, too.
function reachable(target, label) {
  if (target.scrollWidth > target.clientWidth) {
    target.tabIndex = 0;
    target.setAttribute("role", "region");
    target.setAttribute("aria-label", label);
  } else for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
}

// A table, or the sentence with which its part was refused.
function part(target, found, show) {
  if (found?.error !== undefined) target.replaceChildren(element("p", found.error, "bad"));
  else show(found);
}

async function get(path) {
  try {
    const answer = await fetch(path);
    return await answer.json().catch(() => ({ error: `the dashboard answers ${answer.status}` }));
  } catch { return { error: "the dashboard does not answer" }; }
}

// The page that is shown, and what is asked again while it is.
const page = { name: "", argument: "", query: new URLSearchParams(), timers: [], number: 0 };
function repeat(ms, work) {
  const mine = page.number;
  const again = async () => {
    if (page.number !== mine) return;
    if (document.visibilityState === "visible") await work(() => page.number === mine);
    if (page.number === mine) page.timers.push(setTimeout(again, ms));
  };
  again();
}
