package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// busyTimeout is how long a statement waits for another's lock, in milliseconds.
const busyTimeout = "10000"

// memoryDatabase is the configuration of a database that ends with the process.
func memoryDatabase() *config.SQL {
	return &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      "devserver",
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
}

// fileDatabase is the configuration of the database in file, which is made with its schema when it is missing.
func fileDatabase(file string) (*config.SQL, error) {
	switch _, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		// Under another name first: a process killed while it makes the schema must not leave half of it behind.
		unfinished := file + ".new"
		if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := sqlite.SetupSchema(sqlConfig(unfinished, "delete")); err != nil {
			return nil, fmt.Errorf("create %s: %w", file, err)
		}
		if err := os.Rename(unfinished, file); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	return sqlConfig(file, "wal"), nil
}

func sqlConfig(file, journal string) *config.SQL {
	return &config.SQL{
		PluginName: sqliteplugin.PluginName,
		// The plugin puts the name into a file: URI as it is, where a space, % or ? in a path would mean something else.
		DatabaseName: (&url.URL{Path: file}).EscapedPath(),
		// More connections than one make it slower, not faster: they wait for each other's locks.
		MaxConns:     1,
		MaxIdleConns: 1,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": journal,
			// With WAL nothing acknowledged is lost by a kill, and no write waits for the disk.
			"synchronous":  "normal",
			"busy_timeout": busyTimeout,
		},
	}
}

// createNamespaces adds those of the namespaces that are missing. Namespaces that exist are left as they are: their
// search attributes are added by [server.addSearchAttributes] once the server runs.
func createNamespaces(sql *config.SQL, names []string, attributes map[string]enumspb.IndexedValueType) error {
	for _, name := range names {
		namespace, err := sqlite.NewNamespaceConfig(clusterName, name, false, attributes)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		namespace.Detail.Config.Retention = durationpb.New(retention)
		if err := sqlite.CreateNamespaces(sql, namespace); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}
