package receipt_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool/receipt"
	"github.com/holdfast-dev/holdfast/agui"
)

// The leaves and roots that the reference implementation of RFC 6962 is tested with.
func TestRootsAreThoseOfRFC6962(t *testing.T) {
	t.Parallel()
	inputs := []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	roots := []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
	var leaves []receipt.Hash
	for n, want := range roots {
		if n > 0 {
			data, err := hex.DecodeString(inputs[n-1])
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, sha256.Sum256(append([]byte{0}, data...)))
		}
		if got := receipt.Root(leaves).String(); got != want {
			t.Errorf("root of %d leaves %s, want %s", n, got, want)
		}
	}
}

// Odd nodes are carried up, which is another way to say what the RFC does.
func TestRootCarriesOddNodesUp(t *testing.T) {
	t.Parallel()
	var leaves []receipt.Hash
	for n := range 200 {
		level := slices.Clone(leaves)
		for len(level) > 1 {
			var next []receipt.Hash
			for i := 0; i < len(level); i += 2 {
				if i+1 == len(level) {
					next = append(next, level[i])
				} else {
					next = append(next, sha256.Sum256(slices.Concat([]byte{1}, level[i][:], level[i+1][:])))
				}
			}
			level = next
		}
		if len(level) == 1 && level[0] != receipt.Root(leaves) {
			t.Errorf("roots of %d leaves differ", n)
		}
		leaves = append(leaves, sha256.Sum256(fmt.Append(nil, n)))
	}
}

var paid = receipt.Receipt{
	Run: "run-1", Call: "call-1", Name: "find_order", Arguments: `{"order_id":"ORD-1001"}`, Output: agui.Text(`{"status":"paid"}`), Scheduled: 1767225600000,
}

func leaf(t *testing.T, r receipt.Receipt) string {
	t.Helper()
	h, err := r.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// A leaf that was written down years ago must still be what is computed.
func TestLeavesStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	doc := `{"arguments":{"order_id":"ORD-1001"},"call":"call-1","name":"find_order","output":"{\"status\":\"paid\"}","run":"run-1","scheduled":1767225600000}`
	sum := sha256.Sum256(append([]byte{0}, doc...))
	if got := leaf(t, paid); got != hex.EncodeToString(sum[:]) {
		t.Errorf("leaf %s, want that of %s", got, doc)
	}
}

func TestLeavesCoverEverything(t *testing.T) {
	t.Parallel()
	seen := map[string]string{leaf(t, paid): "the original"}
	for name, change := range map[string]func(*receipt.Receipt){
		"run":             func(r *receipt.Receipt) { r.Run = "run-2" },
		"call":            func(r *receipt.Receipt) { r.Call = "call-2" },
		"name":            func(r *receipt.Receipt) { r.Name = "find_orders" },
		"arguments":       func(r *receipt.Receipt) { r.Arguments = `{"order_id":"ORD-1002"}` },
		"number":          func(r *receipt.Receipt) { r.Arguments = `{"order_id":1}` },
		"its form":        func(r *receipt.Receipt) { r.Arguments = `{"order_id":1.0}` },
		"a name twice":    func(r *receipt.Receipt) { r.Arguments = `{"order_id":"ORD-1002","order_id":"ORD-1001"}` },
		"no JSON":         func(r *receipt.Receipt) { r.Arguments = `{"order_id":` },
		"no JSON as JSON": func(r *receipt.Receipt) { r.Arguments = `"{\"order_id\":"` },
		"output":          func(r *receipt.Receipt) { r.Output = agui.Text(`{"status":"open"}`) },
		"parts":           func(r *receipt.Receipt) { r.Output = agui.Parts(agui.TextPart(`{"status":"paid"}`)) },
		"no output":       func(r *receipt.Receipt) { r.Output = agui.Content{} },
		"time":            func(r *receipt.Receipt) { r.Scheduled++ },
	} {
		r := paid
		change(&r)
		if other, twice := seen[leaf(t, r)]; twice {
			t.Errorf("%s and %s have the same leaf", name, other)
		}
		seen[leaf(t, r)] = name
	}
}

