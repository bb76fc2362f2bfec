package jsonpatch

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Document is a JSON document that patches are applied to. It is decoded when the
// first patch comes, and stays decoded: a patch costs what it changes, and not what
// the document is long.
//
// It is not safe for concurrent use.
type Document struct {
	// text is the document unless decoded is set.
	text    json.RawMessage
	tree    any
	decoded bool
	// nesting is at least how deeply the tree is nested.
	nesting int
	// copying and shifting are what the patches to come may do of that.
	copying, shifting int
	// object is set when the document has to stay an object.
	object bool
}

// The limits of what patches may cost: a fixed amount, and more with every byte of
// every patch, so that all patches together cost no more than in proportion to their
// length. What a refused patch has cost is spent, too.
const (
	// copyingAtFirst and copyingPerByte bound, in bytes, what Copy operations copy.
	// Thirty copies, each of the whole document into itself, would be a thousand
	// million times its size.
	copyingAtFirst = 32 << 20
	copyingPerByte = 64
	// shiftingAtFirst and shiftingPerByte bound how many elements are shifted by
	// inserting into arrays and removing from them.
	shiftingAtFirst = 1 << 26
	shiftingPerByte = 256
)

// length is about how many bytes the patch is long.
func (p Patch) length() int {
	const operation = len(`{"op":"add","path":"","value":},`)
	length := 0
	for _, o := range p {
		length += operation + len(o.Path) + len(o.From) + len(o.Value)
	}
	return length
}

// NewDocument returns a document. Nil is null. It keeps the text, which is judged
// when the first patch comes.
func NewDocument(text json.RawMessage) *Document { return &Document{text: text} }

// NewObject returns a document that stays an object: a patch that leaves something
// else does not apply. Nil is {}.
func NewObject(text json.RawMessage) *Document {
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	return &Document{text: text, object: true}
}

// JSON returns the document: the text it was made from, as long as no patch was
// applied. The result must not be changed.
//
//workflowcheck:ignore
func (d *Document) JSON() json.RawMessage {
	if len(d.text) == 0 {
		if d.decoded {
			d.text = appendValue(nil, d.tree)
		} else {
			d.text = json.RawMessage("null")
		}
	}
	return d.text
}

// Apply applies a patch. The error is an *Error, and then the document is as it was.
//
// Where the RFC leaves room: removing the whole document leaves null, and numbers are
// equal when JavaScript's are.
//
//workflowcheck:ignore
func (d *Document) Apply(p Patch) error {
	if !d.decoded {
		tree, err := decode(d.JSON())
		if err != nil {
			return &Error{Index: -1, Err: err}
		}
		d.tree, d.nesting, d.decoded = tree, depth(tree), true
		d.copying, d.shifting = copyingAtFirst, shiftingAtFirst
	}
	length := p.length()
	d.copying, d.shifting = d.copying+length*copyingPerByte, d.shifting+length*shiftingPerByte
	a := applier{Document: d}
	for i, o := range p {
		if err := a.operation(o); err != nil {
			a.undoAll()
			return &Error{Index: i, Op: o.Op, Path: o.Path, Err: err}
		}
	}
	if _, isObject := d.tree.(map[string]any); d.object && !isObject {
		a.undoAll()
		return &Error{Index: -1, Err: ErrObject}
	}
	if len(a.log) > 0 {
		d.text = nil
	}
	return nil
}

// Apply returns the document with the patch applied, compact and with sorted keys.
// The error is an *Error.
func Apply(doc json.RawMessage, p Patch) (json.RawMessage, error) {
	d := NewDocument(doc)
	if err := d.Apply(p); err != nil {
		return nil, err
	}
	d.text = nil
	return d.JSON(), nil
}

// applier applies one patch.
type applier struct {
	*Document
	log []change
}

// change is what has to be done to take an operation back.
type change struct {
	kind   changeKind
	object map[string]any
	array  *[]any
	key    string
	index  int
	old    any
}

type changeKind int

const (
	changedRoot changeKind = iota
	addedMember
	changedMember // or removed
	insertedElement
	removedElement
	changedElement
)

func (a *applier) undoAll() {
	for _, c := range slices.Backward(a.log) {
		switch c.kind {
		case changedRoot:
			a.tree = c.old
		case addedMember:
			delete(c.object, c.key)
		case changedMember:
			c.object[c.key] = c.old
		case insertedElement:
			*c.array = slices.Delete(*c.array, c.index, c.index+1)
		case removedElement:
			*c.array = slices.Insert(*c.array, c.index, c.old)
		case changedElement:
			(*c.array)[c.index] = c.old
		}
	}
}

func (a *applier) operation(o Operation) error {
	path, err := tokens(o.Path)
	if err != nil {
		return err
	}
	switch o.Op {
	case Add, Replace, Test:
		text := o.Value
		if len(text) == 0 {
			text = json.RawMessage("null")
		}
		value, err := decode(text)
		if err != nil {
			return err
		}
		switch o.Op {
		case Add:
			return a.add(path, value)
		case Replace:
			return a.replace(path, value)
		}
		found, err := a.get(path)
		if err != nil {
			return err
		}
		if !equal(found, value) {
			return ErrTest
		}
		return nil
	case Remove:
		_, err := a.remove(path)
		return err
	case Move, Copy:
		from, err := tokens(o.From)
		if err != nil {
			return err
		}
		if o.Op == Copy {
			return a.copy(from, path)
		}
		return a.move(from, path)
	}
	return ErrOperation
}

