# Images of a Maestro worker. `docker build .` makes the small one, and
# `docker build --target worker-go .` one with the Go toolchain, for worker files
# whose checks build Go code. Other tools: an image FROM one of these.

# The version is that of the checkout: .git is part of the build's context, and
# only of that. A build without .git is (devel).
FROM golang:1.26.8-bookworm AS build
# A Go module proxy other than the usual one: --build-arg GOPROXY=...
ARG GOPROXY
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags='-s -w' -o /out/maestro ./starter \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags='-s -w' -o /out/maestro-worker ./worker \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags='-s -w' -o /out/maestro-shim ./internal/sandbox/room/maestro-shim \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags='-s -w' -o /out/maestro-namespace ./deploy/namespace

# Everything that is written goes to the volume and to /tmp: the root file system
# may be read-only. The worker is process 1 without an init before it: it handles
# the signals, and its shims wait for what their agents leave.
FROM debian:bookworm-slim AS base
LABEL org.opencontainers.image.title="Maestro worker" \
      org.opencontainers.image.description="Serves a store's sessions with the agents of a worker file" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 maestro \
 && useradd --uid 10001 --gid 10001 --home-dir /var/maestro --no-create-home --shell /usr/sbin/nologin maestro \
 && install -d -o maestro -g maestro -m 0700 /var/maestro /var/maestro/state /var/maestro/content
COPY --from=build /out/ /usr/local/bin/
# Numbers, so that an orchestrator sees that it is not root.
USER 10001:10001
WORKDIR /var/maestro
ENV MAESTRO_STATE_DIR=/var/maestro/state \
    MAESTRO_AGENTS=/etc/maestro/agents.yaml \
    MAESTRO_HEALTH_PORT=8081 \
    MAESTRO_METRICS_ADDRESS=0.0.0.0:9464
# No VOLUME: it would hide what is mounted at /var/maestro. A named volume that is
# mounted at the state directory or at /var/maestro/content takes its owner from these directories. A directory of the host that
# is mounted here has to belong to user 10001, with mode 0700.
EXPOSE 8081 9464
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["maestro-worker", "health"]
ENTRYPOINT ["maestro-worker"]

FROM base AS worker-go
COPY --from=build /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:$PATH

FROM base AS worker
