package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/maestro-hive/maestro/internal/sandbox/egress"
)

const directionKey = attribute.Key("direction")

// egressCounters measure what the proxies of rooms do.
type egressCounters struct{ requests, bytes metric.Int64Counter }

var _ egress.Observer = (*Recorder)(nil)

func (c *egressCounters) define(i *instruments) {
	c.requests = i.counter("maestro.egress.requests", "{request}", "Requests and tunnels that rooms with a list of hosts have requested, by outcome: permitted, refused, failed.")
	c.bytes = i.counter("maestro.egress.bytes", "By", "Bytes that such rooms have received and sent, by direction.")
}

// begin publishes the figures that alerts look at.
func (c *egressCounters) begin(ctx context.Context) {
	for _, o := range []egress.Outcome{egress.Permitted, egress.Refused, egress.Failed} {
		c.requests.Add(ctx, 0, metric.WithAttributes(outcomeKey.String(string(o))))
	}
}

// EgressRequest counts a request of a room.
func (r *Recorder) EgressRequest(o egress.Outcome) {
	r.egress.requests.Add(context.Background(), 1, metric.WithAttributes(outcomeKey.String(string(o))))
}

// EgressBytes counts the bytes of a room.
func (r *Recorder) EgressBytes(received, sent int64) {
	r.egress.bytes.Add(context.Background(), received, metric.WithAttributes(directionKey.String("received")))
	r.egress.bytes.Add(context.Background(), sent, metric.WithAttributes(directionKey.String("sent")))
}
