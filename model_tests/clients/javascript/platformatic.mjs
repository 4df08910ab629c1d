// Every admin call of @platformatic/kafka that is about neither groups nor transactions, and its codecs; prints what it saw.
import { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, ProduceAcks, Producer, stringSerializers }
  from "@platformatic/kafka";

const [bootstrap, topic] = process.argv.slice(2);
const base = { clientId: "javascript", bootstrapBrokers: bootstrap.split(",") };
const admin = new Admin(base);
const saw = {};

await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs: [{ name: "retention.ms", value: "5000" }] });
const metadata = async () => admin.metadata({ topics: [topic], forceUpdate: true });
const until = async (holds) => { while (!(await holds())) await new Promise((done) => setTimeout(done, 20)); };
await until(async () => (await metadata().catch(() => null))?.topics.get(topic)?.partitionsCount === 2);
saw.brokers = (await metadata()).brokers.size;

saw.offsets = {};
for (const compression of ["none", "gzip", "snappy", "lz4"]) {
  const producer = new Producer({ ...base, serializers: stringSerializers, compression, idempotent: compression !== "none" });
  const messages = [1, 2, 3].map((n) => ({ topic, partition: 0, key: `k${n}`, value: `v${n}`, headers: { h: "1" } }));
  const sent = await producer.send({ messages, acks: ProduceAcks.ALL });
  saw.offsets[compression] = Number(sent.offsets[0].offset);
  await producer.close();
}

const offset = async (timestamp) => {
  const listed = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] });
  return Number(listed[0].partitions[0].offset);
};
saw.ends = [await offset(-2n), await offset(-1n)];
const deleted = await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 4n }] }] });
saw.low = Number(deleted[0].partitions[0].lowWatermark);

const leader = (await metadata()).topics.get(topic).partitions[0].leader;
const topicId = (await metadata()).topics.get(topic).id;
const consumer = new Consumer({ ...base, groupId: "none" });
consumer.topics.track(topic);
const partitions = [{ partition: 0, fetchOffset: 4n, partitionMaxBytes: 1 << 20, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }];
const fetched = await consumer.fetch({ node: leader, topics: [{ topicId, partitions }], maxWaitTime: 500, minBytes: 1, maxBytes: 1 << 20 });
saw.fetched = fetched.responses[0].partitions[0].records.map((batch) => Number(batch.firstOffset));
await consumer.close(true);

const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }];
const configs = [{ name: "retention.ms", value: "7000", configOperation: IncrementalAlterConfigOperationTypes.SET }];
await admin.incrementalAlterConfigs({ resources: [{ ...resources[0], configs }] });
const retention = async () => {
  const [described] = await admin.describeConfigs({ resources: [{ ...resources[0], configurationKeys: ["retention.ms"] }] });
  return described.configs[0].value;
};
await until(async () => (await retention()) === "7000");
await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] });
await until(async () => (await metadata()).topics.get(topic).partitionsCount === 3);
saw.directories = (await admin.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] })).length;
const entity = [{ entityType: "client-id", entityName: topic }];
await admin.alterClientQuotas({ entries: [{ entities: entity, ops: [{ key: "producer_byte_rate", value: 1e6, remove: false }] }] });
const quotas = async () => admin.describeClientQuotas({ components: [{ entityType: "client-id", matchType: 0, match: topic }] });
await until(async () => (await quotas()).length === 1);
await admin.deleteTopics({ topics: [topic] });
await until(async () => !(await admin.listTopics()).includes(topic));
await admin.close();
console.log(JSON.stringify(saw));
