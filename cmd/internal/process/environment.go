package process

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Environment reads variables and keeps what is wrong with them, so that all of it can be told at once. A variable that is
// not set, or is empty, is never wrong. The zero value is ready.
type Environment struct{ errs []error }

// Err is what was wrong.
func (e *Environment) Err() error { return errors.Join(e.errs...) }

// Add notes an error that names its variable.
func (e *Environment) Add(err error) { e.errs = append(e.errs, err) }

// Wrong notes what is wrong with a variable, as fmt.Errorf does. Its value may be a secret, and is not told.
func (e *Environment) Wrong(name, format string, args ...any) {
	e.Add(fmt.Errorf(name+": "+format, args...))
}

// Line is a value without control characters and without space around it.
func (e *Environment) Line(name string) string {
	s := os.Getenv(name)
	if strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl) {
		e.Wrong(name, "it has white space around it, or control characters")
		return ""
	}
	return s
}

// Word is a value without any space in it.
func (e *Environment) Word(name string) string {
	s := e.Line(name)
	if strings.ContainsFunc(s, unicode.IsSpace) {
		e.Wrong(name, "it has white space in it")
		return ""
	}
	return s
}

// Address is a host, which may be empty, and a port.
func (e *Environment) Address(name string) string {
	s := e.Word(name)
	if s == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		e.Wrong(name, "want a host and a port such as 127.0.0.1:8080, not %q", s)
		return ""
	}
	return s
}

// File is the path of a file that is there.
func (e *Environment) File(name string) string {
	s := e.Line(name)
	if s == "" {
		return ""
	}
	info, err := os.Stat(s)
	switch {
	case err != nil:
		e.Wrong(name, "%w", err)
	case info.IsDir():
		e.Wrong(name, "%s is a folder", s)
	}
	return s
}

// Number is a whole number from 1 to most; 0 when the variable is not set.
func (e *Environment) Number(name string, most int) int {
	s := e.Line(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		e.Wrong(name, "want a whole number from 1 to %d, not %q", most, s)
		return 0
	}
	return n
}

// Duration is a time above zero; 0 when the variable is not set.
func (e *Environment) Duration(name string) time.Duration {
	s := e.Line(name)
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		e.Wrong(name, "want a duration such as 20s, not %q", s)
		return 0
	}
	return d
}

// StreamName is a name that JetStream takes for a stream.
func (e *Environment) StreamName(name string) string {
	s := e.Word(name)
	if strings.ContainsAny(s, `.*>/\`) || len(s) > 255 {
		e.Wrong(name, "%q can't be the name of a stream: no dots, *, >, slashes, and 255 characters at most", s)
		return ""
	}
	return s
}

// Temporal looks at what Temporal's own library reads.
func (e *Environment) Temporal() {
	if !strings.Contains(e.Word("TEMPORAL_ADDRESS"), "//") { // else it is one of gRPC's own, dns:///host:port
		e.Address("TEMPORAL_ADDRESS")
	}
	e.Word("TEMPORAL_NAMESPACE")
	e.Word("TEMPORAL_API_KEY")
	e.Line("TEMPORAL_CONFIG_FILE")
}

// URL is one of a server of HTTP.
func (e *Environment) URL(name string) string {
	s := e.Word(name)
	if s == "" {
		return ""
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		e.Wrong(name, "want a URL such as http://127.0.0.1:11434/v1")
		return ""
	}
	return s
}
