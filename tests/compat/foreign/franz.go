package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	client *kgo.Client
	lock   sync.Mutex
	owned  map[int32]bool
}

func beginFranz(seeds []string, group, topic, instance string) (member, error) {
	one := &franz{owned: map[int32]bool{}}
	set := func(is bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			one.lock.Lock()
			defer one.lock.Unlock()
			for _, partition := range changed[topic] {
				one.owned[partition] = is
			}
		}
	}
	options := secured(
		kgo.SeedBrokers(seeds...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(heartbeat),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.OnPartitionsAssigned(set(true)),
		kgo.OnPartitionsRevoked(set(false)),
		kgo.OnPartitionsLost(set(false)),
	)
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	var err error
	one.client, err = kgo.NewClient(options...)
	return one, err
}

func (one *franz) poll() ([]record, error) {
	ctx, done := context.WithTimeout(context.Background(), pollWait)
	defer done()
	found := []record{}
	// Of errors it goes on by itself: a broker that was killed, and the end of the wait.
	one.client.PollFetches(ctx).EachRecord(func(each *kgo.Record) {
		found = append(found, record{each.Partition, each.Offset, each.Value})
	})
	return found, nil
}

func (one *franz) assigned() []int32 {
	one.lock.Lock()
	defer one.lock.Unlock()
	found := []int32{}
	for partition, is := range one.owned {
		if is {
			found = append(found, partition)
		}
	}
	return found
}

func (one *franz) commit() error {
	ctx, done := context.WithTimeout(context.Background(), callWait)
	defer done()
	return one.client.CommitUncommittedOffsets(ctx)
}

func (one *franz) close() { one.client.Close() }
