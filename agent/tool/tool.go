package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/holdfast-dev/holdfast/agui"
)

// DefaultTimeout bounds one attempt of a tool that sets no timeout. It is longer
// than a patient HTTP call and shorter than a user's patience.
const DefaultTimeout = 5 * time.Minute

// namePattern is what the model providers agree on for the name of a function.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ValidName reports whether name may be the name of a tool: 1 to 64 characters
// out of A–Z, a–z, 0–9, "_" and "-".
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Tool is something a model can call. Most are made by [New]; a type of its own
// is for tools whose schema comes from elsewhere.
//
// All methods may be called concurrently. Spec and Definition always return
// the same, because what they say is recorded with every run.
type Tool interface {
	// Spec says how calls are to be run.
	Spec() Spec
	// Definition is what the model is told.
	Definition() agui.Tool
	// Call runs one attempt of a call. It returns when ctx is done, at the
	// latest. Whoever runs tools calls [Run] instead, which guards it.
	Call(ctx context.Context, call *Call, args json.RawMessage) (Result, error)
}

// Spec is what there is to say about a tool beside its function.
type Spec struct {
	// Name is what the model calls it by; see [ValidName].
	Name string
	// Description tells the model what the tool does, when to use it and what
	// it returns. It decides how well the tool is used.
	Description string
	// Effect says what a second attempt would do. The zero value is
	// [AtMostOnce]: nothing is run twice unless its author said so.
	Effect Effect
	// Timeout bounds one attempt; [DefaultTimeout] when it is zero. The context
	// of the function ends then.
	Timeout time.Duration
	// MutatesState says that the tool changes the state document of the run. Such
	// calls get it for themselves, one after the other; see [State].
	MutatesState bool
	// Stream bounds what a tool made by [NewStream] yields.
	Stream Limits
	// Approval says whether a person has to agree to a call.
	Approval Approval
}

// validate returns what is wrong with the spec.
func (s Spec) validate() error {
	switch {
	case !ValidName(s.Name):
		return fmt.Errorf("tool name %q: want 1 to 64 characters out of A-Z, a-z, 0-9, _ and -", s.Name)
	case !s.Effect.valid():
		return fmt.Errorf("tool %s: unknown effect %q", s.Name, string(s.Effect))
	case s.Timeout < 0:
		return fmt.Errorf("tool %s: negative timeout %s", s.Name, s.Timeout)
	}
	if err := s.Approval.validate(); err != nil {
		return fmt.Errorf("tool %s: %w", s.Name, err)
	}
	return nil
}

// New makes a tool of fn. See the package for what it does with arguments,
// results and errors.
//
// The arguments of fn are of type In, read anew for every call. The context ends
// when the run is cancelled and when the attempt's time is up, and fn must return
// then: it cannot be stopped. Call is nil only where the tool is called outside of
// a run.
//
// New panics when the spec is not valid or when no schema can be made of In:
// tools are made when a program starts, and a mistake in one should be the first
// thing that is seen. It names the tool and the field.
func New[In, Out any](spec Spec, fn func(ctx context.Context, call *Call, in In) (Out, error)) Tool {
	if fn == nil {
		panic("tool.New: tool " + spec.Name + ": no function")
	}
	if err := checkOutput(reflect.TypeFor[Out]()); err != nil {
		panic("tool.New: tool " + spec.Name + ": " + err.Error())
	}
	return newFunction[In]("tool.New", spec, func(ctx context.Context, call *Call, in In) (Result, error) {
		out, err := fn(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		return resultOf(out)
	})
}

// newFunction makes a tool of a function; maker is who panics.
func newFunction[In any](maker string, spec Spec, fn func(context.Context, *Call, In) (Result, error)) Tool {
	if spec.Timeout == 0 {
		spec.Timeout = DefaultTimeout
	}
	if err := spec.validate(); err != nil {
		panic(maker + ": " + err.Error())
	}
	schema, err := parameters(reflect.TypeFor[In]())
	if err != nil {
		panic(maker + ": tool " + spec.Name + ": " + err.Error())
	}
	// Marshal, and not an encoder without HTML escaping: in this form the schema
	// keeps its bytes when it is embedded in other JSON and read back.
	encoded, err := json.Marshal(schema)
	if err != nil {
		panic(maker + ": tool " + spec.Name + ": " + err.Error())
	}
	return &function{spec: spec, encoded: encoded, fn: func(ctx context.Context, call *Call, args json.RawMessage) (Result, error) {
		var in In
		if err := readArguments(schema, args, &in); err != nil {
			return Result{}, err
		}
		return fn(ctx, call, in)
	}}
}

// function is a tool that is a Go function.
type function struct {
	spec    Spec
	encoded json.RawMessage
	fn      func(context.Context, *Call, json.RawMessage) (Result, error)
}

func (f *function) Spec() Spec { return f.spec }

func (f *function) Definition() agui.Tool {
	return agui.Tool{Name: f.spec.Name, Description: f.spec.Description, Parameters: bytes.Clone(f.encoded)}
}

func (f *function) Call(ctx context.Context, call *Call, args json.RawMessage) (Result, error) {
	return guard(ctx, f.spec, call, args, func(ctx context.Context) (Result, error) { return f.fn(ctx, call, args) })
}
