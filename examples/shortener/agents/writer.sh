#!/bin/sh
# The agent of the personas who write pages. It works without a model, so that the
# example needs no network and no key.
set -eu
. "$(dirname "$0")/brief.sh"

analyst() {
	turn "reading the requirement" 1900 240
	turn "writing docs/requirements.md" 2300 610
	{
		cat <<'END'
# Requirements

The customer's words:

END
		text requirement | sed 's/^/> /'
		cat <<'END'

1. `POST /` with a long address answers 201 and the short one.
2. `GET /{code}` answers 302 to the long address, or 404.
3. The same long address always gets the same code.
4. Two long addresses never get the same code.
5. Anything but http and https is refused with 400.
END
	} > docs/requirements.md
	leave "Five numbered requirements, each of which a test can decide."
}

architect() {
	turn "comparing ways to make codes" 2800 420
	turn "writing docs/design.md" 3300 700
	cat > docs/design.md <<'END'
# Design

A code is the beginning of the address's SHA-256 in base 62, so the
same address gets the same code without being looked up (requirement
3). Seven characters hold 3.5 * 10^12 codes. Two addresses that meet
in one code are told apart by hashing again with a counter
(requirement 4).

Addresses are kept in memory behind a mutex; nothing else knows.

| decision | value |
|---|---|
| code_length | 7 |
| storage | memory |
END
	leave "Hashed codes of seven characters, kept in memory." '"code_length": "7", "storage": "memory"'
}

operator() {
	turn "writing the Dockerfile" 4100 330
	cat > Dockerfile <<'END'
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -o /shortener ./cmd/shortener

FROM scratch
COPY --from=build /shortener /shortener
USER 65534
EXPOSE 8080
ENTRYPOINT ["/shortener"]
END
	turn "writing docs/operations.md" 4400 380
	cat > docs/operations.md <<END
# Operations

The service keeps its addresses in $(text storage memory): a restart
forgets them. It listens on port 8080 and needs nothing else.

| symptom | look at |
|---|---|
| 404 for a known code | was it restarted? |
| 400 on POST | is the address http or https? |
END
	leave "A container of one static binary, and a page on how to run it."
}

mkdir -p docs
case $(text phase)/$(text persona) in
requirements/analyst) analyst ;;
design/architect) architect ;;
deployment/operator) operator ;;
*) unknown ;;
esac
