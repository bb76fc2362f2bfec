package blobs

import (
	"bytes"
	"testing"
)

func parts(data []byte) (list [][]byte) {
	for part := range split(data) {
		list = append(list, part)
	}
	return list
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 4096, 128 << 10, 1 << 20, smallPayload, smallPayload + 1, 20 << 20} {
		data := talk(size)[:size]
		list := parts(data)
		if !bytes.Equal(bytes.Join(list, nil), data) {
			t.Errorf("%d bytes: the parts are not the whole", size)
		}
		if len(list) > 400 || size > 0 && len(list) == 0 {
			t.Errorf("%d bytes are in %d parts", size, len(list))
		}
	}
	// Without any content to go by they are cut all the same.
	if list := parts(make([]byte, 1<<20)); len(list) != 16 {
		t.Errorf("a megabyte of zeros is in %d parts", len(list))
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("a"), uint16(1))
	f.Add(talk(3000), uint16(50))
	f.Fuzz(func(t *testing.T, piece []byte, times uint16) {
		data := bytes.Repeat(piece, int(times))
		if len(data) > 8<<20 {
			return
		}
		if list := parts(data); !bytes.Equal(bytes.Join(list, nil), data) {
			t.Errorf("%d parts are not the whole", len(list))
		}
	})
}
