package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// counter counts what a handler is told: the objects that the store began with, and the changes after that.
type counter struct {
	initial, changes atomic.Int64
}

func (c *counter) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, isInInitialList bool) {
			if isInInitialList {
				c.initial.Add(1)
			} else {
				c.changes.Add(1)
			}
		},
		UpdateFunc: func(_, _ any) { c.changes.Add(1) },
		DeleteFunc: func(any) { c.changes.Add(1) },
	}
}

// follow adds the counter to an informer, and reports when the informer and the counter have all objects.
func (c *counter) follow(ctx context.Context, informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}) error {
	registration, err := informer.AddEventHandler(c.handler())
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("told to end before the store was complete")
	}
	held := c.initial.Load()
	say(line{Synced: &held})
	return nil
}

// runConsumer keeps all objects of a resource for as long as it runs, as a program of a user does. What it costs is measured from
// outside, so it reports only when its store is complete and, at its end, how many changes came after that.
func runConsumer(ctx context.Context, form string, chosen *settings) error {
	counted := &counter{}
	run := consumeByInformer
	if strings.HasPrefix(form, "consume-manager") {
		run = consumeByManager
	}
	if err := run(ctx, form, chosen, counted); err != nil {
		return err
	}
	changes := counted.changes.Load()
	say(line{Changes: &changes})
	return nil
}

func consumeByInformer(ctx context.Context, form string, chosen *settings, counted *counter) error {
	informer, err := consumer(form, chosen)
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if err := counted.follow(ctx, informer); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// consumer is an informer of client-go's own factories; the form of the answers is the only setting that differs from a new project's.
func consumer(form string, chosen *settings) (cache.SharedIndexInformer, error) {
	config := rest.CopyConfig(chosen.config)
	isPods := chosen.resource.Group == "" && chosen.resource.Resource == "pods"
	switch {
	case form == "consume-metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadatainformer.NewSharedInformerFactory(client, 0).ForResource(chosen.resource).Informer(), nil
	case form == "consume-json" && !isPods:
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(chosen.resource).Informer(), nil
	case form == "consume-json":
		config.ContentType = runtime.ContentTypeJSON
		config.AcceptContentTypes = runtime.ContentTypeJSON
	case form == "consume-protobuf" && isPods:
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	default:
		return nil, fmt.Errorf("there is no client %s of %s", form, chosen.resource)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer(), nil
}

// consumeByManager keeps the objects in the cache of a manager with default settings, but for what the form leaves out of objects.
func consumeByManager(ctx context.Context, form string, chosen *settings, counted *counter) error {
	ctrl.SetLogger(klog.Background())
	config := rest.CopyConfig(chosen.config)
	if form == "consume-manager-drop" {
		const drop = ";drop=metadata.managedFields"
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + drop + "," + runtime.ContentTypeJSON + drop
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	var watched client.Object
	switch chosen.resource.Resource {
	case "pods":
		watched = &corev1.Pod{}
	case "secrets":
		watched = &corev1.Secret{}
	default:
		custom := &unstructured.Unstructured{}
		custom.SetGroupVersionKind(chosen.resource.GroupVersion().WithKind(chosen.kind))
		watched = custom
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	informer, err := manager.GetCache().GetInformer(ctx, watched)
	if err != nil {
		return err
	}
	if err := counted.follow(ctx, informer); err != nil {
		return err
	}
	return <-ended
}
