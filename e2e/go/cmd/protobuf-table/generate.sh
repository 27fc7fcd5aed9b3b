#!/bin/sh
# Prints the table of all supported minor versions, each read from the last patch release of its modules.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tables=
for version in 0.32.13 0.33.13 0.34.13 0.35.10 0.36.6 0.37.2; do
	minor=$(echo "$version" | cut -d. -f2)
	mkdir "$work/$minor"
	cp "$here"/*.go "$work/$minor"
	(
		cd "$work/$minor"
		go mod init protobuf-table
		go get "k8s.io/api@v$version" "k8s.io/apimachinery@v$version" "k8s.io/client-go@v$version" \
			"k8s.io/apiextensions-apiserver@v$version" "k8s.io/kube-aggregator@v$version"
		go run -mod=mod . >"$work/table-$minor"
	) >&2
	tables="$tables $minor=$work/table-$minor"
done
cd "$work/37"
# shellcheck disable=SC2086
go run -mod=mod . -merge $tables
