package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	// clusterName is written into the database; it must stay the same for the life of a file.
	clusterName = "active"
	// storeName names the one data store within the server's configuration.
	storeName = "sqlite"
	// joinTimeout is part of the configuration of a membership that static hosts replace; the server wants one.
	joinTimeout = 30 * time.Second
	// attributesTimeout bounds how long the frontend may take to answer after its start. It takes milliseconds.
	attributesTimeout = 30 * time.Second
)

// server is a running Temporal server with its Web UI.
type server struct {
	temporal temporal.Server
	ui       *uiserver.Server // Nil when headless.
	log      *logLevel
	release  func() // Gives up the lock on the database.
}

// start returns when the server answers and every namespace has its search attributes.
func start(opts options) (_ *server, err error) {
	// Temporal dereferences a nil pointer deep inside gRPC when it cannot listen, so look first.
	if err := checkPort(opts.address(), "--port"); err != nil {
		return nil, err
	}
	if !opts.headless {
		if err := checkPort(opts.uiAddress(), "--ui-port"); err != nil {
			return nil, err
		}
	}

	s := &server{release: func() {}, log: newLogLevel(opts.logLevel)}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	sql := memoryDatabase()
	if opts.dbFile != "" {
		if err := os.MkdirAll(filepath.Dir(opts.dbFile), 0o755); err != nil {
			return nil, err
		}
		if s.release, err = lockDatabase(opts.dbFile); err != nil {
			s.release = func() {}
			return nil, err
		}
		if sql, err = fileDatabase(opts.dbFile); err != nil {
			return nil, err
		}
	}
	if err := createNamespaces(sql, opts.namespaces, opts.searchAttributes); err != nil {
		return nil, err
	}
	if s.temporal, err = newTemporal(opts, sql, newLogger(opts, s.log)); err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	if err := s.temporal.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	if err := addSearchAttributes(opts); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if !opts.headless {
		s.ui = newUI(opts)
		// Start ends the process when it cannot listen, which was checked above.
		go func() { _ = s.ui.Start() }()
	}
	return s, nil
}

// stop ends the server in order.
func (s *server) stop() error {
	defer s.release()
	s.log.quiet()
	if s.ui != nil {
		s.ui.Stop()
	}
	return s.temporal.Stop()
}

// checkPort says whether the address can be listened on, and what to change when it cannot.
func checkPort(address, name string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w (choose another with %s)", address, errors.Unwrap(err), name)
	}
	return l.Close()
}

// freePort is a port that nothing listens on at the moment.
func freePort(ip string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// newTemporal configures the four services in this process, without the gossip that would find others.
func newTemporal(opts options, sql *config.SQL, logger log.Logger) (temporal.Server, error) {
	local := opts.loopback()
	at := func(port int) string { return net.JoinHostPort(local, strconv.Itoa(port)) }

	cfg := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: joinTimeout, BroadcastAddress: local},
		},
		Persistence: config.Persistence{
			DefaultStore:     storeName,
			VisibilityStore:  storeName,
			NumHistoryShards: shards,
			DataStores:       map[string]config.DataStore{storeName: {SQL: sql}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: at(opts.port)},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{
			Archival: config.ArchivalNamespaceDefaults{
				History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
				Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
			},
		},
		// The server's own worker is a client of its own frontend.
		PublicClient: config.PublicClient{HostPort: at(opts.port)},
	}

	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, name := range temporal.DefaultServices {
		port, err := freePort(local)
		if err != nil {
			return nil, fmt.Errorf("find a port for the %s service: %w", name, err)
		}
		rpc := config.RPC{BindOnIP: local, GRPCPort: port}
		if name == string(primitives.FrontendService) {
			// The free port is for the HTTP API, which nobody asked for and without which Nexus endpoints do not work.
			rpc = config.RPC{BindOnIP: opts.ip.String(), GRPCPort: opts.port, HTTPPort: port}
		}
		cfg.Services[name] = config.Service{RPC: rpc}
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(at(rpc.GRPCPort))
	}

	authorizer, err := authorization.GetAuthorizerFromConfig(&cfg.Global.Authorization)
	if err != nil {
		return nil, err
	}
	claims, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return nil, err
	}
	return temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(settings(opts.dynamicConfig)),
	)
}

// addSearchAttributes gives every namespace the attributes that it lacks: one that was made by an earlier start,
// perhaps without them, is skipped when namespaces are created.
func addSearchAttributes(opts options) error {
	ctx, cancel := context.WithTimeout(context.Background(), attributesTimeout)
	defer cancel()
	c, err := dial(ctx, net.JoinHostPort(opts.loopback(), strconv.Itoa(opts.port)))
	if err != nil {
		return fmt.Errorf("reach the server that was just started: %w", err)
	}
	defer c.Close()

	for _, namespace := range opts.namespaces {
		known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		if err != nil {
			return fmt.Errorf("list search attributes of namespace %s: %w", namespace, err)
		}
		missing := map[string]enumspb.IndexedValueType{}
		for name, kind := range opts.searchAttributes {
			switch have, ok := known.CustomAttributes[name]; {
			case !ok:
				missing[name] = kind
			case have != kind:
				return fmt.Errorf("search attribute %s of namespace %s is a %s, not a %s: its type cannot be changed", name, namespace, have, kind)
			}
		}
		if len(missing) == 0 {
			continue
		}
		if _, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: missing,
		}); err != nil {
			return fmt.Errorf("add search attributes to namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// dial tries until the frontend answers, which may be a little after its start.
func dial(ctx context.Context, address string) (client.Client, error) {
	for {
		c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: log.NewSdkLogger(log.NewNoopLogger())})
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// newUI configures the Web UI as one that only this machine's people use: no login, no news, cookies without TLS.
func newUI(opts options) *uiserver.Server {
	return uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                opts.ip.String(),
		Port:                opts.uiPort,
		TemporalGRPCAddress: net.JoinHostPort(opts.loopback(), strconv.Itoa(opts.port)),
		DefaultNamespace:    defaultNamespace,
		EnableUI:            true,
		DisableNewsFetch:    true,
		HideLogs:            true,
		CORS:                uiconfig.CORS{CookieInsecure: true},
	}))
}
