package agui

import (
	"cmp"
	"maps"
	"slices"
)

// fewEntries is up to how many entries a table is searched one by one, which is faster than hashing a key.
const fewEntries = 8

// table is a map that is not one as long as it is small. Runs have a few of most things, so that judging one makes hardly
// any garbage; hostile ones may have many. The zero value is empty.
type table[K comparable, V any] struct {
	few  []tableEntry[K, V]
	many map[K]V // nil until there are more than a few
}

type tableEntry[K comparable, V any] struct {
	key   K
	value V
}

func (t *table[K, V]) len() int { return max(len(t.few), len(t.many)) }

// find returns the place of a key among the few, or -1.
func (t *table[K, V]) find(key K) int {
	for i := range t.few {
		if t.few[i].key == key {
			return i
		}
	}
	return -1
}

func (t *table[K, V]) get(key K) (value V, ok bool) {
	if t.many != nil {
		value, ok = t.many[key]
		return value, ok
	}
	if i := t.find(key); i >= 0 {
		return t.few[i].value, true
	}
	return value, false
}

// value is the value of a key, zero if there is none.
func (t *table[K, V]) value(key K) V {
	value, _ := t.get(key)
	return value
}

func (t *table[K, V]) has(key K) bool {
	if t.many != nil {
		_, ok := t.many[key]
		return ok
	}
	return t.find(key) >= 0
}

func (t *table[K, V]) put(key K, value V) {
	if t.many != nil {
		t.many[key] = value
		return
	}
	if i := t.find(key); i >= 0 {
		t.few[i].value = value
		return
	}
	if len(t.few) < fewEntries {
		t.few = append(t.few, tableEntry[K, V]{key, value})
		return
	}
	t.many = make(map[K]V, 2*fewEntries)
	for _, e := range t.few {
		t.many[e.key] = e.value
	}
	t.many[key] = value
	t.few = nil
}

func (t *table[K, V]) drop(key K) {
	if t.many != nil {
		delete(t.many, key)
		return
	}
	if i := t.find(key); i >= 0 {
		t.few = slices.Delete(t.few, i, i+1)
	}
}

// restore makes an entry what it was.
func (t *table[K, V]) restore(key K, old V, known bool) {
	if known {
		t.put(key, old)
	} else {
		t.drop(key)
	}
}

// asMap returns what is in the table, nil for nothing.
func (t *table[K, V]) asMap() map[K]V {
	if t.len() == 0 {
		return nil
	}
	m := maps.Clone(t.many)
	if m == nil {
		m = make(map[K]V, len(t.few))
	}
	for _, e := range t.few {
		m[e.key] = e.value
	}
	return m
}

// tableOf is a table of what is in a map.
//
//workflowcheck:ignore
func tableOf[K comparable, V any](m map[K]V) table[K, V] {
	var t table[K, V]
	for key, value := range m {
		t.put(key, value)
	}
	return t
}

// openings holds what is open, with the ordinal of its opening.
type openings[K comparable] struct{ table[K, uint64] }

// inOrder returns what is open in the order in which it was opened.
func (o *openings[K]) inOrder() []K {
	entries := slices.Clone(o.few)
	for _, key := range o.unordered() {
		entries = append(entries, tableEntry[K, uint64]{key, o.many[key]})
	}
	slices.SortFunc(entries, func(a, b tableEntry[K, uint64]) int { return cmp.Compare(a.value, b.value) })
	keys := make([]K, len(entries))
	for i := range entries {
		keys[i] = entries[i].key
	}
	return keys
}

// unordered are the keys of a table that is large. Their order must not show.
//
//workflowcheck:ignore
func (t *table[K, V]) unordered() []K { return slices.Collect(maps.Keys(t.many)) }
