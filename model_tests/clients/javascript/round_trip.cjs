// Makes a topic, produces with every codec that kafkajs has on board, reads by partition, and prints what it saw as JSON.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

async function main(bootstrap, topic) {
  const kafka = new Kafka({ clientId: "javascript", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const offsets = [];
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    const messages = [1, 2, 3].map((n) => ({ key: `k${n}`, value: `v${n}`, partition: 0, headers: { h: "1" } }));
    const [sent] = await producer.send({ topic, messages, acks: -1, compression });
    offsets.push(sent.baseOffset);
  }
  await producer.disconnect();
  const listed = await admin.fetchTopicOffsets(topic);
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  const cluster = await admin.describeCluster();
  await admin.deleteTopics({ topics: [topic] });
  const left = await admin.listTopics();
  await admin.disconnect();
  console.log(JSON.stringify({
    offsets,
    ends: Object.fromEntries(listed.map((each) => [each.partition, each.high])),
    partitions: metadata.topics[0].partitions.length,
    brokers: cluster.brokers.length,
    deleted: !left.includes(topic),
  }));
}

main(...process.argv.slice(2)).catch((error) => { console.error(error); process.exit(1); });
