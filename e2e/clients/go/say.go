package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// line is one line of output; exactly one member is set.
type line struct {
	// A LIST or WATCH request and its answer.
	Request *requested `json:"request,omitempty"`
	// A complete list as it came over the wire.
	List *listed `json:"list,omitempty"`
	// An event of a watch as it came over the wire.
	Event *event `json:"event,omitempty"`
	// What the library handed to a handler.
	Handler *event `json:"handler,omitempty"`
	// What a reconciler just read.
	Reconcile *event `json:"reconcile,omitempty"`
	// The keys a reconciler saw last, with the version it read.
	Reconciled map[string]string `json:"reconciled,omitzero"`
	// The library's store at the end, which may be empty.
	Store map[string]string `json:"store,omitzero"`
	// How many objects a consumer's store holds when it is complete, and how many changes came after that.
	Synced  *int64 `json:"synced,omitempty"`
	Changes *int64 `json:"changes,omitempty"`
	Error   string `json:"error,omitempty"`
}

type requested struct {
	Verb              string `json:"verb"`
	ResourceVersion   string `json:"resourceVersion"`
	SendInitialEvents bool   `json:"sendInitialEvents"`
	Status            int    `json:"status,omitempty"`
	ContentType       string `json:"contentType,omitempty"`
	Failure           string `json:"failure,omitempty"`
}

type listed struct {
	ResourceVersion string            `json:"resourceVersion"`
	Objects         map[string]string `json:"objects"`
}

type event struct {
	Type            string `json:"type"`
	Key             string `json:"key"`
	ResourceVersion string `json:"resourceVersion"`
	UID             string `json:"uid"`
}

// object is what is read of an object or a Status on the wire.
type object struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		UID             string            `json:"uid"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (o *object) key() string {
	return o.Metadata.Namespace + "/" + o.Metadata.Name
}

func (o *object) event(kind string) *event {
	return &event{Type: kind, Key: o.key(), ResourceVersion: o.Metadata.ResourceVersion, UID: o.Metadata.UID}
}

var output sync.Mutex

// say writes a line at once.
func say(said line) {
	text, err := json.Marshal(said)
	if err != nil {
		fail(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "clients:", err)
	os.Exit(1)
}
