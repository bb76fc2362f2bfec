package subject

import (
	"regexp"
	"strings"
	"testing"
)

var safe = regexp.MustCompile(`^=?[A-Za-z0-9_-]+$`)

func TestTokenKeepsSafeIDs(t *testing.T) {
	for _, id := range []string{"a", "A", "-", "run_1", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", strings.Repeat("x", MaxPlain)} {
		if got := Token(id); got != id {
			t.Errorf("Token(%q) = %q, want the id itself", id, got)
		}
	}
}

// The ids are those that broke other software: wildcards, separators, control characters, look-alikes.
func TestTokenOfHostileIDs(t *testing.T) {
	ids := []string{
		"", "a.b", "a%2Eb", "*", ">", "a b", "a/b", "a\x00b", "user@example.com", "v1.2.3", "tråd-7", "スレッド", "$JS.API",
		"=abc", "=" + strings.Repeat("A", 43), strings.Repeat("x", MaxPlain+1), strings.Repeat("x", 5000), "а" /* Cyrillic */, "a", "A", "\r\n", "\xff",
	}
	seen := map[string]string{}
	for _, id := range ids {
		tok := Token(id)
		if !safe.MatchString(tok) || len(tok) > MaxPlain {
			t.Errorf("Token(%q) = %q: not safe", id, tok)
		}
		if other, ok := seen[tok]; ok {
			t.Errorf("Token(%q) = Token(%q) = %q", id, other, tok)
		}
		seen[tok] = id
	}
}

func TestWorkflowIDSeparatesTenantAndThread(t *testing.T) {
	if a, b := WorkflowID("a", "b/c"), WorkflowID("a/b", "c"); a == b {
		t.Errorf("both are %q", a)
	}
}

func FuzzToken(f *testing.F) {
	f.Add("a", "b")
	f.Add("a.b", "=x")
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := Token(a), Token(b)
		if !safe.MatchString(ta) || len(ta) > MaxPlain {
			t.Errorf("Token(%q) = %q: not safe", a, ta)
		}
		if (a == b) != (ta == tb) {
			t.Errorf("Token(%q) = %q, Token(%q) = %q", a, ta, b, tb)
		}
	})
}
