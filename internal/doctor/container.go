package doctor

import (
	"slices"
	"strings"
)

// containerRemedies are what to change about a container, by the checks whose remedy is otherwise a command of the host.
var containerRemedies = map[string]string{
	"git":            "add git to the image",
	"temporal":       "set TEMPORAL_ADDRESS in the container's environment to a server on a network of this container, and start that",
	"store":          "mount the volume that the workers have, and name its directory with MAESTRO_STATE_DIR in the container's environment",
	"store owner":    "run the container as that user, or mount a volume that belongs to this one",
	"store writable": "mount the store's volume writable, for the user of the container",
	"workers":        "start a container of a worker with the same volume; if one runs, its log and `maestro-worker health` in it say what is missing",
	"processes":      "run the command in the worker's container, as its user",
}

// ofTheHost begin the commands that change nothing in a container, or nothing that lasts.
var ofTheHost = []string{"sudo ", "npm install ", "maestro dev", "maestro worker "}

// contain replaces the commands of the host by what to change about the container in which this process is.
func (d *examination) contain() {
	if !d.options.Container {
		return
	}
	for i, f := range d.findings {
		if !slices.ContainsFunc(ofTheHost, func(begin string) bool { return strings.HasPrefix(f.Command, begin) }) {
			continue
		}
		remedy, known := containerRemedies[f.Check]
		switch {
		case known:
		case strings.Contains(f.Command, "install"):
			remedy = f.Remedy + ", in the image"
		default:
			remedy = f.Remedy + ", on the host of the container"
		}
		d.findings[i].Remedy, d.findings[i].Command = remedy, ""
	}
}
