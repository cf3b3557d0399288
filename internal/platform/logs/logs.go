// Package logs writes what happens as structured lines: one line each, without
// secrets, and with the same names for the same things everywhere.
package logs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/core/safetext"
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

// Options say how to log. Empty fields are those of the environment.
type Options struct {
	// Format is text or json.
	Format string
	// Level is the lowest level that is logged: debug, info, warn or error.
	Level string
	// otherwise is the default level.
	otherwise string
}

// AddFlags adds the flags for logging. level is the default level.
func (o *Options) AddFlags(flags *pflag.FlagSet, level string) {
	o.otherwise = level
	flags.StringVar(&o.Format, "log-format", "", "text or json (default $MAESTRO_LOG_FORMAT, else text)")
	flags.StringVar(&o.Level, "log-level", "", "debug, info, warn or error (default $MAESTRO_LOG_LEVEL, else "+level+")")
}

// AtLeast returns the lowest level that is logged.
func (o Options) AtLeast(getenv func(string) string) string {
	return cmp.Or(o.Level, getenv("MAESTRO_LOG_LEVEL"), o.otherwise, "info")
}

// Log is a logger that masks what it is told to.
type Log struct {
	*slog.Logger
	mask atomic.Pointer[func(string) string]
}

// New logs to w.
func (o Options) New(w io.Writer, getenv func(string) string) (*Log, error) {
	const see = "see --log-format, --log-level, MAESTRO_LOG_FORMAT and MAESTRO_LOG_LEVEL"
	level := o.AtLeast(getenv)
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil || strings.ContainsAny(level, "+-") {
		return nil, fmt.Errorf("unknown log level %q; use debug, info, warn or error; %s", level, see)
	}
	l := &Log{}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: l.fit}
	switch format := cmp.Or(o.Format, getenv("MAESTRO_LOG_FORMAT"), "text"); format {
	case "text":
		l.Logger = slog.New(&handler{Handler: slog.NewTextHandler(w, options)})
	case "json":
		l.Logger = slog.New(&handler{Handler: slog.NewJSONHandler(w, options)})
	default:
		return nil, fmt.Errorf("unknown log format %q; use text or json; %s", format, see)
	}
	return l, nil
}

// Mask has every text pass through a function from now on.
func (l *Log) Mask(mask func(string) string) { l.mask.Store(&mask) }

// fit makes a value fit for a line.
func (l *Log) fit(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, l.text(value.String()))
	case slog.KindDuration:
		return slog.String(a.Key, value.Duration().String())
	case slog.KindAny:
		if _, ok := value.Any().(time.Time); !ok {
			return slog.String(a.Key, l.text(fmt.Sprint(value.Any())))
		}
	default: // numbers, and what has its own form
	}
	return a
}

// text is masked, and one line.
func (l *Log) text(s string) string {
	s = safetext.Block(s)
	if mask := l.mask.Load(); mask != nil {
		s = (*mask)(s)
	}
	if strings.ContainsAny(s, "\n\r") {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
	}
	return s
}

// handler has each name once in a line or group: what is said last counts.
type handler struct {
	slog.Handler
	// attrs are those of all lines.
	attrs []slog.Attr
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	attrs := h.attrs
	r.Attrs(func(a slog.Attr) bool {
		attrs = put(attrs, a)
		return true
	})
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, line)
}

func (h *handler) WithAttrs(more []slog.Attr) slog.Handler {
	attrs := h.attrs
	for _, a := range more {
		attrs = put(attrs, a)
	}
	return &handler{h.Handler, attrs}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{Handler: h.Handler.WithAttrs(h.attrs).WithGroup(name)}
}

// put returns attributes with one more, which replaces one of its name.
func put(attrs []slog.Attr, a slog.Attr) []slog.Attr {
	same := func(b slog.Attr) bool { return a.Key != "" && a.Key == b.Key }
	return append(slices.DeleteFunc(slices.Clone(attrs), same), a)
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
