// Command protobuf-table prints how Kubernetes' own types stand in protobuf and in JSON: messages, their fields, and the kinds they are of.
//
// Everything is read from the Go types of one version of the modules: numbers from the tag `protobuf`, names from the tag `json`, presence
// and wire type from the Go type, as upstream's generator does. Wire types and repetition in tags are wrong in places, and nobody reads
// them. Generated code writes a field that is no pointer, list or map even if it is zero. A type that writes itself differently is named
// in `forms`; any other such type is an error here.
//
// With -merge MINOR=FILE..., it merges such tables into one, in which a line names the minor versions that have it, unless all have it.
// generate.sh does all of it for each supported minor version.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// marshaler is what generated code of protobuf has.
type marshaler interface {
	MarshalToSizedBuffer([]byte) (int, error)
}

var (
	marshalerType   = reflect.TypeOf((*marshaler)(nil)).Elem()
	unmarshalerType = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
)

// forms are the types whose JSON is no object of their fields.
var forms = map[string]string{
	"meta/v1.Time":                                       "time",
	"meta/v1.MicroTime":                                  "microtime",
	"meta/v1.Duration":                                   "duration",
	"meta/v1.FieldsV1":                                   "raw",
	"runtime.RawExtension":                               "raw",
	"resource.Quantity":                                  "quantity",
	"intstr.IntOrString":                                 "intorstring",
	"apiextensions/v1.JSON":                              "raw",
	"apiextensions/v1.JSONSchemaPropsOrArray":            "schemaorlist",
	"apiextensions/v1.JSONSchemaPropsOrBool":             "schemaorbool",
	"apiextensions/v1.JSONSchemaPropsOrStringArray":      "schemaorlist",
	"apiextensions/v1beta1.JSON":                         "raw",
	"apiextensions/v1beta1.JSONSchemaPropsOrArray":       "schemaorlist",
	"apiextensions/v1beta1.JSONSchemaPropsOrBool":        "schemaorbool",
	"apiextensions/v1beta1.JSONSchemaPropsOrStringArray": "schemaorlist",
}

// fieldless are the forms whose fields are known to the reader of the table.
var fieldless = map[string]bool{
	"time": true, "microtime": true, "duration": true, "raw": true, "quantity": true, "intorstring": true,
}

// prefixes of packages that names leave out.
var prefixes = []string{
	"k8s.io/apiextensions-apiserver/pkg/apis/",
	"k8s.io/kube-aggregator/pkg/apis/",
	"k8s.io/apimachinery/pkg/apis/",
	"k8s.io/apimachinery/pkg/api/",
	"k8s.io/apimachinery/pkg/util/",
	"k8s.io/apimachinery/pkg/",
	"k8s.io/api/",
}

type table struct {
	kinds    map[string]bool
	messages map[string][]string
	pending  []reflect.Type
}

func main() {
	merges := flag.Bool("merge", false, "merge the tables named as MINOR=FILE")
	flag.Parse()
	write := print
	if *merges {
		write = func(out io.Writer) error { return merge(flag.Args(), out) }
	}
	out := bufio.NewWriter(os.Stdout)
	err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "protobuf-table: %v\n", err)
		os.Exit(1)
	}
}

func print(out io.Writer) error {
	types := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		apidiscoveryv2.AddToScheme,
		apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme, apiregistrationv1beta1.AddToScheme,
		metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme,
	} {
		if err := add(types); err != nil {
			return err
		}
	}
	read := &table{kinds: map[string]bool{}, messages: map[string][]string{}}
	for kind, goType := range types.AllKnownTypes() {
		// Options and meta kinds are registered in every group; they are written under their own.
		shared := strings.HasPrefix(goType.PkgPath(), "k8s.io/apimachinery/") && kind.Group != "meta.k8s.io" && kind.GroupVersion() != (schema.GroupVersion{Version: "v1"})
		if kind.Version == runtime.APIVersionInternal || shared || !reflect.PointerTo(goType).Implements(marshalerType) {
			continue
		}
		read.kinds[fmt.Sprintf("kind %s %s %s", kind.GroupVersion(), kind.Kind, read.name(goType))] = true
	}
	for len(read.pending) > 0 {
		goType := read.pending[len(read.pending)-1]
		read.pending = read.pending[:len(read.pending)-1]
		if err := read.message(goType); err != nil {
			return fmt.Errorf("%s: %w", goType, err)
		}
	}
	for _, kind := range sorted(read.kinds) {
		fmt.Fprintln(out, kind)
	}
	for _, name := range sorted(read.messages) {
		for _, line := range read.messages[name] {
			fmt.Fprintln(out, line)
		}
	}
	return nil
}

