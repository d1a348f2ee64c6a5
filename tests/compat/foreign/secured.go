package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// settings are those of the properties file that JOSEFINE_SECURED names, if it names one.
func settings() map[string]string {
	found := map[string]string{}
	text, err := os.ReadFile(os.Getenv("JOSEFINE_SECURED"))
	if err != nil {
		return found
	}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, is := strings.Cut(line, "="); is {
			found[name] = value
		}
	}
	return found
}

func trusted(file string) *tls.Config {
	authorities := x509.NewCertPool()
	if text, err := os.ReadFile(file); err == nil {
		authorities.AppendCertsFromPEM(text)
	}
	return &tls.Config{RootCAs: authorities}
}

func mechanism(found map[string]string) sasl.Mechanism {
	auth := scram.Auth{User: found["sasl.username"], Pass: found["sasl.password"]}
	if found["sasl.mechanism"] == sarama.SASLTypeSCRAMSHA512 {
		return auth.AsSha512Mechanism()
	}
	return auth.AsSha256Mechanism()
}

// secured is what franz-go needs for TLS and SCRAM; nothing in plaintext.
func secured(options ...kgo.Opt) []kgo.Opt {
	found := settings()
	if len(found) == 0 {
		return options
	}
	config := trusted(found["ssl.truststore.location"])
	return append(options, kgo.DialTLSConfig(config), kgo.SASL(mechanism(found)))
}

// saramaConfig is Sarama's, with the same.
func saramaConfig() *sarama.Config {
	config, found := sarama.NewConfig(), settings()
	if len(found) == 0 {
		return config
	}
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = trusted(found["ssl.truststore.location"])
	config.Net.SASL.Enable = true
	config.Net.SASL.User, config.Net.SASL.Password = found["sasl.username"], found["sasl.password"]
	config.Net.SASL.Mechanism = sarama.SASLMechanism(found["sasl.mechanism"])
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		return &saramaScram{settings: found}
	}
	return config
}

// saramaScram is the arithmetic of SCRAM, which Sarama leaves to others: here it is franz-go's.
type saramaScram struct {
	settings map[string]string
	session  sasl.Session
	first    []byte
	done     bool
}

func (one *saramaScram) Begin(_, _, _ string) (err error) {
	one.session, one.first, err = mechanism(one.settings).Authenticate(context.Background(), "")
	return err
}

func (one *saramaScram) Step(challenge string) (string, error) {
	if one.first != nil {
		first := string(one.first)
		one.first = nil
		return first, nil
	}
	done, answer, err := one.session.Challenge([]byte(challenge))
	one.done = done
	return string(answer), err
}

func (one *saramaScram) Done() bool { return one.done }
