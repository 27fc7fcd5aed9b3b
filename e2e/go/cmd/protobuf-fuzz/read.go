package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// deadline is that of whatever is waited for.
const deadline = 180 * time.Second

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	jsonType     = "application/json"
	partial      = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialList  = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// The fields of this one stand in another order.
	oldPartialList = partialList + "beta1"
)

// side is a server that is read from.
type side struct {
	name   string
	base   string
	client *http.Client
}

// refused is a response that is no success.
type refused struct {
	code int
	text string
}

func (r *refused) Error() string {
	return fmt.Sprintf("%d: %s", r.code, r.text)
}

// errFormat says that a response has another format than was asked for.
var errFormat = errors.New("another format")

func (s *side) open(ctx context.Context, path, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", "identity")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<12))
		return nil, &refused{response.StatusCode, fmt.Sprintf("%s %s: %s", s.name, path, text)}
	}
	// Who cannot write protobuf falls back to JSON, which must not go unnoticed.
	format, _, _ := strings.Cut(accept, ";")
	if got, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); got != format {
		response.Body.Close()
		return nil, fmt.Errorf("%s %s: %w: %s: %v", s.name, path, errFormat, got, response.Header["Warning"])
	}
	return response, nil
}

func (s *side) get(path, accept string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	response, err := s.open(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// resources are those of built-in kinds that can be read in all ways, and created.
func (s *side) resources() ([]*resource, error) {
	groups := metav1.APIGroupList{}
	if err := s.document("/apis", &groups); err != nil {
		return nil, err
	}
	versions := []string{"/api/v1"}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			versions = append(versions, "/apis/"+version.GroupVersion)
		}
	}
	found := []*resource{}
	for _, path := range versions {
		list := metav1.APIResourceList{}
		if err := s.document(path, &list); err != nil {
			return nil, err
		}
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, served := range list.APIResources {
			needed := []string{"get", "list", "watch", "create"}
			lacks := func(verb string) bool { return !slices.Contains(served.Verbs, verb) }
			if strings.Contains(served.Name, "/") || slices.ContainsFunc(needed, lacks) {
				continue
			}
			found = append(found, &resource{version.WithKind(served.Kind), served.Name, served.Namespaced})
		}
	}
	return found, nil
}

func (s *side) document(path string, into any) error {
	body, err := s.get(path, jsonType)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// event is one of a watch.
type event struct {
	kind string
	// In protobuf with its frame, in JSON the line.
	whole []byte
	// The object alone.
	object []byte
}

// stream is an open watch. It keeps the last event of each type and object.
type stream struct {
	side   *side
	cancel context.CancelFunc
	lock   sync.Mutex
	change *sync.Cond
	events map[string]map[string]event
	err    error
}

// named is the name of an object of ours, which is empty for others, and its version.
type named func(object []byte) (string, uint64, error)

// watch opens a watch.
func (s *side) watch(path, query, accept string, name named) (*stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*deadline)
	response, err := s.open(ctx, path+"?watch=1"+query, accept)
	if err != nil {
		cancel()
		return nil, err
	}
	watch := &stream{side: s, cancel: cancel, events: map[string]map[string]event{}}
	watch.change = sync.NewCond(&watch.lock)
	go func() {
		last, err := uint64(0), error(nil)
		for err == nil {
			last, err = watch.follow(response.Body, accept, last, name)
			response.Body.Close()
			// A server may end a watch, of clients that fall behind for example. It is resumed, as clients do.
			if isEnd := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); isEnd && last > 0 {
				response, err = s.open(ctx, fmt.Sprintf("%s?watch=1&resourceVersion=%d", path, last), accept)
			}
		}
		watch.lock.Lock()
		defer watch.lock.Unlock()
		watch.err = fmt.Errorf("a watch of %s ended: %w", s.name, err)
		watch.change.Broadcast()
	}()
	return watch, nil
}

// follow reads events up to the end, which is an error. It answers the newest version of those before, too.
func (w *stream) follow(body io.Reader, accept string, last uint64, name named) (uint64, error) {
	from, next := bufio.NewReaderSize(body, 1<<16), nextLine
	if isProtobuf(accept) {
		next = nextFrame
	}
	for {
		came, err := next(from)
		if err != nil {
			return last, err
		}
		if came.kind == "ERROR" {
			return last, fmt.Errorf("ERROR: %q", came.object)
		}
		key, version, err := name(came.object)
		if err != nil {
			return last, err
		}
		last = max(last, version)
		if key == "" || came.kind == "BOOKMARK" {
			continue
		}
		w.lock.Lock()
		if w.events[came.kind] == nil {
			w.events[came.kind] = map[string]event{}
		}
		w.events[came.kind][key] = came
		w.change.Broadcast()
		w.lock.Unlock()
	}
}

// await waits for an event of this type of so many objects.
func (w *stream) await(kind string, count int) (map[string]event, error) {
	timer := time.AfterFunc(deadline, func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		if w.err == nil {
			w.err = fmt.Errorf("a watch of %s sends nothing more", w.side.name)
		}
		w.change.Broadcast()
	})
	defer timer.Stop()
	w.lock.Lock()
	defer w.lock.Unlock()
	for len(w.events[kind]) < count && w.err == nil {
		w.change.Wait()
	}
	if len(w.events[kind]) < count {
		return nil, fmt.Errorf("%d of %d %s: %w", len(w.events[kind]), count, kind, w.err)
	}
	events := map[string]event{}
	for key, came := range w.events[kind] {
		events[key] = came
	}
	return events, nil
}

func nextFrame(from *bufio.Reader) (event, error) {
	length := [4]byte{}
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return event{}, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(from, frame); err != nil {
		return event{}, err
	}
	read := metav1.WatchEvent{}
	if err := read.Unmarshal(frame); err != nil {
		return event{}, err
	}
	return event{read.Type, frame, read.Object.Raw}, nil
}

func nextLine(from *bufio.Reader) (event, error) {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return event{}, err
	}
	read := metav1.WatchEvent{}
	if err := json.Unmarshal(line, &read); err != nil {
		return event{}, err
	}
	return event{read.Type, line, read.Object.Raw}, nil
}
