package gateway

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// BearerTokens returns an Options.Authenticate that takes the tokens read from r: a line each of
//
//	TOKEN TENANT [SUBJECT]
//
// separated by white space; empty lines and lines that begin with # are passed over. Only hashes are kept, and they are
// what is compared.
func BearerTokens(r io.Reader) (func(*http.Request) (Principal, error), error) {
	known := map[[sha256.Size]byte]Principal{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 {
			return nil, fmt.Errorf("tokens: line %d: want TOKEN TENANT [SUBJECT]", n)
		}
		p := Principal{Tenant: fields[1]}
		if len(fields) == 3 {
			p.Subject = fields[2]
		}
		sum := sha256.Sum256([]byte(fields[0]))
		if _, twice := known[sum]; twice {
			return nil, fmt.Errorf("tokens: line %d: the token is on an earlier line, too", n)
		}
		known[sum] = p
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if len(known) == 0 {
		return nil, errors.New("tokens: there is none, and nobody could call the gateway")
	}
	return func(r *http.Request) (Principal, error) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return Principal{}, errors.New("no bearer token")
		}
		p, ok := known[sha256.Sum256([]byte(strings.TrimSpace(token)))]
		if !ok {
			return Principal{}, errors.New("unknown bearer token")
		}
		return p, nil
	}, nil
}
