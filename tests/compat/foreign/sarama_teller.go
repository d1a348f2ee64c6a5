package main

import (
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type shopifyTeller struct {
	producer sarama.SyncProducer
	seeds    []string
	topic    string
}

func beginSaramaTeller(seeds []string, id, topic string, timeout time.Duration) (teller, error) {
	config := saramaConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = timeout
	config.Producer.Transaction.Retry.Max = 200
	config.Metadata.RefreshFrequency = time.Second
	producer, err := sarama.NewSyncProducer(seeds, config)
	if err != nil {
		return nil, err
	}
	return &shopifyTeller{producer: producer, seeds: seeds, topic: topic}, nil
}

func (one *shopifyTeller) begin() error { return one.producer.BeginTxn() }

func (one *shopifyTeller) send(partition int32, value string) error {
	_, _, err := one.producer.SendMessage(&sarama.ProducerMessage{
		Topic: one.topic, Partition: partition, Value: sarama.StringEncoder(value),
	})
	return err
}

func (one *shopifyTeller) end(commit bool) error {
	if commit {
		return one.producer.CommitTxn()
	}
	return one.producer.AbortTxn()
}

func (one *shopifyTeller) transform(group, source string, count int, commit bool) error {
	reader, err := beginSarama(one.seeds, group, source, "")
	if err != nil {
		return err
	}
	defer reader.close()
	if err := one.begin(); err != nil {
		return err
	}
	ends := map[int32]int64{}
	for taken := 0; taken < count; {
		found, _ := reader.poll()
		for _, each := range found {
			taken++
			value := strings.ToUpper(string(each[2].([]byte)))
			if err := one.send(int32(taken%2), value); err != nil {
				return err
			}
			ends[each[0].(int32)] = each[1].(int64) + 1
		}
	}
	offsets := []*sarama.PartitionOffsetMetadata{}
	for partition, offset := range ends {
		offsets = append(offsets, &sarama.PartitionOffsetMetadata{
			Partition: partition, Offset: offset, LeaderEpoch: -1,
		})
	}
	byTopic := map[string][]*sarama.PartitionOffsetMetadata{source: offsets}
	if err := one.producer.AddOffsetsToTxn(byTopic, group); err != nil {
		return err
	}
	return one.end(commit)
}

func (one *shopifyTeller) close() { one.producer.Close() }