// What means the same has the same leaf, however it is written.
func TestArgumentsAreCanonical(t *testing.T) {
	t.Parallel()
	for _, forms := range [][]string{
		{`{"a":1,"b":[true,null,"é<"]}`, ` { "b" : [true, null, "\u00e9\u003c"], "a" : 1 } `},
		{`{}`, ``, ` `, `{ }`},
	} {
		want := paid
		want.Arguments = forms[0]
		for _, form := range forms[1:] {
			got := paid
			got.Arguments = form
			if leaf(t, got) != leaf(t, want) {
				t.Errorf("%q and %q have different leaves", form, forms[0])
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	want, err := paid.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := receipt.Parse(want.String()); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "00", want.String() + "00", strings.Repeat("g", 64)} {
		if _, err := receipt.Parse(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// tale is the events of a run with two results and an error.
func tale(t *testing.T) []agui.Event {
	t.Helper()
	result := func(call agui.ToolCallID, name, args, text string, at int64) *agui.ToolCallResult {
		content := agui.Text(text)
		h := leaf(t, receipt.Receipt{Run: "run-1", Call: call, Name: name, Arguments: args, Output: content, Scheduled: at})
		return &agui.ToolCallResult{
			BaseEvent: agui.Base{Metadata: agui.Metadata{"holdfast": json.RawMessage(fmt.Sprintf(`{"hash":%q,"scheduled":%d}`, h, at))}},
			MessageID: "m-" + agui.MessageID(call), ToolCallID: call, Content: content,
		}
	}
	first := result("c1", "look", `{"a":1}`, "one", 10)
	earlier := result("c0", "wait", `{"b":2}`, "two", 20)
	leaves := make([]receipt.Hash, 2)
	for i, e := range []*agui.ToolCallResult{first, earlier} {
		var meta struct{ Hash string }
		if err := json.Unmarshal(e.Metadata["holdfast"], &meta); err != nil {
			t.Fatal(err)
		}
		var err error
		if leaves[i], err = receipt.Parse(meta.Hash); err != nil {
			t.Fatal(err)
		}
	}
	// The call c0 was made in an earlier run, which this one answers.
	before := []agui.Message{{ID: "m0", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c0", Function: agui.FunctionCall{Name: "wait", Arguments: `{"b":2}`}}}}}
	root, err := json.Marshal(receipt.Vouch(leaves))
	if err != nil {
		t.Fatal(err)
	}
	return []agui.Event{
		&agui.RunStarted{RunID: "run-1", Input: &agui.RunAgentInput{RunID: "run-1", Messages: before}},
		&agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "look"}, &agui.ToolCallArgs{ToolCallID: "c1", Delta: `{"a"`}, &agui.ToolCallArgs{ToolCallID: "c1", Delta: `:1}`},
		&agui.ToolCallStart{ToolCallID: "c2", ToolCallName: "look"}, &agui.ToolCallEnd{ToolCallID: "c2"},
		&agui.ToolCallEnd{ToolCallID: "c1"}, first,
		&agui.ToolCallResult{MessageID: "m-c2", ToolCallID: "c2", Content: agui.Text("It failed.")},
		earlier,
		&agui.RunFinished{BaseEvent: agui.Base{Metadata: agui.Metadata{"holdfast": root}}, RunID: "run-1", Outcome: agui.Success()},
	}
}

func audit(events []agui.Event) (receipt.Report, error) {
	var a receipt.Audit
	for _, e := range events {
		if err := a.Add(e); err != nil {
			report, _ := a.Report()
			return report, err
		}
	}
	return a.Report()
}

func TestAuditOfAnHonestRun(t *testing.T) {
	t.Parallel()
	report, err := audit(tale(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range report.Results {
		got = append(got, fmt.Sprintf("%s %s %t", r.Call, r.Name, r.Hash != ""))
	}
	if diff := cmp.Diff([]string{"c1 look true", "c2 look false", "c0 wait true"}, got); diff != "" || report.Root == "" || report.Run != "run-1" {
		t.Errorf("report %+v (-want +got):\n%s", report, diff)
	}
	for name, events := range map[string][]agui.Event{
		"no results": {&agui.RunStarted{RunID: "r"}, &agui.RunFinished{RunID: "r"}},
		"failed":     {&agui.RunStarted{RunID: "r"}, &agui.RunError{Message: "x"}},
	} {
		if report, err := audit(events); err != nil || report.Root != "" {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	if _, err := audit(tale(t)[:5]); !errors.Is(err, receipt.ErrUnfinished) {
		t.Errorf("an unfinished run: %v", err)
	}
}

func TestAuditNamesWhatWasChanged(t *testing.T) {
	t.Parallel()
	const first, failed, earlier, end = 7, 8, 9, 10
	for name, test := range map[string]struct {
		change func(events []agui.Event) []agui.Event
		want   error
		names  string
	}{
		"a result": {func(e []agui.Event) []agui.Event {
			e[first].(*agui.ToolCallResult).Content = agui.Text("ONE")
			return e
		}, receipt.ErrChanged, "c1"},
		"the second": {func(e []agui.Event) []agui.Event {
			e[earlier].(*agui.ToolCallResult).Content = agui.Text("TWO")
			return e
		}, receipt.ErrChanged, "c0"},
		"arguments":          {func(e []agui.Event) []agui.Event { e[2].(*agui.ToolCallArgs).Delta = `{"A"`; return e }, receipt.ErrChanged, "c1"},
		"the tool":           {func(e []agui.Event) []agui.Event { e[1].(*agui.ToolCallStart).ToolCallName = "list"; return e }, receipt.ErrChanged, "c1"},
		"the call":           {func(e []agui.Event) []agui.Event { return slices.Delete(e, 1, 4) }, receipt.ErrChanged, "c1"},
		"whose result it is": {func(e []agui.Event) []agui.Event { e[earlier].(*agui.ToolCallResult).ToolCallID = "c1"; return e }, receipt.ErrChanged, "c1"},
		"a hash": {func(e []agui.Event) []agui.Event {
			e[first].(*agui.ToolCallResult).Metadata["holdfast"] = json.RawMessage(`{"hash":"00","scheduled":10}`)
			return e
		}, receipt.ErrChanged, "c1"},
		"the metadata": {func(e []agui.Event) []agui.Event {
			e[first].(*agui.ToolCallResult).Metadata["holdfast"] = json.RawMessage(`7`)
			return e
		}, receipt.ErrChanged, "c1"},
		"a hash is gone": {func(e []agui.Event) []agui.Event {
			e[first].(*agui.ToolCallResult).Metadata = nil
			return e
		}, receipt.ErrRoot, ""},
		"left out": {func(e []agui.Event) []agui.Event { return slices.Delete(e, first, first+1) }, receipt.ErrRoot, ""},
		"an error is not": {func(e []agui.Event) []agui.Event {
			e[failed].(*agui.ToolCallResult).Content = agui.Text("fine")
			return e
		}, nil, ""},
		"moved": {func(e []agui.Event) []agui.Event {
			e[first], e[earlier] = e[earlier], e[first]
			return e
		}, receipt.ErrRoot, ""},
		"twice":        {func(e []agui.Event) []agui.Event { return slices.Insert(e, first, e[first]) }, receipt.ErrRoot, ""},
		"the root":     {func(e []agui.Event) []agui.Event { e[end].(*agui.RunFinished).Metadata = nil; return e }, receipt.ErrRoot, ""},
		"another root": {func(e []agui.Event) []agui.Event { e[end] = &agui.RunError{Message: "x"}; return e }, receipt.ErrRoot, ""},
	} {
		_, err := audit(test.change(tale(t)))
		if !errors.Is(err, test.want) || test.names != "" && !strings.Contains(err.Error(), "call "+test.names) {
			t.Errorf("%s: %v, want %v about %q", name, err, test.want, test.names)
		}
	}
}

// Whatever of a result, its hash, the list of leaves and the root is changed, and the rest is not, it is noticed; and the call is
// named as long as two of these three agree: result and hash, the list, the root.
func TestAuditNamesTheCallInEveryCombinationOfChanges(t *testing.T) {
	t.Parallel()
	const content, hash, list, root = 1, 2, 4, 8
	for n, call := range []agui.ToolCallID{"c1", "c0"} {
		for what := range 16 {
			events := tale(t)
			e, end := events[[]int{7, 9}[n]].(*agui.ToolCallResult), events[10].(*agui.RunFinished)
			var meta struct {
				Hash      string `json:"hash"`
				Scheduled int64  `json:"scheduled"`
			}
			var vouched receipt.Vouched
			if err := errors.Join(json.Unmarshal(e.Metadata["holdfast"], &meta), json.Unmarshal(end.Metadata["holdfast"], &vouched)); err != nil {
				t.Fatal(err)
			}
			args := map[agui.ToolCallID]receipt.Receipt{"c1": {Name: "look", Arguments: `{"a":1}`}, "c0": {Name: "wait", Arguments: `{"b":2}`}}[call]
			args.Run, args.Call, args.Output, args.Scheduled = "run-1", call, agui.Text("forged"), meta.Scheduled
			forged, err := args.Leaf()
			if err != nil {
				t.Fatal(err)
			}
			if what&content != 0 {
				e.Content = args.Output
			}
			if what&hash != 0 {
				e.Metadata = agui.Metadata{"holdfast": json.RawMessage(fmt.Sprintf(`{"hash":%q,"scheduled":%d}`, forged, meta.Scheduled))}
			}
			leaves := make([]receipt.Hash, 2)
			for i := range leaves {
				if leaves[i], err = receipt.Parse(vouched.Leaves[i]); err != nil {
					t.Fatal(err)
				}
			}
			leaves[n] = forged
			if what&list != 0 {
				vouched.Leaves[n] = forged.String()
			}
			if what&root != 0 {
				vouched.Root = receipt.Root(leaves).String()
			}
			if end.Metadata["holdfast"], err = json.Marshal(vouched); err != nil {
				t.Fatal(err)
			}
			want, named := error(nil), true
			switch what {
			case 0, content | hash | list | root: // who can change all of it is not noticed by the log alone
				named = false
			case content | hash, list | root:
				want = receipt.ErrRoot
			case content | hash | list, root:
				want, named = receipt.ErrRoot, false
			default:
				want = receipt.ErrChanged
			}
			if _, err := audit(events); !errors.Is(err, want) || err != nil && strings.Contains(err.Error(), "call "+string(call)) != named {
				t.Errorf("%s, changes %04b: %v, want %v, named %t", call, what, err, want, named)
			}
		}
	}
}

func TestManyLeavesAreNotListed(t *testing.T) {
	t.Parallel()
	if v := receipt.Vouch(make([]receipt.Hash, receipt.MaxListed)); len(v.Leaves) != receipt.MaxListed {
		t.Errorf("%d leaves are listed", len(v.Leaves))
	}
	if v := receipt.Vouch(make([]receipt.Hash, receipt.MaxListed+1)); v.Leaves != nil || v.Root == "" {
		t.Errorf("%d leaves are listed", len(v.Leaves))
	}
}

func FuzzLeafOfAnyArguments(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"a":[1,2.50,"x"]}`, `{"a":1,"a":2}`, `"\ud800"`, "\xff", `[[[[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		r := paid
		r.Arguments = args
		first, err := r.Leaf()
		if err != nil {
			t.Fatal(err)
		}
		r.Arguments += "\n" // white space means nothing around JSON, and is text elsewhere
		second, err := r.Leaf()
		if err != nil || (first == second) != (json.Valid([]byte(args)) || strings.TrimSpace(args) == "") && !strings.Contains(args, `"`) {
			t.Errorf("%q: %v", args, err)
		}
	})
}
