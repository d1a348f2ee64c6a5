// The hash of a topic's committed records from offset 0 on, as the Java client has them.
// Arguments: bootstrap, topic, then "partition:offset" of each partition's last record.

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ReadHash {
    static void bytes(DataOutputStream out, byte[] value) throws Exception {
        out.writeInt(value == null ? -1 : value.length);
        if (value != null) {
            out.write(value);
        }
    }

    public static void main(String[] asked) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", asked[0]);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "5000");
        Map<TopicPartition, Long> last = new HashMap<>();
        for (int at = 2; at < asked.length; at++) {
            String[] parts = asked[at].split(":");
            last.put(new TopicPartition(asked[1], Integer.parseInt(parts[0])), Long.parseLong(parts[1]));
        }
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        Map<TopicPartition, Long> seen = new HashMap<>();
        long count = 0, disorder = 0, sum = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(last.keySet());
            for (TopicPartition each : last.keySet()) {
                consumer.seek(each, 0);
            }
            boolean done = false;
            while (!done) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    TopicPartition from = new TopicPartition(record.topic(), record.partition());
                    Long before = seen.put(from, record.offset());
                    if (before != null && before >= record.offset()) {
                        disorder++;
                    }
                    ByteArrayOutputStream buffer = new ByteArrayOutputStream();
                    DataOutputStream out = new DataOutputStream(buffer);
                    out.writeInt(record.partition());
                    out.writeLong(record.offset());
                    out.writeLong(record.timestamp());
                    bytes(out, record.key());
                    bytes(out, record.value());
                    int headers = 0;
                    for (Header ignored : record.headers()) {
                        headers++;
                    }
                    out.writeInt(headers);
                    for (Header header : record.headers()) {
                        bytes(out, header.key().getBytes(StandardCharsets.UTF_8));
                        bytes(out, header.value());
                    }
                    byte[] found = digest.digest(buffer.toByteArray());
                    sum += new BigInteger(1, found).shiftRight(192).longValue();
                    count++;
                }
                done = true;
                for (Map.Entry<TopicPartition, Long> each : last.entrySet()) {
                    done &= seen.getOrDefault(each.getKey(), -1L) >= each.getValue();
                }
            }
        }
        System.out.printf("{\"count\": %d, \"disorder\": %d, \"hash\": \"%016x\"}%n", count, disorder, sum);
    }
}
