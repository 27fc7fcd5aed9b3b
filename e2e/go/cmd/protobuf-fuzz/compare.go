package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// reader decodes as client-go does.
type reader struct {
	protobuf *protobuf.Serializer
	json     *jsonserializer.Serializer
	// Metadata in which kube-apiserver leaves annotations out that it sends with the whole object, and lists of such.
	converted atomic.Int64
}

// annotations are those that kube-apiserver makes of fields when it converts a whole object. It takes metadata from the object as it was
// before, so these are missing there; fieldcache takes metadata from the whole object.
var annotations = []string{
	"deprecated.daemonset.template.generation", "deprecated.deployment.rollback.to", "autoscaling.alpha.kubernetes.io/behavior",
	"autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/current-metrics", "autoscaling.alpha.kubernetes.io/metrics",
}

// plain is metadata, or a list of it, without such annotations.
func plain(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	items := []*metav1.PartialObjectMetadata{}
	switch object := object.(type) {
	case *metav1.PartialObjectMetadata:
		items = append(items, object)
	case *metav1.PartialObjectMetadataList:
		for index := range object.Items {
			items = append(items, &object.Items[index])
		}
	case *metav1beta1.PartialObjectMetadataList:
		for index := range object.Items {
			items = append(items, &object.Items[index])
		}
	}
	for _, item := range items {
		for _, name := range annotations {
			delete(item.Annotations, name)
		}
		if len(item.Annotations) == 0 {
			item.Annotations = nil
		}
	}
	return object
}

func newReader() (*reader, error) {
	types := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme,
	} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	json := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, types, types, jsonserializer.SerializerOptions{})
	return &reader{protobuf: protobuf.NewSerializer(types, types), json: json}, nil
}

func (r *reader) decode(accept string, body []byte) (runtime.Object, error) {
	decoder := runtime.Decoder(r.json)
	if isProtobuf(accept) {
		decoder = r.protobuf
	}
	object, _, err := decoder.Decode(body, nil, nil)
	return object, err
}

// name is a named.
func (r *reader) name(of *resource, accept string, body []byte) (string, uint64, error) {
	object, err := r.decode(accept, body)
	if err != nil {
		return "", 0, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", 0, err
	}
	version, err := strconv.ParseUint(accessor.GetResourceVersion(), 10, 64)
	return of.key(accessor), version, err
}

// errMoved says that the two sides told different versions.
var errMoved = fmt.Errorf("another version was told")

// object compares an object that both sides told, and decodes it.
func (r *reader) object(accept string, direct, through []byte) (runtime.Object, error) {
	object, err := r.decode(accept, through)
	if err != nil {
		return nil, fmt.Errorf("fieldcache's cannot be decoded: %w: %q", err, through)
	}
	if bytes.Equal(direct, through) {
		return object, nil
	}
	expected, err := r.decode(accept, direct)
	if err != nil {
		return nil, fmt.Errorf("kube-apiserver's cannot be decoded: %w: %q", err, direct)
	}
	if versionOf(object) != versionOf(expected) {
		return nil, errMoved
	}
	if reflect.DeepEqual(plain(expected), plain(object)) && !reflect.DeepEqual(expected, object) {
		r.converted.Add(1)
		return object, nil
	}
	if !reflect.DeepEqual(expected, object) {
		return nil, fmt.Errorf("decoded it differs: %s; bytes differ %s", difference(expected, object), place(direct, through))
	}
	// JSON has an order of members, but no fixed one.
	if isProtobuf(accept) {
		return nil, fmt.Errorf("bytes differ: %s", place(direct, through))
	}
	return object, nil
}

func place(direct, through []byte) string {
	at := 0
	for at < len(direct) && at < len(through) && direct[at] == through[at] {
		at++
	}
	around := func(text []byte) []byte { return text[max(0, at-40):min(len(text), at+40)] }
	return fmt.Sprintf("at %d of %d and %d: %q and %q", at, len(direct), len(through), around(direct), around(through))
}

func versionOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

func (r *reader) version(accept string, body []byte) string {
	object, err := r.decode(accept, body)
	if err != nil {
		return ""
	}
	return versionOf(object)
}

// matches compares an object with what is known of it.
func matches(known, object runtime.Object, accept string) error {
	known, object = known.DeepCopyObject(), object.DeepCopyObject()
	if told, is := object.(*metav1.PartialObjectMetadata); is {
		accessor, err := meta.Accessor(known)
		if err != nil {
			return err
		}
		known = meta.AsPartialObjectMetadata(accessor)
		object = &metav1.PartialObjectMetadata{ObjectMeta: told.ObjectMeta}
	}
	if told, is := object.(*appsv1.StatefulSet); is {
		// Templates of claims have a kind in JSON, and none in protobuf.
		for index := range told.Spec.VolumeClaimTemplates {
			told.Spec.VolumeClaimTemplates[index].TypeMeta = metav1.TypeMeta{}
		}
	}
	known.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	// As upstream's round-trip tests do between formats: an empty list is none, and equal moments and quantities are equal.
	equal := apiequality.Semantic.DeepEqual
	if isProtobuf(accept) {
		equal = reflect.DeepEqual
	}
	if !equal(known, object) {
		return fmt.Errorf("it is not what was written: %s", difference(known, object))
	}
	return nil
}

