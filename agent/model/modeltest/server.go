package modeltest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// readHeaderTimeout keeps a client that never finishes its request from holding
// a connection for ever.
const readHeaderTimeout = 10 * time.Second

// Server is a fake provider that listens.
type Server struct {
	// URL is the base URL for a client, "http://127.0.0.1:port/v1".
	URL string
	// Admin is the URL below which the admin routes are.
	Admin string

	http *http.Server
	done chan error
}

// Start serves a handler on a free port of the loopback interface. The caller
// closes the server.
func Start(h http.Handler) (*Server, error) { return Listen("127.0.0.1:0", h) }

// Listen serves a handler on an address.
func Listen(address string, h http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for model calls: %w", err)
	}
	root := "http://" + listener.Addr().String()
	s := &Server{
		URL:   root + "/v1",
		Admin: root + "/admin",
		http:  &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout},
		done:  make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// Close breaks all connections and returns when no more are accepted.
func (s *Server) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
