// Command selectable-fields lists the selectable fields of a kind, and the objects with given values of these fields:
//
//	go run . URL GROUP/VERSION KIND [FIELD=VALUE...]
//	go run . http://127.0.0.1:8181 stable.example.com/v1 Shirt spec.color=blue
//
// The fields come from the OpenAPI v3 document of a fieldcache server. A misspelt field is an error before the list request.
// It shows no credentials, as `fieldcache serve` needs none. ../README.md says what to change for a View.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("Error: usage: selectable-fields URL GROUP/VERSION KIND [FIELD=VALUE...]")
	}
	kind := schema.FromAPIVersionAndKind(os.Args[2], os.Args[3])
	if err := run(&rest.Config{Host: os.Args[1]}, kind, os.Args[4:]); err != nil {
		log.Fatalf("Error: %s %s: %v", os.Args[2], os.Args[3], err)
	}
}

func run(config *rest.Config, kind schema.GroupVersionKind, terms []string) error {
	client := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))
	selectable, err := selectableFields(client.OpenAPIV3(), kind)
	if err != nil {
		return err
	}
	known := cmp.Or(strings.Join(selectable, ", "), "none")
	fmt.Println("selectable:", known)
	var selectors []fields.Selector
	for _, term := range terms {
		field, value, isTerm := strings.Cut(term, "=")
		if !isTerm || !slices.Contains(selectable, field) {
			return fmt.Errorf("argument %q: not FIELD=VALUE with a selectable field; these are selectable: %s", term, known)
		}
		selectors = append(selectors, fields.OneTermEqualSelector(field, value))
	}
	selector := fields.AndSelectors(selectors...).String()
	fmt.Println("selector:", selector)
	mapping, err := restmapper.NewDeferredDiscoveryRESTMapper(client).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	objects := dynamic.NewForConfigOrDie(config).Resource(mapping.Resource)
	list, err := objects.List(context.Background(), metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	for _, object := range list.Items {
		fmt.Println(strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
	}
	return nil
}

// selectableFields reads the selectable fields of a kind from the document of its group and version.
func selectableFields(client openapi.Client, kind schema.GroupVersionKind) ([]string, error) {
	document, err := openapi3.NewRoot(client).GVSpec(kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	for _, found := range document.Components.Schemas {
		var kinds []schema.GroupVersionKind
		var entries []struct{ FieldPath string }
		err := errors.Join(found.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds),
			found.Extensions.GetObject("x-kubernetes-selectable-fields", &entries))
		if err != nil {
			return nil, err
		}
		if slices.Contains(kinds, kind) {
			var paths []string
			for _, entry := range entries {
				paths = append(paths, entry.FieldPath)
			}
			return paths, nil
		}
	}
	return nil, errors.New("its OpenAPI document has no schema of this kind")
}
