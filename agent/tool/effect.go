package tool

import "fmt"

// Effect says what it means to run the same call of a tool twice, and so what
// happens to a call whose worker died before it could report a result. In JSON
// it is "at_most_once", "read_only" or "idempotent", never empty.
type Effect string

const (
	// AtMostOnce is for tools whose effect must not happen twice: a payment, an
	// e-mail. It is the default. Such a call has one attempt; when that attempt
	// is lost, the outcome is unknown and is reported as unknown.
	AtMostOnce Effect = ""
	// ReadOnly is for tools that change nothing. A lost attempt is repeated.
	ReadOnly Effect = "read_only"
	// Idempotent is for tools that change something and may be repeated with the
	// same arguments and the same [Call.IdempotencyKey] without changing more.
	Idempotent Effect = "idempotent"
)

// atMostOnceName is what [AtMostOnce] is called outside of Go. Recorded
// histories depend on it, and on the values of the other two.
const atMostOnceName = "at_most_once"

// Repeatable reports whether a call may be given another attempt.
func (e Effect) Repeatable() bool { return e == ReadOnly || e == Idempotent }

// String is the name of the effect as it is in JSON.
func (e Effect) String() string {
	if e == AtMostOnce {
		return atMostOnceName
	}
	return string(e)
}

// MarshalText writes the name of the effect and refuses an effect that does not exist.
func (e Effect) MarshalText() ([]byte, error) {
	if !e.valid() {
		return nil, fmt.Errorf("unknown effect %q", string(e))
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads the name of an effect. A name it does not know is an
// error and not the default: a worker must not guess what a newer one meant.
func (e *Effect) UnmarshalText(text []byte) error {
	read := Effect(text)
	if read == atMostOnceName {
		read = AtMostOnce
	}
	if !read.valid() {
		return fmt.Errorf("unknown effect %q: want %s, %s or %s", text, AtMostOnce, ReadOnly, Idempotent)
	}
	*e = read
	return nil
}

func (e Effect) valid() bool { return e == AtMostOnce || e.Repeatable() }
