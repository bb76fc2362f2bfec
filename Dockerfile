# Two images, one for each binary: docker build --target worker . and docker build --target gateway .
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /bin/ ./cmd/worker ./cmd/gateway

# Alpine for its certificates, its time zones and the wget of a health check; the binaries are static.
FROM alpine:3.22 AS run
RUN apk add --no-cache ca-certificates tzdata && adduser -D -H -u 10001 holdfast && install -d -o holdfast /data /blobs
USER 10001
WORKDIR /data

FROM run AS worker
COPY --from=build /bin/worker /usr/local/bin/worker
ENTRYPOINT ["worker"]

FROM run AS gateway
COPY --from=build /bin/gateway /usr/local/bin/gateway
ENV HOLDFAST_ADDRESS=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["gateway"]
