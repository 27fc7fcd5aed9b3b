// Command protobuf-fuzz compares fuzzed objects of every built-in kind as kube-apiserver and fieldcache send them.
//
// The fillers of upstream's round-trip tests make the objects. They are written to etcd where kube-apiserver stores them, since hardly one
// would pass validation. kube-apiserver reads, converts and serves them, and fieldcache reads them of it. Both are asked for each object,
// for lists and for watches, whole and as metadata, in protobuf and in JSON. All is decoded with client-go's types and must be DeepEqual to
// what kube-apiserver sends, and protobuf must be equal byte by byte. What kube-apiserver sends is what was written, unless it completes an
// object or its controllers write it; such objects are counted.
//
// It prints a line for each kind and each difference. The last line is JSON: what was counted. It fails when it could not compare.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// attempts to read the same version of an object from both sides.
const attempts = 20

// portion is how many objects are written or removed at once.
const portion = 50

// askers of single objects at a time.
const askers = 4

// most differences of a kind that are printed.
const most = 3

type summary struct {
	Kinds   int `json:"kinds"`
	Objects int `json:"objects"`
	// As they were written; the others were changed by kube-apiserver, when it read them or by one of its controllers.
	AsWritten int `json:"asWritten"`
	// Objects that were varied, so that kube-apiserver may complete them.
	Rough int `json:"rough"`
	// Objects that say more in protobuf than JSON can: they are written as JSON says them.
	Lossy int `json:"lossy"`
	// Objects that were compared, each as often as it was read.
	Compared int `json:"compared"`
	// Of which the two sides told different versions to the end.
	Moved int `json:"moved"`
	// Metadata in which kube-apiserver leaves annotations out that it sends with the whole object.
	Converted   int64 `json:"converted"`
	Differences int   `json:"differences"`
}

func isProtobuf(accept string) bool {
	return strings.HasPrefix(accept, protobufType)
}

// key names an object of ours.
func (r *resource) key(object metav1.Object) string {
	switch {
	case !strings.HasPrefix(object.GetName(), "fuzz-"):
		return ""
	case r.namespaced:
		return object.GetNamespace() + "/" + object.GetName()
	}
	return object.GetName()
}

type run struct {
	etcd            *etcd
	direct, through *side
	maker           *maker
	reader          *reader
	count           int
}

func main() {
	if err := start(); err != nil {
		fmt.Fprintf(os.Stderr, "protobuf-fuzz: %v\n", err)
		os.Exit(1)
	}
}

func start() error {
	etcdBase := flag.String("etcd", "", "address of etcd")
	kubeconfig := flag.String("kubeconfig", "", "a file that names kube-apiserver")
	through := flag.String("through", "", "address of fieldcache")
	seed := flag.Int64("seed", 1, "where the fillers start")
	count := flag.Int("count", 20, "objects of each kind")
	only := flag.String("only", "", "kinds such as apps/v1/Deployment, divided by commas, instead of all")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	secure, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	read, err := newReader()
	if err != nil {
		return err
	}
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * askers}}
	r := &run{
		etcd:    &etcd{*etcdBase, plain},
		direct:  &side{"kube-apiserver", strings.TrimSuffix(config.Host, "/"), secure},
		through: &side{"fieldcache", strings.TrimSuffix(*through, "/"), plain},
		maker:   newMaker(*seed),
		reader:  read,
		count:   *count,
	}
	resources, err := r.direct.resources()
	if err != nil {
		return err
	}
	total := summary{}
	for _, of := range resources {
		name := of.kind.GroupVersion().String() + "/" + of.kind.Kind
		if *only != "" && !slices.Contains(strings.Split(*only, ","), name) {
			continue
		}
		began := time.Now()
		checked := &check{run: r, of: of, known: map[string]runtime.Object{}}
		if err := checked.all(); err != nil {
			return fmt.Errorf("%s: %w (seed %d)", name, err, *seed)
		}
		found := checked.summary
		fmt.Printf("%s: %d objects, %d as written, %d compared, %d moved, %d differences, %.1f s\n", name, found.Objects,
			found.AsWritten, found.Compared, found.Moved, found.Differences, time.Since(began).Seconds())
		for _, line := range checked.lines {
			fmt.Printf("  %s: %s (seed %d)\n", name, line, *seed)
		}
		total.Kinds++
		total.Objects += found.Objects
		total.AsWritten += found.AsWritten
		total.Rough += found.Rough
		total.Lossy += found.Lossy
		total.Compared += found.Compared
		total.Moved += found.Moved
		total.Differences += found.Differences
	}
	total.Converted = read.converted.Load()
	text, err := json.Marshal(total)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}

