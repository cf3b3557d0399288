package devserver

import (
	"cmp"
	"path/filepath"

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
	// IP is the address that the frontend and the Web UI listen on, and where this machine reaches them. Empty means DefaultIP.
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
	// Fatal is called with an error that a running server cannot survive, and does not return.
	Fatal func(error)
}

// Setting is one value of Temporal's dynamic configuration, already checked against Temporal's own list.
type Setting struct {
	key    dynamicconfig.Key
	values []dynamicconfig.ConstrainedValue
}

func (o Options) withDefaults() (_ Options, err error) {
	o.IP = cmp.Or(o.IP, DefaultIP)
	o.Namespaces = append([]string{DefaultNamespace}, o.Namespaces...)
	if o.DBFilename != "" {
		o.DBFilename, err = filepath.Abs(o.DBFilename)
	}
	return o, err
}
