import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's transactional producer behind the lines that tests/compat/foreign.py speaks.
 * Arguments: bootstrap, transactional id, topic, transaction timeout in ms.
 */
public class Teller {
    private final String bootstrap;
    private final String topic;
    private final KafkaProducer<String, String> producer;

    Teller(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[2];
        Properties config = secured();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", arguments[1]);
        config.put("transaction.timeout.ms", arguments[3]);
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
    }

    public static void main(String[] arguments) throws Exception {
        Teller teller = new Teller(arguments);
        System.out.println("{}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null && !line.equals("close"); ) {
            String answer = "{}";
            try {
                teller.hear(line.split(" "));
            } catch (Exception error) {
                answer = "{\"error\":\"" + error.toString().replaceAll("[\"\\\\\n]", " ") + "\"}";
            }
            System.out.println(answer);
        }
        teller.producer.close(Duration.ofSeconds(5));
    }

    private void hear(String[] words) throws Exception {
        switch (words[0]) {
            case "begin" -> producer.beginTransaction();
            case "send" -> send(Integer.parseInt(words[1]), words[2]);
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> transform(words[1], words[2], Integer.parseInt(words[3]), words[4]);
        }
    }

    private void send(int partition, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, null, value)).get();
    }

    private void transform(String group, String source, int count, String end) throws Exception {
        Properties config = secured();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, text, text)) {
            consumer.subscribe(List.of(source));
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (int taken = 0; taken < count; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                    taken++;
                    send(taken % 2, each.value().toUpperCase());
                    offsets.put(new TopicPartition(source, each.partition()),
                            new OffsetAndMetadata(each.offset() + 1));
                }
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
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
