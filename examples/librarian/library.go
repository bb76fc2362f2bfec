package librarian

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
)

// Book is a book of the library.
type Book struct {
	Title  string `json:"title"`
	Author string `json:"author"`
	Shelf  string `json:"shelf"`
	Lent   bool   `json:"lent"`
}

// library is what the server serves. It knows nothing of agents.
type library struct {
	mu    sync.Mutex
	books []Book
	lent  map[string]string // title to the key of the call that lent it
}

type search struct {
	Query string `json:"query" jsonschema:"a word of the title or the author"`
}

type hits struct {
	Books []Book `json:"books"`
}

type loan struct {
	Title string `json:"title" jsonschema:"the whole title"`
}

// NewServer is an MCP server of a small library. It can be served over any transport.
func NewServer() *mcp.Server {
	l := &library{lent: map[string]string{}, books: []Book{
		{Title: "The Log", Author: "J. Kreps", Shelf: "A1"},
		{Title: "Time, Clocks, and the Ordering of Events", Author: "L. Lamport", Shelf: "A2"},
		{Title: "Durable Things", Author: "M. Miller", Shelf: "B1"},
	}}
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "find_books", Description: "Find books by a word of their title or author.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, l.find)
	// The hint is true because the server heeds the key of the call: made again, it is the same loan.
	mcp.AddTool(server, &mcp.Tool{
		Name: "lend_book", Description: "Lend a book to the user.", Annotations: &mcp.ToolAnnotations{IdempotentHint: true},
	}, l.lend)
	return server
}

func (l *library) find(ctx context.Context, req *mcp.CallToolRequest, in search) (*mcp.CallToolResult, hits, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := hits{Books: []Book{}}
	for i, b := range l.books {
		if strings.Contains(strings.ToLower(b.Title+" "+b.Author), strings.ToLower(in.Query)) {
			found.Books = append(found.Books, b)
		}
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i + 1), Total: float64(len(l.books)), Message: "looking at shelf " + b.Shelf,
			})
		}
	}
	return nil, found, nil
}

func (l *library) lend(_ context.Context, req *mcp.CallToolRequest, in loan) (*mcp.CallToolResult, Book, error) {
	key, _ := req.Params.Meta[mcptool.MetaIdempotencyKey].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.books, func(b Book) bool { return strings.EqualFold(b.Title, in.Title) })
	switch {
	case i < 0:
		return nil, Book{}, fmt.Errorf("there is no book %q", in.Title)
	case l.books[i].Lent && (key == "" || l.lent[l.books[i].Title] != key):
		return nil, Book{}, errors.New("the book is lent already")
	}
	l.books[i].Lent, l.lent[l.books[i].Title] = true, key
	return nil, l.books[i], nil
}
