package agui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// FuzzScanner compares the scanner with encoding/json: both must accept the same
// documents, read the same strings and compact to the same text.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-0,1.5e+9,true,false,null,"x"]}`, ` [ ] `, `{}`, `"\u00e9\ud83d\ude00\ud83d\n\/"`, `"\ud83d\ud83d\ude00"`,
		"\"\xff\xc3\"", `01`, `1.`, `-`, `1e`, `"\x"`, `"` + "\n" + `"`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `nul`, `truee`, "1 2", "",
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), `"abcdefgh\\ijklmnop"`, "\ufeff{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, problem := check(data, 0)
		if valid := json.Valid(data); valid != (problem == "") {
			t.Fatalf("problem %q, valid by encoding/json: %t", problem, valid)
		}
		if problem != "" {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, data); err != nil {
			t.Fatal(err)
		}
		if got := appendCompact(nil, data); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("compacts to %s, want %s", got, want.Bytes())
		}
		if kindOf(data) == '"' {
			var want string
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			if got := unquote(bytes.TrimSpace(data)); got != want {
				t.Fatalf("reads %q, want %q", got, want)
			}
		}
	})
}

// FuzzAppendString compares the encoding of strings with that of encoding/json,
// which escapes five characters more than JSON demands.
func FuzzAppendString(f *testing.F) {
	for _, text := range []string{"", "plain", "\x00\x1f\"\\\b\f\n\r\t\x7f", "<a href='x'>&</a>", "\u2028\u2029", "é😀", "\xff\xc3x\xe2\x82", "12345678\"1234567\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := appendString(nil, text)
		var read string
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		valid := string([]rune(text))
		if read != valid {
			t.Fatalf("reads back as %q, want %q", read, valid)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(valid); err != nil {
			t.Fatal(err)
		}
		// encoding/json escapes these two for the sake of JavaScript's past.
		unescaped := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(want.String())
		if string(got)+"\n" != unescaped {
			t.Fatalf("%s, want %s", got, unescaped)
		}
	})
}

func TestPlainStopsAtEverySpecialByte(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 20 {
			text := slices.Repeat([]byte("x"), 20)
			text[at] = byte(c)
			want := 20
			if special[c] {
				want = at
			}
			if got := plain(text); got != want {
				t.Errorf("byte %#x at %d: plain = %d, want %d", c, at, got, want)
			}
		}
	}
}
