// A member of a consumer group behind the lines that tests/compat/foreign.py speaks.
// Arguments: bootstrap, group, topic. It has no static members.
"use strict";
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, group, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: 30000,
  heartbeatInterval: 500,
  metadataMaxAge: 1000,
});
let queue = [];
let assigned = [];
let polled = new Map();

const forget = () => {
  queue = [];
  assigned = [];
  polled = new Map();
};
consumer.on(consumer.events.REBALANCING, forget);
consumer.on(consumer.events.CRASH, forget);
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  forget();
  assigned = payload.memberAssignment[topic] ?? [];
});

async function begin() {
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
    for (const [partition, offset] of records) polled.set(partition, offset + 1);
    return { records };
  }
  if (line === "assigned") return { assigned };
  // Who joined again begins where it committed last: it has to poll anew.
  if (polled.size === 0) throw new Error("nothing was polled since it joined");
  await consumer.commitOffsets(
    [...polled].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
  );
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
  process.exit(0);
}

main();
