package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// runInformer runs an informer of client-go's own factories, without resync.
func runInformer(ctx context.Context, family string, chosen *settings) error {
	informer, err := newInformer(family, chosen)
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(handler()); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	say(line{Store: held(informer.GetStore().List())})
	return nil
}

func newInformer(family string, chosen *settings) (cache.SharedIndexInformer, error) {
	switch family {
	case "typed":
		if chosen.resource.Group != "" || chosen.resource.Resource != "pods" {
			return nil, fmt.Errorf("the typed informer is one of pods, not of %s", chosen.resource)
		}
		config := rest.CopyConfig(chosen.config)
		// What components of Kubernetes set.
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		factory := informers.NewSharedInformerFactoryWithOptions(
			client, 0, informers.WithNamespace(chosen.namespace), informers.WithTweakListOptions(chosen.tweak))
		return factory.Core().V1().Pods().Informer(), nil
	case "dynamic":
		client, err := dynamic.NewForConfig(chosen.config)
		if err != nil {
			return nil, err
		}
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, chosen.namespace, chosen.tweak)
		return factory.ForResource(chosen.resource).Informer(), nil
	default:
		client, err := metadata.NewForConfig(chosen.config)
		if err != nil {
			return nil, err
		}
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, chosen.namespace, chosen.tweak)
		return factory.ForResource(chosen.resource).Informer(), nil
	}
}

// handler says what a user of the informer is told. GONE is a removal that the informer found out by listing again.
func handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { say(line{Handler: described("ADDED", added)}) },
		UpdateFunc: func(_, updated any) { say(line{Handler: described("MODIFIED", updated)}) },
		DeleteFunc: func(deleted any) {
			if gone, found := deleted.(cache.DeletedFinalStateUnknown); found {
				say(line{Handler: described("GONE", gone.Obj)})
				return
			}
			say(line{Handler: described("DELETED", deleted)})
		},
	}
}

func described(kind string, of any) *event {
	accessor, err := meta.Accessor(of)
	if err != nil {
		fail(err)
	}
	return &event{
		Type:            kind,
		Key:             accessor.GetNamespace() + "/" + accessor.GetName(),
		ResourceVersion: accessor.GetResourceVersion(),
		UID:             string(accessor.GetUID()),
	}
}

// held is a store's content by key, with the versions.
func held(objects []any) map[string]string {
	versions := make(map[string]string, len(objects))
	for _, found := range objects {
		described := described("", found)
		versions[described.Key] = described.ResourceVersion
	}
	return versions
}
