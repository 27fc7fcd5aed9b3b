package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/apis/core"
)

// group is that of names which must have one.
const group = "fuzz.example.com"

// suffix is what kube-apiserver expects in the names of a kind: its controllers panic without.
func suffix(kind string) string {
	if kind == "APIService" || kind == "CustomResourceDefinition" {
		return "." + group
	}
	return ""
}

// repair brings an object into a state in which kube-apiserver does not change it when it reads it.
func repair(object runtime.Object) {
	switch object := object.(type) {
	case *core.Namespace:
		if object.Labels == nil {
			object.Labels = map[string]string{}
		}
		object.Labels[corev1.LabelMetadataName] = object.Name
	case *core.Service:
		// Single objects and lists are completed, watches are not.
		spec := &object.Spec
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{"10.0.0.17"}
		}
		spec.ClusterIP = spec.ClusterIPs[0]
		if len(spec.IPFamilies) == 0 {
			policy := core.IPFamilyPolicySingleStack
			spec.IPFamilies, spec.IPFamilyPolicy = []core.IPFamily{core.IPv4Protocol}, &policy
		}
		if spec.Type == core.ServiceTypeExternalName {
			spec.InternalTrafficPolicy = nil
		}
	case *apiregistration.APIService:
		object.Spec.Group = group
		object.Spec.Version = object.Name[:len(object.Name)-len(suffix("APIService"))]
	}
}
