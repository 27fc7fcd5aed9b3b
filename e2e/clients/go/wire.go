package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// recorder says what goes over the wire for one collection: each LIST and WATCH request, each complete list (a LIST's last page or
// the bookmark that ends a streaming list) and each event. It reads along; what the client receives is untouched.
type recorder struct {
	next       http.RoundTripper
	collection string

	lock  sync.Mutex
	pages map[string]string
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	// The collection itself, not its subresources or members.
	if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/"+r.collection) {
		return r.next.RoundTrip(request)
	}
	query := request.URL.Query()
	isWatch := query.Get("watch") == "true" || query.Get("watch") == "1"
	isStreamingList := isWatch && query.Get("sendInitialEvents") == "true"
	verb := "list"
	if isWatch {
		verb = "watch"
	}
	response, err := r.next.RoundTrip(request)
	asked := &requested{Verb: verb, ResourceVersion: query.Get("resourceVersion"), SendInitialEvents: isStreamingList}
	if err != nil {
		asked.Failure = err.Error()
		say(line{Request: asked})
		return response, err
	}
	asked.Status = response.StatusCode
	say(line{Request: asked})
	if response.StatusCode != http.StatusOK {
		return response, nil
	}
	if isWatch {
		follower := &follower{}
		if isStreamingList {
			follower.initial = map[string]string{}
		}
		response.Body = &readAlong{ReadCloser: response.Body, chunk: follower.take}
		return response, nil
	}
	var whole bytes.Buffer
	first := query.Get("continue") == ""
	response.Body = &readAlong{
		ReadCloser: response.Body,
		chunk:      func(chunk []byte) { whole.Write(chunk) },
		end:        func() { r.page(whole.Bytes(), first) },
	}
	return response, nil
}

// page takes one page of a list.
func (r *recorder) page(body []byte, first bool) {
	var page struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
			Continue        string `json:"continue"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		say(line{Error: "a list that is not JSON: " + err.Error()})
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if first {
		r.pages = map[string]string{}
	}
	for _, item := range page.Items {
		r.pages[item.key()] = item.Metadata.ResourceVersion
	}
	if page.Metadata.Continue == "" {
		say(line{List: &listed{ResourceVersion: page.Metadata.ResourceVersion, Objects: r.pages}})
		r.pages = map[string]string{}
	}
}

// follower takes the lines of one watch.
type follower struct {
	// The objects of a streaming list until its end; nil once it is complete and in other watches.
	initial map[string]string
	pending []byte
}

func (f *follower) take(chunk []byte) {
	f.pending = append(f.pending, chunk...)
	for {
		end := bytes.IndexByte(f.pending, '\n')
		if end < 0 {
			return
		}
		f.line(f.pending[:end])
		f.pending = f.pending[end+1:]
	}
}

func (f *follower) line(text []byte) {
	var told struct {
		Type   string `json:"type"`
		Object object `json:"object"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		say(line{Error: "a watch line that is not JSON: " + err.Error()})
		return
	}
	metadata := told.Object.Metadata
	switch {
	case told.Type == "ERROR":
		say(line{Error: told.Object.Reason + ": " + told.Object.Message})
	case told.Type == "BOOKMARK":
		if f.initial != nil && metadata.Annotations["k8s.io/initial-events-end"] == "true" {
			say(line{List: &listed{ResourceVersion: metadata.ResourceVersion, Objects: f.initial}})
			f.initial = nil
		}
	case f.initial != nil:
		f.initial[told.Object.key()] = metadata.ResourceVersion
	default:
		say(line{Event: told.Object.event(told.Type)})
	}
}

// readAlong shows what is read from a body.
type readAlong struct {
	io.ReadCloser
	chunk func([]byte)
	end   func()
}

func (r *readAlong) Read(buffer []byte) (int, error) {
	count, err := r.ReadCloser.Read(buffer)
	if count > 0 {
		r.chunk(buffer[:count])
	}
	if err == io.EOF && r.end != nil {
		r.end()
		r.end = nil
	}
	return count, err
}
