#!/usr/bin/env bash
# build.sh OUT WORK [TAGS]: compile the engine of the web page to WebAssembly.
#
# No object of Kubernetes' own kinds is read or written as Protobuf in the page, but the generated code for it would be a
# third of the program: the linker cannot remove methods that have the names of those of an interface. So k8s.io/api is
# compiled without it, from a copy in WORK, a directory that does not exist. WORK is relative to the root of the
# repository: the program contains the path.
set -euo pipefail
out=$(realpath -m "$1") work=$2 tags=grpcnotrace${3:+,$3}
cd "$(dirname "$0")/../.."
export GOFLAGS=-mod=mod
rm -rf "$work" && mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
go mod download k8s.io/api
cp -r "$(go list -m -f '{{.Dir}}' k8s.io/api)" "$work/api"
chmod -R u+w "$work/api"
# k8s.io/apiserver's audit events contain users, and are in Protobuf, too.
find "$work/api" -name generated.pb.go -not -path '*/authentication/v1/*' -delete
cp go.mod "$work/web.mod" && cp go.sum "$work/web.sum"
go mod edit -replace "k8s.io/api=./$work/api" "$work/web.mod"
GOFLAGS= GOOS=js GOARCH=wasm go build -modfile="$work/web.mod" -trimpath -buildvcs=false -tags "$tags" -ldflags='-s -w -buildid=' -o "$out" ./web/wasm