func sorted[V any](set map[string]V) []string {
	names := []string{}
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// name of a message, which is written too.
func (t *table) name(goType reflect.Type) string {
	name := goType.PkgPath()
	for _, prefix := range prefixes {
		if rest, found := strings.CutPrefix(name, prefix); found {
			name = rest
			break
		}
	}
	name += "." + goType.Name()
	if _, known := t.messages[name]; !known {
		t.messages[name] = nil
		t.pending = append(t.pending, goType)
	}
	return name
}

func (t *table) message(goType reflect.Type) error {
	name := t.name(goType)
	form, special := forms[name]
	switch {
	case special:
	case goType.Kind() == reflect.Slice:
		// A list that is a message of its own, whose only field repeats.
		of, err := t.valueType(goType.Elem())
		if err != nil {
			return err
		}
		t.messages[name] = []string{"message " + name + " list", "1 items many " + of}
		return nil
	case reflect.PointerTo(goType).Implements(unmarshalerType) && !inherits(goType):
		return fmt.Errorf("reads its JSON itself")
	default:
		form = "object"
	}
	lines := []string{"message " + name + " " + form}
	if !fieldless[form] {
		fields, err := t.fields(goType, special)
		if err != nil {
			return err
		}
		lines = append(lines, fields...)
	}
	t.messages[name] = lines
	return nil
}

// inherits is whether a method can be that of an embedded struct.
func inherits(goType reflect.Type) bool {
	for index := range goType.NumField() {
		field := goType.Field(index)
		if field.Anonymous && reflect.PointerTo(field.Type).Implements(unmarshalerType) {
			return true
		}
	}
	return false
}

type line struct {
	number int
	text   string
}

func (t *table) fields(goType reflect.Type, isSpecial bool) ([]string, error) {
	lines := []line{}
	for index := range goType.NumField() {
		field := goType.Field(index)
		if !field.IsExported() {
			continue
		}
		found, err := t.field(field, isSpecial)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
		lines = append(lines, found...)
	}
	// Generated code writes fields by their numbers.
	sort.SliceStable(lines, func(left, right int) bool { return lines[left].number < lines[right].number })
	texts := []string{}
	for _, line := range lines {
		texts = append(texts, line.text)
	}
	return texts, nil
}

func (t *table) field(field reflect.StructField, isSpecial bool) ([]line, error) {
	jsonTag := strings.Split(field.Tag.Get("json"), ",")
	name, options := jsonTag[0], jsonTag[1:]
	inline := false
	for _, option := range options {
		switch option {
		case "omitempty", "omitzero":
		case "inline":
			inline = true
		default:
			return nil, fmt.Errorf("the option %q of the tag json is unknown", option)
		}
	}
	if isSpecial {
		name = "-"
	}
	if name == "" {
		if !field.Anonymous && !inline {
			return nil, fmt.Errorf("has no name in JSON")
		}
		inline = true
	}
	protobuf := field.Tag.Get("protobuf")
	if protobuf == "" || protobuf == "-" {
		switch {
		case inline:
			return skipped(field.Type)
		case name == "-":
			return nil, nil
		}
		return []line{{0, "0 " + name + " skip"}}, nil
	}
	tag := strings.Split(protobuf, ",")
	number, err := strconv.Atoi(tag[1])
	if err != nil {
		return nil, err
	}
	for _, option := range tag[2:] {
		key, _, _ := strings.Cut(option, "=")
		switch key {
		case "opt", "rep", "req", "name", "casttype", "castkey", "castvalue", "json", "enum", "proto3":
		default:
			return nil, fmt.Errorf("the option %q of the tag protobuf is unknown", option)
		}
	}
	mode, of, err := t.shape(field.Type)
	if err != nil {
		return nil, err
	}
	if inline {
		if mode != "one" || field.Type.Kind() != reflect.Struct {
			return nil, fmt.Errorf("is inline and no struct")
		}
		name, mode = "-", "inline"
	}
	return []line{{number, fmt.Sprintf("%d %s %s %s", number, name, mode, of)}}, nil
}

// skipped are the members of a struct that is inline in JSON and no part of the message.
func skipped(goType reflect.Type) ([]line, error) {
	lines := []line{}
	for index := range goType.NumField() {
		name, _, _ := strings.Cut(goType.Field(index).Tag.Get("json"), ",")
		if name == "" {
			return nil, fmt.Errorf("%s has no name in JSON", goType.Field(index).Name)
		}
		lines = append(lines, line{0, "0 " + name + " skip"})
	}
	return lines, nil
}

// shape is how often a value stands, and of which type.
func (t *table) shape(goType reflect.Type) (mode, of string, err error) {
	switch goType.Kind() {
	case reflect.Pointer:
		of, err = t.valueType(goType.Elem())
		return "opt", of, err
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "opt", "bytes", nil
		}
		if reflect.PointerTo(goType).Implements(marshalerType) {
			return "opt", t.name(goType), nil
		}
		of, err = t.valueType(goType.Elem())
		return "many", of, err
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			return "", "", fmt.Errorf("keys are %s", goType.Key())
		}
		of, err = t.valueType(goType.Elem())
		return "map", of, err
	}
	of, err = t.valueType(goType)
	return "one", of, err
}

func (t *table) valueType(goType reflect.Type) (string, error) {
	switch goType.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int32:
		return "int32", nil
	case reflect.Int64:
		return "int64", nil
	case reflect.Float64:
		return "double", nil
	case reflect.Struct:
		if reflect.PointerTo(goType).Implements(marshalerType) {
			return t.name(goType), nil
		}
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		if reflect.PointerTo(goType).Implements(marshalerType) {
			return t.name(goType), nil
		}
	}
	return "", fmt.Errorf("%s has no place in protobuf", goType)
}
