// Command maestro-shim supervises one process of an agent or a check, in a room or without one.
// Only workers start it.
package main

import (
	"fmt"
	"os"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

func main() {
	room.Shim()
	if len(os.Args) == 2 && os.Args[1] == "--build" {
		fmt.Println(room.Build())
		return
	}
	fmt.Fprintln(os.Stderr, "maestro-shim: workers start this program; it has no other use")
	os.Exit(2)
}
