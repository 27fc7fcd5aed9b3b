package main

import (
	"context"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The README shows what stands between the marks in this file; what follows them runs it.

// README: controller-runtime
// newManager makes a manager whose controllers read from fieldcache, of all shirts the blue ones, and write to the API server.
func newManager(shirt client.Object, options ctrl.Options) (ctrl.Manager, error) {
	reads, err := clientcmd.BuildConfigFromFlags("", os.Getenv("FIELDCACHE_KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	options.NewCache = func(_ *rest.Config, options cache.Options) (cache.Cache, error) {
		options.HTTPClient = nil // It is one for the API server; cache.New makes its own.
		return cache.New(reads, options)
	}
	options.Cache.ByObject = map[client.Object]cache.ByObject{
		shirt: {Field: fields.OneTermEqualSelector("spec.color", "blue")},
	}
	return ctrl.NewManager(ctrl.GetConfigOrDie(), options)
}

// README: end

// README: client-go
// newFactory makes a factory whose informers read from fieldcache; that of Pods holds those of one node.
func newFactory(node string) (informers.SharedInformerFactory, error) {
	reads, err := clientcmd.BuildConfigFromFlags("", os.Getenv("FIELDCACHE_KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(reads)
	if err != nil {
		return nil, err
	}
	return informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		})), nil
}

// README: end

// runFactory says what the informer of Pods tells, until it is told to end.
func runFactory(ctx context.Context) error {
	factory, err := newFactory("node-1")
	if err != nil {
		return err
	}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(handler()); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// painter annotates each shirt that it reads with the shirt's color.
type painter struct {
	client client.Client
	kind   *unstructured.Unstructured
}

func (p *painter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	shirt := p.kind.DeepCopy()
	if err := p.client.Get(ctx, request.NamespacedName, shirt); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	say(line{Reconcile: described("MODIFIED", shirt)})
	color, _, _ := unstructured.NestedString(shirt.Object, "spec", "color")
	if shirt.GetAnnotations()["painted"] == color {
		return ctrl.Result{}, nil
	}
	before := shirt.DeepCopy()
	shirt.SetAnnotations(map[string]string{"painted": color})
	return ctrl.Result{}, p.client.Patch(ctx, shirt, client.MergeFrom(before))
}

// runPainter runs a controller of that kind until it is told to end.
func runPainter(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	shirt := &unstructured.Unstructured{}
	shirt.SetAPIVersion("stable.example.com/v1")
	shirt.SetKind("Shirt")
	manager, err := newManager(shirt, ctrl.Options{
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).For(shirt).Complete(&painter{manager.GetClient(), shirt}); err != nil {
		return err
	}
	return manager.Start(ctx)
}
