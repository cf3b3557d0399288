package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/faces/mcp"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// mcpCommand is `mcp`.
type mcpCommand struct {
	*connector
	in  io.Reader
	out io.Writer
}

func newMCP(a *app) *cobra.Command {
	c := mcpCommand{a.connector, a.env.Stdin, a.env.Stdout}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve sessions as tools for agents, over standard input and output",
		Long: "Serve sessions as tools of the Model Context Protocol over standard input and output, with the rights of the user who runs it. " +
			"An agent program starts it; `maestro serve` has the same tools over HTTP at " + mcp.Path + ", for the holders of tokens.",
		Example: "  claude mcp add maestro -- maestro mcp",
		Args:    cmdline.Arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	return cmd
}

func (c *mcpCommand) run(ctx context.Context) error {
	base, done, err := c.storeOrTemporalBase(ctx)
	if err != nil {
		return err
	}
	defer done()
	return mcp.Serve(ctx, base, buildinfo.This().Version, io.NopCloser(c.in), nopCloser{c.out})
}

// nopCloser is a writer that stays open.
type nopCloser struct{ io.Writer }

// Close implements [io.Closer].
func (nopCloser) Close() error { return nil }
