package keyring_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/keyring"
)

func line(id string, fill byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32)) + "\n"
}

func ring(t *testing.T, lines ...string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Read(strings.NewReader("# keys\n\n" + strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	old, both, fresh := ring(t, line("a", 1)), ring(t, line("b", 2), line("a", 1)), ring(t, line("b", 2))
	seal := func(r *keyring.Ring) ([]byte, string) {
		t.Helper()
		sealed, id := r.Seal([]byte("secret"), []byte("here"))
		if bytes.Contains(sealed, []byte("secret")) {
			t.Fatalf("%x", sealed)
		}
		return sealed, id
	}
	first, a := seal(old)
	second, b := seal(both)
	if a != "a" || b != "b" {
		t.Errorf("written with %s and %s", a, b)
	}
	for name, sealed := range map[string][]byte{"a": first, "b": second} {
		if plain, err := both.Open(sealed, []byte("here"), name); err != nil || string(plain) != "secret" {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
	}
	if _, err := fresh.Open(first, []byte("here"), "a"); !errors.Is(err, keyring.ErrUnknownKey) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a key that was taken out: %v", err)
	}
	if _, err := ring(t, line("a", 9)).Open(first, []byte("here"), "a"); !errors.Is(err, keyring.ErrWrongKey) {
		t.Errorf("another key of the name: %v", err)
	}
	if _, err := old.Open(first, []byte("elsewhere"), "a"); !errors.Is(err, keyring.ErrWrongKey) {
		t.Errorf("in another place: %v", err)
	}
	for n := range first {
		damaged := bytes.Clone(first)
		damaged[n] ^= 1
		if _, err := old.Open(damaged, []byte("here"), "a"); !errors.Is(err, keyring.ErrWrongKey) {
			t.Errorf("byte %d changed: %v", n, err)
		}
		if _, err := old.Open(first[:n], []byte("here"), "a"); !errors.Is(err, keyring.ErrWrongKey) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if again, _ := seal(old); bytes.Equal(again, first) {
		t.Error("the same text twice is the same")
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "no key", "a": "line 1: want", "a b c": "line 1: want", "# x\na %": "line 2: the key is not base64", "a AAAA": "3 bytes",
		line("a/b", 1): "line 1: an id", line("a", 1) + line("a", 2): "line 2: the id a is given twice",
	} {
		if _, err := keyring.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := keyring.Open("/does/not/exist"); err == nil {
		t.Error("a file that isn't there was opened")
	}
}

func TestTemporalStoresNothingInClear(t *testing.T) {
	t.Parallel()
	o := ring(t, line("a", 1)).Temporal(client.Options{})
	payloads, err := o.DataConverter.ToPayloads("secret", map[string]int{"secret": 1})
	if err != nil || strings.Contains(payloads.String(), "secret") {
		t.Fatalf("%s, %v", payloads, err)
	}
	var text string
	var numbers map[string]int
	if err := o.DataConverter.FromPayloads(payloads, &text, &numbers); err != nil || text != "secret" || numbers["secret"] != 1 {
		t.Errorf("%q, %v, %v", text, numbers, err)
	}
	// What was there before is read.
	plain, err := converter.GetDefaultDataConverter().ToPayload("before")
	if err := errors.Join(err, o.DataConverter.FromPayload(plain, &text)); err != nil || text != "before" {
		t.Errorf("%q, %v", text, err)
	}
	failed := o.FailureConverter.ErrorToFailure(temporal.NewApplicationError("a secret message", "T", "secret detail"))
	if strings.Contains(failed.String(), "secret") {
		t.Errorf("a failure: %s", failed)
	}
	if err := o.FailureConverter.FailureToError(failed); !strings.Contains(err.Error(), "a secret message") {
		t.Errorf("read back: %v", err)
	}
	if err := ring(t, line("b", 1)).Temporal(client.Options{}).DataConverter.FromPayload(payloads.Payloads[0], &text); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("without the key: %v", err)
	}
}
