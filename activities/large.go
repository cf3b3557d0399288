package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

const (
	// maxValue is the size, in bytes of JSON, above which a value is not part of a history. Temporal refuses payloads
	// above 2 MB, and what it refuses once fails its workflow task for ever.
	maxValue = 1 << 20
	// valuePart is how many bytes of such a value one ReadValueName returns.
	valuePart = 1 << 20
)

// LargeValue refers to a value that is too large for a payload: a blob with its JSON.
type LargeValue struct {
	Blob spec.Digest `json:"blob"`
	// Size is in bytes.
	Size int `json:"size"`
}

// PhaseWork is work of a phase's personas. Large refers to it if it is too large for a payload.
type PhaseWork struct {
	List  []session.CheckpointAssignment `json:"list,omitempty"`
	Large *LargeValue                    `json:"large,omitempty"`
}

// load reads work that is stored.
func (w PhaseWork) load(ctx context.Context, files Files) (PhaseWork, error) {
	if w.Large == nil {
		return w, nil
	}
	data, err := files.Blob(ctx, w.Large.Blob)
	if err != nil {
		return w, fmt.Errorf("read the work of a phase: %w", err)
	}
	var stored PhaseWork
	if err := json.Unmarshal(data, &stored); err != nil {
		return w, fmt.Errorf("the work of a phase: %w: %w", session.ErrCorrupt, err)
	}
	return stored, nil
}

// StoreValueInput is the input of StoreValueName.
type StoreValueInput struct {
	// JSON is the value. A local activity gets it without a payload.
	JSON json.RawMessage `json:"json"`
}

// ReadValueInput is the input of ReadValueName: the part of a value from Offset on.
type ReadValueInput struct {
	LargeValue
	Offset int `json:"offset"`
}

// IsLarge reports whether a value of this size in bytes has to be stored as a [LargeValue].
func IsLarge(size int) bool { return size > maxValue }

// StoreValue stores a value of a workflow that is too large for a payload.
func (b *Boundaries) StoreValue(ctx context.Context, in StoreValueInput) (LargeValue, error) {
	blob, err := b.Files.PutBlob(ctx, in.JSON)
	return LargeValue{blob, len(in.JSON)}, b.failed(ctx, err)
}

// ReadValue returns a part of a stored value: valuePart bytes, or the rest.
func (b *Boundaries) ReadValue(ctx context.Context, in ReadValueInput) ([]byte, error) {
	data, err := b.Files.Blob(ctx, in.Blob)
	if err != nil {
		return nil, b.failed(ctx, err)
	}
	from := min(max(in.Offset, 0), len(data))
	return data[from:min(from+valuePart, len(data))], nil
}

// fitting returns an admission that fits into a payload: itself, or one that refers to it.
func (a *Admissions) fitting(ctx context.Context, out Admission) (Admission, error) {
	data, err := json.Marshal(out)
	if err != nil || !IsLarge(len(data)) {
		return out, err
	}
	blob, err := a.Files.PutBlob(ctx, data)
	return Admission{Large: &LargeValue{blob, len(data)}}, err
}
