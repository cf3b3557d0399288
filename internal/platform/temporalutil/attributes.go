package temporalutil

import (
	"context"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

const (
	// readyPatience bounds what one call of Ready takes.
	readyPatience = 1500 * time.Millisecond
	// readyAgain is how long a negative result is cached.
	readyAgain = 30 * time.Second
)

// SearchAttributes checks whether a namespace has the search attributes that a program writes, and
// adds them if it may. Its methods are safe for concurrent use.
type SearchAttributes struct {
	client    client.Client
	namespace string
	keys      []temporal.SearchAttributeKey
	now       func() time.Time

	mu    sync.Mutex
	ready bool
	asked time.Time
}

// NewSearchAttributes ensures that a namespace has the keys. The clock decides when
// a missing one is looked up again.
func NewSearchAttributes(c client.Client, namespace string, now func() time.Time,
	keys ...temporal.SearchAttributeKey,
) *SearchAttributes {
	return &SearchAttributes{client: c, namespace: namespace, keys: keys, now: now}
}

// Ready reports whether the namespace has all the attributes, for long enough that every part of
// the server has them. It adds missing ones if it may. They count only at a later call, because a
// server takes up to 10 seconds to accept a new attribute everywhere and fails workflow tasks that
// come earlier. It returns within 1.5 seconds. A positive result is final; a negative one is cached
// for 30 seconds.
func (s *SearchAttributes) Ready(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready || (!s.asked.IsZero() && s.now().Sub(s.asked) < readyAgain) {
		return s.ready
	}
	bounded, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	s.ready = s.ensure(bounded)
	if ctx.Err() == nil { // a caller that gave up has learnt nothing
		s.asked = s.now()
	}
	return s.ready
}

// ensure reports whether nothing is missing, and adds what is.
func (s *SearchAttributes) ensure(ctx context.Context) bool {
	missing, err := s.Missing(ctx)
	if err != nil || len(missing) == 0 {
		return err == nil
	}
	_ = s.Add(ctx, missing) // where it may not, a session continues without
	return false
}

// Missing lists the attributes that the namespace does not have, or has with
// another type.
func (s *SearchAttributes) Missing(ctx context.Context) ([]temporal.SearchAttributeKey, error) {
	has, err := s.client.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: s.namespace})
	if err != nil {
		return nil, err
	}
	var missing []temporal.SearchAttributeKey
	for _, key := range s.keys {
		if t, ok := has.GetCustomAttributes()[key.GetName()]; !ok || t != key.GetValueType() {
			missing = append(missing, key)
		}
	}
	return missing, nil
}

// Add adds attributes to the namespace, as far as the credentials allow. The
// server may need a moment to show them. Attributes that another process has
// just added are no error.
func (s *SearchAttributes) Add(ctx context.Context, keys []temporal.SearchAttributeKey) error {
	types := make(map[string]enumspb.IndexedValueType, len(keys))
	for _, key := range keys {
		types[key.GetName()] = key.GetValueType()
	}
	_, err := s.client.OperatorService().AddSearchAttributes(ctx,
		&operatorservice.AddSearchAttributesRequest{Namespace: s.namespace, SearchAttributes: types})
	if is[*serviceerror.AlreadyExists](err) {
		return nil
	}
	return err
}

// AddCommand is the command that adds attributes to a namespace, for people
// whose worker may not.
func AddCommand(namespace string, keys []temporal.SearchAttributeKey) string {
	var b strings.Builder
	b.WriteString("temporal operator search-attribute create --namespace " + namespace)
	for _, key := range keys {
		b.WriteString(" --name " + key.GetName() + " --type " + key.GetValueType().String())
	}
	return b.String()
}
