package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

func alerts(api huma.API, a control.Alerts) {
	register(api, operation("GET /alerts", "list-alerts", "List the alerts of the last 24 hours that the rules of teams have raised, newest first"),
		func(ctx context.Context, _ *none) (control.AlertList, error) { return a.List(ctx) })
}
