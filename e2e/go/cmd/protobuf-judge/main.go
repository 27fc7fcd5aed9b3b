// Command protobuf-judge writes Kubernetes' own types in JSON and protobuf with upstream's serializers.
//
// A Rust test holds what fieldcache writes against it, byte by byte. Everything on standard input and output is a frame: four bytes of
// length, the most significant first, and as many bytes.
//
//	protobuf-judge generate SEED COUNT  prints COUNT objects of every kind, filled by upstream's fuzzers. An object is five frames: apiVersion,
//	                                    kind, JSON, the protobuf of what the JSON says, and the protobuf of the object itself. The last two
//	                                    differ where JSON loses something.
//	protobuf-judge answer               reads frames and answers each with one. A question is a letter and JSON: `o` asks for the protobuf of an
//	                                    object, and `e` for the frame of a watch event. `d` is followed by protobuf, and asks for the JSON.
//	                                    An answer is `+` and bytes, or `-` and an error.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

type marshaler interface {
	MarshalToSizedBuffer([]byte) (int, error)
}

var marshalerType = reflect.TypeOf((*marshaler)(nil)).Elem()

type judge struct {
	types    *runtime.Scheme
	json     *jsonserializer.Serializer
	protobuf *protobuf.Serializer
	raw      *protobuf.RawSerializer
	codecs   serializer.CodecFactory
}

func main() {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	err := run(os.Args[1:], bufio.NewReaderSize(os.Stdin, 1<<20), out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "protobuf-judge: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string, in *bufio.Reader, out *bufio.Writer) error {
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
	options := jsonserializer.SerializerOptions{Strict: true}
	asked := &judge{
		types:    types,
		json:     jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, types, types, options),
		protobuf: protobuf.NewSerializer(types, types),
		raw:      protobuf.NewRawSerializer(types, types),
		codecs:   serializer.NewCodecFactory(types),
	}
	switch {
	case len(arguments) == 3 && arguments[0] == "generate":
		seed, err := strconv.ParseInt(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(arguments[2])
		if err != nil {
			return err
		}
		return asked.generate(rand.NewSource(seed), count, out)
	case len(arguments) == 1 && arguments[0] == "answer":
		return asked.answerAll(in, out)
	}
	return fmt.Errorf("write generate SEED COUNT or answer")
}

// kinds are those that have a protobuf form, each under its own group.
func (j *judge) kinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{}
	for kind, goType := range j.types.AllKnownTypes() {
		shared := strings.HasPrefix(goType.PkgPath(), "k8s.io/apimachinery/") && kind.Group != "meta.k8s.io" && kind.GroupVersion() != (schema.GroupVersion{Version: "v1"})
		// A WatchEvent is no object; it is asked for by itself.
		isObject := goType != reflect.TypeOf(metav1.WatchEvent{}) && goType != reflect.TypeOf(metav1.InternalEvent{})
		if kind.Version != runtime.APIVersionInternal && !shared && isObject && reflect.PointerTo(goType).Implements(marshalerType) {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(left, right int) bool { return kinds[left].String() < kinds[right].String() })
	return kinds
}

func (j *judge) generate(source rand.Source, count int, out io.Writer) error {
	filler := newFiller(source, j.codecs)
	for _, kind := range j.kinds() {
		for range count {
			object, err := j.types.New(kind)
			if err != nil {
				return err
			}
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			text := bytes.Buffer{}
			if err := j.json.Encode(object, &text); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			document := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
			read, err := j.answerObject(document)
			if err != nil {
				return fmt.Errorf("%s: %w: %s", kind, err, document)
			}
			itself := bytes.Buffer{}
			if err := j.protobuf.Encode(object, &itself); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			version, name := kind.ToAPIVersionAndKind()
			for _, bytes := range [][]byte{[]byte(version), []byte(name), document, read, itself.Bytes()} {
				if err := writeFrame(out, bytes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func writeFrame(out io.Writer, bytes []byte) error {
	if err := binary.Write(out, binary.BigEndian, uint32(len(bytes))); err != nil {
		return err
	}
	_, err := out.Write(bytes)
	return err
}

func (j *judge) answerAll(in io.Reader, out *bufio.Writer) error {
	for {
		length := uint32(0)
		err := binary.Read(in, binary.BigEndian, &length)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		question := make([]byte, length)
		if _, err := io.ReadFull(in, question); err != nil {
			return err
		}
		answer, err := j.answer(question)
		if err != nil {
			answer = append([]byte("-"), err.Error()...)
		} else {
			answer = append([]byte("+"), answer...)
		}
		if err := writeFrame(out, answer); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func (j *judge) answer(question []byte) ([]byte, error) {
	if len(question) == 0 {
		return nil, fmt.Errorf("no question")
	}
	switch rest := question[1:]; question[0] {
	case 'o':
		return j.answerObject(rest)
	case 'e':
		return j.answerEvent(rest)
	case 'd':
		object, _, err := j.protobuf.Decode(rest, nil, nil)
		if err != nil {
			return nil, err
		}
		text := bytes.Buffer{}
		if err := j.json.Encode(object, &text); err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
	}
	return nil, fmt.Errorf("unknown question %q", question[0])
}

// answerObject is the protobuf of an object in JSON.
func (j *judge) answerObject(document []byte) ([]byte, error) {
	object, kind, err := j.json.Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	out := bytes.Buffer{}
	if err := j.protobuf.Encode(object, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// answerEvent is the frame of a watch event.
func (j *judge) answerEvent(document []byte) ([]byte, error) {
	event := struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}{}
	if err := json.Unmarshal(document, &event); err != nil {
		return nil, err
	}
	object, err := j.answerObject(event.Object)
	if err != nil {
		return nil, err
	}
	out := bytes.Buffer{}
	frames := protobuf.LengthDelimitedFramer.NewFrameWriter(&out)
	written := &metav1.WatchEvent{Type: event.Type, Object: runtime.RawExtension{Raw: object}}
	if err := j.raw.Encode(written, frames); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
