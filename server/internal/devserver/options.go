package devserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

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
	// IP is the address, or the name of one, that the frontend listens on. Empty means DefaultIP.
	IP string
	// Port is the frontend's gRPC port. 0 takes a free one; Server.Address tells which.
	Port int
	// Headless leaves the Web UI out.
	Headless bool
	// UIIP is the address that the Web UI listens on. Empty means IP.
	UIIP string
	// UIPort is the Web UI's port. 0 means Port+1000, or a free one where that is taken or Port is 0.
	UIPort int
	// DBFilename is the SQLite file; its directory is made if need be. Empty keeps everything in memory and
	// loses it at the end.
	DBFilename string
	// Namespaces exist when the server answers, besides DefaultNamespace.
	Namespaces []string
	// SearchAttributes exist in DefaultNamespace and in Namespaces when the server answers, in an older
	// database file as well.
	SearchAttributes []SearchAttribute
	// Settings replace the server's own dynamic configuration, the later the stronger.
	Settings []Setting
	// Logger receives what Temporal logs. Nil drops it.
	Logger *slog.Logger
}

// Setting is one value of Temporal's dynamic configuration, already checked against Temporal's own list.
type Setting struct {
	key    dynamicconfig.Key
	values []dynamicconfig.ConstrainedValue
}

func (o Options) withDefaults() (Options, error) {
	if o.IP == "" {
		o.IP = DefaultIP
	}
	if o.UIIP == "" {
		o.UIIP = o.IP
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	names := append([]string{DefaultNamespace}, o.Namespaces...)
	slices.Sort(names)
	o.Namespaces = slices.Compact(names)

	var faults []error
	fault := func(err error) { faults = append(faults, err) }
	var err error
	if o.IP, err = resolveIP(o.IP); err != nil {
		fault(err)
	}
	if o.UIIP, err = resolveIP(o.UIIP); err != nil && !o.Headless {
		fault(err)
	}
	for _, port := range []int{o.Port, o.UIPort} {
		if port < 0 || port > maxPort {
			fault(fmt.Errorf("port %d does not exist: use 1 to %d, or 0 for a free one", port, maxPort))
		}
	}
	for _, name := range o.Namespaces {
		if err := checkNamespace(name); err != nil {
			fault(err)
		}
	}
	if err := checkSearchAttributes(o.SearchAttributes); err != nil {
		fault(err)
	}
	if o.DBFilename != "" {
		if o.DBFilename, err = filepath.Abs(o.DBFilename); err != nil {
			fault(fmt.Errorf("database file: %w", err))
		}
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

// resolveIP turns a name such as localhost into an address, IPv4 first: Temporal binds addresses only.
func resolveIP(host string) (string, error) {
	if ip := net.ParseIP(host); ip != nil {
		return ip.String(), nil
	}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return "", fmt.Errorf("%q is not an IP address of this machine, nor a name of one", host)
	}
	for _, ip := range ips {
		if ip.To4() != nil {
			return ip.String(), nil
		}
	}
	return ips[0].String(), nil
}
