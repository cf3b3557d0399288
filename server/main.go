// Command maestro-server is a complete Temporal service in one process, on SQLite, with Temporal's Web UI, as localdev and tests
// start it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/server/internal/devserver"
)

// Exit codes: a server that was told to stop ends with 0.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	options, untilEOF := parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	server, err := devserver.Start(ctx, options)
	if err == nil {
		announce(server, options.DBFilename)
		<-ctx.Done()
		err = server.Stop()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		end(exitFailed, err)
	}
}

// end ends the program with a sentence.
func end(code int, err error) {
	_, _ = fmt.Fprintf(os.Stderr, "maestro-server: %v\n", err)
	os.Exit(code)
}

// parse reads the arguments, or ends the program. untilEOF: the server stops also when standard input ends.
func parse(args []string) (o devserver.Options, untilEOF bool) {
	o.SearchAttributes = map[string]enumspb.IndexedValueType{}
	o.Fatal = func(err error) { end(exitFailed, err) }
	flags := flag.NewFlagSet("maestro-server", flag.ExitOnError)
	flags.StringVar(&o.IP, "ip", devserver.DefaultIP, "`address` that the frontend and the Web UI listen on")
	flags.IntVar(&o.Port, "port", devserver.DefaultPort, "port of the frontend; 0 takes a free one")
	flags.IntVar(&o.UIPort, "ui-port", 0, "port of the Web UI; 0 takes --port plus 1000, or a free one where that is taken")
	flags.BoolVar(&o.Headless, "headless", false, "do not run the Web UI")
	flags.StringVar(&o.DBFilename, "db-filename", "", "SQLite `file` that keeps everything; left out: memory")
	flags.BoolVar(&untilEOF, "until-stdin-closes", false, "stop also when standard input ends, as it does with a parent process")
	flags.Func("namespace", "namespace that shall exist besides \"default\"; repeatable", func(name string) error {
		o.Namespaces = append(o.Namespaces, name)
		return nil
	})
	flags.Func("search-attribute", "search attribute of namespaces that do not exist yet, as `NAME=TYPE`; repeatable",
		func(text string) error {
			name, kind, err := devserver.ParseSearchAttribute(text)
			o.SearchAttributes[name] = kind
			return err
		})
	flags.Func("dynamic-config-value", "setting of the server, as `KEY=JSON`; repeatable", func(text string) error {
		setting, err := devserver.ParseSetting(text)
		o.Settings = append(o.Settings, setting)
		return err
	})
	if len(args) > 1 && args[0] == "server" && args[1] == "start-dev" { // as scripts for Temporal's own command line begin
		args = args[2:]
	}
	_ = flags.Parse(args) // it ends the program instead
	if flags.NArg() > 0 {
		end(exitUsage, fmt.Errorf("unknown argument %q", flags.Arg(0)))
	}
	return o, untilEOF
}

// announce says where the server is. Callers read the lines, Database last.
func announce(server *devserver.Server, file string) {
	fmt.Printf("Temporal  %s\n", server.Address)
	if server.UIAddress != "" {
		fmt.Printf("Web UI    %s\n", server.UIAddress)
	}
	if file == "" {
		file = "in memory, gone when the server stops"
	}
	fmt.Printf("Database  %s\n", file)
}
