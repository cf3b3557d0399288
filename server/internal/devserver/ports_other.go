//go:build !linux

package devserver

import (
	"net"
	"strconv"
)

// holdPort only checks a port here: outside Linux a bound port cannot be opened a second time by its own process. A
// process that takes it in the moment until Temporal listens makes the start fail.
func holdPort(ip string, port int) (func(), error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	return func() {}, nil
}
