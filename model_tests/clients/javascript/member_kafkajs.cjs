// A member of a group, of kafkajs. A line for each thing that happens: `has N` partitions, `got VALUE`. SIGTERM: it leaves.
const { Kafka, logLevel } = require("kafkajs");

async function main(bootstrap, topic, session) {
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 3 };
  const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.ERROR, retry });
  const rebalance = { rebalanceTimeout: 3 * Number(session), maxWaitTimeInMs: 100 };  // it joins again after a fetch
  const times = { sessionTimeout: Number(session), heartbeatInterval: 200, ...rebalance };
  const consumer = kafka.consumer({ groupId: topic, ...times, retry: { ...retry, restartOnFailure: async () => true } });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => console.log(`has ${(payload.memberAssignment[topic] ?? []).length}`));
  process.on("SIGTERM", async () => { await consumer.disconnect(); process.exit(0); });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ message }) => console.log(`got ${message.value}`),
  });
}

main(...process.argv.slice(2)).catch((error) => { console.error(error); process.exit(1); });
