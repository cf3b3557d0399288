package devserver

import (
	"context"
	"net"
	"strconv"

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

// ports are the ports of one server; they are held until release.
type ports struct {
	frontend, history, matching, worker, ui int

	held []reservation
}

// choosePorts checks the ports that were asked for and takes free ones for the rest.
func choosePorts(ctx context.Context, options Options) (*ports, error) {
	p := &ports{frontend: options.Port}
	if err := p.choose(ctx, options); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *ports) choose(ctx context.Context, options Options) error {
	if options.Port == 0 {
		if err := p.reserve(options.IP, &p.frontend); err != nil {
			return err
		}
	} else if err := p.claim(ctx, "Temporal frontend", options.IP, options.Port); err != nil {
		return err
	}
	for _, port := range []*int{&p.history, &p.matching, &p.worker} {
		if err := p.reserve(internalIP, port); err != nil {
			return err
		}
	}
	if options.Headless {
		return nil
	}
	return p.chooseUI(ctx, options)
}

func (p *ports) chooseUI(ctx context.Context, options Options) error {
	if options.UIPort != 0 {
		p.ui = options.UIPort
		return p.claim(ctx, "web UI", options.UIIP, options.UIPort)
	}
	if beside := options.Port + uiPortOffset; options.Port != 0 && beside <= maxPort {
		if release, err := holdPort(options.UIIP, beside); err == nil {
			p.ui = beside
			p.held = append(p.held, reservation{port: beside, release: release})
			return nil
		}
	}
	return p.reserve(options.UIIP, &p.ui)
}

func (p *ports) reserve(ip string, port *int) error {
	taken, err := reservePort(ip)
	if err != nil {
		return err
	}
	p.held = append(p.held, taken)
	*port = taken.port
	return nil
}

func (p *ports) claim(ctx context.Context, what, ip string, port int) error {
	taken, err := claimPort(ctx, what, ip, port)
	if err != nil {
		return err
	}
	p.held = append(p.held, taken)
	return nil
}

func (p *ports) release() {
	for _, taken := range p.held {
		taken.release()
	}
	p.held = nil
}

func serverOptions(options Options, ports *ports, db *config.SQL, life *lifecycle) []temporal.ServerOption {
	service := func(port int) static.Hosts {
		return static.SingleLocalHost(net.JoinHostPort(internalIP, strconv.Itoa(port)))
	}
	frontend := net.JoinHostPort(reachable(options.IP), strconv.Itoa(ports.frontend))
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
		temporal.WithLogger(&logger{sink: options.Logger, life: life}),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicSettings(options.Settings)),
	}
}

func serviceConfig(options Options, ports *ports, db *config.SQL, frontend string) *config.Config {
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
