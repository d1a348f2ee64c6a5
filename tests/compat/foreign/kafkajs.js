// A member of a consumer group behind the lines that tests/compat/foreign.py speaks.
// Arguments: bootstrap, group, topic. It has no static members.
"use strict";
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");
const secured = require("./secured.js");

const [bootstrap, group, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, ...secured });
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: 30000,
  heartbeatInterval: 500,
  metadataMaxAge: 1000,
});
const admin = kafka.admin();
let queue = [];
let assigned = [];
// Behind what was polled last; who joins again reads from its last commit, and knows more.
const polled = new Map();

const forget = () => {
  queue = [];
  assigned = [];
};
consumer.on(consumer.events.REBALANCING, forget);
consumer.on(consumer.events.CRASH, forget);
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  forget();
  assigned = payload.memberAssignment[topic] ?? [];
});

async function begin() {
  await admin.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      queue.push([partition, Number(message.offset), message.value.toString("base64")]);
    },
  });
}

async function answer(line) {
  if (line === "poll") {
    await new Promise((done) => setTimeout(done, 100));
    const records = queue;
    queue = [];
    for (const [partition, offset] of records) {
      polled.set(partition, Math.max(offset + 1, polled.get(partition) ?? 0));
    }
    return { records };
  }
  if (line === "assigned") return { assigned };
  const owned = [...polled].filter(([partition]) => assigned.includes(partition));
  if (owned.length < polled.size) throw new Error("it is about to join again");
  await consumer.commitOffsets(
    owned.map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
  );
  // While its runner begins anew it commits nothing, and says so to nobody.
  const [kept] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  for (const [partition, offset] of owned) {
    const found = kept.partitions.find((each) => each.partition === partition);
    if (Number(found?.offset) !== offset) throw new Error(`not committed: ${partition}`);
  }
  return {};
}

async function main() {
  const begun = begin();
  begun.catch(() => {});
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "close") break;
    let said;
    try {
      said = await answer(line);
    } catch (error) {
      said = { error: String(error) };
    }
    console.log(JSON.stringify(said));
  }
  await begun.catch(() => {});
  await consumer.disconnect();
  await admin.disconnect();
  process.exit(0);
}

main();
