package model

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Output asks for an answer that is JSON of a certain form. Turns with calls come
// before it as ever.
type Output struct {
	// Name is the form's, letters, digits, underscores and dashes; "answer" when
	// empty.
	Name string `json:"name,omitempty"`
	// Schema is a JSON Schema. Providers take a part of that language; all take
	// objects whose properties are all required and which allow no others.
	Schema json.RawMessage `json:"schema"`
}

// Validate says what is wrong with the form itself.
func (o *Output) Validate() error {
	if o.Name != "" && !validToolName.MatchString(o.Name) {
		return fmt.Errorf("name: %q: want 1 to 64 characters out of A-Z, a-z, 0-9, _ and -", o.Name)
	}
	if _, err := o.resolve(); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

// Check says why a text is not JSON of this form; nil if it is. Servers that do not
// know of forms pass over the wish, so the answer has to be looked at.
func (o *Output) Check(text string) error {
	schema, err := o.resolve()
	if err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	return schema.Validate(value)
}

func (o *Output) resolve() (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(o.Schema, &schema); err != nil {
		return nil, err
	}
	return schema.Resolve(nil)
}