// check is that of one kind.
type check struct {
	*run
	of      *resource
	objects []*written
	lock    sync.Mutex
	// What kube-apiserver tells of each object, in protobuf.
	known map[string]runtime.Object
	summary
	lines []string
}

func (c *check) all() error {
	objects, err := c.maker.make(c.of, c.count)
	if err != nil {
		return err
	}
	c.objects = objects
	for _, one := range objects {
		if one.isLossy {
			c.Lossy++
		}
		if one.isRough {
			c.Rough++
		}
	}
	c.Objects = len(objects)
	forms := []string{protobufType, protobufType + partial, jsonType, jsonType + partial}
	live, err := c.watches("", forms[:2])
	if err != nil {
		return err
	}
	// What both have told of is there on both sides. kube-apiserver ends a watch that falls far behind.
	came := []told{}
	for start := 0; start < len(objects); start += portion {
		end := min(start+portion, len(objects))
		if err := c.etcd.write(c.of, objects[start:end]); err != nil {
			return err
		}
		if came, err = c.await(live, "ADDED", end); err != nil {
			return err
		}
	}
	if err := c.each(forms); err != nil {
		return err
	}
	c.compareEvents(live, came)
	if err := c.lists(); err != nil {
		return err
	}
	initial := "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	states, err := c.watches(initial, forms)
	if told := (&refused{}); errors.As(err, &told) && told.code == http.StatusUnprocessableEntity {
		// Not all versions know initial events.
		states, err = c.watches("&resourceVersion=0", forms)
	}
	if err != nil {
		return err
	}
	if came, err = c.await(states, "ADDED", len(objects)); err != nil {
		return err
	}
	c.compareEvents(states, came)
	all := slices.Concat(live, states)
	for start := 0; start < len(objects); start += portion {
		end := min(start+portion, len(objects))
		if err := c.etcd.remove(c.of, objects[start:end]); err != nil {
			return err
		}
		if came, err = c.await(all, "DELETED", end); err != nil {
			return err
		}
	}
	c.compareEvents(all, came)
	for _, watch := range all {
		watch.direct.cancel()
		watch.through.cancel()
	}
	return nil
}

// watched is a watch of both sides.
type watched struct {
	accept          string
	direct, through *stream
}

func (c *check) watches(query string, forms []string) ([]watched, error) {
	watches := []watched{}
	for _, accept := range forms {
		name := func(object []byte) (string, uint64, error) { return c.reader.name(c.of, accept, object) }
		direct, err := c.direct.watch(c.of.collection(), query, accept, name)
		if err != nil {
			return nil, err
		}
		through, err := c.through.watch(c.of.collection(), query, accept, name)
		if err != nil {
			return nil, err
		}
		watches = append(watches, watched{accept, direct, through})
	}
	return watches, nil
}

// told is what both sides told of objects.
type told struct {
	direct, through map[string]event
}

func (c *check) await(watches []watched, kind string, count int) ([]told, error) {
	all := []told{}
	for _, watch := range watches {
		direct, err := watch.direct.await(kind, count)
		if err != nil {
			return nil, err
		}
		through, err := watch.through.await(kind, count)
		if err != nil {
			return nil, err
		}
		all = append(all, told{direct, through})
	}
	return all, nil
}

