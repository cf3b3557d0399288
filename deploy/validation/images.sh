#!/usr/bin/env bash
# Makes stand-ins for the images that docker-compose.yml and the Dockerfile name, for a machine that reaches a Debian
# mirror and a Go module proxy and no registry of images. Their programs are Temporal's own in the named versions, with
# the entrypoints of their modules; PostgreSQL, Prometheus and the base are this machine's Debian. All addresses are those
# of the machine's apt and Go. Images that the engine has already stay as they are.
#
#   deploy/validation/images.sh            makes what is missing; what it downloads and builds stays in bin/images
#   deploy/validation/images.sh --remove   removes every image that it made, and what was built from them
#
# It needs debootstrap, root and an engine.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/bin/images
label=maestro.stand-in
# The old builder is part of every engine and of every docker command; BuildKit may need a plugin.
export CGO_ENABLED=0 GOFLAGS=-trimpath DOCKER_BUILDKIT=0

say() { printf '%s\n' "$*" >&2; }
has() { docker image inspect "$1" >/dev/null 2>&1; }

# missing tells whether an image has to be made, and empties the directory of its build.
missing() {
	if has "$1"; then return 1; fi
	say "making a stand-in for $1"
	rm -rf "$work/context" && mkdir -p "$work/context"
}

# image makes an image from a Dockerfile on its standard input and that directory.
image() { docker build --quiet --tag "$1" --file - "$work/context" >/dev/null 2>"$work/build.log" || { cat "$work/build.log" >&2 && return 1; }; }

# place copies a file into the directory.
place() { install -D -m "$1" "$2" "$work/context/$3"; }

# program builds a program of a module that server/go.mod pins.
program() {
	(cd "$root/server" && go build -ldflags='-s -w' -o "$work/context/$1" "$2")
}

# module prints the directory of such a module.
module() { (cd "$root/server" && go list -m -f '{{.Dir}}' "$1"); }

base() {
	local name=$1 mirror suite
	missing "$name" || return 0
	if [ ! -s "$work/base.tar" ]; then
		mirror=$(apt-get indextargets --format "\$(SITE)" 'Created-By: Packages' | head -n 1)
		suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
		rm -rf "$work/base"
		debootstrap --variant=minbase --include=ca-certificates "$suite" "$work/base" "$mirror" >"$work/debootstrap.log"
		rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
		apt-config dump Acquire::http::Proxy >"$work/base/etc/apt/apt.conf.d/90proxy"
		cp /etc/ssl/certs/ca-certificates.crt "$work/base/etc/ssl/certs/" # this machine may trust more
		tar -C "$work/base" -cf "$work/base.tar.new" .
		mv "$work/base.tar.new" "$work/base.tar"
		rm -rf "$work/base"
	fi
	docker import --change "LABEL $label=true" --change 'CMD ["bash"]' "$work/base.tar" "$name" >/dev/null
}

golang() {
	missing "$1" || return 0
	local goroot
	goroot=$(go env GOROOT)
	[ "go${1#*:}" = "$(go env GOVERSION)-bookworm" ] || say "the toolchain in the stand-in for $1 is this machine's $(go env GOVERSION)"
	tar -C "$(dirname "$goroot")" -chf "$work/context/go.tar" --transform "s,^$(basename "$goroot"),go," "$(basename "$goroot")"
	image "$1" <<-'END'
		FROM debian:bookworm-slim
		RUN apt-get update && apt-get install -y --no-install-recommends git
		ADD go.tar /usr/local/
		ENV PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local
	END
}

