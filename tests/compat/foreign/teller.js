// A transactional producer behind the lines that tests/compat/foreign.py speaks.
// Arguments: bootstrap, transactional id, topic, transaction timeout in ms.
"use strict";
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");
const secured = require("./secured.js");

const [bootstrap, id, topic, timeout] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, ...secured });
const producer = kafka.producer({
  transactionalId: id,
  transactionTimeout: Number(timeout),
  idempotent: true,
  maxInFlightRequests: 1,
});
let open = null;

async function end(commit) {
  const ending = open;
  open = null;
  await (commit ? ending.commit() : ending.abort());
}

async function transform(group, source, count, commit) {
  const consumer = kafka.consumer({ groupId: group, readUncommitted: false });
  const taken = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [source], fromBeginning: true });
  await new Promise((done, failed) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        taken.push([partition, Number(message.offset), message.value.toString()]);
        if (taken.length === count) done();
      },
    });
  });
  open = await producer.transaction();
  const ends = new Map();
  for (const [at, [partition, offset, value]] of taken.entries()) {
    const messages = [{ value: value.toUpperCase(), partition: at % 2 }];
    await open.send({ topic, messages });
    ends.set(partition, offset + 1);
  }
  const partitions = [...ends].map(([partition, offset]) => ({
    partition,
    offset: String(offset),
  }));
  await open.sendOffsets({ consumerGroupId: group, topics: [{ topic: source, partitions }] });
  await end(commit);
  await consumer.disconnect();
}

async function hear(words) {
  if (words[0] === "begin") {
    open = await producer.transaction();
  } else if (words[0] === "send") {
    await open.send({ topic, messages: [{ value: words[2], partition: Number(words[1]) }] });
  } else if (words[0] === "transform") {
    await transform(words[1], words[2], Number(words[3]), words[4] === "commit");
  } else {
    await end(words[0] === "commit");
  }
}

async function main() {
  await producer.connect();
  console.log("{}");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "close") break;
    let said = {};
    try {
      await hear(line.split(" "));
    } catch (error) {
      said = { error: String(error) };
    }
    console.log(JSON.stringify(said));
  }
  await producer.disconnect();
  process.exit(0);
}

main();
