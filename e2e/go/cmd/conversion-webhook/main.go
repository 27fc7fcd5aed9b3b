// Command conversion-webhook is the conversion webhook of the test CustomResourceDefinitions.
//
// It converts two kinds, whatever their group, so that every test may use a group of its own:
//
//   - Shirt: v1 spells its colour spec.color, v1beta1 spells it spec.hue.
//   - HostPort: v1 has hostPort, v2 has host and port; v1 joins the two with a colon.
//
// A missing field stays missing. It serves HTTPS with a given certificate and key and prints the address it listens on as its
// first line, so that a caller may ask for port 0. It deliberately depends on the standard library only.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// review is the part of apiextensions.k8s.io/v1 ConversionReview that a webhook reads and writes.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID               string           `json:"uid"`
	DesiredAPIVersion string           `json:"desiredAPIVersion"`
	Objects           []map[string]any `json:"objects"`
}

type response struct {
	UID              string           `json:"uid"`
	ConvertedObjects []map[string]any `json:"convertedObjects"`
	Result           result           `json:"result"`
}

type result struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "address to listen on")
	certificate := flag.String("cert", "", "file of the serving certificate, PEM")
	key := flag.String("key", "", "file of the serving key, PEM")
	flag.Parse()
	if err := serve(*address, *certificate, *key); err != nil {
		fmt.Fprintf(os.Stderr, "conversion-webhook: %v\n", err)
		os.Exit(1)
	}
}

func serve(address, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("reading -cert and -key: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /convert", handle)
	server := &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ServeTLS(listener, "", "")
}

func handle(writer http.ResponseWriter, incoming *http.Request) {
	body, err := io.ReadAll(incoming.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	var asked review
	// Plain decoding turns integers into float64; the decoder below keeps the digits a client wrote.
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil || asked.Request == nil {
		http.Error(writer, fmt.Sprintf("not a ConversionReview with a request: %v", err), http.StatusBadRequest)
		return
	}
	answer := review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: convertAll(asked.Request)}
	writer.Header().Set("Content-Type", "application/json")
	// A failed write means that the API server went away; it will ask again.
	_ = json.NewEncoder(writer).Encode(answer)
}

func convertAll(asked *request) *response {
	converted := make([]map[string]any, 0, len(asked.Objects))
	for _, object := range asked.Objects {
		if err := convert(object, asked.DesiredAPIVersion); err != nil {
			return &response{UID: asked.UID, Result: result{Status: "Failure", Message: err.Error()}}
		}
		converted = append(converted, object)
	}
	return &response{UID: asked.UID, ConvertedObjects: converted, Result: result{Status: "Success"}}
}

func convert(object map[string]any, desiredAPIVersion string) error {
	kind, _ := object["kind"].(string)
	current, _ := object["apiVersion"].(string)
	if current == desiredAPIVersion {
		return nil
	}
	route := kind + " " + version(current) + " " + version(desiredAPIVersion)
	switch route {
	case "Shirt v1 v1beta1":
		rename(object["spec"], "color", "hue")
	case "Shirt v1beta1 v1":
		rename(object["spec"], "hue", "color")
	case "HostPort v1 v2":
		split(object)
	case "HostPort v2 v1":
		join(object)
	default:
		return fmt.Errorf("no conversion of %s from %s to %s", kind, current, desiredAPIVersion)
	}
	object["apiVersion"] = desiredAPIVersion
	return nil
}

func version(apiVersion string) string {
	return apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
}

func rename(spec any, from, to string) {
	fields, isObject := spec.(map[string]any)
	if !isObject {
		return
	}
	if value, isSet := fields[from]; isSet {
		fields[to] = value
		delete(fields, from)
	}
}

func split(object map[string]any) {
	joined, isString := object["hostPort"].(string)
	if !isString {
		return
	}
	host, port, hasPort := strings.Cut(joined, ":")
	delete(object, "hostPort")
	object["host"] = host
	if hasPort {
		object["port"] = port
	}
}

func join(object map[string]any) {
	host, hasHost := object["host"].(string)
	port, hasPort := object["port"].(string)
	delete(object, "host")
	delete(object, "port")
	switch {
	case hasPort:
		object["hostPort"] = host + ":" + port
	case hasHost:
		object["hostPort"] = host
	}
}
