package devserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
)

const (
	// DefaultNamespace exists on every server, whatever else is asked for.
	DefaultNamespace = "default"
	// DefaultPort is where Temporal's clients look when nobody tells them otherwise.
	DefaultPort = 7233
	// DefaultIP keeps the server private to its machine: it knows neither TLS nor authentication.
	DefaultIP = "127.0.0.1"

	// uiPortOffset is the distance of the Web UI's port from the frontend's when none is asked for: 7233 and 8233.
	uiPortOffset = 1000
)

// Options say what to serve and where. The zero value is a server in memory on a free port of 127.0.0.1.
type Options struct {
	// IP is the address, or the name of one, that the frontend and the Web UI listen on. Empty means DefaultIP.
	IP string
	// Port is the frontend's gRPC port. 0 takes a free one; Server.Address tells which.
	Port int
	// Headless leaves the Web UI out.
	Headless bool
	// UIPort is the Web UI's port. 0 means Port+1000, or a free one where that is taken or Port is 0.
	UIPort int
	// DBFilename is the SQLite file; its directory is made if need be. Empty keeps everything in memory and
	// loses it at the end.
	DBFilename string
	// Namespaces exist when the server answers, besides DefaultNamespace.
	Namespaces []string
	// SearchAttributes are the types of the search attributes, by name, with which namespaces are made that the
	// database does not have.
	SearchAttributes map[string]enumspb.IndexedValueType
	// Settings replace the server's own dynamic configuration, the later the stronger.
	Settings []Setting
	// Logger receives what Temporal logs. Nil drops it.
	Logger *slog.Logger
	// Fatal is called with an error that a running server cannot survive, and does not return.
	Fatal func(error)
}

// Setting is one value of Temporal's dynamic configuration, already checked against Temporal's own list.
type Setting struct {
	key    dynamicconfig.Key
	values []dynamicconfig.ConstrainedValue
}

func (o Options) withDefaults() (Options, error) {
	o.IP = cmp.Or(o.IP, DefaultIP)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	names := append([]string{DefaultNamespace}, o.Namespaces...)
	slices.Sort(names)
	o.Namespaces = slices.Compact(names)

	var faults []error
	if ip, err := net.ResolveIPAddr("ip", o.IP); err != nil {
		faults = append(faults, fmt.Errorf("%q is not an IP address of this machine, nor a name of one", o.IP))
	} else {
		o.IP = ip.String() // Temporal binds addresses only
	}
	for _, port := range []int{o.Port, o.UIPort} {
		if port < 0 || port > maxPort {
			faults = append(faults, fmt.Errorf("port %d does not exist: use 1 to %d, or 0 for a free one", port, maxPort))
		}
	}
	for _, name := range o.Namespaces {
		faults = append(faults, checkNamespace(name))
	}
	if o.DBFilename != "" {
		var err error
		o.DBFilename, err = filepath.Abs(o.DBFilename)
		faults = append(faults, err)
	}
	return o, errors.Join(faults...)
}

func checkNamespace(name string) error {
	switch {
	case strings.TrimSpace(name) != name || name == "":
		return fmt.Errorf("namespace %q: a name may not be empty or begin or end with a space", name)
	case strings.HasPrefix(name, "temporal-"):
		return fmt.Errorf("namespace %q: names that begin with temporal- belong to Temporal", name)
	}
	return nil
}

// reachable is an address to call where the server listens on all of them.
func reachable(ip string) string {
	switch parsed := net.ParseIP(ip); {
	case parsed == nil || !parsed.IsUnspecified():
		return ip
	case parsed.To4() != nil:
		return "127.0.0.1"
	default:
		return "::1"
	}
}
