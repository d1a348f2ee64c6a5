import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Apache Kafka's own consumer behind the lines that tests/compat/foreign.py speaks.
 * Arguments: classic or consumer (the group protocol), bootstrap, group, topic, instance id or "-".
 */
public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties config = secured();
        config.put("group.protocol", arguments[0]);
        config.put("bootstrap.servers", arguments[1]);
        config.put("group.id", arguments[2]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("metadata.max.age.ms", "1000");
        if (arguments[0].equals("classic")) {
            config.put("session.timeout.ms", "30000");
            config.put("heartbeat.interval.ms", "500");
        }
        if (!arguments[4].equals("-")) {
            config.put("group.instance.id", arguments[4]);
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[3]));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = lines.readLine()) != null && !line.equals("close"); ) {
                System.out.println(answer(consumer, line));
            }
        }
    }

    private static String answer(KafkaConsumer<byte[], byte[]> consumer, String line) {
        try {
            switch (line) {
                case "poll":
                    StringJoiner records = new StringJoiner(",");
                    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                        String value = Base64.getEncoder().encodeToString(each.value());
                        records.add("[%d,%d,\"%s\"]".formatted(each.partition(), each.offset(), value));
                    }
                    return "{\"records\":[" + records + "]}";
                case "assigned":
                    StringJoiner numbers = new StringJoiner(",");
                    for (TopicPartition each : consumer.assignment()) {
                        numbers.add(Integer.toString(each.partition()));
                    }
                    return "{\"assigned\":[" + numbers + "]}";
                default:
                    consumer.commitSync(Duration.ofSeconds(30));
                    return "{}";
            }
        } catch (Exception error) {
            return "{\"error\":\"" + error.toString().replaceAll("[\"\\\\\n]", " ") + "\"}";
        }
    }

    /** TLS and SCRAM, by the file that JOSEFINE_SECURED names, if it names one. */
    private static Properties secured() throws Exception {
        Properties config = new Properties();
        String file = System.getenv("JOSEFINE_SECURED");
        if (file != null) {
            try (FileReader text = new FileReader(file)) {
                config.load(text);
            }
        }
        return config;
    }
}
