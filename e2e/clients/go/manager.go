package main

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// runManager runs a controller-runtime manager whose cache has a selection, with a controller that notes what it reconciled.
func runManager(ctx context.Context, chosen *settings) error {
	ctrl.SetLogger(klog.Background())
	watched := &unstructured.Unstructured{}
	watched.SetAPIVersion(chosen.resource.GroupVersion().String())
	watched.SetKind(chosen.kind)
	selected, err := selection(chosen)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(chosen.config, ctrl.Options{
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{watched: selected}},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	informer, err := manager.GetCache().GetInformer(ctx, watched, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(handler()); err != nil {
		return err
	}
	reconciler := &reconciler{client: manager.GetClient(), kind: watched, seen: map[string]string{}}
	err = ctrl.NewControllerManagedBy(manager).For(watched).WithOptions(controller.Options{
		MaxConcurrentReconciles: 2,
		RateLimiter:             workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
	}).Complete(reconciler)
	if err != nil {
		return err
	}
	stored := func() (map[string]string, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(watched.GroupVersionKind())
		patience, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := manager.GetCache().List(patience, list); err != nil {
			return nil, err
		}
		objects := make([]any, 0, len(list.Items))
		for index := range list.Items {
			objects = append(objects, &list.Items[index])
		}
		return held(objects), nil
	}
	// What is queued when a manager is told to end is dropped, so it is told once all of it has been reconciled, or after half a minute.
	running, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		defer end()
		<-ctx.Done()
		for range 600 {
			if objects, err := stored(); err == nil && reconciler.hasSeen(objects) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	if err := manager.Start(running); err != nil {
		return err
	}
	objects, err := stored()
	if err != nil {
		return err
	}
	reconciler.lock.Lock()
	defer reconciler.lock.Unlock()
	say(line{Reconciled: reconciler.seen})
	say(line{Store: objects})
	return nil
}

func selection(chosen *settings) (cache.ByObject, error) {
	selected := cache.ByObject{}
	if chosen.namespace != "" {
		selected.Namespaces = map[string]cache.Config{chosen.namespace: {}}
	}
	var err error
	if selected.Label, err = labels.Parse(chosen.labelSelector); err != nil {
		return selected, err
	}
	selected.Field, err = fields.ParseSelector(chosen.fieldSelector)
	return selected, err
}

// reconciler reads what it is called for, as every reconciler does first.
type reconciler struct {
	client client.Client
	kind   *unstructured.Unstructured

	lock sync.Mutex
	// By key, the version read last; without those that were gone.
	seen map[string]string
}

func (r *reconciler) hasSeen(objects map[string]string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return maps.Equal(r.seen, objects)
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	found := r.kind.DeepCopy()
	err := r.client.Get(ctx, request.NamespacedName, found)
	r.lock.Lock()
	defer r.lock.Unlock()
	key := request.Namespace + "/" + request.Name
	switch {
	case errors.IsNotFound(err):
		delete(r.seen, key)
	case err != nil:
		return ctrl.Result{}, err
	default:
		r.seen[key] = found.GetResourceVersion()
		say(line{Reconcile: described("MODIFIED", found)})
	}
	return ctrl.Result{}, nil
}
