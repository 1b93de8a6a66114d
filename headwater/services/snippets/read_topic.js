// npm install kafkajs kafkajs-snappy lz4-napi fzstd
const fzstd = require("fzstd");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const lz4 = require("lz4-napi");

const REMEMBERED = 200_000;

// kafkajs contains only gzip. After a change of the sink's compression, the topic has batches of several codecs.
CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({ decompress: (buffer) => lz4.decompressFrame(buffer) });
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  decompress: (buffer) => Buffer.from(fzstd.decompress(buffer)),
});

const kafka = new Kafka({
  brokers: @brokers@,
  ssl: @ssl@,
@login@
  sasl: {
    mechanism: @mechanism@,
    username: @username@,
    password: @password@,
  },
@end@
  logLevel: logLevel.ERROR,
});
const consumer = kafka.consumer({ groupId: @consumer_group@, readUncommitted: false });

// After a failure, records may be delivered again, with the same headwater-src header.
const seen = new Set();
let left = Number(process.env.HEADWATER_MAX_RECORDS ?? Infinity);

function isRepeat(message) {
  const source = message.headers["headwater-src"]?.toString();
  if (source === undefined) return false;
  if (seen.has(source)) return true;
  seen.add(source);
  if (seen.size > REMEMBERED) seen.delete(seen.values().next().value);
  return false;
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: [@topic@], fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
    const eachMessage = async ({ message }) => {
      if (isRepeat(message)) return;
      console.log(message.value === null ? "null" : message.value.toString());
      left -= 1;
      // The consumer stops before the next message, so the messages after this one are not committed.
      if (left <= 0) resolve(consumer.stop());
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
