package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// decoder reads protobuf of the kinds that clients are told of, and of metadata.
var decoder = func() runtime.Decoder {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(metav1.AddMetaToScheme(known))
	return serializer.NewCodecFactory(known).UniversalDeserializer()
}()

// readable is the JSON of an object in protobuf.
func readable(body []byte) ([]byte, error) {
	decoded, _, err := decoder.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(decoded)
}

func isProtobuf(response *http.Response) bool {
	return strings.HasPrefix(response.Header.Get("Content-Type"), runtime.ContentTypeProtobuf)
}

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
	asked.ContentType = response.Header.Get("Content-Type")
	say(line{Request: asked})
	if response.StatusCode != http.StatusOK {
		return response, nil
	}
	if isWatch {
		follower := &follower{isFramed: isProtobuf(response)}
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
		end:        func() { r.page(whole.Bytes(), first, isProtobuf(response)) },
	}
	return response, nil
}

// page takes one page of a list.
func (r *recorder) page(body []byte, first, isProtobuf bool) {
	if isProtobuf {
		read, err := readable(body)
		if err != nil {
			say(line{Error: "a list that is not protobuf: " + err.Error()})
			return
		}
		body = read
	}
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

// follower takes the lines of one watch, in protobuf the frames.
type follower struct {
	isFramed bool
	// The objects of a streaming list until its end; nil once it is complete and in other watches.
	initial map[string]string
	pending []byte
}

func (f *follower) take(chunk []byte) {
	f.pending = append(f.pending, chunk...)
	for f.isFramed {
		// Four bytes of length precede an event.
		if len(f.pending) < 4 || len(f.pending)-4 < int(binary.BigEndian.Uint32(f.pending)) {
			return
		}
		end := 4 + int(binary.BigEndian.Uint32(f.pending))
		f.frame(f.pending[4:end])
		f.pending = f.pending[end:]
	}
	for {
		end := bytes.IndexByte(f.pending, '\n')
		if end < 0 {
			return
		}
		f.line(f.pending[:end])
		f.pending = f.pending[end+1:]
	}
}

func (f *follower) frame(content []byte) {
	var told metav1.WatchEvent
	err := told.Unmarshal(content)
	if err == nil {
		told.Object.Raw, err = readable(told.Object.Raw)
	}
	if err != nil {
		say(line{Error: "a frame that is not protobuf: " + err.Error()})
		return
	}
	text, err := json.Marshal(told)
	if err != nil {
		fail(err)
	}
	f.line(text)
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
