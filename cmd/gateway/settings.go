package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/holdfast-dev/holdfast/cmd/internal/process"
	"github.com/holdfast-dev/holdfast/eventbus"
	"github.com/holdfast-dev/holdfast/gateway"
)

// largestBody leaves room in Temporal's payload for what goes with a request, largestInput in the log's event
// (eventbus.MaxEvent).
const (
	largestBody  = 1_800_000
	largestInput = 7_000_000
)

// settings is what the environment says.
type settings struct {
	address, metricsAddress string
	natsURL, natsCreds      string
	blobs                   string

	gateway  gateway.Options
	log      eventbus.Options
	temporal client.Options
}

// readSettings reads the environment. Its error names every variable that is wrong.
func readSettings() (s settings, err error) {
	var e process.Environment
	s.address = cmp.Or(e.Address("HOLDFAST_ADDRESS"), "127.0.0.1:8080")
	s.metricsAddress = e.Address("HOLDFAST_METRICS_ADDRESS")
	s.natsURL = cmp.Or(e.Word("NATS_URL"), nats.DefaultURL)
	s.natsCreds = e.File("NATS_CREDS")
	s.blobs = e.Line("HOLDFAST_BLOBS")
	e.File("HOLDFAST_KEYS_FILE") // it is read where it is used
	s.log.Stream = e.StreamName("HOLDFAST_STREAM")
	s.log.Replicas = e.Number("HOLDFAST_STREAM_REPLICAS", 5)
	s.gateway.Limits.Body = e.Number("HOLDFAST_MAX_BODY", largestInput)
	if s.blobs == "" && s.gateway.Limits.Body > largestBody {
		e.Wrong("HOLDFAST_MAX_BODY", "at most %d without HOLDFAST_BLOBS, because Temporal takes 2 MiB in one payload", largestBody)
	}
	s.gateway.Limits.Requests = float64(e.Number("HOLDFAST_MAX_REQUESTS", 1_000_000))
	s.gateway.Limits.Streams = e.Number("HOLDFAST_MAX_STREAMS", 1_000_000)
	s.gateway.AllowedOrigins, err = origins(os.Getenv("HOLDFAST_CORS_ORIGINS"))
	if err != nil {
		e.Wrong("HOLDFAST_CORS_ORIGINS", "%w", err)
	}
	if path := e.File("HOLDFAST_TOKENS_FILE"); path != "" {
		if s.gateway.Authenticate, err = tokens(path); err != nil {
			e.Wrong("HOLDFAST_TOKENS_FILE", "%w", err)
		}
	}
	e.Temporal()
	if s.temporal, err = envconfig.LoadDefaultClientOptions(); err != nil {
		e.Add(fmt.Errorf("read Temporal's environment (TEMPORAL_…): %w", err))
	}
	return s, e.Err()
}

func tokens(path string) (authenticate func(*http.Request) (gateway.Principal, error), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return gateway.BearerTokens(f)
}

// origins reads a list of origins, which browsers send as scheme://host[:port] and compare letter by letter.
func origins(list string) (allowed []string, err error) {
	for origin := range strings.SplitSeq(list, ",") {
		origin = strings.TrimSpace(origin)
		switch u, parseErr := url.Parse(origin); {
		case origin == "" && strings.TrimSpace(list) == "" && list == "":
		case origin == "":
			err = errors.Join(err, errors.New("an origin of the list is empty"))
		case origin == "*":
			allowed = append(allowed, origin)
		case parseErr != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.ContainsAny(u.Host, "*\\ "):
			err = errors.Join(err, fmt.Errorf("%q is not an origin, which is written https://app.example or http://localhost:3000, without a path and in small letters", origin))
		default:
			allowed = append(allowed, origin)
		}
	}
	return allowed, err
}
