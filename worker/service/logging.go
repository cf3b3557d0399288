package service

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/logs"
)

// The variables with the defaults of --log-format and --log-level.
const (
	LogFormatVariable = "MAESTRO_LOG_FORMAT"
	LogLevelVariable  = "MAESTRO_LOG_LEVEL"
)

// LogOptions say how to log.
type LogOptions struct {
	// Format and Level are those of [logs.New]; empty: the environment's.
	Format, Level string
	// otherwise is the default level.
	otherwise string
}

// AddFlags adds the flags for logging. level is the default level.
func (o *LogOptions) AddFlags(flags *pflag.FlagSet, level string) {
	o.otherwise = level
	flags.StringVar(&o.Format, "log-format", "", "text or json (default $"+LogFormatVariable+", else text)")
	flags.StringVar(&o.Level, "log-level", "", "debug, info, warn or error (default $"+LogLevelVariable+", else "+level+")")
}

// New logs to w.
func (o LogOptions) New(w io.Writer, getenv func(string) string) (*logs.Log, error) {
	log, err := logs.New(w, cmp.Or(o.Format, getenv(LogFormatVariable), logs.Text), o.AtLeast(getenv))
	if err != nil {
		return nil, fmt.Errorf("%w; see --log-format, --log-level, %s and %s", err, LogFormatVariable, LogLevelVariable)
	}
	return log, nil
}

// AtLeast returns the lowest level that is logged.
func (o LogOptions) AtLeast(getenv func(string) string) string {
	return cmp.Or(o.Level, getenv(LogLevelVariable), o.otherwise, "info")
}
