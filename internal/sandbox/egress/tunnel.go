package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// recordHandshake is the first byte of TLS.
const recordHandshake = 0x16

// extensionECH is the extension Encrypted Client Hello: it hides the name of the host. Some
// clients send it without a hidden name.
const extensionECH = 0xfe0d

// tunnel answers CONNECT. The tunnel must contain TLS to the host, or HTTP requests to it.
func (r *roomProxy) tunnel(w http.ResponseWriter, q *http.Request, t target) {
	var upstream net.Conn
	if r.credentialFor(t) == nil { // otherwise each request connects
		var err error
		if upstream, err = r.dial(q.Context(), t); err != nil {
			r.answerFailure(w, t, err)
			return
		}
		defer upstream.Close() //nolint:errcheck // everything is written, or broken
	}
	client, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	stop := context.AfterFunc(r.ctx, func() { _ = client.Close() })
	defer stop()
	early, _ := buffered.Peek(buffered.Reader.Buffered()) // all bytes that were read already
	handed := false
	defer func() {
		if !handed {
			_ = client.Close()
		}
	}()
	if client.SetDeadline(r.options.Now().Add(r.limits.header)) != nil {
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	first := make([]byte, 1)
	read := withPrefix(client, early)
	if _, err := io.ReadFull(read, first); err != nil {
		r.record.add(Refused, t.String(), "no data was sent through the tunnel")
		return
	}
	read = withPrefix(read, first)
	if first[0] != recordHandshake {
		handed = r.handOver(read, destination{"http", t})
		return
	}
	hello, err := readHello(read, t)
	if err != nil {
		r.record.add(Refused, t.String(), err.Error())
		_, _ = client.Write(hello) // the alert
		return
	}
	if upstream == nil {
		handed = r.terminateTLS(withPrefix(read, hello), t)
		return
	}
	if client.SetDeadline(time.Time{}) != nil {
		return
	}
	r.record.add(Permitted, t.String(), "")
	r.pipe(withPrefix(read, hello), upstream)
}

// readHello reads a ClientHello, which must name the host, and returns its bytes. With an error
// it returns the TLS alert for the client instead.
func readHello(c net.Conn, t target) ([]byte, error) {
	seen := &helloReader{Conn: c}
	permitted := errors.New("permitted")
	err := tls.Server(seen, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.Extensions, extensionECH) {
			return nil, errors.New("its TLS hides the name of the host (Encrypted Client Hello); switch that off in the program")
		}
		if strings.ToLower(hello.ServerName) != t.name {
			return nil, errors.New("its TLS is for " + quoted(hello.ServerName))
		}
		return nil, permitted
	}}).Handshake()
	if errors.Is(err, permitted) {
		return seen.read.Bytes(), nil
	}
	return seen.written.Bytes(), err
}

// helloReader records the bytes that are read, and those that would be written.
type helloReader struct {
	net.Conn
	read, written bytes.Buffer
}

func (h *helloReader) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.read.Write(p[:n])
	return n, err
}

func (h *helloReader) Write(p []byte) (int, error) { return h.written.Write(p) }

// pipe copies in both directions until both have ended, or one fails.
func (r *roomProxy) pipe(client prefixedConn, upstream net.Conn) {
	stop := context.AfterFunc(r.ctx, func() { _ = upstream.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		oneWay(client, upstream)
	}()
	oneWay(upstream, client)
	<-done
}

func oneWay(to, from net.Conn) {
	if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
		_, _ = to.Close(), from.Close()
		return
	}
	_ = closeWrite(to)
}

// destination is the host of the requests in a tunnel.
type destination struct {
	scheme string
	target target
}

type destinationKey struct{}

// tunnelled is a connection whose requests are handled by [roomProxy.handleTunnelled].
type tunnelled struct {
	net.Conn
	destination destination
}

// handOver passes a connection to the server of tunnelled requests.
func (r *roomProxy) handOver(c net.Conn, to destination) bool {
	if c.SetDeadline(time.Time{}) != nil {
		return false
	}
	select {
	case r.tunnelled.conns <- tunnelled{c, to}:
		return true
	case <-r.ctx.Done():
		return false
	}
}
