package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// examineInput says how new an examination has to be.
type examineInput struct {
	Again bool `query:"again" doc:"examine now; left out: the findings may be a minute old"`
}

func health(api huma.API, h *control.Health) {
	register(api, operation("GET /doctor", "examine", "Check what sessions need, with a remedy for each finding"),
		func(ctx context.Context, in *examineInput) (control.Examination, error) {
			return h.Examine(ctx, in.Again)
		})
	register(api, operation("GET /store", "read-store", "Read how large the store is, and how much room is left"),
		func(ctx context.Context, _ *none) (control.StoreSize, error) { return h.Size(ctx) })
}
