package main

import (
	"math/rand"
	"reflect"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// quantities are of every form.
var quantities = []string{
	"0", "1", "100m", "1500m", "2", "128Mi", "1Gi", "1500Mi", "3Ki", "8Ki", "1024", "1k", "1M", "5G", "1T", "2P", "1E", "1e3", "12e6", "1u", "7n", "-3",
	"-1500m", "1100Ei", "0.5", "1.5Gi", "0.1n",
}

// isSmooth says which kinds stay as they were filled: kube-apiserver completes them when it reads one, and not in watches, or its
// controllers need what is in them.
func isSmooth(kind string) bool {
	return kind == "Service" || kind == "PersistentVolumeClaim" || kind == "APIService" || kind == "CustomResourceDefinition"
}

// roughener varies what upstream's fillers always fill, or never: zeros, empty messages, quantities, microseconds.
type roughener struct {
	random *rand.Rand
}

func (r *roughener) object(object runtime.Object) {
	value := reflect.ValueOf(object).Elem()
	for index := range value.NumField() {
		// Metadata names the object.
		if !value.Type().Field(index).Anonymous {
			r.value(value.Field(index))
		}
	}
}

// one in so many.
func (r *roughener) one(in int) bool {
	return r.random.Intn(in) == 0
}

func (r *roughener) quantity() apiresource.Quantity {
	return apiresource.MustParse(quantities[r.random.Intn(len(quantities))])
}

func (r *roughener) value(value reflect.Value) {
	if !value.CanSet() {
		return
	}
	switch known := value.Addr().Interface().(type) {
	case *apiresource.Quantity:
		*known = r.quantity()
		return
	case *metav1.MicroTime:
		known.Time = time.Unix(r.random.Int63n(1<<32)-1<<31, r.random.Int63n(1_000_000)*1000)
		return
	case *intstr.IntOrString:
		if *known = intstr.FromString("17%"); r.one(2) {
			*known = intstr.FromInt32(int32(r.random.Uint32()))
		}
		return
	case *metav1.Time, *metav1.Duration, *metav1.FieldsV1, *runtime.RawExtension:
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		r.pointer(value)
	case reflect.Struct:
		for index := range value.NumField() {
			r.value(value.Field(index))
		}
	case reflect.Slice:
		if r.one(12) {
			value.SetZero()
		}
		if value.Type().Elem().Kind() != reflect.Uint8 {
			for index := range value.Len() {
				r.value(value.Index(index))
			}
		}
	case reflect.Map:
		if r.one(12) {
			value.SetZero()
		}
		if value.Type().Elem() == reflect.TypeOf(apiresource.Quantity{}) {
			for _, key := range value.MapKeys() {
				value.SetMapIndex(key, reflect.ValueOf(r.quantity()))
			}
		}
	case reflect.Bool:
		value.SetBool(r.one(2))
	case reflect.String, reflect.Int32, reflect.Int64:
		if r.one(6) {
			value.SetZero()
		}
	}
}

func (r *roughener) pointer(value reflect.Value) {
	isSpecial := false
	switch reflect.New(value.Type().Elem()).Interface().(type) {
	case *metav1.Time:
		// kube-apiserver says now for some that are missing, whenever it reads them.
		return
	case *apiresource.Quantity, *metav1.MicroTime, *intstr.IntOrString:
		isSpecial = true
	}
	switch {
	case isSpecial && r.one(2):
		value.Set(reflect.New(value.Type().Elem()))
	case !value.IsNil() && r.one(6):
		value.SetZero()
		return
	case value.IsNil() && !r.one(6):
		return
	case value.IsNil():
		value.Set(reflect.New(value.Type().Elem()))
		// Schemas contain schemas.
		if value.Elem().Kind() == reflect.Struct && value.Elem().NumField() > 1 {
			return
		}
	}
	r.value(value.Elem())
}
