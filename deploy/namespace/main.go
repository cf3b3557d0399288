// Command maestro-namespace prepares a Temporal for Maestro: it waits until
// Temporal answers, registers the namespace and adds Maestro's search attributes
// to it. What is there already stays as it is, so it may run at each start.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// pause lies between two tries. A server that has just started refuses for a
// moment, and it takes seconds to know a namespace that was just registered.
const pause = 250 * time.Millisecond

// preparation is what the command is told.
type preparation struct {
	connection temporalutil.Options
	// retention is how long Temporal keeps a session that has ended.
	retention time.Duration
	// patience bounds all of it.
	patience time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand(envconfig.EnvLookupOS).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "maestro-namespace:", err)
		os.Exit(1)
	}
}

func newCommand(env temporalutil.Environment) *cobra.Command {
	var p preparation
	cmd := &cobra.Command{
		Use:           "maestro-namespace",
		Short:         "Register a Temporal namespace with Maestro's search attributes",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bounded, cancel := context.WithTimeout(cmd.Context(), p.patience)
			defer cancel()
			return p.persist(bounded, env)
		},
	}
	p.connection.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&p.retention, "retention", 7*24*time.Hour,
		"how long Temporal keeps sessions that have ended, for a new namespace")
	cmd.Flags().DurationVar(&p.patience, "wait", time.Minute, "how long to try")
	return cmd
}

// persist tries until all is there. When ctx ends first, the error is that of the
// last try.
func (p preparation) persist(ctx context.Context, env temporalutil.Environment) error {
	for {
		err := p.prepare(ctx, env)
		if _, bad := errors.AsType[*temporalutil.ConfigError](err); bad || err == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// errUnsettled says that Temporal has taken all of it and does not show it yet.
var errUnsettled = errors.New("the search attributes were added, and Temporal does not show them yet")

func (p preparation) prepare(ctx context.Context, env temporalutil.Environment) error {
	conn, err := temporalutil.Dial(ctx, &p.connection, env, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: conn.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(p.retention),
	})
	if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); err != nil && !exists {
		return fmt.Errorf("register namespace %s: %w", conn.Namespace, err)
	}
	attributes := temporalutil.NewSearchAttributes(conn, conn.Namespace, time.Now, keys()...)
	missing, err := attributes.Missing(ctx)
	if err != nil {
		return fmt.Errorf("list the search attributes of namespace %s: %w", conn.Namespace, err)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := attributes.Add(ctx, missing); err != nil {
		return fmt.Errorf("add search attributes to namespace %s: %w", conn.Namespace, err)
	}
	return errUnsettled
}

// keys are the search attributes of a session.
func keys() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{
		workflows.AttributeTeam, workflows.AttributeStatus, workflows.AttributePhase, workflows.AttributeTokens,
	}
}
