package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/httpserver"
	"github.com/maestro-hive/maestro/internal/telemetry"
)

// ServiceName is a worker's service.name, unless OTEL_SERVICE_NAME is another.
const ServiceName = "maestro-worker"

// StartTelemetry starts the exporters that the environment configures, and serves
// metrics on an address, if one is given. If it cannot listen there, the error is
// an [ErrServing].
func StartTelemetry(ctx context.Context, o telemetry.Options) (*telemetry.Telemetry, error) {
	t, err := telemetry.Start(ctx, o)
	if errors.Is(err, httpserver.ErrListen) {
		return nil, fmt.Errorf("%w: %w", ErrServing, err)
	}
	if t.Address() != "" && o.Logger != nil {
		o.Logger.Info("metrics are served", "url", t.URL())
	}
	return t, err
}

// observer returns the observer of activities; nil without metrics.
func (o options) observer() activities.Observer {
	if r := o.Telemetry.Recorder(); r != nil {
		return r
	}
	return nil
}

// inSlot counts an activity as one of its agent's slots in use.
func inSlot[In, Out any](r *telemetry.Recorder, agent string, do func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	if r == nil {
		return do
	}
	return func(ctx context.Context, in In) (Out, error) {
		defer r.SlotTaken(agent)()
		return do(ctx, in)
	}
}
