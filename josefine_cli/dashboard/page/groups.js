// The pages of consumer groups: the list, and one group with its lag, members and a reset of its offsets.
"use strict";
const stateOf = state => word(state, /^stable$/i.test(state) ? "good" : /^(empty|dead)$/i.test(state) ? "faint" : "warn");
const lagOf = lag => lag === null || lag === undefined ? word("not known", "faint") : word(number(lag), lag ? "warn" : "good");
let group = "", samples = [];

function showGroups() {
  const wanted = at("group-filter").value.toLowerCase();
  const rows = view.groups.filter(row => row.group.toLowerCase().includes(wanted));
  const more = view.groups_omitted ? `, ${number(view.groups_omitted)} more are not shown` : "";
  const lag = row => row.partitions_elsewhere
    ? word(`${number(row.lag)} + ${plural(row.partitions_elsewhere, "partition")} elsewhere`, row.lag ? "warn" : "") : lagOf(row.lag);
  table(at("groups"), `${plural(rows.length, "group")}${more}`, [
    ["Group", row => groupLink(row.group), false, row => row.group], ["State", row => stateOf(row.state), false, row => row.state],
    ["Members", row => row.members, true, row => row.members], ["Lag", lag, true, row => row.lag],
    ["Coordinator", row => row.broker, true, row => row.broker],
  ], rows);
}

function openGroup(name) {
  group = name;
  at("group-title").textContent = name;
  at("group-said").textContent = "asking …";
  at("group-said").className = "faint";
  at("reset-part").hidden = !token;
  for (const id of ["lag", "group-partitions", "members", "plan"]) at(id).replaceChildren();
  at("reset-now").hidden = true;
  repeat(5000, async isShown => {
    const found = await get(`/api/group?name=${encodeURIComponent(name)}`);
    if (isShown()) showGroup(found);
  });
}

function showGroup(found) {
  const said = at("group-said");
  said.className = found.error === undefined ? "" : "bad";
  if (found.error !== undefined) { said.textContent = found.error; return; }
  const how = [found.protocol_type, found.assignor && `assigned by ${found.assignor}`, found.epoch === null ? "" : `epoch ${found.epoch}`].filter(Boolean).join(", ");
  const text = `${found.state}${how ? ` (${how})` : ""}, ${plural(found.members.length, "member")}, coordinator ${found.coordinator}, lag ${number(found.lag)}`;
  if (said.textContent !== text) said.textContent = text;
  samples = found.history;
  drawLag(at("lag"), samples);
  const who = new Map(found.members.map(each => [each.member, each.client]));
  table(at("group-partitions"), plural(found.partitions.length, "partition"), [
    ["Topic", row => topicLink(row.topic), false, row => row.topic], ["Partition", row => row.partition, true, row => row.partition],
    ["Committed", row => row.committed === null ? word("nothing", "faint")
      : messagesLink(number(row.committed), { topic: row.topic, partition: row.partition, offset: row.committed }), true, row => row.committed ?? -1],
    ["End", row => number(row.end), true, row => row.end ?? -1], ["Lag", row => lagOf(row.lag), true, row => row.lag ?? -1],
    ["Owner", row => row.owner === null ? word("nobody", "faint") : who.get(row.owner) ?? row.owner],
  ], found.partitions);
  const owned = member => {
    const topics = new Map();
    for (const { topic, partition } of member.partitions) topics.set(topic, [...topics.get(topic) ?? [], partition]);
    return [...topics].map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ");
  };
  table(at("members"), plural(found.members.length, "member"), [
    ["Client", row => row.client, false, row => row.client], ["Host", row => row.host], ["Instance", row => row.instance ?? ""],
    ["Partitions", owned], ["Member", row => word(row.member, "faint")],
  ], found.members);
}

// The plan that was shown is the plan that is sent: the server refuses it if the group has changed since.
let plan = null;
function showPlan(asked, rows) {
  plan = { ...asked, plan: rows };
  table(at("plan"), `${plural(rows.length, "offset")} would move`, [
    ["Topic", row => row.topic], ["Partition", row => row.partition, true], ["Committed", row => number(row.committed) || word("nothing", "faint"), true],
    ["To", row => number(row.to), true], ["Lag then", row => number(row.lag), true], ["", row => row.note],
  ], rows);
  at("reset-now").hidden = !rows.length;
}

function preparedReset() {
  const form = at("reset"), said = form.querySelector("[role=status]");
  const tell = answer => {
    said.textContent = answer.error ?? answer.said;
    said.className = answer.error ? "bad" : "good";
  };
  form.addEventListener("input", () => { at("reset-now").hidden = true; at("plan").replaceChildren(); });
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const asked = { ...Object.fromEntries(new FormData(form)), group };
    const answer = await change("/api/groups/plan", asked);
    tell(answer);
    if (answer.plan && asked.group === group) showPlan(asked, answer.plan);
  });
  at("reset-now").addEventListener("click", async () => {
    at("reset-now").hidden = true;
    at("plan").replaceChildren();
    tell(await change("/api/groups/reset", plan));
  });
}
