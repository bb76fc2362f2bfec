package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// maxName is what the model providers take.
const maxName = 64

// Tools returns the server's tools as they are now, or a stand-in while it is away.
func (s *Server) Tools(ctx context.Context) []tool.Tool {
	tools, err := s.List(ctx)
	if err != nil {
		s.log.Warn("the server is away, a stand-in takes the place of its tools", "error", err)
		return []tool.Tool{s.standIn()}
	}
	return tools
}

// List returns the server's tools as they are now. A tool that no model could call is left out, with a warning in the log:
// one without an object for arguments, and one whose name is, with the characters that a name may have, another's.
func (s *Server) List(ctx context.Context) ([]tool.Tool, error) {
	found, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	var tools []tool.Tool
	taken := map[string]bool{}
	for _, m := range found {
		t, err := s.tool(m)
		if err == nil && taken[t.spec.Name] {
			err = fmt.Errorf("another tool is already called %s", t.spec.Name)
		}
		if err != nil {
			s.log.Warn("a tool of the server can't be offered", "tool", m.Name, "error", err)
			continue
		}
		taken[t.spec.Name] = true
		tools = append(tools, t)
	}
	return tools, nil
}

func (s *Server) list(ctx context.Context) ([]*mcp.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.opt.ConnectTimeout)
	defer cancel()
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	var found []*mcp.Tool
	for m, err := range session.Tools(ctx, nil) {
		if err != nil {
			s.discard(session)
			return nil, fmt.Errorf("list tools of MCP server %s: %w", s.name, err)
		}
		found = append(found, m)
	}
	return found, nil
}

// remote is a tool that a server carries out.
type remote struct {
	server     *Server
	spec       tool.Spec
	theirs     string // name on the server
	parameters json.RawMessage
}

func (s *Server) tool(m *mcp.Tool) (*remote, error) {
	parameters, err := json.Marshal(m.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var schema struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(parameters, &schema); err != nil || schema.Type != "object" {
		return nil, fmt.Errorf("schema: want one of type object")
	}
	if schema.Properties == nil {
		// Some providers refuse an object schema without the member.
		parameters = append([]byte(`{"properties":{},`), parameters[1:]...)
	}
	name := safeName(s.opt.Prefix + m.Name)
	if !tool.ValidName(name) {
		return nil, fmt.Errorf("name %q: too long or empty", s.opt.Prefix+m.Name)
	}
	description := m.Description
	if description == "" {
		description = m.Title
	}
	effect, ok := s.opt.Effects[m.Name]
	if !ok {
		effect = effectOf(m.Annotations)
	}
	timeout := s.opt.Timeout
	if timeout <= 0 {
		timeout = tool.DefaultTimeout
	}
	return &remote{
		server: s, theirs: m.Name, parameters: parameters,
		spec: tool.Spec{Name: name, Description: description, Effect: effect, Timeout: timeout},
	}, nil
}

// effectOf maps the hints of a server. What it doesn't say may be harmful.
func effectOf(a *mcp.ToolAnnotations) tool.Effect {
	switch {
	case a == nil:
		return tool.AtMostOnce
	case a.ReadOnlyHint:
		return tool.ReadOnly
	case a.IdempotentHint:
		return tool.Idempotent
	}
	return tool.AtMostOnce
}

// safeName puts an underscore where MCP allows a character that model providers don't.
func safeName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

func (t *remote) Spec() tool.Spec { return t.spec }

func (t *remote) Definition() agui.Tool {
	return agui.Tool{Name: t.spec.Name, Description: t.spec.Description, Parameters: append(json.RawMessage(nil), t.parameters...)}
}

func (t *remote) Call(ctx context.Context, call *tool.Call, args json.RawMessage) (tool.Result, error) {
	return t.server.call(ctx, call, t.theirs, args, t.spec.Effect)
}

// standInArguments are those of a stand-in.
type standInArguments struct {
	Tool      string         `json:"tool,omitempty" jsonschema:"name of the tool to call; leave it out to list the tools"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"arguments of that tool"`
}

// standIn is what an agent has of a server that was away when the agent was made.
func (s *Server) standIn() tool.Tool {
	name := safeName(s.opt.Prefix + s.name)
	if len(name) > maxName-len("_server") {
		name = name[:maxName-len("_server")]
	}
	return tool.New(tool.Spec{
		Name: name + "_server",
		Description: fmt.Sprintf("The tools of the server %s could not be listed, because it was away. "+
			"Call this without a tool to see whether it is back, and which tools it has; call it with one of them and its arguments to use it.", s.name),
		Timeout: s.opt.Timeout,
	}, func(ctx context.Context, call *tool.Call, in standInArguments) (tool.Result, error) {
		if in.Tool == "" {
			return s.describe(ctx)
		}
		args, err := json.Marshal(in.Arguments)
		if err != nil {
			return tool.Result{}, fmt.Errorf("arguments: %w", err)
		}
		if in.Arguments == nil {
			args = nil
		}
		return s.call(ctx, call, in.Tool, args, tool.AtMostOnce)
	})
}

// describe lists the tools for a model.
func (s *Server) describe(ctx context.Context) (tool.Result, error) {
	found, err := s.list(ctx)
	if err != nil {
		return tool.Result{}, s.away(ctx, err)
	}
	type line struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Parameters  any    `json:"parameters"`
	}
	lines := make([]line, 0, len(found))
	for _, m := range found {
		lines = append(lines, line{m.Name, m.Description, m.InputSchema})
	}
	list, err := encode(lines)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(string(list)), nil
}
