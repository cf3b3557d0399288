#!/usr/bin/env bash
# Runs Maestro as it is deployed, without containers: PostgreSQL, Temporal on it,
# and workers, all on 127.0.0.1. Each worker is a host of its own: it shares only the
# database and the content with the others. Stays until Ctrl-C, or for as long
# as a command takes. What it keeps is in one directory, and a second run goes on
# with it: sessions too.
set -euo pipefail

usage() {
	cat <<'END'
usage: deploy/cluster/run.sh [flags] [-- COMMAND [ARG...]]

  --dir DIR        what is kept (default: maestro-cluster in $XDG_STATE_HOME,
                   else in ~/.local/state; for root in /var/lib)
  --agents FILE    the workers' file (default: examples/shortener/agents.yaml)
  --workers N      how many workers (default 2)
  --port N         Temporal's port (default: a free one, kept in DIR)
  --drain TIME     how long attempts may go on at the end (default 5s)

COMMAND finds the cluster in its environment, and `maestro` in its PATH. Its exit
code is the script's. Without one, `. DIR/environment` in another shell does that.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
host=127.0.0.1
dir=''
agents=$root/examples/shortener/agents.yaml
workers=2
port=''
drain=5s
command=()
# What turns a command into one of the user that owns the database: PostgreSQL
# refuses to run as root.
as_owner=()
if [ "$(id -u)" -eq 0 ]; then as_owner=(setpriv --reuid postgres --regid postgres --init-groups --); fi

say() { printf '%s\n' "$*" >&2; }
fail() {
	say "run.sh: $1"
	exit "${2:-1}"
}

# said prints the end of a program's log, and where the rest is. Temporal's lines
# carry whole stacks: what they are about stands at their beginning.
said() { printf '%s\n(all of it is in %s)' "$(tail -n 8 "$dir/log/$1.log" | cut -c 1-300)" "$dir/log/$1.log"; }

# absolute makes a path that does not depend on the working directory.
absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$PWD" "$1" ;; esac; }

read_flags() {
	while [ $# -gt 0 ]; do
		case $1 in
		--help | -h) usage && exit 0 ;;
		--) shift && command=("$@") && return ;;
		--dir | --agents | --workers | --port | --drain)
			[ $# -ge 2 ] || fail "$1 needs a value" 2
			case $1 in
			--dir) dir=$(absolute "$2") ;;
			--agents) agents=$(absolute "$2") ;;
			--workers) workers=$2 ;;
			--port) port=$2 ;;
			--drain) drain=$2 ;;
			esac
			shift 2
			;;
		*) usage >&2 && fail "$1 is no flag of this script; a command comes after --" 2 ;;
		esac
	done
}

check_flags() {
	[[ $workers =~ ^[1-9][0-9]?$ ]] || fail "--workers $workers is not a number from 1 to 99" 2
	[[ -z $port || $port =~ ^[1-9][0-9]{3,4}$ ]] || fail "--port $port is not a number from 1024 on" 2
	[ -f "$agents" ] || fail "there is no worker file $agents" 2
	if [ -z "$dir" ]; then
		if [ "$(id -u)" -eq 0 ]; then
			dir=/var/lib/maestro-cluster
		else
			[ -n "${XDG_STATE_HOME:-${HOME:-}}" ] || fail 'HOME is not set; say with --dir where all of it is kept' 2
			dir=${XDG_STATE_HOME:-$HOME/.local/state}/maestro-cluster
		fi
	fi
}

# find_programs looks for everything before anything starts.
find_programs() {
	local name
	for name in setpriv setsid flock env; do
		command -v "$name" >/dev/null || fail "$name is missing (Debian: util-linux, coreutils)"
	done
	postgresql=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
	if command -v initdb >/dev/null; then postgresql=$(dirname "$(readlink -f "$(command -v initdb)")"); fi
	[ -n "$postgresql" ] || fail 'PostgreSQL is missing (Debian: apt-get install postgresql)'
	for name in maestro maestro-worker maestro-shim maestro-namespace temporal-server temporal-sql-tool; do
		[ -x "$root/bin/$name" ] || make -C "$root" build bin/temporal-server bin/temporal-sql-tool >&2
	done
	export PATH=$root/bin:$PATH
}

