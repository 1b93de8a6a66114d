import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.graalvm.polyglot.Context;
import org.graalvm.polyglot.Engine;
import org.graalvm.polyglot.Value;

/**
 * Copies, filters or scripts a topic with Kafka Streams, until it is killed: {@code StreamsPeer FILE}.
 *
 * <p>The properties file has the settings of Kafka Streams, and source, target, members (a file with a value per line:
 * what to_address must be; none: no filter) and script (a file that defines process(record); none: no script).
 */
public final class StreamsPeer {
  private static final JsonFactory JSON = new JsonFactory();
  private static final String ENTRY =
      "\n(text => { const made = process(JSON.parse(text)); return made == null ? null : JSON.stringify(made); })";

  public static void main(String[] arguments) throws IOException {
    Properties settings = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
      settings.load(file);
    }
    StreamsBuilder builder = new StreamsBuilder();
    KStream<byte[], byte[]> stream = builder.stream(settings.getProperty("source"));
    stream = filtered(stream, settings.getProperty("members"));
    stream = scripted(stream, settings.getProperty("script"));
    stream.to(settings.getProperty("target"));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
    streams.start();
  }

  private static KStream<byte[], byte[]> filtered(KStream<byte[], byte[]> stream, String file) throws IOException {
    if (file == null) {
      return stream;
    }
    Set<String> members = new HashSet<>(Files.readAllLines(Path.of(file)));
    return stream.filter((key, value) -> members.contains(member(value, "to_address")));
  }

  /** A member of a JSON object: the rest behind it is not parsed. */
  private static String member(byte[] object, String name) {
    try (JsonParser parser = JSON.createParser(object)) {
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        boolean found = parser.currentName().equals(name);
        parser.nextToken();
        if (found) {
          return parser.getText();
        }
        parser.skipChildren();
      }
      return null;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static KStream<byte[], byte[]> scripted(KStream<byte[], byte[]> stream, String file) throws IOException {
    if (file == null) {
      return stream;
    }
    String source = Files.readString(Path.of(file)) + ENTRY;
    Engine engine = Engine.newBuilder().option("engine.WarnInterpreterOnly", "false").build();
    ThreadLocal<Value> script =
        ThreadLocal.withInitial(() -> Context.newBuilder("js").engine(engine).build().eval("js", source));
    return stream.mapValues(value -> made(script.get(), value)).filter((key, value) -> value != null);
  }

  private static byte[] made(Value script, byte[] value) {
    Value made = script.execute(new String(value, StandardCharsets.UTF_8));
    return made.isNull() ? null : made.asString().getBytes(StandardCharsets.UTF_8);
  }
}
