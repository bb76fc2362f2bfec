package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

type refund struct {
	OrderID string `json:"order_id"`
	Amount  *int64 `json:"amount,omitempty"`
	Items   []item `json:"items,omitempty"`
	Small   uint8  `json:"small,omitempty"`
}

type item struct {
	SKU   string `json:"sku"`
	Count int    `json:"count,omitempty"`
}

type shapes struct {
	When  time.Time         `json:"when,omitzero"`
	Bytes []byte            `json:"bytes,omitempty"`
	Level level             `json:"level,omitempty"`
	Pair  *[2]int           `json:"pair,omitempty"`
	Names map[string]string `json:"names,omitempty"`
	Any   any               `json:"any,omitempty"`
	Large *big.Int          `json:"large,omitempty"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Shape *anyShape         `json:"shape,omitempty"`
	Real  float64           `json:"real,omitempty"`
}

func TestArgumentsThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	refunds, others, none := taking[refund](), taking[shapes](), taking[struct{}]()
	for _, test := range []struct {
		tool       tool.Tool
		args, want string
	}{
		{refunds, ``, `missing required field "order_id"`},
		{refunds, `null`, `missing required field "order_id"`},
		{refunds, " \n", `missing required field "order_id"`},
		{refunds, `{"order_id":null}`, `field "order_id" must be a string, not null`},
		{refunds, `{"order_id":7}`, `field "order_id" must be a string, not a number`},
		{
			refunds, `{"Order_ID":"x"}`,
			`missing required field "order_id"; unknown field "Order_ID" (it has "order_id", "amount", "items", "small")`,
		},
		{
			refunds, `{"order_id":"x","order_id":"y","order_id":"z"}`,
			`field "order_id" is given more than once`,
		},
		{refunds, `{"order_id":"x","amount":"12"}`, `field "amount" must be an integer, not a string`},
		{refunds, `{"order_id":"x","amount":12.5}`, `field "amount" must be an integer, not a number`},
		{refunds, `{"order_id":"x","amount":1e3}`, `field "amount" must be an integer, not a number`},
		{refunds, `{"order_id":"x","amount":9223372036854775808}`, `field "amount" is out of range`},
		{refunds, `{"order_id":"x","small":256}`, `field "small" must be at most 255`},
		{refunds, `{"order_id":"x","small":-1}`, `field "small" must be at least 0`},
		{
			refunds, `{"order_id":"x","items":[{"sku":"a"},{"count":true,"colour":"red"}]}`,
			`missing required field "items[1].sku"; field "items[1].count" must be an integer, not a boolean; ` +
				`unknown field "items[1].colour" (it has "sku", "count")`,
		},
		{refunds, `{"order_id":"x","items":{}}`, `field "items" must be an array, not an object`},
		{refunds, `[]`, `must be an object, not an array`},
		{refunds, `"x"`, `must be an object, not a string`},
		{refunds, `{"order_id":"x"`, `not valid JSON: they end too early`},
		{refunds, `{"order_id":"x"} {}`, `not valid JSON`},
		{refunds, `{'order_id':'x'}`, `not valid JSON`},
		{refunds, strings.Repeat(`{"order_id":`, 20_000), `not valid JSON`},
		{none, `{"x":1}`, `unknown field "x" (it takes no fields)`},
		{none, `{"a\u0000\n` + strings.Repeat("b", 200) + `":1}`, `unknown field "a\x00\n` + strings.Repeat("b", 74) + `…" (it takes no fields)`},
		{
			none, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`,
			`unknown field "a" (it takes no fields); unknown field "b" (it takes no fields); unknown field "c" (it takes no fields); ` +
				`unknown field "d" (it takes no fields); unknown field "e" (it takes no fields); unknown field "f" (it takes no fields); ` +
				`unknown field "g" (it takes no fields); unknown field "h" (it takes no fields); and 2 more`,
		},
		{others, `{"when":"yesterday"}`, `field "when" must be a date and time like 2026-01-31T12:00:00Z`},
		{others, `{"bytes":"%%"}`, `field "bytes" must be base64`},
		{others, `{"level":"middle"}`, `field "level" is not acceptable: want low or high`},
		{others, `{"pair":[1]}`, `field "pair" must have exactly 2 items, not 1`},
		{others, `{"names":{"a":1}}`, `field "names.a" must be a string, not a number`},
		{others, `{"large":1.5}`, `field "large" must be an integer, not a number`},
		{others, `{"real":1e999}`, `field "real" is out of range`},
		{others, `{"real":"x"}`, `field "real" must be a number, not a string`},
	} {
		_, err := test.tool.Call(t.Context(), nil, json.RawMessage(test.args))
		shown, ok := errors.AsType[*tool.Error](err)
		if !ok || !errors.Is(err, tool.ErrArguments) || shown.Retryable {
			t.Errorf("%.80s: error %v, want an arguments error", test.args, err)
			continue
		}
		if diff := cmp.Diff("arguments: "+test.want, shown.Message); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", test.args, diff)
		}
	}
}

