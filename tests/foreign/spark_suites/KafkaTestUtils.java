// The brokers of Spark's Kafka suites: those that are running, in the place of an embedded one.

package org.apache.spark.sql.kafka010;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ListConsumerGroupsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.DefaultPartitioner;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.collection.immutable.Set;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Has the public methods of the class of this name in Spark's test jar, which it hides on the class
 * path. The brokers serve all suites, and every suite names its topics from 0 on: the first
 * instance of a process deletes all topics that are there.
 *
 * <p>Topics that a suite only sends to are created here, for the brokers create none by themselves,
 * as the suites of sinks ask.
 *
 * <p>What an embedded broker deletes by settings of its own (retention of some bytes in segments of
 * some bytes, which no Kafka 4 takes) is deleted here by DeleteRecords: at `cleanupLogs`, and,
 * where the settings ask for a look each 100 ms, after each `sendMessages`.
 *
 * <p>The embedded broker flushes each record to disk; a test finds the second of two records by its
 * timestamp. No two records of one `sendMessages` have the same one.
 */
public class KafkaTestUtils {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private static int running;

  private final Map<String, Object> settings;
  private final java.util.Set<String> created = new TreeSet<>();
  private AdminClient admin;
  private KafkaProducer<String, String> producer;
  private boolean expiresAtOnce;

  public KafkaTestUtils(
      scala.collection.immutable.Map<String, Object> withBrokerProps, boolean secure) {
    if (secure) {
      throw new UnsupportedOperationException("these brokers know neither Kerberos nor tokens");
    }
    settings = CollectionConverters.asJava(withBrokerProps);
  }

  public static scala.collection.immutable.Map<String, Object> $lessinit$greater$default$1() {
    return KafkaTestUtils$.MODULE$.$lessinit$greater$default$1();
  }

  public static boolean $lessinit$greater$default$2() {
    return KafkaTestUtils$.MODULE$.$lessinit$greater$default$2();
  }

  public void setup() {
    expiresAtOnce = brokerConfiguration().containsKey("log.retention.check.interval.ms");
    admin = AdminClient.create(configuration());
    Properties always = producerConfiguration();
    always.put("partitioner.class", DefaultPartitioner.class.getName());
    producer = new KafkaProducer<>(always);
    if (running++ == 0) {
      names().forEach(this::deleteTopic);
    }
  }

  public void teardown() {
    if (admin == null) {
      return;
    }
    running--;
    producer.close();
    admin.close();
    admin = null;
  }

  public String brokerAddress() {
    return System.getProperty("josefine.bootstrap");
  }

  /** Of the broker that would be embedded: suites override this to have one of their own. */
  public Properties brokerConfiguration() {
    Properties wanted = new Properties();
    wanted.putAll(settings);
    return wanted;
  }

  // Topics.

  public boolean createTopic$default$3() {
    return false;
  }

  public void createTopic(String topic) {
    createTopic(topic, 1, false);
  }