func (c *check) compareEvents(watches []watched, came []told) {
	for index, watch := range watches {
		for _, one := range c.objects {
			direct, through := came[index].direct[one.key], came[index].through[one.key]
			object, err := c.reader.object(watch.accept, direct.object, through.object)
			isSame := bytes.Equal(direct.object, through.object)
			if err == nil && isSame && isProtobuf(watch.accept) && !bytes.Equal(direct.whole, through.whole) {
				err = fmt.Errorf("bytes of the frame differ: %s", place(direct.whole, through.whole))
			}
			if err == nil {
				err = c.isKnown(one.key, object, watch.accept, direct.kind == "DELETED")
			}
			c.note("event "+direct.kind, one.key, watch.accept, err)
		}
	}
}

// isKnown compares an object with the one that was written; one that was deleted has another version.
func (c *check) isKnown(key string, object runtime.Object, accept string, isDeleted bool) error {
	c.lock.Lock()
	known := c.known[key]
	c.lock.Unlock()
	if known == nil {
		return errMoved
	}
	if versionOf(known) != versionOf(object) {
		if !isDeleted {
			return errMoved
		}
		known = known.DeepCopyObject()
		if accessor, is := known.(metav1.Object); is {
			accessor.SetResourceVersion(versionOf(object))
		}
	}
	return matches(known, object, accept)
}

func (c *check) note(what, key, accept string, err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case errors.Is(err, errMoved) && c.isTouched(key):
		c.Moved++
	case err != nil:
		if c.Differences < most {
			c.lines = append(c.lines, fmt.Sprintf("%s of %s, %s: %v", what, key, accept, err))
		}
		c.Differences++
	default:
		c.Compared++
	}
}

// isTouched says whether a controller of kube-apiserver wrote an object after us.
func (c *check) isTouched(key string) bool {
	known := c.known[key]
	return known != nil && !slices.ContainsFunc(c.objects, func(one *written) bool {
		return one.key == key && versionOf(one.object) == versionOf(known)
	})
}

// each reads each object alone.
func (c *check) each(forms []string) error {
	work := make(chan *written)
	failures := make(chan error, askers)
	for range askers {
		go func() {
			var failed error
			for one := range work {
				for _, accept := range forms {
					if failed == nil {
						failed = c.one(one, accept)
					}
				}
			}
			failures <- failed
		}()
	}
	for _, one := range c.objects {
		work <- one
	}
	close(work)
	var failed error
	for range askers {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}

func (c *check) one(one *written, accept string) error {
	var told error
	for range attempts {
		direct, err := c.direct.get(one.path, accept)
		if err != nil {
			return err
		}
		through, err := c.through.get(one.path, accept)
		if told = err; errors.Is(err, errFormat) {
			break
		}
		if err != nil {
			return err
		}
		object, err := c.reader.object(accept, direct, through)
		if told = err; err == nil {
			if accept == protobufType {
				c.know(one, object)
			}
			told = c.isKnown(one.key, object, accept, false)
		}
		if !errors.Is(told, errMoved) || c.reader.version(accept, direct) == versionOf(one.object) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.note("object", one.key, accept, told)
	return nil
}

func (c *check) know(one *written, object runtime.Object) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.known[one.key] = object
	if reflect.DeepEqual(one.object, object) {
		c.AsWritten++
	}
}

// lists reads all objects of the kind at once.
func (c *check) lists() error {
	for _, accept := range []string{
		protobufType, protobufType + partialList, protobufType + oldPartialList, jsonType, jsonType + partialList,
	} {
		var items []runtime.Object
		var told error
		for range attempts {
			direct, err := c.direct.get(c.of.collection(), accept)
			if err != nil {
				return err
			}
			through, err := c.through.get(c.of.collection(), accept)
			if told = err; errors.Is(err, errFormat) {
				break
			}
			if err != nil {
				return err
			}
			if items, told = c.reader.list(accept, direct, through); !errors.Is(told, errMoved) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if told != nil {
			c.note("list", "all", accept, told)
			continue
		}
		count := 0
		for _, item := range items {
			accessor, is := item.(metav1.Object)
			if !is {
				return fmt.Errorf("%T is no object", item)
			}
			if key := c.of.key(accessor); key != "" {
				count++
				c.note("item", key, accept, c.isKnown(key, item, accept, false))
			}
		}
		if count != len(c.objects) {
			c.note("list", "all", accept, fmt.Errorf("it has %d of %d objects", count, len(c.objects)))
		}
	}
	return nil
}
