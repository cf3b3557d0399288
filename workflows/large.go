package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// encode and decode are deterministic: the keys of maps are sorted, and a type is always encoded alike.

//workflowcheck:ignore
func encode(value any) ([]byte, error) { return json.Marshal(value) }

//workflowcheck:ignore
func decode(data []byte, value any) error { return json.Unmarshal(data, value) }

// outsource stores a value if it is too large for a payload; nil if it is not.
func outsource(ctx workflow.Context, value any) (*activities.LargeValue, error) {
	data, err := encode(value)
	if err != nil || !activities.IsLarge(len(data)) {
		return nil, err
	}
	large, err := storeValue.localFirst(ctx, activities.StoreValueInput{JSON: data})
	return &large, err
}

// phaseWork returns work as the input of an activity.
func phaseWork(ctx workflow.Context, work []session.CheckpointAssignment) (activities.PhaseWork, error) {
	whole := activities.PhaseWork{List: work}
	large, err := outsource(ctx, whole)
	if large != nil {
		return activities.PhaseWork{Large: large}, err
	}
	return whole, err
}

// load reads a stored value in parts that fit into payloads.
func load[T any](ctx workflow.Context, large activities.LargeValue) (value T, err error) {
	var data []byte
	for len(data) < large.Size {
		part, err := readValue.localFirst(ctx, activities.ReadValueInput{LargeValue: large, Offset: len(data)})
		if err != nil {
			return value, err
		}
		data = append(data, part...)
	}
	return value, decode(data, &value)
}
