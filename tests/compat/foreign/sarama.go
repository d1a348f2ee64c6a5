package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// shopify is a handler, too: what its claims bring waits in `queue` to be polled.
type shopify struct {
	group   sarama.ConsumerGroup
	end     context.CancelFunc
	ended   chan struct{}
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	queue   []*sarama.ConsumerMessage
}

func beginSarama(seeds []string, group, topic, instance string) (member, error) {
	config := saramaConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = session
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.Group.InstanceId = instance
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(),
	}
	config.Metadata.RefreshFrequency = time.Second
	joined, err := sarama.NewConsumerGroup(seeds, group, config)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	one := &shopify{group: joined, end: end, ended: make(chan struct{})}
	go func() {
		defer close(one.ended)
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, one); err != nil {
				if errors.Is(err, sarama.ErrClosedConsumerGroup) {
					return
				}
				time.Sleep(pollWait)
			}
		}
	}()
	return one, nil
}

func (one *shopify) Setup(session sarama.ConsumerGroupSession) error {
	one.lock.Lock()
	defer one.lock.Unlock()
	one.session = session
	return nil
}

func (one *shopify) Cleanup(sarama.ConsumerGroupSession) error {
	one.lock.Lock()
	defer one.lock.Unlock()
	one.session, one.queue = nil, nil
	return nil
}

func (one *shopify) ConsumeClaim(
	_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for each := range claim.Messages() {
		one.lock.Lock()
		one.queue = append(one.queue, each)
		one.lock.Unlock()
	}
	return nil
}

func (one *shopify) poll() ([]record, error) {
	time.Sleep(pollWait)
	one.lock.Lock()
	defer one.lock.Unlock()
	found := []record{}
	for _, each := range one.queue {
		found = append(found, record{each.Partition, each.Offset, each.Value})
		one.session.MarkMessage(each, "")
	}
	one.queue = nil
	return found, nil
}

func (one *shopify) assigned() []int32 {
	one.lock.Lock()
	defer one.lock.Unlock()
	found := []int32{}
	if one.session != nil {
		for _, partitions := range one.session.Claims() {
			found = append(found, partitions...)
		}
	}
	return found
}

func (one *shopify) commit() error {
	one.lock.Lock()
	session := one.session
	one.lock.Unlock()
	if session == nil {
		return errors.New("it is about to join again")
	}
	session.Commit()
	return nil
}

func (one *shopify) close() {
	one.end()
	one.group.Close()
	<-one.ended
}
