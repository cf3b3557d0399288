# A worker: the maestro programs and the tools that its checks need.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/maestro ./starter \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /out/maestro-worker ./worker

# The example's checks build and test Go code, so the image has the toolchain.
# A worker whose checks need something else starts from another image.
FROM golang:1.26-bookworm
RUN useradd --uid 10001 --create-home maestro \
 && install -d -o maestro -g maestro -m 0700 /var/maestro /var/maestro/state
COPY --from=build /out/ /usr/local/bin/
USER maestro
VOLUME /var/maestro/state
ENTRYPOINT ["maestro-worker"]
