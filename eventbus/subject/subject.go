// Package subject turns ids from outside into tokens that are safe in NATS subjects, in Temporal workflow ids and in
// file names. It is a leaf: it does no I/O and workflow code may import it.
//
// An id is any string, the empty one included. A token is the id itself when it consists of 1 to 64 characters of
// [A-Za-z0-9_-]; otherwise it is "=" followed by the base64url SHA-256 of the id, which no safe id can equal. Two ids
// therefore share a token only if they are equal or SHA-256 collides. The mapping can't be reversed: whoever needs the
// true id keeps it beside the token.
package subject

import (
	"crypto/sha256"
	"encoding/base64"
)

// MaxPlain is the length in bytes up to which a safe id is its own token. Longer ids are hashed, so that a token never
// exceeds it and five tokens stay far below the 255 bytes that Temporal and NATS accept without complaint.
const MaxPlain = 64

// Token returns the token for an id. It is deterministic and safe for concurrent use.
func Token(id string) string {
	if plain(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "=" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func plain(id string) bool {
	if id == "" || len(id) > MaxPlain {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// WorkflowID returns the id of the Temporal workflow that serves a thread. There is one per tenant and thread, so that
// Temporal itself keeps a thread from being run twice at once.
func WorkflowID(tenant, thread string) string {
	return Token(tenant) + "/" + Token(thread)
}
