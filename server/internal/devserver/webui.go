package devserver

import (
	"net"
	"strconv"

	ui "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// newWebUI makes Temporal's Web UI, its pages embedded in the binary. It asks nothing on the Internet: neither news nor
// newer versions.
func newWebUI(ip string, port int, frontend string) *ui.Server {
	host := ip
	if parsed := net.ParseIP(ip); parsed != nil && parsed.To4() == nil {
		host = "[" + ip + "]"
	}
	return ui.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                host,
		Port:                port,
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    DefaultNamespace,
		DisableNewsFetch:    true,
		HideLogs:            true,
		// Served over plain HTTP: browsers would drop a cookie that is marked as secure.
		CORS: uiconfig.CORS{CookieInsecure: true},
	}))
}

// uiAddress is where a browser on this machine finds the Web UI.
func uiAddress(ip string, port int) string {
	return "http://" + net.JoinHostPort(reachable(ip), strconv.Itoa(port))
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
