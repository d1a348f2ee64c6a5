package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What franz-go does in one go and tells in one object: bootstrap, topic and more in `rest`.
var tools = map[string]func(ctx context.Context, seeds []string, rest []string) (any, error){
	"write": franzWrites,
	"read":  franzReads,
	"admin": franzAdministers,
}

func use(tool func(context.Context, []string, []string) (any, error), seeds, rest []string) error {
	ctx, done := context.WithTimeout(context.Background(), 4*callWait)
	defer done()
	said, err := tool(ctx, seeds, rest)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// franzWrites the numbers below rest[1], each to the partition that it is of, modulo rest[2].
func franzWrites(ctx context.Context, seeds []string, rest []string) (any, error) {
	count, _ := strconv.Atoi(rest[1])
	partitions, _ := strconv.Atoi(rest[2])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	failed := kgo.AbortingFirstErrPromise(client)
	for n := range count {
		client.Produce(ctx, &kgo.Record{
			Topic:     rest[0],
			Partition: int32(n % partitions),
			Value:     []byte(strconv.Itoa(n)),
		}, failed.Promise())
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return count, failed.Err()
}

// franzReads so many records, each as [partition, offset, value].
func franzReads(ctx context.Context, seeds []string, rest []string) (any, error) {
	count, _ := strconv.Atoi(rest[1])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ConsumeTopics(rest[0]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := [][3]any{}
	for len(found) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d records came", len(found), count)
		}
		fetches.EachRecord(func(each *kgo.Record) {
			found = append(found, [3]any{each.Partition, each.Offset, string(each.Value)})
		})
	}
	return found, nil
}

// franzAdministers a topic from its making to its end, and says what it was told.
func franzAdministers(ctx context.Context, seeds []string, rest []string) (any, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin, topic, kept, longer := kadm.NewClient(client), rest[0], "123456", "654321"
	said := map[string]any{}
	config := map[string]*string{"retention.ms": &kept}
	if _, err := admin.CreateTopic(ctx, 2, 1, config, topic); err != nil {
		return nil, err
	}
	_, err = admin.CreateTopic(ctx, 2, 1, config, topic)
	said["again"] = errors.Is(err, kerr.TopicAlreadyExists)
	widened, err := admin.UpdatePartitions(ctx, 4, topic)
	if err != nil {
		return nil, err
	}
	if err := widened.Error(); err != nil {
		return nil, err
	}
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &longer}}
	altered, err := admin.AlterTopicConfigs(ctx, change, topic)
	if err != nil {
		return nil, err
	}
	said["altered"] = len(altered) == 1 && altered[0].Err == nil
	for said["retention.ms"] != longer && ctx.Err() == nil {
		described, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return nil, err
		}
		for _, each := range described[0].Configs {
			if each.Key == "retention.ms" {
				said["retention.ms"] = each.MaybeValue()
			}
		}
	}
	for said["partitions"] != 4 && ctx.Err() == nil {
		topics, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return nil, err
		}
		said["partitions"] = len(topics[topic].Partitions)
	}
	deleted, err := admin.DeleteTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	said["deleted"] = deleted.Error() == nil
	return said, nil
}
