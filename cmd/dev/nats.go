package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// natsCommand is the argument that makes this program a NATS server: a process of its own, but no other binary.
	natsCommand = "nats"
	// natsReadyTimeout bounds the recovery of what was stored, about a second for a million messages.
	natsReadyTimeout = time.Minute
)

// serveNATS is a NATS server with JetStream, until it is told to stop or its standard input ends.
//
// JetStream writes before it acknowledges and syncs the file every two minutes, its default. So nothing acknowledged is
// lost by a kill, only by the machine's end; and what is lost then is part of a log, which runs restate, never of a
// run. With -durable each write is synced, which takes most of the throughput that a machine for development never needs.
func serveNATS(args []string) error {
	fs := flag.NewFlagSet("dev nats", flag.ContinueOnError)
	number := fs.Int("port", 4222, "`port` to listen on")
	folder := fs.String("store", "", "`folder` of JetStream")
	durable := fs.Bool("durable", false, "sync each write before it is acknowledged")
	if err := parse(fs, args); err != nil {
		return err
	}
	if *folder == "" {
		return errors.New("nats: -store is missing")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	s, err := server.NewServer(&server.Options{
		ServerName: "holdfast",
		Host:       host,
		Port:       *number,
		JetStream:  true,
		StoreDir:   *folder,
		SyncAlways: *durable,
		NoSigs:     true, // They are this program's.
		Logtime:    true,
	})
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(natsReadyTimeout) {
		s.Shutdown()
		return fmt.Errorf("nats: not ready after %s", natsReadyTimeout)
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
