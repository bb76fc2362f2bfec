// Package librarian is an example of an agent whose tools are those of an MCP server: it finds books and lends them.
//
//	Find books about clocks.
//	Lend me "The Log".
//
// The server is in library.go, and runs inside the worker here. One of your own runs wherever it likes:
//
//	mcptool.New("library", func() mcp.Transport {
//		return &mcp.StreamableClientTransport{Endpoint: "https://library.example.com/mcp"}
//	}, mcptool.Options{})
package librarian

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/tool/mcptool"
)

// Agent returns the librarian of the library. If the server is away the agent has a stand-in for its tools.
func Agent(ctx context.Context, library *mcptool.Server) agent.Agent {
	return agent.Agent{
		Name:         "librarian",
		Description:  "Finds books and lends them.",
		Instructions: "You are a librarian. Look books up before you say anything about them, and lend only what the user asks for by its title.",
		Tools:        library.Tools(ctx),
	}
}

// Connect returns the library that runs inside this process.
func Connect() *mcptool.Server {
	server := NewServer()
	return mcptool.New("library", func() mcp.Transport { return inside{server} }, mcptool.Options{})
}

// inside is a transport to a server in this process.
type inside struct{ server *mcp.Server }

// Connect implements [mcp.Transport].
func (i inside) Connect(ctx context.Context) (mcp.Connection, error) {
	here, there := mcp.NewInMemoryTransports()
	// The session lives as long as the connection, and not as the making of it.
	session, err := i.server.Connect(context.WithoutCancel(ctx), there, nil)
	if err != nil {
		return nil, err
	}
	connection, err := here.Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return connection, nil
}
