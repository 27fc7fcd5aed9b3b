package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"
	"net/http"
	"reflect"

	apiextensionsfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	// All internal types that kube-apiserver has.
	_ "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

// documents stand in managedFields, which upstream's fuzzers leave without fields.
var documents = []string{
	`{}`, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}`,
}

// namespaces need not exist for reads.
var namespaces = []string{"fuzz-a", "fuzz-b", "fuzz-c"}

// resource is one that kube-apiserver serves.
type resource struct {
	kind       schema.GroupVersionKind
	name       string
	namespaced bool
}

func (r *resource) collection() string {
	return r.within("")
}

func (r *resource) within(namespace string) string {
	path := "/apis/" + r.kind.Group + "/" + r.kind.Version
	if r.kind.Group == "" {
		path = "/api/" + r.kind.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.name
}

// prefix is where kube-apiserver stores objects.
func (r *resource) prefix() string {
	group := schema.GroupResource{Group: r.kind.Group, Resource: r.name}
	switch {
	case kubeapiserver.SpecialDefaultResourcePrefixes[group] != "":
		return "/registry/" + kubeapiserver.SpecialDefaultResourcePrefixes[group] + "/"
	case group.Group == "apiextensions.k8s.io" || group.Group == "apiregistration.k8s.io":
		return "/registry/" + group.Group + "/" + group.Resource + "/"
	}
	return "/registry/" + group.Resource + "/"
}

// written is an object as it was written.
type written struct {
	key    string
	path   string
	stored []byte
	object runtime.Object
	// Whether JSON cannot say all that was filled.
	isLossy bool
	// Whether it was varied, so that kube-apiserver may complete it.
	isRough bool
}

// maker makes objects with the fillers of upstream's round-trip tests.
type maker struct {
	types    *runtime.Scheme
	json     *jsonserializer.Serializer
	protobuf *protobuf.Serializer
	seed     int64
}

func newMaker(seed int64) *maker {
	types := legacyscheme.Scheme
	apiextensions.Install(types)
	apiregistration.Install(types)
	json := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, types, types, jsonserializer.SerializerOptions{})
	return &maker{types: types, json: json, protobuf: protobuf.NewSerializer(types, types), seed: seed}
}

// widened gives lists and maps more elements than the one that upstream's fillers give them at most.
func widened[F interface{ NumElements(int, int) F }](filler F, most int) F {
	return filler.NumElements(1, most)
}

// fill calls the filler, whose method has another name in older versions.
func fill(filler any, object runtime.Object) error {
	switch filler := filler.(type) {
	case interface{ Fill(any) }:
		filler.Fill(object)
	case interface{ Fuzz(any) }:
		filler.Fuzz(object)
	default:
		return fmt.Errorf("%T is no filler", filler)
	}
	return nil
}

// make makes objects of a kind. They are filled as internal ones, and converted to the version in which they are read.
func (m *maker) make(of *resource, count int) ([]*written, error) {
	name := fnv.New64()
	fmt.Fprint(name, of.kind)
	source := rand.NewSource(m.seed ^ int64(name.Sum64()))
	random := rand.New(source)
	funcs := fuzzer.MergeFuzzerFuncs(apitesting.FuzzerFuncs, apiextensionsfuzzer.Funcs)
	codecs := serializer.NewCodecFactory(m.types)
	narrow, wide := fuzzer.FuzzerFor(funcs, source, codecs), widened(fuzzer.FuzzerFor(funcs, source, codecs), 2)
	objects := []*written{}
	for place := range count {
		object, err := m.types.New(of.kind.GroupKind().WithVersion(runtime.APIVersionInternal))
		if err != nil {
			return nil, err
		}
		filler := any(narrow)
		if place%2 == 1 {
			filler = wide
		}
		if err := fill(filler, object); err != nil {
			return nil, err
		}
		one, err := m.stored(of, object, place, random)
		if err != nil {
			return nil, err
		}
		objects = append(objects, one)
	}
	return objects, nil
}

func (m *maker) stored(of *resource, object runtime.Object, place int, random *rand.Rand) (*written, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	one := &written{key: fmt.Sprintf("fuzz-%d%s", place, suffix(of.kind.Kind)), path: of.collection()}
	accessor.SetName(one.key)
	accessor.SetNamespace("")
	if of.namespaced {
		namespace := namespaces[place%len(namespaces)]
		accessor.SetNamespace(namespace)
		one.path = of.within(namespace)
		one.key = namespace + "/" + one.key
	}
	one.path += "/" + accessor.GetName()
	accessor.SetResourceVersion("")
	accessor.SetSelfLink("")
	moment := metav1.Unix(random.Int63n(1<<31), 0)
	entries := []metav1.ManagedFieldsEntry{}
	for _, document := range documents[:random.Intn(len(documents)+1)] {
		entry := metav1.ManagedFieldsEntry{
			Manager: "fuzz", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &moment,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
		}
		if err := entry.FieldsV1.UnmarshalJSON([]byte(document)); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	accessor.SetManagedFields(entries)
	repair(object)

	filled, err := m.types.ConvertToVersion(object, of.kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	if one.isRough = place%3 == 2 && !isSmooth(of.kind.Kind); one.isRough {
		(&roughener{random}).object(filled)
	}
	versioned, err := m.again(m.json, filled)
	if err != nil {
		return nil, err
	}
	// What protobuf does not write at all, such as an empty list, is not expected to come back.
	if one.object, err = m.again(m.protobuf, versioned); err != nil {
		return nil, err
	}
	if filled, err = m.again(m.protobuf, filled); err != nil {
		return nil, err
	}
	one.isLossy = !reflect.DeepEqual(filled, one.object)
	storable := one.object.DeepCopyObject()
	if of.kind.Group == "events.k8s.io" {
		// It is stored as an Event of the core group.
		if object, err = m.types.ConvertToVersion(storable, schema.GroupVersion{Group: of.kind.Group, Version: runtime.APIVersionInternal}); err != nil {
			return nil, err
		}
		if storable, err = m.types.ConvertToVersion(object, schema.GroupVersion{Version: "v1"}); err != nil {
			return nil, err
		}
	}
	one.stored, err = runtime.Encode(m.protobuf, storable)
	return one, err
}

// again is an object that was written and read.
func (m *maker) again(format runtime.Serializer, object runtime.Object) (runtime.Object, error) {
	text, err := runtime.Encode(format, object)
	if err != nil {
		return nil, err
	}
	object, kind, err := format.Decode(text, nil, nil)
	if err == nil {
		object.GetObjectKind().SetGroupVersionKind(*kind)
	}
	return object, err
}

// etcd is its JSON gateway.
type etcd struct {
	base   string
	client *http.Client
}

func (e *etcd) ask(path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	response, err := e.client.Post(e.base+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s: %s", path, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// write writes objects where kube-apiserver does, one version each, and notes the versions.
func (e *etcd) write(of *resource, objects []*written) error {
	for _, one := range objects {
		version, err := e.change("/v3/kv/put", map[string]any{"key": []byte(of.prefix() + one.key), "value": one.stored})
		if err != nil {
			return err
		}
		accessor, err := meta.Accessor(one.object)
		if err != nil {
			return err
		}
		accessor.SetResourceVersion(version)
	}
	return nil
}

func (e *etcd) remove(of *resource, objects []*written) error {
	for _, one := range objects {
		if _, err := e.change("/v3/kv/deleterange", map[string]any{"key": []byte(of.prefix() + one.key)}); err != nil {
			return err
		}
	}
	return nil
}

// change makes a version.
func (e *etcd) change(path string, question any) (string, error) {
	answer := struct{ Header struct{ Revision string } }{}
	if err := e.ask(path, question, &answer); err != nil {
		return "", err
	}
	if answer.Header.Revision == "" {
		return "", fmt.Errorf("etcd: %s: no revision", path)
	}
	return answer.Header.Revision, nil
}