func TestArgumentsArriveExactly(t *testing.T) {
	t.Parallel()
	refunds, others := taking[refund](), taking[shapes]()
	for _, test := range []struct {
		tool       tool.Tool
		args, want string
	}{
		{refunds, `{"order_id":"x"}`, `{"order_id":"x"}`},
		{refunds, `{"order_id":"x","amount":null,"items":null}`, `{"order_id":"x"}`},
		{refunds, `{"order_id":"","amount":9223372036854775807}`, `{"order_id":"","amount":9223372036854775807}`},
		{refunds, `{"order_id":"<ü&\ud83d\ude00>","amount":-9007199254740993}`, `{"order_id":"<ü&😀>","amount":-9007199254740993}`},
		{refunds, "{\"order_id\":\"a\xffb\"}", `{"order_id":"a` + "\uFFFD" + `b"}`},
		{refunds, `{"order_id":"x","items":[{"sku":"a","count":2}],"small":255}`, `{"order_id":"x","items":[{"sku":"a","count":2}],"small":255}`},
		{others, ``, `{}`},
		{others, `{"any":{"n":12345678901234567890123,"f":0.1}}`, `{"any":{"f":0.1,"n":12345678901234567890123}}`},
		{others, `{"any":null,"raw":null}`, `{"raw":null}`},
		{others, `{"large":123456789012345678901234567890}`, `{"large":123456789012345678901234567890}`},
		{others, `{"raw":{"a": [1, 2]},"shape":[true]}`, `{"raw":{"a":[1,2]},"shape":[true]}`},
		{others, `{"when":"2026-01-31T12:00:00+01:00","bytes":"aGk=","level":"low","pair":[1,2]}`, `{"when":"2026-01-31T12:00:00+01:00","bytes":"aGk=","level":"low","pair":[1,2]}`},
		{others, `{"names":{"a":"b"},"real":3}`, `{"names":{"a":"b"},"real":3}`},
	} {
		result, err := test.tool.Call(t.Context(), nil, json.RawMessage(test.args))
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		if diff := cmp.Diff(test.want, result.Content.Text()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
}

func TestFunctionNeverSeesArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	strict := tool.New(tool.Spec{Name: "strict"}, func(context.Context, *tool.Call, refund) (string, error) {
		t.Error("called")
		return "", nil
	})
	if _, err := strict.Call(t.Context(), nil, json.RawMessage(`{}`)); !errors.Is(err, tool.ErrArguments) {
		t.Errorf("error %v, want ErrArguments", err)
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"order_id":"x","amount":1,"items":[{"sku":"a"}]}`, `[`, `{"order_id":1e999}`, "{\"\xff\":\"\x00\"}"} {
		f.Add([]byte(seed))
	}
	echo := taking[refund]()
	f.Fuzz(func(t *testing.T, args []byte) {
		result, err := echo.Call(context.Background(), nil, args)
		if err != nil {
			if shown, ok := errors.AsType[*tool.Error](err); !ok || !strings.HasPrefix(shown.Message, "arguments: ") {
				t.Fatalf("%q: %v", args, err)
			}
			return
		}
		// What was accepted is accepted again, and is then the same.
		again, err := echo.Call(context.Background(), nil, json.RawMessage(result.Content.Text()))
		if err != nil || again.Content.Text() != result.Content.Text() {
			t.Fatalf("%q: %s, then %s, %v", args, result.Content.Text(), again.Content.Text(), err)
		}
	})
}
