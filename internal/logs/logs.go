// Package logs writes what happens as structured lines: one line each, without
// secrets, and with the same names for the same things everywhere.
package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/safetext"
)

// The names of what lines are about. Each line has those that apply.
const (
	Session = "session"
	Run     = "run_id"
	Phase   = "phase"
	Persona = "persona"
	Agent   = "agent"
	// Round and Attempt count from 1; Attempt within the round.
	Round   = "round"
	Attempt = "attempt"
)

// The formats of lines.
const (
	Text = "text"
	JSON = "json"
)

// Log is a logger that masks what it is told to.
type Log struct {
	*slog.Logger
	mask *atomic.Pointer[func(string) string]
}

// New logs to w, in a format, what has at least a level: debug, info, warn or
// error.
func New(w io.Writer, format, level string) (*Log, error) {
	options := &slog.HandlerOptions{}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil || strings.ContainsAny(level, "+-") {
		return nil, fmt.Errorf("unknown log level %q; use debug, info, warn or error", level)
	}
	options.Level = least
	var lines slog.Handler
	switch format {
	case Text:
		lines = slog.NewTextHandler(w, options)
	case JSON:
		lines = slog.NewJSONHandler(w, options)
	default:
		return nil, fmt.Errorf("unknown log format %q; use %s or %s", format, Text, JSON)
	}
	l := &Log{mask: &atomic.Pointer[func(string) string]{}}
	l.Logger = slog.New(&handler{Handler: lines, mask: l.mask})
	return l, nil
}

// Mask has every text pass through a function from now on.
func (l *Log) Mask(mask func(string) string) { l.mask.Store(&mask) }

// handler makes values fit for a line, and has each name once: what is said last
// counts.
type handler struct {
	slog.Handler
	mask *atomic.Pointer[func(string) string]
	// attrs are those of all lines. Once a group is open, the handler has them.
	attrs []slog.Attr
	group bool
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	fit := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = put(attrs, h.attr(a))
		return true
	})
	fit.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, fit)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		with.attrs = put(with.attrs, h.attr(a))
	}
	if h.group {
		with.Handler, with.attrs = h.Handler.WithAttrs(with.attrs), nil
	}
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{Handler: h.Handler.WithAttrs(h.attrs).WithGroup(name), mask: h.mask, group: true}
}

// put adds an attribute, in the place of one with its name if there is one.
func put(attrs []slog.Attr, a slog.Attr) []slog.Attr {
	if i := slices.IndexFunc(attrs, func(b slog.Attr) bool { return a.Key != "" && a.Key == b.Key }); i >= 0 {
		attrs[i] = a
		return attrs
	}
	return append(attrs, a)
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.text(value.String()))
	case slog.KindDuration:
		return slog.String(a.Key, value.Duration().String())
	case slog.KindGroup:
		members := make([]slog.Attr, len(value.Group()))
		for i, m := range value.Group() {
			members[i] = h.attr(m)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(members...)}
	case slog.KindAny:
		if _, ok := value.Any().(time.Time); !ok {
			return slog.String(a.Key, h.text(fmt.Sprint(value.Any())))
		}
	default: // numbers, and what has its own form
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// text is masked, and one line.
func (h *handler) text(s string) string {
	s = safetext.Block(s)
	if mask := h.mask.Load(); mask != nil {
		s = (*mask)(s)
	}
	if strings.ContainsAny(s, "\n\r") {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
	}
	return s
}

// about is what a context's lines are about.
type about struct{}

// With returns a context whose lines have these attributes, too: keys and values
// in turn, as [slog.Logger.With] takes them.
func With(ctx context.Context, attributes ...any) context.Context {
	return context.WithValue(ctx, about{}, append(Of(ctx), attributes...))
}

// Of lists the attributes of a context's lines.
func Of(ctx context.Context) []any {
	attributes, _ := ctx.Value(about{}).([]any)
	return attributes[:len(attributes):len(attributes)]
}
