#!/bin/sh
# Compiles the auditor and has it look at the directory that this is started in. It is
# compiled as no part of a module: the one around it, if any, is none of its business.
(cd "$(dirname "$0")/auditor" && GO111MODULE=off GOFLAGS=-buildvcs=false go build -o "$TMPDIR/auditor" .) &&
	exec "$TMPDIR/auditor" "$1" "$PWD"
