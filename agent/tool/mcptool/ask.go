package mcptool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

// maxRounds bounds how often a server may answer one call with questions. It is the SDK's own bound.
const maxRounds = 10

// Answers of a person, as MCP names them.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// errComplete ends a note of [tool.Call.Once] that is none: the server has answered.
var errComplete = errors.New("complete")

// question is what a server has answered a call with instead of a result. It is noted with the call, and so in histories.
type question struct {
	Requests mcp.InputRequestMap `json:"requests"`
	State    string              `json:"state,omitempty"` // the server's own, which it gets back
}

// given is what a call is made with after a question.
type given struct {
	responses mcp.InputResponseMap
	state     string
}

// converse makes a call until the server has a result. What it asks on the way is asked of people: the call is then
// suspended, with the server's question as a note, so that it goes on where it was and asks nothing twice.
func (s *Server) converse(ctx context.Context, call *tool.Call, key string, ask func(given) (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
	var known given
	for n := range maxRounds {
		var result *mcp.CallToolResult
		noted, err := call.Once(ctx, fmt.Sprintf("%s %d", key, n+1), func(context.Context) (json.RawMessage, error) {
			r, err := ask(known)
			if err != nil {
				return nil, err
			}
			if !r.NeedsInput() {
				result = r
				return nil, errComplete
			}
			if err := askable(r.InputRequests); err != nil {
				return nil, err
			}
			return json.Marshal(question{r.InputRequests, r.RequestState})
		})
		if result != nil {
			return result, nil
		}
		if err != nil {
			return nil, err
		}
		var q question
		if err := json.Unmarshal(noted, &q); err != nil {
			return nil, fmt.Errorf("question of the server: %w", err)
		}
		known = given{responses: mcp.InputResponseMap{}, state: q.State}
		for _, id := range slices.Sorted(maps.Keys(q.Requests)) {
			answer, err := s.put(ctx, call, q.Requests[id].(*mcp.ElicitParams)) // as askable has seen to
			if err != nil {
				return nil, err
			}
			known.responses[id] = answer
		}
	}
	return nil, tool.Errorf("The tool asked more than %d times and was given up.", maxRounds)
}

// noteKey is what questions of a call are noted under. A tool of an author's own may call several with one call.
func (s *Server) noteKey(name string, args json.RawMessage) string {
	sum := sha256.Sum256(args)
	return "mcp " + s.name + " " + name + " " + hex.EncodeToString(sum[:8])
}

// askable returns why a person can't be asked these.
func askable(requests mcp.InputRequestMap) error {
	if len(requests) == 0 {
		return &tool.Error{Message: "The server is busy. Nothing was done; the call may be made again.", Retryable: true}
	}
	for _, r := range requests {
		if _, ok := r.(*mcp.ElicitParams); !ok {
			return tool.Errorf("The tool asks for something else than the input of a person, which this agent can't give. It did not run to its end.")
		}
	}
	return nil
}

// put asks a person one question of the server: [tool.ErrSuspended] while there is no answer.
func (s *Server) put(ctx context.Context, call *tool.Call, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.Mode == "url" || p.Mode == "" && p.URL != "" {
		return s.visit(ctx, call, p)
	}
	form, err := formOf(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	schema, err := json.Marshal(map[string]any{"anyOf": []any{form, declined}})
	if err != nil {
		return nil, fmt.Errorf("form of the server: %w", err)
	}
	answer, err := call.Approver().Input(ctx, tool.InputRequest{Message: s.asks(p), Schema: schema})
	if err != nil {
		return nil, err
	}
	if answer.Abandoned {
		return &mcp.ElicitResult{Action: actionCancel}, nil
	}
	content := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(answer.Value))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return nil, fmt.Errorf("answer to the server: %w", err)
	}
	if len(content) == 1 && content["action"] == actionDecline {
		return &mcp.ElicitResult{Action: actionDecline}, nil
	}
	return &mcp.ElicitResult{Action: actionAccept, Content: content}, nil
}

// asks is what the person reads, who has to know who asks.
func (s *Server) asks(p *mcp.ElicitParams) string { return s.name + " asks: " + p.Message }

// declined is the form of an answer that declines.
var declined = map[string]any{
	"type": "object", "title": "Decline", "required": []string{"action"}, "additionalProperties": false,
	"properties": map[string]any{"action": map[string]any{"const": actionDecline}},
}

// formOf is the server's form, which has to be one that answers can be held against.
func formOf(requested any) (map[string]any, error) {
	form, ok := requested.(map[string]any)
	if !ok && requested != nil {
		return nil, tool.Errorf("The tool asks for input in a form that can't be understood. It did not run to its end.")
	}
	form = maps.Clone(form)
	if form == nil {
		form = map[string]any{}
	}
	delete(form, "$schema") // it is a part of another
	if form["type"] == nil {
		form["type"] = "object"
	}
	raw, err := json.Marshal(form)
	var schema jsonschema.Schema
	if err == nil {
		err = json.Unmarshal(raw, &schema)
	}
	if err == nil {
		_, err = schema.Resolve(nil)
	}
	if err != nil || schema.Type != "object" {
		return nil, &tool.Error{Message: "The tool asks for input in a form that can't be understood. It did not run to its end.", Err: err}
	}
	return form, nil
}

// visit asks a person to do something at an address. What comes of it goes to the server by itself.
func (s *Server) visit(ctx context.Context, call *tool.Call, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, tool.Errorf("The tool sends a person to an address that is none of the web. It did not run to its end.")
	}
	d, err := call.Approver().Decide(ctx, tool.ApprovalRequest{Message: s.asks(p) + "\n" + u.String()})
	switch {
	case err != nil:
		return nil, err
	case d.Abandoned:
		return &mcp.ElicitResult{Action: actionCancel}, nil
	case !d.Approved:
		return &mcp.ElicitResult{Action: actionDecline}, nil
	}
	return &mcp.ElicitResult{Action: actionAccept}, nil
}
