#!/bin/sh
# Runs the auditor on the directory that it is started in. Outside of modules, for the
# directory's own go.mod may be what is wrong.
dir=$PWD
cd "$(dirname "$0")/auditor" || exit
GO111MODULE=off GOFLAGS= exec go run . "$1" "$dir"
