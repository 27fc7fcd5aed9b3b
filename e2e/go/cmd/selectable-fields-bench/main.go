// Command selectable-fields-bench measures what selectable fields cost kube-apiserver per event, with kube-apiserver's own code.
//
// The watch cache of a custom resource, of which each version has its own, asks the resource's strategy for labels and fields once
// for each object of its first list and once for each event, before it knows whether anybody selects by them (k8s.io/apiserver,
// pkg/storage/cacher/watch_cache.go, processEvent); lists with a selector that are not answered from the cache ask once for each
// object. This command makes the strategy as pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver does and
// calls the same function, GetAttrs:
//
//	selectable-fields-bench [-duration D] PATH... < objects    figures for 0, 1, 2, 4 and 8 of the paths, as one JSON document
//	selectable-fields-bench -print PATH... < objects           what GetAttrs answers for each object, a JSON document a line
//
// Objects are JSON, one a line.
//
// Counted is GetAttrs alone: metadata.name, metadata.namespace and the labels, a JSONPath evaluation for each field, the texts and
// the map that holds them; and the garbage collector's share, because the clock is the CPU time of the whole process. Decoding is
// not counted: the API server decodes each object anyway and has it in this form. What it costs is a figure of its own, of the
// JSON decoder alone, without the pruning, defaulting and conversion that the API server adds. Storing the answer and what
// selectors do with it are not counted.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
)

// fieldCounts are the numbers of fields that are measured; the last is the most that a version may have.
var fieldCounts = []int{0, 1, 2, 4, 8}

// attributes is what GetAttrs answers for one object.
type attributes struct {
	Labels labels.Set `json:"labels"`
	Fields fields.Set `json:"fields"`
}

// report is what the command prints.
type report struct {
	Go      string `json:"go"`
	Objects int    `json:"objects"`
	// DecodeNanos is the CPU time of decoding one object.
	DecodeNanos float64 `json:"decodeNanos"`
	Rows        []row   `json:"rows"`
}

// row is the cost per object with a number of selectable fields.
type row struct {
	Fields int `json:"fields"`
	// Passes says how often all objects were evaluated.
	Passes    int     `json:"passes"`
	CPUNanos  float64 `json:"cpuNanos"`
	WallNanos float64 `json:"wallNanos"`
	// CPUNanosPerField is the difference from no field, divided by the number of fields.
	CPUNanosPerField float64 `json:"cpuNanosPerField"`
}

// kept is where results go, so that the compiler cannot leave the work out.
var kept attributes

func main() {
	duration := flag.Duration("duration", 300*time.Millisecond, "measure each number of fields for at least this time")
	isPrint := flag.Bool("print", false, "print the labels and fields of each object instead of figures")
	flag.Parse()
	if err := run(flag.Args(), *duration, *isPrint); err != nil {
		fmt.Fprintf(os.Stderr, "selectable-fields-bench: %v\n", err)
		os.Exit(1)
	}
}

func run(paths []string, duration time.Duration, isPrint bool) error {
	lines, err := readLines(os.Stdin)
	if err != nil {
		return err
	}
	objects, err := decode(lines)
	if err != nil {
		return err
	}
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	if isPrint {
		err = printAttributes(encoder, objects, paths)
	} else {
		err = measure(encoder, lines, objects, paths, duration)
	}
	if err != nil {
		return err
	}
	return output.Flush()
}

func readLines(input io.Reader) ([][]byte, error) {
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for len(text) > 0 {
		advance, line, err := bufio.ScanLines(text, true)
		if err != nil {
			return nil, err
		}
		if len(line) > 0 {
			lines = append(lines, line)
		}
		text = text[advance:]
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("no objects on standard input: send them as JSON, one a line")
	}
	return lines, nil
}

func decode(lines [][]byte) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(lines))
	for number, line := range lines {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// evaluator is the function that the watch cache of a namespaced resource with these selectable fields calls.
func evaluator(object *unstructured.Unstructured, paths []string) storage.AttrFunc {
	var selectable []apiextensionsv1.SelectableField
	for _, path := range paths {
		selectable = append(selectable, apiextensionsv1.SelectableField{JSONPath: path})
	}
	// The typer, the validators, the schema and the subresources serve writes; GetAttrs looks at none of them.
	return customresource.NewStrategy(nil, true, object.GroupVersionKind(), nil, nil, nil, nil, nil, selectable).GetAttrs
}

func printAttributes(encoder *json.Encoder, objects []*unstructured.Unstructured, paths []string) error {
	evaluate := evaluator(objects[0], paths)
	for number, object := range objects {
		labelSet, fieldSet, err := evaluate(object)
		if err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
		if err := encoder.Encode(attributes{Labels: labelSet, Fields: fieldSet}); err != nil {
			return err
		}
	}
	return nil
}

func measure(encoder *json.Encoder, lines [][]byte, objects []*unstructured.Unstructured, paths []string, duration time.Duration) error {
	if most := fieldCounts[len(fieldCounts)-1]; len(paths) < most {
		return fmt.Errorf("%d paths are needed, not %d", most, len(paths))
	}
	decoding, err := clock(duration, func() error {
		_, err := decode(lines)
		return err
	})
	if err != nil {
		return err
	}
	result := report{Go: runtime.Version(), Objects: len(objects)}
	result.DecodeNanos, _ = decoding.per(len(objects))
	for _, count := range fieldCounts {
		evaluate := evaluator(objects[0], paths[:count])
		spent, err := clock(duration, func() error {
			for _, object := range objects {
				labelSet, fieldSet, err := evaluate(object)
				if err != nil {
					return err
				}
				kept = attributes{Labels: labelSet, Fields: fieldSet}
			}
			return nil
		})
		if err != nil {
			return err
		}
		found := row{Fields: count, Passes: spent.passes}
		found.CPUNanos, found.WallNanos = spent.per(len(objects))
		if count > 0 {
			found.CPUNanosPerField = (found.CPUNanos - result.Rows[0].CPUNanos) / float64(count)
		}
		result.Rows = append(result.Rows, found)
	}
	return encoder.Encode(result)
}

// spent is what a number of passes took.
type spent struct {
	passes    int
	cpu, wall time.Duration
}

// per is the CPU time and the time per object, in nanoseconds.
func (s spent) per(objects int) (float64, float64) {
	count := float64(s.passes) * float64(objects)
	return float64(s.cpu.Nanoseconds()) / count, float64(s.wall.Nanoseconds()) / count
}

// clock runs a pass once unclocked and then again and again, for at least the duration.
func clock(duration time.Duration, pass func() error) (spent, error) {
	if err := pass(); err != nil {
		return spent{}, err
	}
	// What was allocated before is not this measurement's to collect.
	runtime.GC()
	cpuBefore, err := processTime()
	if err != nil {
		return spent{}, err
	}
	start := time.Now()
	result := spent{}
	for result.passes == 0 || time.Since(start) < duration {
		if err := pass(); err != nil {
			return spent{}, err
		}
		result.passes++
	}
	result.wall = time.Since(start)
	cpuAfter, err := processTime()
	result.cpu = cpuAfter - cpuBefore
	return result, err
}

// processTime is the CPU time of all threads of this process so far.
func processTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
