package main

import (
	"math/rand"
	"time"

	"sigs.k8s.io/randfill"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// documents are what stands where any JSON may stand.
var documents = []string{
	`{}`, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `{"apiVersion":"v1","kind":"Some","list":[1,"two",{"three":null}]}`, `{"a":1.5,"b":"x\"y\\zü"}`,
}

var values = []string{`{"some":{"json":"test"},"number":42}`, `"text"`, `17`, `-1.5`, `true`, `[1,"a",null]`, `"a<b>&c"`}

var quantities = []string{
	"0", "1", "100m", "1500m", "2", "128Mi", "1Gi", "1500Mi", "3Ki", "8Ki", "1024", "1k", "1M", "5G", "1T", "2P", "1E", "1e3", "12e6", "1u", "7n", "-3",
	"-1500m", "1100Ei",
}

// newFiller fills with upstream's fuzzers, and with more kinds of values where upstream's always are alike or empty.
func newFiller(source rand.Source, codecs serializer.CodecFactory) *randfill.Filler {
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, func(serializer.CodecFactory) []interface{} {
		return []interface{}{
			func(quantity *resource.Quantity, c randfill.Continue) {
				switch c.Intn(4) {
				case 0:
					*quantity = *resource.NewMilliQuantity(c.Int63n(1<<40), resource.DecimalSI)
				case 1:
					*quantity = *resource.NewQuantity(c.Int63(), resource.BinarySI)
				case 2:
					*quantity = *resource.NewQuantity(c.Int63n(1<<30), resource.DecimalExponent)
				default:
					*quantity = resource.MustParse(quantities[c.Intn(len(quantities))])
				}
			},
			func(value *intstr.IntOrString, c randfill.Continue) {
				if c.Bool() {
					*value = intstr.FromInt32(int32(c.Uint32()))
				} else {
					*value = intstr.FromString(c.String(0))
				}
			},
			func(entry *metav1.ManagedFieldsEntry, c randfill.Continue) { c.FillNoCustom(entry) },
			func(fields *metav1.FieldsV1, c randfill.Continue) {
				if err := fields.UnmarshalJSON([]byte(documents[c.Intn(len(documents))])); err != nil {
					panic(err)
				}
			},
			func(extension *runtime.RawExtension, c randfill.Continue) {
				extension.Raw = []byte(documents[c.Intn(len(documents))])
			},
			func(moment *metav1.MicroTime, c randfill.Continue) {
				moment.Time = time.Unix(c.Int63n(1<<32)-1<<31, c.Int63n(1_000_000)*1000)
			},
			func(list *metav1.ListMeta, c randfill.Continue) { c.FillNoCustom(list) },
			func(json *apiextensionsv1.JSON, c randfill.Continue) { json.Raw = []byte(values[c.Intn(len(values))]) },
			func(json *apiextensionsv1beta1.JSON, c randfill.Continue) {
				json.Raw = []byte(values[c.Intn(len(values))])
			},
			func(schema *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
				if schema.Allows = c.Bool(); schema.Allows && c.Bool() {
					c.Fill(&schema.Schema)
				}
			},
			func(schema *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
				if c.Bool() {
					schema.Schema = &apiextensionsv1.JSONSchemaProps{}
					c.Fill(schema.Schema)
				} else {
					schema.JSONSchemas = make([]apiextensionsv1.JSONSchemaProps, c.Intn(3)+1)
				}
			},
			func(schema *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
				if c.Bool() {
					schema.Schema = &apiextensionsv1.JSONSchemaProps{}
					c.Fill(schema.Schema)
				} else {
					schema.Property = []string{c.String(0), c.String(0)}
				}
			},
			func(schema *apiextensionsv1beta1.JSONSchemaPropsOrBool, c randfill.Continue) {
				if schema.Allows = c.Bool(); schema.Allows && c.Bool() {
					c.Fill(&schema.Schema)
				}
			},
			func(schema *apiextensionsv1beta1.JSONSchemaPropsOrArray, c randfill.Continue) {
				if c.Bool() {
					schema.Schema = &apiextensionsv1beta1.JSONSchemaProps{}
					c.Fill(schema.Schema)
				} else {
					schema.JSONSchemas = make([]apiextensionsv1beta1.JSONSchemaProps, c.Intn(3)+1)
				}
			},
			func(schema *apiextensionsv1beta1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
				if c.Bool() {
					schema.Schema = &apiextensionsv1beta1.JSONSchemaProps{}
					c.Fill(schema.Schema)
				} else {
					schema.Property = []string{c.String(0), c.String(0)}
				}
			},
		}
	}), source, codecs)
	return filler.NumElements(0, 2).MaxDepth(14)
}
