// Package keyring encrypts what Holdfast stores, with keys of the operator's: the payloads of Temporal's histories, and the
// entries of the event log.
//
//	ring, err := keyring.Open("/etc/holdfast/keys")
//	…
//	options = ring.Temporal(options)                    // of a connection to Temporal
//	bus, err := eventbus.Open(ctx, nc, eventbus.Options{Cipher: ring})
//
// # The file
//
// A key a line: its id, a space, and 32 bytes in base64. The first one encrypts, all of them decrypt; empty lines and lines that
// begin with # say nothing.
//
//	# openssl rand -base64 32
//	2026-11 q0PhHkGx0Tn1fXqWJgM0uFHzJ2hB2mYdZ5wQ6m0x3mE=
//	2026-08 3p7m0d9qD8rJc8E9P1B1r0W1a9m5Q7kz8yH3yq2q3Xo=
//
// All workers and gateways have the same file. A new key is added as the second one everywhere, and then put first: nobody
// writes with a key then that another can't read. An old one is taken out when nothing is left that was encrypted with it: the
// longest run, the longest pause, the namespace's retention and the age of the log later.
//
// # What is encrypted
//
// Bodies and headers of entries that hold anything of a conversation; inputs, results, memos and failures in Temporal. Not
// the ids of tenants, threads, runs and agents, which are names there: subjects, workflow ids, search attributes. Nor names of
// tools in activities' summaries, sizes and times.
//
// What was written without a key is read as it is, so that encryption can be switched on while runs go on. It can't be
// switched off as long as anything encrypted is to be read.
//
// # How
//
// AES-256-GCM, under a key of its own for each message: HMAC-SHA-256 of 16 random bytes under the key of the file. There is
// therefore no bound to how much may be written with one. An entry is bound to its place in the log, so that one can't be
// passed off as another's.
package keyring

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Errors of opening. Both name the key, and neither loses anything: with the right file it can be read again.
var (
	// ErrUnknownKey means that the file has no such key.
	ErrUnknownKey = errors.New("encrypted with a key that is not in the key file")
	// ErrWrongKey means that the file has another key of that name, or that what was stored is damaged or in another place.
	ErrWrongKey = errors.New("can't be decrypted: the key of this name is another one, or the data is damaged")
)

const (
	keyBytes  = 32
	saltBytes = 16
	// version begins everything that is sealed.
	version = 1
)

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// Ring is keys. It is safe for concurrent use.
type Ring struct {
	first string
	keys  map[string][]byte
}

// Open reads a file of keys. Its errors name lines, and never what is in them.
func Open(path string) (*Ring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer func() { _ = f.Close() }()
	return Read(f)
}

// Read reads keys in the form of the file.
func Read(from io.Reader) (*Ring, error) {
	r := &Ring{keys: map[string][]byte{}}
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return nil, fmt.Errorf("key file, line %d: want an id and a key", n)
		}
		id := fields[0]
		key, err := base64.StdEncoding.DecodeString(fields[1])
		switch {
		case !validID.MatchString(id):
			return nil, fmt.Errorf("key file, line %d: an id has 1 to 32 characters out of A-Z, a-z, 0-9, dot, - and _", n)
		case err != nil:
			return nil, fmt.Errorf("key file, line %d: the key is not base64", n)
		case len(key) != keyBytes:
			return nil, fmt.Errorf("key file, line %d: the key has %d bytes, want %d", n, len(key), keyBytes)
		case r.keys[id] != nil:
			return nil, fmt.Errorf("key file, line %d: the id %s is given twice", n, id)
		}
		if r.first == "" {
			r.first = id
		}
		r.keys[id] = key
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	if r.first == "" {
		return nil, errors.New("key file: there is no key in it")
	}
	return r, nil
}

// Seal encrypts with the first key and returns its id. Place is what the message is bound to; it isn't stored, and Open needs
// the same.
func (r *Ring) Seal(plain, place []byte) (sealed []byte, id string) {
	sealed = make([]byte, 1+saltBytes, 1+saltBytes+len(plain)+16)
	sealed[0] = version
	_, _ = rand.Read(sealed[1:]) // it never fails
	aead := once(r.keys[r.first], sealed[1:])
	return aead.Seal(sealed, make([]byte, aead.NonceSize()), plain, place), r.first
}

// Open decrypts what Seal has returned. Its errors wrap [ErrUnknownKey] and [ErrWrongKey].
func (r *Ring) Open(sealed, place []byte, id string) ([]byte, error) {
	key, ok := r.keys[id]
	if !ok {
		return nil, fmt.Errorf("key %q: %w", id, ErrUnknownKey)
	}
	if len(sealed) < 1+saltBytes || sealed[0] != version {
		return nil, fmt.Errorf("key %q: %w", id, ErrWrongKey)
	}
	aead := once(key, sealed[1:1+saltBytes])
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed[1+saltBytes:], place)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", id, ErrWrongKey)
	}
	return plain, nil
}

// once is the cipher of one message. Its key is used for nothing else, so that its nonce may be zero.
func once(key, salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("holdfast 1 "))
	mac.Write(salt)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // it wants 32 bytes, and has them
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // of a block of 16 bytes it always is one
	}
	return aead
}
