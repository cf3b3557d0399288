//go:build !linux

package proctest

import (
	"fmt"
	"net"
)

// hold only checks a port here: a bound one could not be opened a second time.
func hold(port int) (release func(), err error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return func() {}, l.Close()
}