  public void createTopic(String topic, int partitions, boolean overwrite) {
    NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty());
    // The default of Kafka 3, which would be embedded; Kafka 4 and these brokers allow an hour.
    wanted.configs(Map.of("message.timestamp.after.max.ms", String.valueOf(Long.MAX_VALUE)));
    try {
      ask(() -> admin.createTopics(List.of(wanted)).all());
    } catch (TopicExistsException error) {
      if (!overwrite) {
        throw error;
      }
      deleteTopic(topic);
      ask(() -> admin.createTopics(List.of(wanted)).all());
    }
    created.add(topic);
    waitFor(topic + " to have leaders", () -> hasLeaders(topic, partitions));
  }

  public void deleteTopic(String topic) {
    created.remove(topic);
    try {
      ask(() -> admin.deleteTopics(List.of(topic)).all());
    } catch (UnknownTopicOrPartitionException alreadyGone) {
      return;
    }
    waitFor(topic + " to be gone", () -> !names().contains(topic));
  }

  public void addPartitions(String topic, int partitions) {
    ask(() -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all());
    waitFor(topic + " to have leaders", () -> hasLeaders(topic, partitions));
  }

  public Seq<Tuple2<String, Object>> getAllTopicsAndPartitionSize() {
    List<Tuple2<String, Object>> found = new ArrayList<>();
    describe(names())
        .forEach((name, each) -> found.add(Tuple2.apply(name, each.partitions().size())));
    return sequence(found);
  }

  public ListConsumerGroupsResult listConsumerGroups() {
    return admin.listConsumerGroups();
  }

  // Records.

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] values) {
    return sendMessages(topic, values, Option.empty());
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(
      String topic, String[] values, Option<Object> partition) {
    Integer number = partition.isDefined() ? (Integer) partition.get() : null;
    return send(
        Arrays.stream(values)
            .map(value -> new ProducerRecord<String, String>(topic, number, null, value))
            .toList());
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessage(ProducerRecord<String, String> record) {
    return send(List.of(record));
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(
      Seq<ProducerRecord<String, String>> records) {
    return send(CollectionConverters.asJava(records));
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(
      ProducerRecord<String, String>[] records) {
    return send(Arrays.asList(records));
  }

  private Seq<Tuple2<String, RecordMetadata>> send(
      Collection<ProducerRecord<String, String>> records) {
    List<Tuple2<String, RecordMetadata>> sent = new ArrayList<>();
    java.util.Set<String> topics = new TreeSet<>();
    for (ProducerRecord<String, String> record : records) {
      if (!created.contains(record.topic()) && !names().contains(record.topic())) {
        createTopic(record.topic());
      }
      RecordMetadata written = ask(() -> producer.send(record));
      sent.add(Tuple2.apply(record.value(), written));
      topics.add(record.topic());
      waitFor("the next millisecond", () -> System.currentTimeMillis() != written.timestamp());
    }
    if (expiresAtOnce) {
      deleteRecords(topics, 1);
    }
    return sequence(sent);
  }

  public void withTransactionalProducer(
      Function1<KafkaProducer<String, String>, BoxedUnit> body) {
    Properties own = producerConfiguration();
    own.put("transactional.id", UUID.randomUUID().toString());
    try (KafkaProducer<String, String> transactional = new KafkaProducer<>(own)) {
      transactional.initTransactions();
      body.apply(transactional);
    }
  }

  /** Delete every record, as a retention of no time and no bytes does. */
  public void cleanupLogs() {
    deleteRecords(created, 0);
  }

  private void deleteRecords(Collection<String> topics, long kept) {
    Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
    Map<TopicPartition, Long> starts = offsets(topics, OffsetSpec.earliest());
    offsets(topics, OffsetSpec.latest())
        .forEach(
            (partition, end) -> {
              if (end - kept > starts.get(partition)) {
                wanted.put(partition, RecordsToDelete.beforeOffset(end - kept));
              }
            });
    ask(() -> admin.deleteRecords(wanted).all());
  }

  // Offsets.

  public scala.collection.immutable.Map<TopicPartition, Object> getEarliestOffsets(
      Set<String> topics) {
    return scalaMap(offsets(CollectionConverters.asJava(topics), OffsetSpec.earliest()));
  }

  public scala.collection.immutable.Map<TopicPartition, Object> getLatestOffsets(
      Set<String> topics) {
    return scalaMap(offsets(CollectionConverters.asJava(topics), OffsetSpec.latest()));
  }

  public void waitUntilOffsetAppears(TopicPartition partition, long offset) {
    waitFor(
        "offset " + offset + " of " + partition,
        () -> {
          Long end = offsets(List.of(partition.topic()), OffsetSpec.latest()).get(partition);
          return end != null && end >= offset;
        });
  }

  private Map<TopicPartition, Long> offsets(Collection<String> topics, OffsetSpec spec) {
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    describe(topics)
        .forEach(
            (name, topic) ->
                topic
                    .partitions()
                    .forEach(each -> wanted.put(new TopicPartition(name, each.partition()), spec)));
    Map<TopicPartition, Long> found = new HashMap<>();
    ask(() -> admin.listOffsets(wanted).all())
        .forEach((partition, result) -> found.put(partition, result.offset()));
    return found;
  }

  // What the rest is made of.

  private Properties configuration() {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", brokerAddress());
    return settings;
  }

  private Properties producerConfiguration() {
    Properties settings = configuration();
    settings.put("key.serializer", StringSerializer.class.getName());
    settings.put("value.serializer", StringSerializer.class.getName());
    settings.put("acks", "all");
    return settings;
  }

  private java.util.Set<String> names() {
    return ask(() -> admin.listTopics().names());
  }

  private Map<String, TopicDescription> describe(Collection<String> topics) {
    return ask(() -> admin.describeTopics(List.copyOf(topics)).allTopicNames());
  }

  private boolean hasLeaders(String topic, int partitions) {
    try {
      TopicDescription found = describe(List.of(topic)).get(topic);
      return found.partitions().size() == partitions
          && found.partitions().stream().allMatch(each -> each.leader() != null);
    } catch (UnknownTopicOrPartitionException notYet) {
      return false;
    }
  }

  private static <T> T ask(Callable<? extends java.util.concurrent.Future<T>> question) {
    try {
      return question.call().get(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof KafkaException cause) {
        throw cause;
      }
      throw new KafkaException(error.getCause());
    } catch (Exception error) {
      throw new KafkaException(error);
    }
  }

  private static void waitFor(String what, java.util.function.BooleanSupplier condition) {
    long deadline = System.nanoTime() + TIMEOUT.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > deadline) {
        throw new KafkaException("waited " + TIMEOUT + " for " + what);
      }
      try {
        Thread.sleep(1);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new KafkaException(error);
      }
    }
  }

  private static <T> Seq<T> sequence(List<T> values) {
    return CollectionConverters.asScala(values).toSeq();
  }

  private static scala.collection.immutable.Map<TopicPartition, Object> scalaMap(
      Map<TopicPartition, Long> offsets) {
    scala.collection.immutable.Map<TopicPartition, Object> found =
        scala.collection.immutable.Map$.MODULE$.empty();
    for (Map.Entry<TopicPartition, Long> each : offsets.entrySet()) {
      found = found.updated(each.getKey(), (Object) each.getValue());
    }
    return found;
  }
}
