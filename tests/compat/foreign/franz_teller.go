package main

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franzTeller struct {
	client  *kgo.Client
	options []kgo.Opt
	topic   string
}

func beginFranzTeller(seeds []string, id, topic string, timeout time.Duration) (teller, error) {
	options := secured(
		kgo.SeedBrokers(seeds...),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	// What would wait for the first transaction: the id is its own from here on.
	if _, _, err := client.ProducerID(context.Background()); err != nil {
		return nil, err
	}
	return &franzTeller{client: client, options: options, topic: topic}, nil
}

func (one *franzTeller) begin() error { return one.client.BeginTransaction() }

func (one *franzTeller) send(partition int32, value string) error {
	ctx, done := context.WithTimeout(context.Background(), callWait)
	defer done()
	return one.client.ProduceSync(ctx, one.record(partition, value)).FirstErr()
}

func (one *franzTeller) record(partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: one.topic, Partition: partition, Value: []byte(value)}
}

func (one *franzTeller) end(commit bool) error {
	ctx, done := context.WithTimeout(context.Background(), callWait)
	defer done()
	return one.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (one *franzTeller) transform(group, source string, count int, commit bool) error {
	ctx, done := context.WithTimeout(context.Background(), callWait)
	defer done()
	session, err := kgo.NewGroupTransactSession(append(
		one.options,
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Begin(); err != nil {
		return err
	}
	for taken := 0; taken < count && ctx.Err() == nil; {
		session.PollFetches(ctx).EachRecord(func(each *kgo.Record) {
			taken++
			made := one.record(int32(taken%2), strings.ToUpper(string(each.Value)))
			session.Produce(ctx, made, nil)
		})
	}
	_, err = session.End(ctx, kgo.TransactionEndTry(commit))
	return err
}

func (one *franzTeller) close() { one.client.Close() }
