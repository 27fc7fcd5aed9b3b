// Command request-judge reads requests with the code of kube-apiserver itself: apiserver's RequestInfoFactory.
//
// A Rust test uses it as the judge of what a request asks for. One request a line on standard input, as METHOD and URL; one answer a line on
// standard output. A request that Go's server rejects before kube-apiserver sees it has the answer "rejected".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

type answer struct {
	// Rejected says that Go's server does not read the request.
	Rejected bool `json:"rejected,omitempty"`
	// Error is kube-apiserver's, which it sends with the status 500.
	Error string `json:"error,omitempty"`

	IsResource    bool   `json:"isResource"`
	Path          string `json:"path"`
	Verb          string `json:"verb"`
	Group         string `json:"group"`
	Version       string `json:"version"`
	Namespace     string `json:"namespace"`
	Resource      string `json:"resource"`
	Subresource   string `json:"subresource"`
	Name          string `json:"name"`
	FieldSelector string `json:"fieldSelector"`
	LabelSelector string `json:"labelSelector"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "request-judge: %v\n", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	factory := request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for lines.Scan() {
		if err := encoder.Encode(judge(&factory, lines.Text())); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return writer.Flush()
}

func judge(factory *request.RequestInfoFactory, line string) answer {
	head := bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	read, err := http.ReadRequest(head)
	if err != nil {
		return answer{Rejected: true}
	}
	info, err := factory.NewRequestInfo(read)
	result := answer{
		IsResource:    info.IsResourceRequest,
		Path:          info.Path,
		Verb:          info.Verb,
		Group:         info.APIGroup,
		Version:       info.APIVersion,
		Namespace:     info.Namespace,
		Resource:      info.Resource,
		Subresource:   info.Subresource,
		Name:          info.Name,
		FieldSelector: info.FieldSelector,
		LabelSelector: info.LabelSelector,
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}
