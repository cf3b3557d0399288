// Package devserver runs a complete Temporal service in this process: all of Temporal's services on one SQLite
// database, and the Web UI. It is made for one machine: no TLS, no authentication, one history shard.
//
// Start reading in server.go, at Start:
//
//	server.go      how long a start and a stop may take, and when the server is ready; that the Web UI asks nothing on the
//	               Internet
//	options.go     the defaults of addresses and ports
//	ports.go       which ports are taken if none is named, and how long a port that is in use is waited for
//	database.go    that one server uses a database file, how long its lock is waited for, and what survives a power loss
//	namespaces.go  how long closed workflows of a new namespace are kept, and its search attributes
//	settings.go    what differs from Temporal's own settings for one machine, and which settings may be given
//	services.go    the parts of the server and where they listen; logger.go: which errors of Temporal are written, and
//	               what its fatal ones do
package devserver
