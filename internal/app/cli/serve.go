package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/app/serve"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/faces/mcp"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/platform/logs"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

const (
	// dashboardPort is where `serve` and `dev` serve the dashboard.
	dashboardPort = 8088
	defaultListen = "127.0.0.1:8088"
)

// serveCommand is `serve`.
type serveCommand struct {
	*app
	log        logs.Options
	options    serve.Options
	proxies    []string
	workspaces []string
	oidc       oidcFlags
	link       bool
	// as and roles are those of the link.
	as    string
	roles []string
}

func newServe(a *app) *cobra.Command {
	c := serveCommand{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the dashboard and the HTTP API",
		Long: "Serve the dashboard and the HTTP API of the store and its Temporal namespace, until Ctrl-C. It prints a link that " +
			"signs in once; --link prints another one while the server runs.\n\n" +
			"On another address than a loopback one, put a proxy with TLS in front of it, and name it with --behind-proxy and --host.",
		Example: "  maestro serve\n  maestro serve --link\n  maestro serve --listen 0.0.0.0:8088 --host maestro.example.org " +
			"--behind-proxy 10.0.0.0/8",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.options.Listen, "listen", defaultListen, "address to listen on; port 0: a free port")
	flags.StringSliceVar(&c.options.Hosts, "host", nil, "other name by which the server may be called; repeatable")
	flags.StringSliceVar(&c.proxies, "behind-proxy", nil, "network of proxies, like 10.0.0.0/8, whose X-Forwarded headers are "+
		"believed; repeatable")
	flags.StringArrayVar(&c.workspaces, "workspace", nil, "NAME=DIR: a directory of this host that sessions may start from, by "+
		"its name; repeatable")
	flags.BoolVar(&c.options.ReadOnly, "read-only", false, "change nothing")
	c.oidc.add(flags)
	flags.BoolVar(&c.link, "link", false, "print a link that signs in to the running server, and exit")
	flags.StringVar(&c.as, "as", "", "with --link: the name of the person whom the link signs in, for records")
	flags.StringArrayVar(&c.roles, "role", nil, "with --as: the person's role, or ROLE:TEAM; may be given several times")
	c.log.AddFlags(flags, quietly)
	return a.addStateDirFlag(a.addTemporalFlags(cmd))
}

func (c *serveCommand) run(ctx context.Context) error {
	if _, _, err := net.SplitHostPort(c.options.Listen); err != nil {
		return usagef("--listen: %q is not an address; give host:port, like %s", c.options.Listen, defaultListen)
	}
	for _, text := range c.proxies {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return usagef("--behind-proxy: %q is not a network, like 10.0.0.0/8", text)
		}
		c.options.Proxies = append(c.options.Proxies, network)
	}
	var err error
	if c.options.Directories, err = c.directories(); err != nil {
		return err
	}
	if c.options.OIDC, err = c.oidc.provider(c.environ.get); err != nil {
		return err
	}
	roles, err := c.linkRoles()
	if err != nil {
		return err
	}
	base, _, err := c.storeBase(ctx)
	if err != nil {
		return err
	}
	s := base.Store
	defer s.Close() //nolint:errcheck // everything is committed
	if c.link {
		link, err := access.NewLink(ctx, s.State, base.Audit, c.env.Host, c.env.person(), c.as, roles)
		if err != nil {
			return failf("%w", err)
		}
		c.print("%s", link)
		return nil
	}
	o := c.options
	log, err := c.log.New(c.stderr, c.environ.get)
	if err != nil {
		return usagef("%w", err)
	}
	o.Log = log.Logger
	o.Store, o.Namespace, o.Dial = s, base.Namespace, c.dial
	server, err := serve.Start(ctx, c.env.serving(o))
	if err != nil {
		return startError("--listen", err)
	}
	defer server.Stop(ctx)
	if err := c.describe(ctx, server); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// linkRoles are those of --role, for a link with --as.
func (c *serveCommand) linkRoles() (access.Roles, error) {
	switch {
	case c.as == "" && len(c.roles) == 0:
		return nil, nil
	case c.as == "" || len(c.roles) == 0 || !c.link:
		return nil, usagef("--as and --role belong together, and to --link: --link --as NAME --role ROLE")
	}
	if err := spec.CheckName(c.as); err != nil {
		return nil, usagef("--as: %w", err)
	}
	roles, err := access.ParseRoles(c.roles...)
	if err != nil {
		return nil, usagef("--role: %w", err)
	}
	return roles, nil
}

// startError returns the error of a server that does not start. The flag is the one of its address.
func startError(flag string, err error) error {
	if errors.Is(err, httpserver.ErrListen) {
		return usagef("%s: %w", flag, err)
	}
	return err
}

// directories are those that sessions may start from.
func (c *serveCommand) directories() (all []control.Directory, err error) {
	for _, text := range c.workspaces {
		name, dir, err := pair("--workspace", "NAME=DIR", text)
		if err != nil {
			return nil, err
		}
		if err := spec.CheckName(name); err != nil {
			return nil, usagef("--workspace: %w", err)
		}
		if dir, err = c.directory("--workspace", dir); err != nil {
			return nil, err
		}
		all = append(all, c.directoryNamed(name, dir))
	}
	return all, nil
}

