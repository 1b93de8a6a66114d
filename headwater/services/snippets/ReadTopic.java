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

    // After a failure, records may be delivered again, with the same headwater-src header.
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
        settings.put("sasl.mechanism", @sasl_mechanism@);
        settings.put("sasl.jaas.config", @jaas@);
@end@
        settings.put("group.id", @consumer_group@);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");

        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8));
        String limit = System.getenv("HEADWATER_MAX_RECORDS");
        long left = limit == null ? Long.MAX_VALUE : Long.parseLong(limit);
        // All records that poll() has returned are committed, so with a limit it returns one at a time.
        if (limit != null) settings.put("max.poll.records", 1);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(@topic@));
            while (left > 0) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    if (!isRepeat(record)) {
                        System.out.println(record.value());
                        left -= 1;
                    }
                }
            }
        }
    }
}
