package devserver

import (
	"net"
	"strconv"
	"sync/atomic"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	clusterName = "active"
	// internalIP is where Temporal's services talk to each other, whatever the frontend listens on.
	internalIP = "127.0.0.1"
)

func serverOptions(options Options, ports ports, db *config.SQL, serving *atomic.Bool) []temporal.ServerOption {
	service := func(port int) static.Hosts {
		return static.SingleLocalHost(net.JoinHostPort(internalIP, strconv.Itoa(port)))
	}
	frontend := net.JoinHostPort(options.IP, strconv.Itoa(ports.frontend))
	return []temporal.ServerOption{
		temporal.WithConfig(serviceConfig(options, ports, db, frontend)),
		temporal.ForServices(temporal.DefaultServices),
		// One host of each kind, known beforehand: a start waits for no membership protocol, and the members that a
		// killed server has left in the database disturb nobody.
		temporal.WithStaticHosts(map[primitives.ServiceName]static.Hosts{
			primitives.FrontendService: static.SingleLocalHost(frontend),
			primitives.HistoryService:  service(ports.history),
			primitives.MatchingService: service(ports.matching),
			primitives.WorkerService:   service(ports.worker),
		}),
		temporal.WithLogger(newLogger(options.Fatal, serving)),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicSettings(options.Settings)),
	}
}

func serviceConfig(options Options, ports ports, db *config.SQL, frontend string) *config.Config {
	service := func(ip string, port int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: ip}}
	}
	const disabled = config.ArchivalDisabled
	return &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: db}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(options.IP, ports.frontend),
			string(primitives.HistoryService):  service(internalIP, ports.history),
			string(primitives.MatchingService): service(internalIP, ports.matching),
			string(primitives.WorkerService):   service(internalIP, ports.worker),
		},
		PublicClient: config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: disabled},
			Visibility: config.VisibilityArchival{State: disabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: disabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: disabled},
		}},
	}
}
