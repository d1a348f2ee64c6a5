package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// teller is a transactional producer. A transform is a whole transaction: so many records of a
// topic, written in capitals, with the group's offsets.
type teller interface {
	begin() error
	send(partition int32, value string) error
	end(commit bool) error
	transform(group, source string, count int, commit bool) error
	close()
}

type newTeller func(seeds []string, id, topic string, timeout time.Duration) (teller, error)

func hear(one teller, line string) error {
	words := strings.Split(line, " ")
	switch words[0] {
	case "begin":
		return one.begin()
	case "send":
		partition, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		return one.send(int32(partition), words[2])
	case "commit", "abort":
		return one.end(words[0] == "commit")
	case "transform":
		count, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		return one.transform(words[1], words[2], count, words[4] == "commit")
	}
	return fmt.Errorf("no command %q", words[0])
}
