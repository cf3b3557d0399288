package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Inbound answers the calls of hooks, POST /hooks/NAME. Before it serves a call, the guard uses it
// to identify the signer.
type Inbound struct {
	receiver *control.Receiver
	log      *slog.Logger
}

// NewInbound returns what answers the calls of hooks.
func NewInbound(r *control.Receiver, log *slog.Logger) *Inbound { return &Inbound{r, log} }

type deliveryKey struct{}

// Identify returns the signer of a call, and the request with the verified call; or
// [access.ErrSignature].
func (i *Inbound) Identify(r *http.Request) (access.Actor, *http.Request, error) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return access.Actor{}, r, err
	}
	if err != nil { // half a body has no signature
		return access.Actor{}, r, access.ErrSignature
	}
	d, err := i.receiver.Verify(r.Context(), strings.TrimPrefix(r.URL.Path, control.HooksPath), r.Header, body)
	if err != nil {
		return access.Actor{}, r, err
	}
	return d.Actor(), r.WithContext(context.WithValue(r.Context(), deliveryKey{}, d)), nil
}

// ServeHTTP starts the session of a call that was verified.
func (i *Inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, verified := r.Context().Value(deliveryKey{}).(control.Delivery)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !verified:
		writeProblem(w, http.StatusUnauthorized, access.ErrSignature.Error())
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		writeProblem(w, http.StatusMethodNotAllowed, "a hook is called with POST")
		return
	case kind != "application/json":
		writeProblem(w, http.StatusUnsupportedMediaType, "the Content-Type is not application/json; set it where the hook is "+
			"called from")
		return
	}
	doc, again, err := i.receiver.Deliver(r.Context(), d)
	if err != nil {
		i.refuse(w, r, d, err)
		return
	}
	status := http.StatusOK
	if doc.Ignored != "" {
		status = http.StatusAccepted
	}
	if again {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// refuse answers a call that starts no session, and logs the reason: its caller may not show the
// answer to anyone.
func (i *Inbound) refuse(w http.ResponseWriter, r *http.Request, d control.Delivery, err error) {
	cause := err
	var told *control.CallError
	if errors.As(err, &told) {
		cause = told.Cause
	}
	i.log.WarnContext(r.Context(), "a call of a hook started no session", "hook", d.Actor().Name, "error", cause)
	problemOf(r.Context(), err).write(w)
}
