// Command openapi-check reads OpenAPI documents as Go clients do and prints what they understood, as JSON.
//
// Rust tests use it as the judge of the protobuf forms, which only Go clients ask for:
//
//	openapi-check v2 < document.pb        the Swagger 2 document, decoded by gnostic-models
//	openapi-check v3 < document.pb        the OpenAPI 3 document, likewise
//	openapi-check client-v2 KUBECONFIG    what client-go's discovery client gets from the server as OpenAPISchema()
//	openapi-check client-v3 KUBECONFIG P  the same for one path of OpenAPIV3(), say apis/apps/v1
//
// With -message the protobuf message itself is printed (protojson), in which an extension is still the YAML text on the wire;
// without it the document that the message stands for. A kubeconfig needs no more than a server.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
)

// protobufV3 is the media type in which client-go asks for OpenAPI 3 documents.
const protobufV3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

// document is what both generated Document types offer: the message, and the document as YAML nodes.
type document interface {
	proto.Message
	ToRawInfo() *yaml.Node
}

func main() {
	asMessage := flag.Bool("message", false, "print the protobuf message, not the document it stands for")
	flag.Parse()
	if err := run(flag.Args(), *asMessage); err != nil {
		fmt.Fprintf(os.Stderr, "openapi-check: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string, asMessage bool) error {
	if len(arguments) == 0 {
		return errors.New("which form? v2, v3, client-v2 or client-v3")
	}
	read, err := read(arguments[0], arguments[1:])
	if err != nil {
		return err
	}
	if asMessage {
		text, err := protojson.Marshal(read)
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(append(text, '\n'))
		return err
	}
	var plain any
	if err := read.ToRawInfo().Decode(&plain); err != nil {
		return fmt.Errorf("turning the message into a document: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(plain)
}

func read(form string, rest []string) (document, error) {
	switch form {
	case "v2":
		decoded := &openapi_v2.Document{}
		return decoded, fromStdin(decoded)
	case "v3":
		decoded := &openapi_v3.Document{}
		return decoded, fromStdin(decoded)
	case "client-v2":
		if len(rest) != 1 {
			return nil, errors.New("client-v2 takes a kubeconfig")
		}
		client, err := discoveryClient(rest[0])
		if err != nil {
			return nil, err
		}
		return client.OpenAPISchema()
	case "client-v3":
		if len(rest) != 2 {
			return nil, errors.New("client-v3 takes a kubeconfig and a path")
		}
		return readPath(rest[0], rest[1])
	default:
		return nil, fmt.Errorf("unknown form %q", form)
	}
}

func readPath(kubeconfig, path string) (document, error) {
	client, err := discoveryClient(kubeconfig)
	if err != nil {
		return nil, err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	groupVersion, isKnown := paths[path]
	if !isKnown {
		return nil, fmt.Errorf("the server announces no OpenAPI 3 document for %q", path)
	}
	body, err := groupVersion.Schema(protobufV3)
	if err != nil {
		return nil, err
	}
	decoded := &openapi_v3.Document{}
	return decoded, proto.Unmarshal(body, decoded)
}

func fromStdin(message proto.Message) error {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return proto.Unmarshal(body, message)
}

func discoveryClient(kubeconfig string) (*discovery.DiscoveryClient, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return discovery.NewDiscoveryClientForConfig(config)
}
