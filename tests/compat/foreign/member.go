// A member of a consumer group behind the lines that tests/compat/foreign.py speaks.
// Arguments: franz-go or sarama, bootstrap, group, topic, instance id or "-".
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
	begin := map[string]func([]string, string, string, string) (member, error){
		"franz-go": beginFranz,
		"sarama":   beginSarama,
	}[os.Args[1]]
	instance := os.Args[5]
	if instance == "-" {
		instance = ""
	}
	one, err := begin(strings.Split(os.Args[2], ","), os.Args[3], os.Args[4], instance)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() && lines.Text() != "close" {
		said := answer{Records: []record{}, Assigned: []int32{}}
		var failed error
		switch lines.Text() {
		case "poll":
			var found []record
			found, failed = one.poll()
			said.Records = append(said.Records, found...)
		case "assigned":
			said.Assigned = append(said.Assigned, one.assigned()...)
		default:
			failed = one.commit()
		}
		if failed != nil {
			said.Error = failed.Error()
		}
		if err := out.Encode(said); err != nil {
			break
		}
	}
	one.close()
}
