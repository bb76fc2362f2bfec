package protobuf

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDepth bounds how deeply messages and JSON are nested, as agui does for JSON.
const maxDepth = 10_000

func decodeEvent(data []byte) (map[string]any, error) {
	var arm *event
	var body []byte
	later := false
	err := walk(data, func(number protowire.Number, t protowire.Type, value []byte, _ uint64) error {
		next := byNumber[int(number)]
		switch {
		case next == nil:
			later = later || t == protowire.BytesType
			return nil
		case t != protowire.BytesType:
			return malformed("an event that is no message")
		case arm != nil && arm != next:
			return malformed("two events in one message")
		}
		arm, body = next, merge(body, value)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case arm == nil && later:
		return nil, ErrUnknown
	case arm == nil:
		return nil, malformed("no event")
	}
	members, err := arm.message.decode(body, 0)
	if err != nil {
		return nil, err
	}
	if err := decodeBase(arm, body, members); err != nil {
		return nil, err
	}
	members["type"] = string(arm.name)
	return members, nil
}

// merge merges a message that is there again: its fields follow those that were there.
// One that is there once isn't copied.
func merge(before, value []byte) []byte {
	if before == nil {
		return value[:len(value):len(value)]
	}
	return append(before, value...)
}

func decodeBase(arm *event, body []byte, members map[string]any) error {
	var head []byte
	found := false
	declared := uint64(0)
	err := walk(body, func(number protowire.Number, t protowire.Type, value []byte, _ uint64) error {
		if number == baseField && t == protowire.BytesType {
			head, found = merge(head, value), true
		}
		return nil
	})
	if err == nil && !found {
		err = malformed("no base")
	}
	if err != nil {
		return err
	}
	err = walk(head, func(number protowire.Number, t protowire.Type, _ []byte, n uint64) error {
		if number == 1 && t == protowire.VarintType {
			declared = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	if declared != uint64(arm.base) {
		return malformed("%s that declares to be another event", arm.name)
	}
	of, err := base.decode(head, 0)
	maps.Copy(members, of)
	return err
}

// walk calls visit for every field of a message: with its bytes, or with the number
// that it is. Groups are skipped.
func walk(data []byte, visit func(number protowire.Number, t protowire.Type, value []byte, n uint64) error) error {
	for len(data) > 0 {
		number, t, n := protowire.ConsumeTag(data)
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		data = data[n:]
		var value []byte
		var scalar uint64
		switch t {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			scalar, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			scalar, n = protowire.ConsumeFixed64(data)
		default:
			n = protowire.ConsumeFieldValue(number, t, data)
		}
		if n < 0 {
			return malformed("%v", protowire.ParseError(n))
		}
		data = data[n:]
		if err := visit(number, t, value, scalar); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the fields of a message as the members of an object. Of a field that is there
// more than once the last counts, and messages are merged.
func (m *message) decode(data []byte, depth int) (map[string]any, error) {
	if depth > maxDepth {
		return nil, malformed("nested too deeply")
	}
	members := map[string]any{}
	merged := map[int][]byte{}
	for _, f := range m.fields {
		switch {
		case f.list:
			members[f.name] = []any{}
		case f.optional:
		case f.kind == kindOp:
			members[f.name] = operations[0]
		default:
			members[f.name] = ""
		}
	}
	err := walk(data, func(number protowire.Number, t protowire.Type, value []byte, n uint64) error {
		at := slices.IndexFunc(m.fields, func(f field) bool { return f.number == int(number) })
		if at < 0 {
			return nil
		}
		f := m.fields[at]
		if f.kind >= kindJSON && f.kind <= kindMessage && !f.list && t == protowire.BytesType {
			merged[at] = merge(merged[at], value)
			return nil
		}
		decoded, ok, err := f.decode(t, value, n, depth)
		switch {
		case err != nil || !ok:
			return err
		case f.list:
			members[f.name] = append(members[f.name].([]any), decoded)
		default:
			members[f.name] = decoded
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for at, f := range m.fields {
		value, ok := merged[at]
		if !ok {
			continue
		}
		decoded, ok, err := f.decode(protowire.BytesType, value, 0, depth)
		if err != nil {
			return nil, err
		}
		if members[f.name] = decoded; !ok {
			members[f.name] = nil
		}
	}
	if m.fromWire != nil {
		return m.fromWire(members)
	}
	return members, nil
}

// decode reads the value of a field. It reports false for one of another wire type, and for an
// element that this version doesn't know.
func (f field) decode(t protowire.Type, value []byte, n uint64, depth int) (any, bool, error) {
	switch f.kind {
	case kindString:
		return string(value), t == protowire.BytesType, nil
	case kindBool:
		return protowire.DecodeBool(n), t == protowire.VarintType, nil
	case kindInt:
		return int64(n), t == protowire.VarintType, nil
	case kindOp:
		op := strconv.FormatUint(n, 10)
		if n < uint64(len(operations)) {
			op = operations[n]
		}
		return op, t == protowire.VarintType, nil
	case kindJSON:
		v, err := decodeValue(value, depth+1)
		return v, t == protowire.BytesType, err
	case kindObject:
		v, err := decodeStruct(value, depth+1)
		return v, t == protowire.BytesType, err
	}
	if t != protowire.BytesType {
		return nil, false, nil
	}
	v, err := f.message.decode(value, depth+1)
	return v, v != nil, err
}

func decodeValue(data []byte, depth int) (any, error) {
	if depth > maxDepth {
		return nil, malformed("nested too deeply")
	}
	var arm protowire.Number
	var scalar any
	var nested []byte
	err := walk(data, func(number protowire.Number, t protowire.Type, value []byte, n uint64) error {
		switch {
		case number == valueNull && t == protowire.VarintType:
			scalar = nil
		case number == valueNumber && t == protowire.Fixed64Type:
			f := math.Float64frombits(n)
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return malformed("a number that JSON does not have")
			}
			scalar = f
		case number == valueString && t == protowire.BytesType:
			scalar = string(value)
		case number == valueBool && t == protowire.VarintType:
			scalar = protowire.DecodeBool(n)
		case (number == valueStruct || number == valueList) && t == protowire.BytesType:
			if number != arm {
				nested = nil
			}
			nested = merge(nested, value)
		default:
			return nil
		}
		arm = number
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case arm == valueStruct:
		return decodeStruct(nested, depth)
	case arm == valueList:
		return decodeList(nested, depth)
	}
	return scalar, nil
}

func decodeList(data []byte, depth int) (any, error) {
	list := []any{}
	err := walk(data, func(number protowire.Number, t protowire.Type, value []byte, _ uint64) error {
		if number != 1 || t != protowire.BytesType {
			return nil
		}
		element, err := decodeValue(value, depth+1)
		list = append(list, element)
		return err
	})
	return list, err
}

func decodeStruct(data []byte, depth int) (map[string]any, error) {
	members := map[string]any{}
	err := walk(data, func(number protowire.Number, t protowire.Type, entry []byte, _ uint64) error {
		if number != 1 || t != protowire.BytesType {
			return nil
		}
		var name string
		var raw []byte
		found := false
		err := walk(entry, func(number protowire.Number, t protowire.Type, value []byte, _ uint64) error {
			switch {
			case t != protowire.BytesType:
			case number == 1:
				name = string(value)
			case number == 2:
				raw, found = merge(raw, value), true
			}
			return nil
		})
		if err != nil || !found {
			return err
		}
		members[name], err = decodeValue(raw, depth+1)
		return err
	})
	return members, err
}