make_directory() {
	local refused
	if ! refused=$(mkdir -p "$dir/log" "$dir/content" "$dir/postgresql" 2>&1 && chmod 700 "$dir/content" "$dir/log" 2>&1); then
		fail "$dir cannot be used: ${refused%%$'\n'*}; choose a --dir that user $(id -un) owns"
	fi
	# Children do not inherit the lock: it is free when the script is gone.
	exec 9>"$dir/lock"
	flock -n 9 || fail "another run.sh uses $dir"
	if [ ${#as_owner[@]} -gt 0 ]; then chown postgres:postgres "$dir/postgresql"; fi
	"${as_owner[@]}" test -w "$dir/postgresql" ||
		fail "user postgres cannot enter $dir/postgresql; choose a --dir whose parents everybody may enter"
}

# taken tells whether something listens on a port, on any address.
taken() { grep -qi ":$(printf %04X "$1") [0-9A-F:]* 0A " <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null); }

# free_port prints a port that nobody listens on and that the kernel gives to no
# outgoing connection.
free_port() {
	local n
	while true; do
		n=$((10000 + RANDOM % 22000))
		if ! taken "$n" && [[ " ${ports[*]} " != *" $n "* ]]; then break; fi
	done
	printf %s "$n"
}

# The ports that everything listens on, by the names of the variables in which
# Temporal's own configuration takes them.
port_names=(
	FRONTEND_GRPC_PORT FRONTEND_HTTP_PORT FRONTEND_MEMBERSHIP_PORT HISTORY_GRPC_PORT HISTORY_MEMBERSHIP_PORT
	MATCHING_GRPC_PORT MATCHING_MEMBERSHIP_PORT WORKER_GRPC_PORT WORKER_MEMBERSHIP_PORT DB_PORT
)
declare -A ports=()

# choose_ports takes those of the run before, as far as they are free: what knows
# the cluster's address finds it again.
choose_ports() {
	local name n
	for name in "${port_names[@]}"; do
		n=$(sed -n "s/^$name=//p" "$dir/ports" 2>/dev/null || true)
		if [ "$name" = FRONTEND_GRPC_PORT ] && [ -n "$port" ]; then
			if taken "$port"; then fail "port $port is taken"; fi
			n=$port
		elif [ -z "$n" ] || taken "$n"; then
			n=$(free_port)
		fi
		ports[$name]=$n
	done
	for name in "${port_names[@]}"; do printf '%s=%s\n' "$name" "${ports[$name]}"; done >"$dir/ports"
}

# What is running: names by process id. All of it dies with this script, killed
# or not, and has a session of its own, so that Ctrl-C reaches the script alone.
declare -A running=()

# launch starts a program, its output in the log of that name, with the signal
# that it gets when this script dies.
launch() {
	local name=$1 signal=$2
	shift 2
	local owner=()
	if [ "$name" = postgresql ]; then owner=("${as_owner[@]}"); fi
	# The change of user comes first: it clears the signal.
	(exec setsid "${owner[@]}" setpriv --pdeathsig "$signal" -- "$@" </dev/null >>"$dir/log/$name.log" 2>&1 9>&-) &
	running[$!]=$name
	last=$!
}

alive() { kill -0 "$1" 2>/dev/null; }

# await waits until a check holds while a process lives.
await() {
	local what=$1 pid=$2 deadline=$((SECONDS + 120))
	shift 2
	until "$@" >/dev/null 2>&1; do
		alive "$pid" || fail "$what ended: $(said "${running[$pid]}")"
		[ "$SECONDS" -lt "$deadline" ] || fail "$what did not come up within two minutes; see $dir/log"
		sleep 0.1
	done
}

# end stops one process by its signal, and by force after some seconds.
end() {
	local pid=$1 signal=$2 patience=$3
	[ -n "${running[$pid]:-}" ] || return 0
	kill -s "$signal" "$pid" 2>/dev/null || true
	local deadline=$((SECONDS + patience))
	while alive "$pid" && [ "$SECONDS" -lt "$deadline" ]; do sleep 0.05; done
	if alive "$pid"; then
		say "${running[$pid]} does not end; it is killed"
		kill -s KILL "$pid" 2>/dev/null || true
	fi
	wait "$pid" 2>/dev/null || true
	unset "running[$pid]"
}

# of lists the processes whose name begins like that.
of() {
	local pid
	for pid in "${!running[@]}"; do
		if [[ ${running[$pid]} == "$1"* ]]; then printf '%s\n' "$pid"; fi
	done
}

# stop ends everything: work first, then what it needs.
stop() {
	local status=$? pid
	trap - EXIT
	trap '' INT TERM HUP # it does end
	for pid in $(of command) $(of worker); do kill -s TERM "$pid" 2>/dev/null || true; done
	for pid in $(of command) $(of worker); do end "$pid" TERM 60; done
	for pid in $(of temporal); do end "$pid" TERM 30; done
	for pid in $(of postgresql); do end "$pid" INT 30; done
	exit "$status"
}

start_postgresql() {
	local data=$dir/postgresql/data secret=$dir/postgresql/password
	if [ ! -s "$secret" ]; then
		(umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' | "${as_owner[@]}" tee "$secret" >/dev/null)
	fi
	password=$(<"$secret")
	if [ ! -f "$data/PG_VERSION" ]; then
		# Made aside and moved into place: what is there is whole.
		rm -rf "$data.new"
		"${as_owner[@]}" "$postgresql/initdb" -D "$data.new" -U temporal --auth=scram-sha-256 --encoding=UTF8 --no-locale \
			--pwfile="$secret" >"$dir/log/initdb.log" 2>&1 || fail "initdb failed: $(said initdb)"
		mv "$data.new" "$data"
	fi
	launch postgresql INT "$postgresql/postgres" -D "$data" -p "${ports[DB_PORT]}" \
		-c "listen_addresses=$host" -c unix_socket_directories= -c max_connections=200
	await PostgreSQL "$last" "$postgresql/pg_isready" -q -h "$host" -p "${ports[DB_PORT]}" -U temporal
}

# start_temporal starts the server by the variables that its image takes, too.
start_temporal() {
	local name settings=(
		DB=postgres12 POSTGRES_SEEDS="$host" POSTGRES_USER=temporal BIND_ON_IP="$host" TEMPORAL_BROADCAST_ADDRESS="$host"
		TEMPORAL_ALLOW_NO_AUTH=true LOG_LEVEL=warn
		DYNAMIC_CONFIG_FILE_PATH="$root/deploy/temporal/dynamicconfig.yaml"
	)
	for name in "${port_names[@]}"; do settings+=("$name=${ports[$name]}"); done
	SQL_HOST=$host SQL_PORT=${ports[DB_PORT]} SQL_USER=temporal SQL_PASSWORD=$password \
		"$root/deploy/temporal/schema.sh" >"$dir/log/schema.log" 2>&1 9>&- ||
		fail "the schema cannot be made: $(said schema)"
	POSTGRES_PWD=$password launch temporal TERM env "${settings[@]}" temporal-server start
	maestro-namespace 9>&- || fail "Temporal does not come up: $(said temporal)"
}

start_worker() {
	local health
	health=$(free_port)
	MAESTRO_STATE_DIR=$dir/host-$1 MAESTRO_HEALTH_PORT=$health launch "worker-$1" TERM maestro-worker --agents "$agents" --drain "$drain"
	await "worker $1" "$last" maestro-worker health --health-port "$health"
}

start_all() {
	start_postgresql
	export PGPASSWORD=$password TEMPORAL_ADDRESS=$host:${ports[FRONTEND_GRPC_PORT]} MAESTRO_AGENTS=$agents MAESTRO_CONTENT=file://$dir/content \
		MAESTRO_STORE="postgres://temporal@$host:${ports[DB_PORT]}/maestro?sslmode=disable" MAESTRO_STATE_DIR=$dir/commands
	start_temporal
	local n
	for n in $(seq "$workers"); do start_worker "$n"; done
	# Temporal shows who asks for work a moment after they have begun to.
	await 'every queue' "$last" maestro agents
	(
		umask 077
		printf 'export %s=%q\n' TEMPORAL_ADDRESS "$TEMPORAL_ADDRESS" MAESTRO_STATE_DIR "$MAESTRO_STATE_DIR" \
			MAESTRO_STORE "$MAESTRO_STORE" MAESTRO_CONTENT "$MAESTRO_CONTENT" PGPASSWORD "$PGPASSWORD" MAESTRO_AGENTS "$MAESTRO_AGENTS" PATH "$PATH" >"$dir/environment"
	)
}

describe() {
	say "Maestro is running"
	say "  Temporal    $TEMPORAL_ADDRESS, namespace default, HTTP on $host:${ports[FRONTEND_HTTP_PORT]}"
	say "  PostgreSQL  $host:${ports[DB_PORT]}, user temporal, password in $dir/postgresql/password"
	say "  store       $MAESTRO_STORE, $MAESTRO_CONTENT"
	say "  workers     $workers, each with a directory of its own: $dir/host-*"
	say "  logs        $dir/log"
	say "  elsewhere   . $dir/environment"
}

# watch_over returns with the status of the command when that ends. A worker that
# dies is started again, as any supervisor would; nothing goes on without Temporal.
watch_over() {
	local pid status name
	while true; do
		status=0
		wait -n -p pid "${!running[@]}" 2>/dev/null || status=$?
		[ -n "${pid:-}" ] || continue
		name=${running[$pid]}
		unset "running[$pid]"
		case $name in
		command) return "$status" ;;
		worker-*)
			say "$name ended (status $status); it is started again"
			sleep 0.5
			start_worker "${name#worker-}"
			;;
		*)
			fail "$name ended (status $status), and nothing goes on without it: all of it stops.
The next run on $dir goes on with its sessions. The last that $name said:
$(said "$name")"
			;;
		esac
	done
}

main() {
	read_flags "$@"
	check_flags
	find_programs
	make_directory
	trap stop EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	choose_ports
	start_all
	describe
	if [ ${#command[@]} -gt 0 ]; then
		setpriv --pdeathsig TERM -- env --default-signal=INT,QUIT "${command[@]}" <&0 9>&- &
		running[$!]="command"
	fi
	watch_over
}

main "$@"
