// A member of a consumer group, or a transactional producer, behind the lines that
// tests/compat/foreign.py speaks. Arguments: member, franz-go or sarama, bootstrap, group, topic,
// instance id or "-"; or teller, the client, bootstrap, transactional id, topic, timeout in ms; or what franz_tools.go
// has, franz-go, bootstrap, topic and more.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	pollWait  = 100 * time.Millisecond
	callWait  = 30 * time.Second
	session   = 30 * time.Second
	heartbeat = 500 * time.Millisecond
)

// record is [partition, offset, value]; a value becomes base64 by itself.
type record [3]any

type member interface {
	poll() ([]record, error)
	assigned() []int32
	commit() error
	close()
}

type answer struct {
	Records  []record `json:"records"`
	Assigned []int32  `json:"assigned"`
	Error    string   `json:"error,omitempty"`
}

func main() {
	client, seeds := os.Args[2], strings.Split(os.Args[3], ",")
	if tool, is := tools[os.Args[1]]; is {
		if err := use(tool, seeds, os.Args[4:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	begin := map[string]func(string, []string, []string) (hearer, error){
		"member": beginMember,
		"teller": beginTeller,
	}[os.Args[1]]
	one, err := begin(client, seeds, os.Args[4:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() && lines.Text() != "close" {
		said := answer{Records: []record{}, Assigned: []int32{}}
		if err := one.hear(lines.Text(), &said); err != nil {
			said.Error = err.Error()
		}
		if err := out.Encode(said); err != nil {
			break
		}
	}
	one.close()
}

type hearer struct {
	hear  func(line string, said *answer) error
	close func()
}

func beginMember(client string, seeds []string, rest []string) (hearer, error) {
	group, topic, instance := rest[0], rest[1], rest[2]
	if instance == "-" {
		instance = ""
	}
	begin := map[string]func([]string, string, string, string) (member, error){
		"franz-go": beginFranz,
		"sarama":   beginSarama,
	}[client]
	one, err := begin(seeds, group, topic, instance)
	if err != nil {
		return hearer{}, err
	}
	return hearer{close: one.close, hear: func(line string, said *answer) error {
		switch line {
		case "poll":
			found, err := one.poll()
			said.Records = append(said.Records, found...)
			return err
		case "assigned":
			said.Assigned = append(said.Assigned, one.assigned()...)
			return nil
		}
		return one.commit()
	}}, nil
}

func beginTeller(client string, seeds []string, rest []string) (hearer, error) {
	timeout, err := time.ParseDuration(rest[2] + "ms")
	if err != nil {
		return hearer{}, err
	}
	begin := map[string]newTeller{
		"franz-go": beginFranzTeller,
		"sarama":   beginSaramaTeller,
	}[client]
	one, err := begin(seeds, rest[0], rest[1], timeout)
	for until := time.Now().Add(callWait); err != nil && time.Now().Before(until); {
		time.Sleep(pollWait) // the transaction of its predecessor is about to end, say
		one, err = begin(seeds, rest[0], rest[1], timeout)
	}
	if err != nil {
		return hearer{}, err
	}
	fmt.Println("{}") // its id is its own now
	return hearer{close: one.close, hear: func(line string, _ *answer) error {
		return hear(one, line)
	}}, nil
}