# postgresql does with its variables and its data what the published image does.
postgresql() {
	missing "$1" || return 0
	cat >"$work/context/postgres-entrypoint" <<-'END'
		#!/bin/bash
		set -euo pipefail
		if [ "$(id -u)" = 0 ]; then
			mkdir -p "$PGDATA" /var/run/postgresql
			chown -R postgres "$PGDATA" /var/run/postgresql
			chmod 700 "$PGDATA"
			exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
		fi
		if [ ! -s "$PGDATA/PG_VERSION" ]; then
			initdb --username="${POSTGRES_USER:-postgres}" --auth-host=scram-sha-256 --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD")
			echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
		fi
		exec "$@" -c 'listen_addresses=*'
	END
	chmod 755 "$work/context/postgres-entrypoint"
	image "$1" <<-'END'
		FROM debian:bookworm-slim
		RUN apt-get update && apt-get install -y --no-install-recommends postgresql && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ || true
		ENV PGDATA=/var/lib/postgresql/data LANG=C.UTF-8
		COPY postgres-entrypoint /usr/local/bin/
		VOLUME /var/lib/postgresql/data
		STOPSIGNAL SIGINT
		ENTRYPOINT ["postgres-entrypoint"]
		CMD ["postgres"]
	END
}

temporal() {
	if missing "$1"; then
		program temporal-server go.temporal.io/server/cmd/server
		place 755 "$(module go.temporal.io/server)/docker/scripts/sh/entrypoint.sh" temporal-entrypoint
		# The published one has busybox, whose sh knows pipefail.
		image "$1" <<-'END'
			FROM debian:bookworm-slim
			RUN apt-get update && apt-get install -y --no-install-recommends netcat-openbsd && ln -sf bash /bin/sh && useradd --uid 1000 temporal
			COPY temporal-server /usr/local/bin/
			COPY temporal-entrypoint /etc/temporal/entrypoint.sh
			WORKDIR /etc/temporal
			USER temporal
			CMD ["/etc/temporal/entrypoint.sh"]
		END
	fi
	if missing "$2"; then
		program temporal-sql-tool go.temporal.io/server/cmd/tools/sql
		image "$2" <<-'END'
			FROM debian:bookworm-slim
			RUN useradd --uid 1000 temporal
			COPY temporal-sql-tool /usr/local/bin/
			USER temporal
		END
	fi
}

ui() {
	missing "$1" || return 0
	local from
	from=$(module github.com/temporalio/ui-server/v2)
	program ui-server github.com/temporalio/ui-server/v2/cmd/server
	place 755 "$from/docker/start-ui-server.sh" start-ui-server.sh
	place 644 "$from/config/docker.yaml" ui.yaml
	image "$1" <<-'END'
		FROM debian:bookworm-slim
		RUN apt-get update && apt-get install -y --no-install-recommends wget && useradd --uid 1000 temporal
		WORKDIR /home/ui-server
		COPY ui-server start-ui-server.sh ./
		COPY ui.yaml ./config/docker.yaml
		USER temporal
		ENTRYPOINT ["./start-ui-server.sh"]
	END
}

prometheus() {
	missing "$1" || return 0
	image "$1" <<-'END'
		FROM debian:bookworm-slim
		RUN apt-get update && apt-get install -y --no-install-recommends prometheus wget && install -d -o nobody -g nogroup /prometheus
		USER nobody
		ENTRYPOINT ["prometheus"]
	END
}

# remove takes those away first that no other is made from.
remove() {
	local before='' now
	while now=$(docker image ls --quiet --filter "label=$label" | sort -u) && [ "$now" != "$before" ]; do
		before=$now
		for id in $now; do docker image rm --force "$id" >/dev/null 2>&1 || true; done
	done
	[ -z "$now" ] || { say "some stand-ins are in use: $now" && return 1; }
}

if [ "${1:-}" = --remove ]; then
	remove
	exit
fi

# named prints the image that begins like that in a file that this repository deploys with.
named() { grep -hoE "(image:|FROM) $1:[^ ]+" "$root/docker-compose.yml" "$root/Dockerfile" | head -n 1 | cut -d ' ' -f 2; }

mkdir -p "$work"
base "$(named debian)"
golang "$(named golang)"
postgresql "$(named postgres)"
temporal "$(named temporalio/server)" "$(named temporalio/admin-tools)"
ui "$(named temporalio/ui)"
prometheus "$(named prom/prometheus)"
rm -rf "$work/context"
