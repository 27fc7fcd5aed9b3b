//go:build tools

// Package e2e pins the real components beside which fieldcache is tested.
//
// The imports below are never compiled; they keep the requirements of the commands that the build script builds
// straight from their upstream packages.
package e2e

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
