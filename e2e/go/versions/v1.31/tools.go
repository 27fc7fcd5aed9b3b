//go:build tools

// Package versions pins the kube-apiserver of one Kubernetes minor, beside which fieldcache is tested too.
//
// The import below is never compiled; it keeps the requirement of the command that is built straight from its upstream package.
package versions

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
