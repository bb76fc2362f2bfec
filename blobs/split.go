package blobs

import "iter"

// Sizes of parts, in bytes: of a payload of up to smallPayload, at the least and at the most, and 1<<partBits more than
// the least on average. A part is what has to be stored anew where something has changed, and one request to an object
// store. The larger a payload is, the larger its parts, so that there are never more than some hundred of them.
const (
	smallPayload = 4 << 20
	partBits     = 14
)

// split cuts data into parts where the 64 bytes before a place say so (a "gear" hash of them has zeros at its top), and
// not where a count does. So two payloads that have a piece in common have the parts within it in common, wherever it is
// in either. The parts are in data.
func split(data []byte) iter.Seq[[]byte] {
	bits := partBits
	for size := len(data); size > smallPayload; size /= 4 {
		bits += 2
	}
	least, most, shift := 1<<(bits-2), 1<<(bits+2), 64-bits
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(len(data), most)
			var hash uint64
			for i := min(least, n); i < n; i++ {
				hash = hash<<1 + gear[data[i]]
				if hash>>shift == 0 {
					n = i + 1
					break
				}
			}
			if !yield(data[:n:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// gear has a number for each byte. Parts are cut otherwise when they change, which costs space and breaks nothing.
var gear = func() (table [256]uint64) {
	state := uint64(0)
	for i := range table { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = z ^ z>>31
	}
	return table
}()
