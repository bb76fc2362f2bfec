package protobuf

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

func encodeEvent(arm *event, members map[string]any) ([]byte, error) {
	var head []byte
	if arm.base != 0 {
		head = protowire.AppendTag(head, 1, protowire.VarintType)
		head = protowire.AppendVarint(head, uint64(arm.base))
	}
	head, err := base.append(head, members)
	if err != nil {
		return nil, err
	}
	body := appendBytes(nil, baseField, head)
	if arm.message.toWire != nil {
		members = arm.message.toWire(members)
	}
	if body, err = arm.message.append(body, members); err != nil {
		return nil, err
	}
	return appendBytes(nil, arm.number, body), nil
}

func appendBytes(dst []byte, number int, value []byte) []byte {
	dst = protowire.AppendTag(dst, protowire.Number(number), protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

// append writes the fields of a message. Members of another type than that of their
// field are those of elements that this version doesn't know: they are left out.
func (m *message) append(dst []byte, members map[string]any) ([]byte, error) {
	var err error
	for _, f := range m.fields {
		value, ok := members[f.name]
		if !ok {
			continue
		}
		if !f.list {
			if dst, err = f.append(dst, value); err != nil {
				return nil, err
			}
			continue
		}
		list, _ := value.([]any)
		for _, element := range list {
			if dst, err = f.append(dst, element); err != nil {
				return nil, err
			}
		}
	}
	return dst, nil
}

func (f field) append(dst []byte, value any) ([]byte, error) {
	number := protowire.Number(f.number)
	switch f.kind {
	case kindString:
		if text, ok := value.(string); ok && (text != "" || f.optional || f.list) {
			return appendBytes(dst, f.number, []byte(text)), nil
		}
	case kindBool:
		if b, ok := value.(bool); ok {
			return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), protowire.EncodeBool(b)), nil
		}
	case kindInt:
		if n, ok := value.(json.Number); ok {
			i, err := strconv.ParseInt(n.String(), 10, 64)
			if err != nil {
				return nil, err
			}
			return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), uint64(i)), nil
		}
	case kindOp:
		if op, ok := value.(string); ok {
			if i := slices.Index(operations, op); i > 0 {
				dst = protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), uint64(i))
			}
		}
	case kindJSON:
		return appendBytes(dst, f.number, appendValue(nil, value)), nil
	case kindObject:
		if object, ok := value.(map[string]any); ok {
			return appendBytes(dst, f.number, appendStruct(nil, object)), nil
		}
	case kindMessage:
		members, ok := value.(map[string]any)
		if ok && f.message.toWire != nil {
			members = f.message.toWire(maps.Clone(members))
			ok = members != nil
		}
		if ok {
			body, err := f.message.append(nil, members)
			if err != nil {
				return nil, err
			}
			return appendBytes(dst, f.number, body), nil
		}
	}
	return dst, nil
}

// The fields of google.protobuf.Value.
const (
	valueNull   = 1
	valueNumber = 2
	valueString = 3
	valueBool   = 4
	valueStruct = 5
	valueList   = 6
)

// appendValue writes a google.protobuf.Value. Every nested message is preceded by its
// length: the lengths are taken first, so that nothing is copied from level to level.
func appendValue(dst []byte, value any) []byte {
	var l lengths
	l.value(value)
	return l.appendValue(dst, value)
}

func appendStruct(dst []byte, members map[string]any) []byte {
	var l lengths
	l.object(members)
	return l.appendObject(dst, members)
}

// lengths are those of the messages within a value, in the order in which they are
// written.
type lengths []int

// of takes the length of a message, which measure measures.
func (l *lengths) of(measure func() int) int {
	at := len(*l)
	*l = append(*l, 0)
	n := measure()
	(*l)[at] = n
	return protowire.SizeTag(1) + protowire.SizeBytes(n) // all tags take one byte
}

func (l *lengths) value(value any) int {
	switch value := value.(type) {
	case string:
		return protowire.SizeTag(valueString) + protowire.SizeBytes(len(value))
	case json.Number:
		return protowire.SizeTag(valueNumber) + protowire.SizeFixed64()
	case map[string]any:
		return l.of(func() int { return l.object(value) })
	case []any:
		return l.of(func() int {
			n := 0
			for _, element := range value {
				n += l.of(func() int { return l.value(element) })
			}
			return n
		})
	}
	return protowire.SizeTag(valueNull) + protowire.SizeVarint(0)
}

func (l *lengths) object(members map[string]any) int {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(members)) {
		n += l.of(func() int {
			return protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + l.of(func() int { return l.value(members[name]) })
		})
	}
	return n
}

// head writes the head of the next message.
func (l *lengths) head(dst []byte, number int) []byte {
	dst = protowire.AppendTag(dst, protowire.Number(number), protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64((*l)[0]))
	*l = (*l)[1:]
	return dst
}

func (l *lengths) appendValue(dst []byte, value any) []byte {
	switch value := value.(type) {
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(dst, valueBool, protowire.VarintType), protowire.EncodeBool(value))
	case string:
		return appendBytes(dst, valueString, []byte(value))
	case json.Number:
		// An error is one of range, and the value then the nearest one.
		f, _ := strconv.ParseFloat(value.String(), 64)
		if math.IsInf(f, 0) {
			f = math.Copysign(math.MaxFloat64, f)
		}
		return protowire.AppendFixed64(protowire.AppendTag(dst, valueNumber, protowire.Fixed64Type), math.Float64bits(f))
	case map[string]any:
		return l.appendObject(l.head(dst, valueStruct), value)
	case []any:
		dst = l.head(dst, valueList)
		for _, element := range value {
			dst = l.appendValue(l.head(dst, 1), element)
		}
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, valueNull, protowire.VarintType), 0)
}

// appendObject writes the members in the order of their names.
func (l *lengths) appendObject(dst []byte, members map[string]any) []byte {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		dst = l.head(dst, 1)
		dst = appendBytes(dst, 1, []byte(name))
		dst = l.appendValue(l.head(dst, 2), members[name])
	}
	return dst
}
