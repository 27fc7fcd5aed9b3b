// Command clients runs one unmodified Kubernetes client of a family until it is told to end (SIGTERM), and says on its standard
// output, a JSON document a line, what it asked, what came and what its store holds at the end (see say.go).
//
// It judges nothing: the test that starts it does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// settings are the arguments.
type settings struct {
	config        *rest.Config
	resource      schema.GroupVersionResource
	kind          string
	namespace     string
	labelSelector string
	fieldSelector string
	// How long each watch is to last; 0 leaves it to the library.
	timeoutSeconds int64
}

// tweak puts the selection into the options of a LIST or WATCH.
func (s *settings) tweak(options *metav1.ListOptions) {
	options.LabelSelector = s.labelSelector
	options.FieldSelector = s.fieldSelector
	if s.timeoutSeconds > 0 {
		options.TimeoutSeconds = &s.timeoutSeconds
	}
}

func main() {
	// Not the process's own set, in which controller-runtime has a flag of this name too.
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	family := flags.String("client", "", "typed, dynamic, metadata or manager; consume-json, consume-protobuf, consume-metadata, consume-manager or consume-manager-drop; "+
		"recipe-controller-runtime or recipe-client-go")
	kubeconfig := flags.String("kubeconfig", "", "the server and who asks; empty in a Pod")
	group := flags.String("group", "", "API group; empty for the core")
	version := flags.String("version", "v1", "API version")
	resource := flags.String("resource", "", "plural name")
	kind := flags.String("kind", "", "kind")
	namespace := flags.String("namespace", "", "namespace; empty for all")
	labelSelector := flags.String("label-selector", "", "label selector")
	fieldSelector := flags.String("field-selector", "", "field selector")
	timeoutSeconds := flags.Int64("timeout-seconds", 0, "length of each watch; 0 leaves it to the library")
	if err := flags.Parse(os.Args[1:]); err != nil {
		fail(err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// These find out for themselves whom to ask.
	if recipe := map[string]func(context.Context) error{
		"recipe-controller-runtime": runPainter,
		"recipe-client-go":          runFactory,
	}[*family]; recipe != nil {
		if err := recipe(ctx); err != nil {
			fail(err)
		}
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail(err)
	}
	chosen := &settings{
		config:         config,
		resource:       schema.GroupVersionResource{Group: *group, Version: *version, Resource: *resource},
		kind:           *kind,
		namespace:      *namespace,
		labelSelector:  *labelSelector,
		fieldSelector:  *fieldSelector,
		timeoutSeconds: *timeoutSeconds,
	}
	// These are measured, so nothing stands between the library and the server.
	if strings.HasPrefix(*family, "consume-") {
		if err := runConsumer(ctx, *family, chosen); err != nil {
			fail(err)
		}
		return
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &recorder{next: next, collection: *resource, pages: map[string]string{}}
	})
	switch *family {
	case "typed", "dynamic", "metadata":
		err = runInformer(ctx, *family, chosen)
	case "manager":
		err = runManager(ctx, chosen)
	default:
		err = fmt.Errorf("-client is %q, not typed, dynamic, metadata or manager", *family)
	}
	if err != nil {
		fail(err)
	}
}