// directoryNamed is a directory of this host that sessions may start from.
func (a *app) directoryNamed(name, dir string) control.Directory {
	return control.Directory{Name: name, Source: func(ctx context.Context) session.Source {
		return apply.Source(ctx, a.env.Host, dir, a.environ)
	}, Options: func(ctx context.Context, o cas.SnapshotOptions) cas.SnapshotOptions {
		return apply.WithTracked(ctx, dir, a.environ, o)
	}}
}

// serving completes options with what the environment says.
func (e Env) serving(o serve.Options) serve.Options {
	o.User, o.Host, o.Version, o.Now = e.person(), e.Host, buildinfo.This().Version, e.Now
	return o
}

// describe prints where the server is.
func (c *serveCommand) describe(ctx context.Context, server *serve.Server) error {
	link, err := server.LoginURL(ctx)
	if err != nil {
		return err
	}
	c.printErr("Maestro serves the store in %s", c.stateDirectory())
	c.printErr("  API        %s%s", server.URL(), httpapi.Prefix)
	c.printErr("  dashboard  %s", server.URL())
	c.printErr("  sign in    %s", link)
	c.printErr("\nThe link signs in once, within 10 minutes; `%s` prints another. Stop with Ctrl-C.", c.commandLine("serve --link"))
	return nil
}

// oidcSecretVariable has the secret that the provider of sign-ins knows the server by.
const oidcSecretVariable = "MAESTRO_OIDC_SECRET" //nolint:gosec // the name of a variable

// oidcFlags name the provider by which people sign in.
type oidcFlags struct {
	options                  access.OIDCOptions
	groups, persons, domains []string
	secretFile               string
}

func (f *oidcFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Issuer, "oidc-issuer", "", "address of the OpenID Connect provider by which people sign in")
	flags.StringVar(&f.options.ClientID, "oidc-client-id", "", "what the provider calls this server; its secret is in $"+
		oidcSecretVariable)
	flags.StringVar(&f.secretFile, "oidc-secret-file", "", "file with the secret instead")
	flags.StringArrayVar(&f.groups, "oidc-group", nil, "GROUP=ROLE or GROUP=ROLE:TEAM: the role of a group of the provider; "+
		"repeatable")
	flags.StringArrayVar(&f.persons, "oidc-person", nil, "ADDRESS=ROLE or ADDRESS=ROLE:TEAM: the role of a person with this "+
		"verified address of mail; repeatable")
	flags.StringArrayVar(&f.domains, "oidc-domain", nil, "DOMAIN=ROLE or DOMAIN=ROLE:TEAM: the role of everybody with a verified "+
		"address of this domain; repeatable")
	flags.StringVar(&f.options.GroupsClaim, "oidc-groups-claim", "groups", "claim that has a person's groups")
	flags.StringSliceVar(&f.options.Scopes, "oidc-scope", nil,
		"scope to request in addition to openid, profile and email; repeatable")
}

// provider is the provider that the flags name; nil: none.
func (f *oidcFlags) provider(getenv func(string) string) (*access.OIDCOptions, error) {
	o := f.options
	given := len(f.groups) + len(f.persons) + len(f.domains)
	if o.Issuer == "" {
		if o.ClientID != "" || given > 0 || f.secretFile != "" {
			return nil, usagef("missing --oidc-issuer, the address of the provider")
		}
		return nil, nil
	}
	if o.ClientID == "" || given == 0 {
		return nil, usagef("--oidc-issuer needs --oidc-client-id, and --oidc-group GROUP=ROLE, --oidc-person ADDRESS=ROLE or " +
			"--oidc-domain DOMAIN=ROLE: without one, no person has a role")
	}
	for _, text := range f.groups {
		group, err := access.ParseGroupRole(text)
		if err != nil {
			return nil, usagef("--oidc-group: %w", err)
		}
		o.Groups = append(o.Groups, group)
	}
	for flag, texts := range map[string][]string{"--oidc-person": f.persons, "--oidc-domain": f.domains} {
		for _, text := range texts {
			if flag == "--oidc-domain" {
				text = "@" + text
			}
			mail, err := access.ParseMailRole(text)
			if err != nil || strings.HasPrefix(mail.Mail, "@") != (flag == "--oidc-domain") {
				return nil, usagef("%s: %w", flag, cmp.Or(err, fmt.Errorf("%.80q has no name before the @", text)))
			}
			o.Mails = append(o.Mails, mail)
		}
	}
	o.Secret = getenv(oidcSecretVariable)
	if f.secretFile != "" {
		var err error
		if o.Secret, err = readSecret("oidc-secret-file", f.secretFile); err != nil {
			return nil, err
		}
	}
	return &o, nil
}

func newMCP(a *app) *cobra.Command {
	return a.addStateDirFlag(a.addTemporalFlags(&cobra.Command{
		Use:   "mcp",
		Short: "Serve sessions as tools for agents, over standard input and output",
		Long: "Serve sessions as tools of the Model Context Protocol over standard input and output, with the rights of the user who " +
			"runs it. " +
			"An agent program starts it; `maestro serve` has the same tools over HTTP at " + mcp.Path + ", for the holders of tokens.",
		Example: "  claude mcp add maestro -- maestro mcp",
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, done, err := a.shownBase(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return mcp.Serve(cmd.Context(), base, buildinfo.This().Version, io.NopCloser(a.env.Stdin), nopCloser{a.stdout})
		},
	}))
}

// nopCloser is a writer that stays open.
type nopCloser struct{ io.Writer }

// Close implements [io.Closer].
func (nopCloser) Close() error { return nil }
