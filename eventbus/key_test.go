package eventbus

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestGenerationsAreTotallyOrdered(t *testing.T) {
	t.Parallel()
	ordered := []Generation{
		{},
		{0, 0, 1},
		{0, 1, 0},
		{0, 1, 2},
		{1, 0, 0},
		{1, 0, 9},
		{1, 2, 1},
		{2, 1, 1},
		{1 << 60, 1, 1},
		{1 << 60, closingNumber, 1},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%v compared with %v: %d, want %d", a, b, got, want)
			}
		}
		if got, err := ParseGeneration(a.String()); err != nil || got != a {
			t.Errorf("ParseGeneration(%q) = %v, error %v", a, got, err)
		}
	}
	if !slices.IsSortedFunc(ordered, Generation.Compare) {
		t.Error("not sorted")
	}
}

// C059: what clients send as Last-Event-ID.
func TestParseEventIDRefusesAllElse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "-", "--", "abc", "-1", "99999999999999999999", "e-1", "e-1-", "e--1", "-1-1", "e-0-0", "e-01-0", "e-1-00", "e-+1-0", "e-1-+0",
		"e-1- 0", "e-1-0 ", "e-1-0-0", "e-99999999999999999999-0", "e-1-99999999999", "e-1--1", "e-１-0", strings.Repeat("e", 100) + "-1-0",
	} {
		if id, err := ParseEventID(s); !errors.Is(err, ErrBadEventID) {
			t.Errorf("ParseEventID(%q) = %v, error %v, want ErrBadEventID", s, id, err)
		}
	}
	want := EventID{Epoch: "dk3jf9", Sequence: math.MaxUint64, Index: math.MaxInt32}
	if got, err := ParseEventID(want.String()); err != nil || got != want {
		t.Errorf("ParseEventID(%q) = %v, error %v", want, got, err)
	}
}

func FuzzParseEventID(f *testing.F) {
	for _, s := range []string{"dk3jf9-12-0", "a-1-2147483647", "a-18446744073709551615-1", "a-01-1", "a--1", "-1-1", "a-1-1\n", "é-1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseEventID(s)
		if err != nil {
			if !errors.Is(err, ErrBadEventID) {
				t.Errorf("ParseEventID(%q): %v", s, err)
			}
			return
		}
		if id.String() != s || id.Sequence == 0 || id.Index < 0 {
			t.Errorf("ParseEventID(%q) = %+v, which prints as %q", s, id, id)
		}
	})
}

func FuzzParseGeneration(f *testing.F) {
	for _, s := range []string{"1.2.3", "-1.0.0", "+1.2.3", "1.2", "1.2.3.4", "9223372036854775808.1.1", "..", "1.2.3 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGeneration(s)
		if err != nil {
			return
		}
		again, err := ParseGeneration(g.String())
		if err != nil || again != g || g.Compare(again) != 0 {
			t.Errorf("ParseGeneration(%q) = %v, which reads as %v, error %v", s, g, again, err)
		}
	})
}
