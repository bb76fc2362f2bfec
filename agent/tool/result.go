package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/agui"
)

// MaxResultBytes bounds one result. Results are part of the conversation: they are
// recorded by Temporal, which refuses payloads above 2 MiB (a string's JSON can
// have six times its bytes), and they are sent to the model with every further
// turn, where 256 KiB of text are some 60,000 tokens already.
//
// Text that is longer is cut at the end, between two characters, and a line is
// added that says so and how long it was. In a list of parts, text parts are cut
// like that; a part of another kind that does not fit is left out whole, and a text
// part at the end says how many were. JSON that was cut is no JSON any more: a tool
// with much to say should offer its result in pages.
const MaxResultBytes = 256 << 10

// partReserve is kept free in a list of parts for what is said about those left out.
const partReserve = 128

// Result is what a call returns to the model. The zero value is an empty text.
type Result struct {
	Content agui.Content
	// ForModel is what the model is given beside the result, in a user message
	// behind all results of the turn; see [Call.Content]. Clients don't get it.
	ForModel []agui.ContentPart
}

// Text returns a result that is text.
func Text(text string) Result { return Result{Content: agui.Text(text)} }

// resultOf turns what a tool's function returned into a result.
func resultOf(out any) (Result, error) {
	if result, ok := out.(Result); ok {
		return result, nil
	}
	if _, marshals := out.(json.Marshaler); !marshals {
		if value := reflect.ValueOf(out); value.Kind() == reflect.String {
			return Text(value.String()), nil
		}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // the model reads it as text
	if err := encoder.Encode(out); err != nil {
		return Result{}, fmt.Errorf("encode result: %w", err)
	}
	return Text(strings.TrimSuffix(encoded.String(), "\n")), nil
}

// checkOutput refuses a type that no value of can be encoded.
func checkOutput(out reflect.Type) error {
	switch out.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("result of type %s: want a string, a tool.Result or what JSON can be made of", out)
	}
	return nil
}

// bounded returns r as valid UTF-8 within [MaxResultBytes]. What is bounded already
// stays as it is.
func (r Result) bounded() (Result, error) {
	if !r.Content.IsParts() {
		return Result{Content: agui.Text(boundedText(r.Content.Text(), MaxResultBytes)), ForModel: r.ForModel}, nil
	}
	// The size of a part is that of its text, and of the JSON around it.
	parts := slices.Clone(r.Content.PartList())
	frames := make([]int, len(parts))
	total := 0
	for i, part := range parts {
		parts[i].Text = strings.ToValidUTF8(part.Text, string(utf8.RuneError))
		part.Text = ""
		frame, err := json.Marshal(part)
		if err != nil {
			return Result{}, fmt.Errorf("encode result: %w", err)
		}
		frames[i] = len(frame)
		total += frames[i] + len(parts[i].Text)
	}
	if total <= MaxResultBytes {
		return Result{Content: agui.Parts(parts...), ForModel: r.ForModel}, nil
	}
	kept := make([]agui.ContentPart, 0, len(parts))
	left := MaxResultBytes - partReserve
	for i, part := range parts {
		room := left - frames[i]
		if len(part.Text) > room {
			part.Text = boundedText(part.Text, room)
		}
		if len(part.Text) > room { // there is no room even for the mark
			continue
		}
		left = room - len(part.Text)
		kept = append(kept, part)
	}
	if missing := len(parts) - len(kept); missing > 0 {
		kept = append(kept, agui.TextPart(fmt.Sprintf("[cut: %d of %d parts did not fit into the result]", missing, len(parts))))
	}
	return Result{Content: agui.Parts(kept...), ForModel: r.ForModel}, nil
}

func boundedText(text string, limit int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	return cut(text, limit, fmt.Sprintf("\n[cut: the result has %d bytes, which is more than are passed on]", len(text)))
}
