// The pages of topics: the list, and one topic.
"use strict";
const rate = (row, key) => {
  const before = previous?.topics?.find(each => each.topic === row.topic);
  const seconds = secondsBetween(previous?.traffic, view.traffic);
  return before && seconds ? Math.max(0, row[key] - before[key]) / seconds : 0;
};
const shownRate = (row, key) => rate(row, key) ? `${size(rate(row, key))}/s` : "";

// By the clock of a broker that is in both views, 0 without one.
function secondsBetween(before, now) {
  const id = Object.keys(now).find(each => before?.[each]);
  return id ? Math.max(0, now[id].monotonic_ms - before[id].monotonic_ms) / 1000 : 0;
}

function showTopics() {
  const wanted = at("filter").value.toLowerCase(), internal = at("internal").checked;
  const rows = view.topics.filter(row => row.topic.toLowerCase().includes(wanted) && (internal || !row.topic.startsWith("__")));
  const state = row => row.offline ? badge(`${row.offline} without leader`, "bad")
    : row.under_replicated ? badge(`${row.under_replicated} under replicated`, "warn") : word("in sync", "good");
  const more = view.topics_omitted ? `, ${view.topics_omitted} more are not shown` : "";
  table(at("topics"), `${plural(rows.length, "topic")}${more}`, [
    ["Topic", row => topicLink(row.topic), false, row => row.topic],
    ["Partitions", row => row.partitions, true, row => row.partitions],
    ["State", state, false, row => 1000 * row.offline + row.under_replicated],
    ["Size of all replicas", row => size(row.size), true, row => row.size],
    ["In", row => shownRate(row, "bytes_in"), true, row => rate(row, "bytes_in")],
    ["Out", row => shownRate(row, "bytes_out"), true, row => rate(row, "bytes_out")],
    ["Records in", row => number(row.records_in), true, row => row.records_in],
    ["", row => messagesLink("messages", { topic: row.topic })],
  ], rows);
}

function openTopic(name) {
  at("topic-title").textContent = name;
  at("topic-messages").href = `#/messages?${new URLSearchParams({ topic: name })}`;
  for (const id of ["partitions", "consumers", "producers", "configs"]) at(id).replaceChildren(element("p", "asking …", "faint"));
  repeat(5000, async isShown => {
    const found = await get(`/api/topic?name=${encodeURIComponent(name)}`);
    if (isShown()) part(at("partitions"), found, showPartitions);
  });
  repeat(15000, async isShown => {
    const found = await get(`/api/topic/more?name=${encodeURIComponent(name)}`);
    if (!isShown()) return;
    for (const [id, show] of [["consumers", showConsumers], ["producers", showProducers], ["configs", showConfigs]])
      part(at(id), found.error === undefined ? found[id] : found, show);
  });
}

function showPartitions(topic) {
  const rows = topic.partitions, total = rows.reduce((sum, row) => sum + (row.size ?? 0), 0);
  table(at("partitions"), `${plural(rows.length, "partition")}, ${size(total)} at their leaders`, [
    ["Partition", row => messagesLink(row.partition, { topic: topic.topic, partition: row.partition }), true, row => row.partition],
    ["Leader", row => row.leader < 0 ? badge("none", "bad") : row.leader, true, row => row.leader],
    ["Epoch", row => row.leader_epoch, true], ["Replicas", row => row.replicas.join(", ")],
    ["In sync", row => row.isr.length < row.replicas.length ? badge(row.isr.join(", "), "warn") : word(row.isr.join(", "), "good")],
    ["Size", row => size(row.size), true, row => row.size ?? 0],
    ["First offset", row => number(row.start), true, row => row.start ?? 0], ["End offset", row => number(row.end), true, row => row.end ?? 0],
    ["Offsets", row => row.end === null || row.end === undefined ? "" : number(row.end - row.start), true, row => (row.end ?? 0) - (row.start ?? 0)],
  ], rows);
}

const moreOf = found => found.omitted ? `, ${number(found.omitted)} more are not shown` : "";

function showConsumers(found) {
  table(at("consumers"), `${plural(found.rows.length, "group")}${found.omitted ? `, ${number(found.omitted)} more were not asked` : ""}`, [
    ["Group", row => groupLink(row.group), false, row => row.group], ["State", row => stateOf(row.state), false, row => row.state],
    ["Partitions", row => row.partitions, true], ["Lag", row => lagOf(row.lag), true, row => row.lag],
  ], found.rows);
}

function showProducers(found) {
  table(at("producers"), `${plural(found.rows.length, "producer")} by partition, idempotent or transactional${moreOf(found)}`, [
    ["Partition", row => row.partition, true, row => row.partition], ["Producer id", row => row.producer_id, true, row => row.producer_id],
    ["Epoch", row => row.epoch, true], ["Last sequence", row => number(row.last_sequence), true],
    ["Last batch", row => moment(row.last_ms), false, row => row.last_ms], ["Transaction", row => row.in_transaction ? badge("open", "warn") : ""],
  ], found.rows);
}

function showConfigs(rows) {
  const own = rows.filter(row => !row.is_default), ordered = [...own, ...rows.filter(row => row.is_default)];
  const value = row => {
    const shown = word(row.value ?? "(secret)", row.is_default ? "" : "strong");
    if (row.documentation) shown.title = row.documentation;
    return shown;
  };
  table(at("configs"), `${own.length} of ${rows.length} are not at their default`, [
    ["Name", row => row.name, false, row => row.name], ["Value", value], ["From", row => row.source, false, row => row.source],
  ], ordered);
}
