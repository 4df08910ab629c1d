// A member of a group, of @platformatic/kafka, by either protocol: the lines and the signal of member_kafkajs.cjs.
import { Consumer, stringDeserializers } from "@platformatic/kafka";

const [bootstrap, topic, session, groupProtocol] = process.argv.slice(2);
const consumer = new Consumer({
  clientId: "platformatic",
  bootstrapBrokers: bootstrap.split(","),
  groupId: topic,
  groupProtocol,
  sessionTimeout: Number(session),
  rebalanceTimeout: 3 * Number(session),
  heartbeatInterval: 200,
  deserializers: stringDeserializers,
  maxWaitTime: 100,
  retries: 100,
  retryDelay: 50,
});
let size = 0;
let leaving = false;
setInterval(() => {
  const now = (consumer.assignments ?? []).reduce((sum, one) => sum + one.partitions.length, 0);
  if (now !== size) console.log(`has ${(size = now)}`);
}, 20);
process.on("SIGTERM", async () => { leaving = true; await consumer.close(true); process.exit(0); });
while (!leaving) {
  try {
    const stream = await consumer.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest", autocommit: 200 });
    for await (const message of stream) console.log(`got ${message.value}`);
  } catch (error) {
    if (!leaving) console.error(error);
    await new Promise((done) => setTimeout(done, 100));
  }
}
