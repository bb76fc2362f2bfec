package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// maxAnswer bounds what is read of an answer over HTTP.
const maxAnswer = 1 << 20

// temporalVersion reads the server's version from what the Go linker wrote into the program.
func temporalVersion(devserver string) (string, error) {
	info, err := buildinfo.ReadFile(devserver)
	if err != nil {
		return "", fmt.Errorf("version of Temporal's server: %w", err)
	}
	for _, module := range info.Deps {
		if module.Path == "go.temporal.io/server" {
			return module.Version[1:], nil // Without its v.
		}
	}
	return "", fmt.Errorf("%s is not built with Temporal's server", devserver)
}

// temporalProbe looks at the frontend, the namespace, and the two services behind it that answer a little later.
func temporalProbe(address string) (probe, error) {
	c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ time.Time) error {
		if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			return err
		}
		_, err := c.DescribeWorkflow(ctx, "holdfast-is-history-there", "")
		if _, missing := errors.AsType[*serviceerror.NotFound](err); err != nil && !missing {
			return err
		}
		_, err = c.DescribeTaskQueue(ctx, "holdfast", enumspb.TASK_QUEUE_TYPE_WORKFLOW)
		return err
	}, nil
}

// natsProbe looks at the server and at JetStream.
func natsProbe(url string) probe {
	return func(ctx context.Context, _ time.Time) error {
		return withJetStream(url, func(js jetstream.JetStream) error {
			_, err := js.AccountInfo(ctx)
			return err
		})
	}
}

func withJetStream(url string, do func(jetstream.JetStream) error) error {
	nc, err := nats.Connect(url, nats.Timeout(probeTimeout), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return do(js)
}

// gatewayProbe asks the gateway whether it and what it stands on are ready.
func gatewayProbe(opts options) probe {
	return func(ctx context.Context, _ time.Time) error {
		status, body, err := get(ctx, "http://"+opts.httpAddress()+"/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return err
	}
}

// errSilent says that no worker has announced its agents yet.
var errSilent = errors.New("it has not announced its agents yet")

// workerProbe looks for announcements that are younger than the worker, as those of a killed one live for some seconds,
// and whether the gateway has heard of them, too.
func workerProbe(opts options) probe {
	stream := os.Getenv("HOLDFAST_STREAM")
	if stream == "" {
		stream = "HOLDFAST"
	}
	return func(ctx context.Context, started time.Time) error {
		err := withJetStream(opts.natsURL(), func(js jetstream.JetStream) error {
			bucket, err := js.KeyValue(ctx, stream+"_AGENTS")
			if errors.Is(err, jetstream.ErrBucketNotFound) {
				return errSilent
			}
			if err != nil {
				return err
			}
			keys, err := bucket.ListKeys(ctx)
			if err != nil {
				return err
			}
			for key := range keys.Keys() {
				if entry, err := bucket.Get(ctx, key); err == nil && entry.Created().After(started) {
					return nil
				}
			}
			return errSilent
		})
		if err == nil {
			_, err = listAgents(ctx, opts)
		}
		return err
	}
}

// listAgents asks the gateway which agents are served. No agents is an error.
func listAgents(ctx context.Context, opts options) ([]string, error) {
	status, body, err := get(ctx, "http://"+opts.httpAddress()+"/agents")
	if err != nil {
		return nil, err
	}
	var list struct {
		Agents []struct {
			Name string `json:"name"`
		} `json:"agents"`
	}
	switch {
	case status == http.StatusUnauthorized:
		return nil, nil // Whoever set HOLDFAST_TOKENS_FILE has a token; this program has none.
	case status != http.StatusOK:
		return nil, fmt.Errorf("/agents answers %d: %s", status, body)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("/agents answers %q: %w", body, err)
	}
	if len(list.Agents) == 0 {
		return nil, errors.New("no agents are announced yet")
	}
	var names []string
	for _, a := range list.Agents {
		names = append(names, a.Name)
	}
	return names, nil
}

func get(ctx context.Context, url string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, body, err
}
