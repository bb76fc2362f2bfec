package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaisdk "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agent/model/anthropic"
	"github.com/holdfast-dev/holdfast/agent/model/openai"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	pacedWords = 400
	pacedEvery = 2 * time.Millisecond
	fastWords  = 20_000
)

// wire is one provider protocol: how a word is written, and two ways to read it, ours and the SDK's with its accumulator.
type wire struct {
	name       string
	begin, end string
	word       func(text string) string
	ours       func(base string, c *http.Client) (model.Model, error)
	bare       func(ctx context.Context, base string, c *http.Client, said func(string)) error
}

func wires() []wire {
	quote := func(s string) string {
		data, _ := json.Marshal(s) // a string can be encoded
		return string(data)
	}
	named := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	return []wire{
		{
			name: "chat completions",
			word: func(text string) string {
				return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764460800,"model":"m","choices":[{"index":0,"delta":{"content":` + quote(text) + `},"finish_reason":null}]}` + "\n\n"
			},
			end: `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764460800,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
			ours: func(base string, c *http.Client) (model.Model, error) {
				return openai.New(openai.Config{BaseURL: base + "/v1", APIKey: "key", Model: "m", HTTPClient: c})
			},
			bare: func(ctx context.Context, base string, c *http.Client, said func(string)) error {
				client := openaisdk.NewClient(openaioption.WithBaseURL(base+"/v1"), openaioption.WithAPIKey("key"), openaioption.WithHTTPClient(c), openaioption.WithMaxRetries(0))
				stream := client.Chat.Completions.NewStreaming(ctx, openaisdk.ChatCompletionNewParams{
					Model: "m", Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("?")},
				})
				var all openaisdk.ChatCompletionAccumulator
				for stream.Next() {
					chunk := stream.Current()
					if !all.AddChunk(chunk) {
						return errors.New("the SDK can't accumulate the answer")
					}
					for _, choice := range chunk.Choices {
						said(choice.Delta.Content)
					}
				}
				return stream.Err()
			},
		},
		{
			name: "Messages",
			begin: named("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`) +
				named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			word: func(text string) string {
				return named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quote(text)+`}}`)
			},
			end: named("content_block_stop", `{"type":"content_block_stop","index":0}`) +
				named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}}`) + named("message_stop", `{"type":"message_stop"}`),
			ours: func(base string, c *http.Client) (model.Model, error) {
				return anthropic.New(anthropic.Config{BaseURL: base, APIKey: "key", Model: "m", HTTPClient: c})
			},
			bare: func(ctx context.Context, base string, c *http.Client, said func(string)) error {
				client := anthropicsdk.NewClient(anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(c), anthropicoption.WithMaxRetries(0))
				stream := client.Messages.NewStreaming(ctx, anthropicsdk.MessageNewParams{
					Model: "m", MaxTokens: 100, Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("?"))},
				})
				var all anthropicsdk.Message
				for stream.Next() {
					event := stream.Current()
					if err := all.Accumulate(event); err != nil {
						return err
					}
					if event.Type == "content_block_delta" {
						said(event.Delta.Text)
					}
				}
				return stream.Err()
			},
		},
	}
}

// read is our way to read an answer: the model, and the turn put together from it.
func (w wire) read(ctx context.Context, base string, c *http.Client, said func(string)) error {
	m, err := w.ours(base, c)
	if err != nil {
		return err
	}
	var all model.Assembler
	for d, err := range m.Stream(ctx, model.Request{Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text("?")}}}) {
		if err == nil {
			err = all.Add(d)
		}
		if err != nil {
			return err
		}
		if d.Text != "" {
			said(d.Text)
		}
	}
	_, err = all.Turn()
	return err
}

// measureProvider measures what stands between a provider's bytes and a turn.
func measureProvider(ctx context.Context, b *bench) error {
	for _, w := range wires() {
		if err := w.latency(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := w.cost(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// latency is the age of a word when it has been read, over a real connection to a provider that says the time.
func (w wire) latency(ctx context.Context, b *bench) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(rw)
		_, _ = io.WriteString(rw, w.begin) // a reader that is gone ends the loop
		wait := pace(pacedEvery)
		for range pacedWords {
			if wait(r.Context()) != nil {
				return
			}
			_, _ = io.WriteString(rw, w.word(stamp()))
			_ = out.Flush()
		}
		_, _ = io.WriteString(rw, w.end)
	})}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	base := "http://" + listener.Addr().String()
	age := func(ages *sample) func(string) {
		return func(text string) {
			if at, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				*ages = append(*ages, time.Duration(time.Now().UnixNano()-at))
			}
		}
	}
	var ours, bare sample
	rounds := b.choose(5, 1)
	for range rounds {
		if err := w.read(ctx, base, http.DefaultClient, age(&ours)); err != nil {
			return err
		}
		if err := w.bare(ctx, base, http.DefaultClient, age(&bare)); err != nil {
			return err
		}
	}
	if want := rounds * pacedWords; len(ours) != want || len(bare) != want {
		return fmt.Errorf("%d and %d words were read, want %d", len(ours), len(bare), want)
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		b.report.row(w.name+", age of a word, "+q.name, micros(ours.quantile(q.at), 1), micros(bare.quantile(q.at), 1), "")
	}
	return nil
}

// transport answers every request with a body, without a network.
type transport []byte

func (body transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// cost is what a word costs that is there already, in time and in allocations.
func (w wire) cost(ctx context.Context, b *bench) error {
	words := b.choose(fastWords, fastWords/10)
	client := &http.Client{Transport: transport(w.begin + strings.Repeat(w.word("word "), words) + w.end)}
	measure := func(read func(context.Context, string, *http.Client, func(string)) error) (took time.Duration, allocations float64, err error) {
		n := 0
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		err = read(ctx, "http://127.0.0.1:1", client, func(text string) {
			if text != "" {
				n++
			}
		})
		took = time.Since(start)
		runtime.ReadMemStats(&after)
		if err == nil && n != words {
			err = fmt.Errorf("%d words were read, want %d", n, words)
		}
		return took, float64(after.Mallocs-before.Mallocs) / float64(words), err
	}
	var ours, bare sample
	var ourAllocations, bareAllocations float64
	for range b.choose(5, 1) {
		took, allocations, err := measure(w.read)
		if err != nil {
			return err
		}
		ours, ourAllocations = append(ours, took), allocations
		if took, allocations, err = measure(w.bare); err != nil {
			return err
		}
		bare, bareAllocations = append(bare, took), allocations
	}
	b.report.row(w.name+", time for a word", micros(ours.quantile(0.5), words), micros(bare.quantile(0.5), words), "")
	b.report.row(w.name+", allocations for a word", rate(ourAllocations, "allocs"), rate(bareAllocations, "allocs"), "")
	return nil
}