// get returns the value at a path.
func (a *applier) get(path []string) (any, error) {
	value := a.tree
	for _, token := range path {
		switch at := value.(type) {
		case map[string]any:
			member, ok := at[token]
			if !ok {
				return nil, ErrMissing
			}
			value = member
		case *[]any:
			i, err := index(token, len(*at))
			if err != nil {
				return nil, err
			}
			if i == len(*at) {
				return nil, ErrIndex
			}
			value = (*at)[i]
		default:
			return nil, ErrMissing
		}
	}
	return value, nil
}

// index reads the index of an element, or of the place behind the last.
func index(token string, length int) (int, error) {
	if token == "-" {
		return length, nil
	}
	if token == "" || token[0] == '0' && len(token) > 1 {
		return 0, ErrIndex
	}
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return 0, ErrIndex
		}
	}
	i, err := strconv.Atoi(token)
	if err != nil || i > length {
		return 0, ErrIndex
	}
	return i, nil
}

func (a *applier) add(path []string, value any) error {
	if err := a.nest(len(path) + depth(value)); err != nil {
		return err
	}
	return a.put(path, value)
}

// put adds a value that was measured.
func (a *applier) put(path []string, value any) error {
	if len(path) == 0 {
		a.setRoot(value)
		return nil
	}
	last := path[len(path)-1]
	parent, err := a.get(path[:len(path)-1])
	if err != nil {
		return err
	}
	switch at := parent.(type) {
	case map[string]any:
		a.setMember(at, last, value)
		return nil
	case *[]any:
		i, err := index(last, len(*at))
		if err != nil {
			return err
		}
		if err := a.shift(len(*at) - i); err != nil {
			return err
		}
		*at = slices.Insert(*at, i, value)
		a.log = append(a.log, change{kind: insertedElement, array: at, index: i})
		return nil
	}
	return ErrMissing
}

func (a *applier) replace(path []string, value any) error {
	if err := a.nest(len(path) + depth(value)); err != nil {
		return err
	}
	if len(path) == 0 {
		a.setRoot(value)
		return nil
	}
	old, err := a.get(path)
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	parent, err := a.get(path[:len(path)-1])
	if err != nil {
		return err
	}
	switch at := parent.(type) {
	case map[string]any:
		a.setMember(at, last, value)
	case *[]any:
		i, err := index(last, len(*at))
		if err != nil {
			return err
		}
		(*at)[i] = value
		a.log = append(a.log, change{kind: changedElement, array: at, index: i, old: old})
	}
	return nil
}

func (a *applier) remove(path []string) (any, error) {
	old, err := a.get(path)
	if err != nil {
		return nil, err
	}
	if len(path) == 0 {
		a.setRoot(nil)
		return old, nil
	}
	last := path[len(path)-1]
	parent, err := a.get(path[:len(path)-1])
	if err != nil {
		return nil, err
	}
	switch at := parent.(type) {
	case map[string]any:
		delete(at, last)
		a.log = append(a.log, change{kind: changedMember, object: at, key: last, old: old})
	case *[]any:
		i, err := index(last, len(*at))
		if err != nil {
			return nil, err
		}
		if err := a.shift(len(*at) - i); err != nil {
			return nil, err
		}
		*at = slices.Delete(*at, i, i+1)
		a.log = append(a.log, change{kind: removedElement, array: at, index: i, old: old})
	}
	return old, nil
}

func (a *applier) move(from, path []string) error {
	if len(path) > len(from) && slices.Equal(from, path[:len(from)]) {
		return ErrInside
	}
	if len(from) == 0 {
		return nil // the whole document to where it is
	}
	if err := a.sink(len(path) - len(from)); err != nil {
		return err
	}
	value, err := a.remove(from)
	if err != nil {
		return err
	}
	return a.put(path, value)
}

func (a *applier) copy(from, path []string) error {
	value, err := a.get(from)
	if err != nil {
		return err
	}
	if !spend(value, &a.copying) {
		a.copying = 0 // what is left depends on the order of a map
		return ErrLimit
	}
	return a.add(path, clone(value))
}

func (a *applier) setRoot(value any) {
	a.log = append(a.log, change{kind: changedRoot, old: a.tree})
	a.tree = value
}

func (a *applier) setMember(object map[string]any, key string, value any) {
	c := change{kind: addedMember, object: object, key: key}
	if old, known := object[key]; known {
		c.kind, c.old = changedMember, old
	}
	a.log = append(a.log, c)
	object[key] = value
}

func (a *applier) shift(elements int) error {
	if elements > a.shifting {
		return ErrLimit
	}
	a.shifting -= elements
	return nil
}

// nest notes that something will be nested to the given depth.
func (a *applier) nest(to int) error {
	if to > maxDepth {
		return ErrLimit
	}
	a.nesting = max(a.nesting, to)
	return nil
}

// sink notes that something moves down by the given number of levels. What it
// holds isn't measured, which could cost far more than the patch is long, until
// the tree may have become too deep.
func (a *applier) sink(levels int) error {
	if a.nesting += max(levels, 0); a.nesting <= maxDepth {
		return nil
	}
	if a.nesting = depth(a.tree) + max(levels, 0); a.nesting > maxDepth/2 {
		return ErrLimit
	}
	return nil
}