// list compares a list that both sides told, and decodes its items. Versions of lists may differ, because others write too.
func (r *reader) list(accept string, direct, through []byte) ([]runtime.Object, error) {
	told, err := r.decode(accept, through)
	if err != nil {
		return nil, fmt.Errorf("fieldcache's cannot be decoded: %w: %q", err, through)
	}
	expected, err := r.decode(accept, direct)
	if err != nil {
		return nil, fmt.Errorf("kube-apiserver's cannot be decoded: %w: %q", err, direct)
	}
	items, err := meta.ExtractList(told)
	if err != nil {
		return nil, err
	}
	others, err := meta.ExtractList(expected)
	if err != nil {
		return nil, err
	}
	if len(items) != len(others) {
		return nil, errMoved
	}
	for index := range items {
		if versionOf(items[index]) != versionOf(others[index]) {
			return nil, errMoved
		}
	}
	accessor, err := meta.ListAccessor(told)
	if err != nil {
		return nil, err
	}
	other, err := meta.ListAccessor(expected)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(other.GetResourceVersion())
	if reflect.DeepEqual(plain(expected), plain(told)) && !reflect.DeepEqual(expected, told) {
		r.converted.Add(1)
		return items, nil
	}
	if !reflect.DeepEqual(expected, told) {
		return nil, fmt.Errorf("decoded it differs: %s", difference(expected, told))
	}
	if isProtobuf(accept) {
		return items, sameLists(accept, direct, through)
	}
	return items, nil
}

// sameLists compares the bytes of two lists but for the version.
func sameLists(accept string, direct, through []byte) error {
	metadata := protowire.Number(1)
	if accept == protobufType+oldPartialList {
		metadata = 2
	}
	left, err := listFields(direct, metadata)
	if err != nil {
		return err
	}
	right, err := listFields(through, metadata)
	if err != nil {
		return err
	}
	if len(left) != len(right) {
		return fmt.Errorf("bytes differ: %d and %d fields", len(left), len(right))
	}
	for index := range left {
		if !bytes.Equal(left[index], right[index]) {
			return fmt.Errorf("bytes differ in field %d: %s", index, place(left[index], right[index]))
		}
	}
	return nil
}

// listFields are all fields in their order, those of the list and of what is around it, without the version of the list.
func listFields(body []byte, metadata protowire.Number) ([][]byte, error) {
	magic, envelope, is := bytes.Cut(body, []byte("k8s\x00"))
	if !is || len(magic) > 0 {
		return nil, fmt.Errorf("no magic bytes")
	}
	found := [][]byte{}
	err := eachField(envelope, func(number protowire.Number, whole, value []byte) error {
		if number != 2 {
			found = append(found, whole)
			return nil
		}
		return eachField(value, func(number protowire.Number, whole, value []byte) error {
			if number != metadata {
				found = append(found, whole)
				return nil
			}
			return eachField(value, func(number protowire.Number, whole, _ []byte) error {
				// The version of the list.
				if number != 2 {
					found = append(found, whole)
				}
				return nil
			})
		})
	})
	return found, err
}

func eachField(message []byte, see func(number protowire.Number, whole, value []byte) error) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeField(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		whole := message[:length]
		_, _, tag := protowire.ConsumeTag(whole)
		value := whole[tag:]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if err := see(number, whole, value); err != nil {
			return err
		}
		message = message[length:]
	}
	return nil
}

// difference names where two objects differ first, by their JSON.
func difference(expected, told any) string {
	sides := [2]any{}
	for index, side := range []any{expected, told} {
		text, err := json.Marshal(side)
		if err == nil {
			err = json.Unmarshal(text, &sides[index])
		}
		if err != nil {
			return err.Error()
		}
	}
	if found := walk("", sides[0], sides[1]); found != "" {
		return found
	}
	return "in nothing that JSON shows"
}

func walk(path string, expected, told any) string {
	left, isLeft := expected.(map[string]any)
	right, isRight := told.(map[string]any)
	if isLeft && isRight {
		names := []string{}
		for name := range left {
			names = append(names, name)
		}
		for name := range right {
			if _, is := left[name]; !is {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		for _, name := range names {
			if found := walk(path+"."+name, left[name], right[name]); found != "" {
				return found
			}
		}
		return ""
	}
	leftList, isLeft := expected.([]any)
	rightList, isRight := told.([]any)
	if isLeft && isRight && len(leftList) == len(rightList) {
		for index := range leftList {
			if found := walk(fmt.Sprintf("%s[%d]", path, index), leftList[index], rightList[index]); found != "" {
				return found
			}
		}
		return ""
	}
	if reflect.DeepEqual(expected, told) {
		return ""
	}
	return fmt.Sprintf("%s is %.200q and %.200q", path, fmt.Sprint(expected), fmt.Sprint(told))
}
