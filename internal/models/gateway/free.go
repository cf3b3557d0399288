package gateway

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

const (
	// maxCount bounds the answer to a request that counts tokens, in bytes.
	maxCount = 64 << 10
	// freeWait is how long a provider may take to begin the answer to a free call.
	freeWait = 30 * time.Second
)

// serveFree passes on a request that costs nothing.
func (q *request) serveFree() {
	body, ok := q.body()
	if !ok {
		return
	}
	u := q.send(body)
	defer u.close()
	if u.err != nil {
		q.passError(u, wire.Failure(u.err, q.provider.Name, q.gateway.o.Now()))
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	rest := io.LimitReader(u.response.Body, q.gateway.o.MaxAnswer)
	if _, err := io.Copy(q.w, io.MultiReader(bytes.NewReader(u.first), rest)); err != nil {
		panic(http.ErrAbortHandler) // the program gets a connection error
	}
}

// measure requests a count of the prompt from the provider, once, if it offers that. It reports whether
// the forecast has changed.
func (p *meteredCall) measure() bool {
	path, body, ok := p.parsed.Count()
	if !ok || p.forecast.Fresh == 0 {
		return false
	}
	free := *p.request
	free.route = wire.Route{Path: path}
	u := free.send(body)
	defer u.close()
	if u.err != nil {
		return false
	}
	answer, err := io.ReadAll(io.MultiReader(bytes.NewReader(u.first), io.LimitReader(u.response.Body, maxCount)))
	n := wire.ReadCount(answer)
	if err != nil || n <= 0 || n > p.forecast.Total+p.forecast.Elsewhere {
		return false
	}
	if p.forecast.Elsewhere == 0 {
		p.scale.Learn(n, p.forecast.Total)
	}
	p.forecast = p.forecast.Measured(n)
	return true
}
