package blobs

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	_ "gocloud.dev/blob/s3blob" // as the programs import it
)

// objects is as much of an S3 server as is needed: objects are put and got.
type objects struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		data, err := io.ReadAll(r.Body)
		if err != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") { // size;signature, data, end
			_, data, _ = bytes.Cut(data, []byte("\r\n"))
			data = data[:bytes.LastIndex(data, []byte("\r\n0"))]
		}
		o.kept[r.URL.Path] = data
	case http.MethodGet:
		data, ok := o.kept[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code></Error>`)
			return
		}
		_, _ = w.Write(data)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

// Whatever speaks S3 is a place, by its URL.
func TestBucketByURL(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required") // else the SDK talks about it
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	kept := &objects{kept: map[string][]byte{}}
	server := httptest.NewServer(kept)
	t.Cleanup(server.Close)
	place := "s3://large/?region=eu-west-1&use_path_style=true&endpoint=" + url.QueryEscape(server.URL)
	data := talk(150_000)
	claim := open(t, place, Options{}).put(t, data)
	p, err := open(t, place, Options{}).get(t.Context(), claim)
	if err != nil || !bytes.Equal(p.GetData(), data) {
		t.Fatalf("read %d bytes, %v", len(p.GetData()), err)
	}
	for path := range kept.kept {
		if !strings.HasPrefix(path, "/large/"+claim[claimDay]+"/") {
			t.Errorf("it has %s", path)
		}
		delete(kept.kept, path)
	}
	_, err = open(t, place, Options{}).get(t.Context(), claim)
	if e, ok := errors.AsType[*MissingError](err); !ok || e.Place != "s3://large/" {
		t.Errorf("gone: %v", err)
	}
}
