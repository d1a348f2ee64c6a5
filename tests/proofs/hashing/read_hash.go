// The hash of a topic's committed records from offset 0 on, as franz-go has them.
// Arguments: bootstrap, topic, then "partition:offset" of each partition's last record.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func bytes(out, value []byte) []byte {
	if value == nil {
		return binary.BigEndian.AppendUint32(out, 0xffffffff)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(value)))
	return append(out, value...)
}

func main() {
	topic := os.Args[2]
	last, seen := map[int32]int64{}, map[int32]int64{}
	from := map[int32]kgo.Offset{}
	for _, each := range os.Args[3:] {
		parts := strings.Split(each, ":")
		partition, _ := strconv.Atoi(parts[0])
		offset, _ := strconv.ParseInt(parts[1], 10, 64)
		last[int32(partition)], seen[int32(partition)] = offset, -1
		from[int32(partition)] = kgo.NewOffset().At(0)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	var count, disorder, sum uint64
	for {
		fetches := client.PollFetches(context.Background())
		for _, failed := range fetches.Errors() {
			panic(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if seen[record.Partition] >= record.Offset {
				disorder++
			}
			seen[record.Partition] = record.Offset
			out := binary.BigEndian.AppendUint32(nil, uint32(record.Partition))
			out = binary.BigEndian.AppendUint64(out, uint64(record.Offset))
			out = binary.BigEndian.AppendUint64(out, uint64(record.Timestamp.UnixMilli()))
			out = bytes(bytes(out, record.Key), record.Value)
			out = binary.BigEndian.AppendUint32(out, uint32(len(record.Headers)))
			for _, header := range record.Headers {
				out = bytes(bytes(out, []byte(header.Key)), header.Value)
			}
			found := sha256.Sum256(out)
			sum += binary.BigEndian.Uint64(found[:8])
			count++
		})
		done := true
		for partition, offset := range last {
			done = done && seen[partition] >= offset
		}
		if done {
			break
		}
	}
	fmt.Printf("{\"count\": %d, \"disorder\": %d, \"hash\": \"%016x\"}\n", count, disorder, sum)
}
