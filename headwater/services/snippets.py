"""Programs that read a sink's topic, complete and with the credentials in them, as the deploy answer shows them.

Each joins the suggested group, reads committed records only, drops repeats by the header `headwater-src` and prints
one record a line. With HEADWATER_MAX_RECORDS in the environment the Python, Node and Java ones end after that many.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Access:
    """How a user reads one topic. Without a username the programs don't log in."""

    topic: str
    bootstrap_servers: str
    security_protocol: str
    sasl_mechanism: str | None
    username: str | None
    password: str | None = field(repr=False)
    consumer_group: str


def snippets(access: Access) -> dict[str, str]:
    """The programs by language: python, node, java, kcat."""
    values = asdict(access)
    values["ssl"] = access.security_protocol.endswith("SSL")
    values["brokers"] = access.bootstrap_servers.split(",")
    has_login = access.username is not None
    if has_login:
        values["mechanism"] = str(access.sasl_mechanism).lower()
        values["jaas"] = (
            f"org.apache.kafka.common.security.{_LOGIN_MODULES[str(access.sasl_mechanism)]} required "
            f"username={json.dumps(access.username)} password={json.dumps(access.password)};"
        )
    return {
        language: _fill(
            template.replace("@login@\n", LOGINS[language] if has_login else ""),
            values,
            LITERALS.get(language, json.dumps),
        )
        for language, template in TEMPLATES.items()
    }


def _fill(template: str, values: dict[str, object], literal: Callable[[object], str]) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", literal(value))
    return template


def _shell_word(value: object) -> str:
    return shlex.quote(str(value))


LITERALS: dict[str, Callable[[object], str]] = {"kcat": _shell_word}
"""How a language writes a value, where a JSON literal won't do: in JSON's quotes the shell takes $ for a variable."""


PYTHON = """\
# pip install confluent-kafka
import os
import sys

from confluent_kafka import Consumer, KafkaException

REMEMBERED = 200_000

consumer = Consumer(
    {
        "bootstrap.servers": @bootstrap_servers@,
        "security.protocol": @security_protocol@,
@login@
        "group.id": @consumer_group@,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "error_cb": lambda error: print(error, file=sys.stderr),
    }
)
consumer.subscribe([@topic@])

# After a failure records may come again, with the same headwater-src header.
seen = {}
left = float(os.environ.get("HEADWATER_MAX_RECORDS", "inf"))
try:
    while left > 0:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            if message.error().fatal():
                raise KafkaException(message.error())
            # For example after a pause of more than five minutes: the next poll joins the group again.
            print(message.error(), file=sys.stderr)
            continue
        source = dict(message.headers() or []).get("headwater-src")
        if source in seen:
            continue
        if source is not None:
            seen[source] = None
        if len(seen) > REMEMBERED:
            del seen[next(iter(seen))]
        sys.stdout.buffer.write((message.value() or b"null") + b"\\n")
        sys.stdout.buffer.flush()
        left -= 1
finally:
    consumer.close()
"""

NODE = """\
// npm install kafkajs lz4-napi
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const lz4 = require("lz4-napi");

const REMEMBERED = 200_000;

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
});

const kafka = new Kafka({
  brokers: @brokers@,
  ssl: @ssl@,
@login@
  logLevel: logLevel.ERROR,
});
const consumer = kafka.consumer({ groupId: @consumer_group@, readUncommitted: false });

// After a failure records may come again, with the same headwater-src header.
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
      if (left <= 0 || isRepeat(message)) return;
      console.log(message.value === null ? "null" : message.value.toString());
      left -= 1;
      if (left <= 0) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
"""

JAVA = """\
// Save as ReadTopic.java, put kafka-clients and what it depends on into lib/, then with Java 17 or newer:
//   java -cp "lib/*" ReadTopic.java
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ReadTopic {
    static final int REMEMBERED = 200_000;

    // After a failure records may come again, with the same headwater-src header.
    static final Map<String, Boolean> SEEN = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
            return size() > REMEMBERED;
        }
    };

    static boolean isRepeat(ConsumerRecord<byte[], String> record) {
        Header source = record.headers().lastHeader("headwater-src");
        return source != null
            && SEEN.put(new String(source.value(), StandardCharsets.UTF_8), true) != null;
    }

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", @bootstrap_servers@);
        settings.put("security.protocol", @security_protocol@);
@login@
        settings.put("group.id", @consumer_group@);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");

        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8));
        String limit = System.getenv("HEADWATER_MAX_RECORDS");
        long left = limit == null ? Long.MAX_VALUE : Long.parseLong(limit);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(@topic@));
            while (left > 0) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    if (left > 0 && !isRepeat(record)) {
                        System.out.println(record.value());
                        left -= 1;
                    }
                }
            }
        }
    }
}
"""

KCAT = """\
# Needs a kcat with librdkafka 2.6.1 or newer, see kcat -V; older ones can't log in to Kafka 4 (a fault of their SCRAM).
kcat -q -u -b @bootstrap_servers@ \\
  -X security.protocol=@security_protocol@ \\
@login@
  -X isolation.level=read_committed \\
  -X auto.offset.reset=earliest \\
  -f '%h\\t%s\\n' -G @consumer_group@ @topic@ |
# After a failure records may come again, with the same headwater-src header.
perl -ne '$| = 1; ($headers, $value) = split /\\t/, $_, 2;
  print $value unless $headers =~ /headwater-src=([^,]*)/ && $seen{$1}++'
"""

TEMPLATES = {"python": PYTHON, "node": NODE, "java": JAVA, "kcat": KCAT}

LOGINS = {
    "python": """\
        "sasl.mechanism": @sasl_mechanism@,
        "sasl.username": @username@,
        "sasl.password": @password@,
""",
    "node": """\
  sasl: {
    mechanism: @mechanism@,
    username: @username@,
    password: @password@,
  },
""",
    "java": """\
        settings.put("sasl.mechanism", @sasl_mechanism@);
        settings.put("sasl.jaas.config", @jaas@);
""",
    "kcat": """\
  -X sasl.mechanism=@sasl_mechanism@ \\
  -X sasl.username=@username@ \\
  -X sasl.password=@password@ \\
""",
}
"""The lines of each program that log in."""

_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
