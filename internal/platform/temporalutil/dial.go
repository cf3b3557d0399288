package temporalutil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// dialPatience bounds the wait for an answer when a client connects.
const dialPatience = 5 * time.Second

// UnreachableError means that no server of Temporal's protocol answered.
type UnreachableError struct {
	Address string
	Err     error
	// Ended is the server that `maestro dev` ran for the program's store until it was
	// killed, where nothing says that Temporal is elsewhere; its zero: there is none.
	Ended LocalServer
}

// Error names the address that was tried and what to do.
func (e *UnreachableError) Error() string {
	if e.Ended.Address != "" {
		return fmt.Sprintf("cannot reach Temporal at %s; the server of this store (`maestro dev` or `maestro demo`, process %d, at "+
			"%s) has ended; run `maestro dev`, or give another address with --address",
			e.Address, e.Ended.PID, e.Ended.Address)
	}
	return fmt.Sprintf("cannot reach Temporal at %s; start it with `maestro dev`, or give its address with --address", e.Address)
}

// Unwrap returns what the connection ended with.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError means that a server answered and rejected this client.
type RefusedError struct {
	Address string
	Err     error
}

// Error names what to check.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("Temporal at %s refuses the credentials (%s); check --api-key, --tls-cert-path and --tls-key-path, or "+
		"their profile", e.Address, e.Err)
}

// Unwrap returns the server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// Connection is a client and where it is connected to.
type Connection struct {
	client.Client
	Address   string
	Namespace string
}

// Instrument changes how a client is made: what watches its calls.
type Instrument func(*client.Options)

// Dial connects to Temporal and returns once it has answered. It ends within 5
// seconds: with a [*UnreachableError] where no server answers, a [*RefusedError]
// where the credentials are not good enough, a [*ConfigError] where the options
// make no sense. The SDK's own messages go to logger; nil drops them.
func Dial(ctx context.Context, o *Options, env Environment, logger *slog.Logger, instruments ...Instrument) (*Connection, error) {
	options, err := o.ClientOptions(env)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, options, logger, instruments)
	if unreachable, ok := errors.AsType[*UnreachableError](err); ok && unreachable.Address == defaultAddress {
		if local, lives := FindLocal(o.StoreDir, o.Host); !lives {
			unreachable.Ended = local
		}
	}
	return conn, err
}

// DialAddress connects to a server of our own, without TLS, on the same terms as
// [Dial], overriding the environment.
func DialAddress(ctx context.Context, address, namespace string, logger *slog.Logger, instruments ...Instrument) (*Connection,
	error,
) {
	return dial(ctx, client.Options{HostPort: address, Namespace: namespace}, logger, instruments)
}

func dial(ctx context.Context, options client.Options, logger *slog.Logger, instruments []Instrument) (*Connection, error) {
	options.Logger = newLogger(logger)
	for _, add := range instruments {
		add(&options)
	}
	bounded, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	c, err := client.DialContext(bounded, options)
	if err != nil {
		return nil, explain(ctx, options.HostPort, err)
	}
	return &Connection{Client: c, Address: options.HostPort, Namespace: options.Namespace}, nil
}

// explain distinguishes refusals from silence. A caller that gave up gets its own error.
func explain(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if is[*serviceerror.PermissionDenied](err) || isUnauthenticated(err) {
		return &RefusedError{Address: address, Err: err}
	}
	return &UnreachableError{Address: address, Err: err}
}
