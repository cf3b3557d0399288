// Command maestro-worker serves a store's sessions with the agents of a worker
// file. It is the worker of the maestro command as a program of its own, to be
// deployed beside the services that its agents work on.
package main

import (
	"os"

	"github.com/maestro-hive/maestro/worker/service"
)

func main() { os.Exit(service.Main()) }
