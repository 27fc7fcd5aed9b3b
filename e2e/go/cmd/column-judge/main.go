// Command column-judge shows objects in the columns of a CustomResourceDefinition with the code of kube-apiserver itself.
//
// A Rust test uses it as the judge of JSONPath templates and cells. One question a line on standard input, one answer a line on standard
// output. A question has the columns of a definition, and what a server responded: a list of objects, and a Table of them. The answer says
// what differs, byte by byte. Go visits the members of an object in random order, so a cell that differs is shown again many times: it
// is right if upstream ever shows the same.
//
// A question with paths only asks which of them upstream can read.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// attempts at a cell that differs.
const attempts = 2000

type question struct {
	Paths   []string                                         `json:"paths"`
	Columns []apiextensionsv1.CustomResourceColumnDefinition `json:"columns"`
	List    struct {
		Items []json.RawMessage `json:"items"`
	} `json:"list"`
	Table struct {
		Definitions []metav1.TableColumnDefinition `json:"columnDefinitions"`
		Rows        []struct {
			Cells []json.RawMessage `json:"cells"`
		} `json:"rows"`
	} `json:"table"`
}

type answer struct {
	Readable []bool `json:"readable,omitempty"`
	// Definitions are upstream's, if others were shown.
	Definitions []metav1.TableColumnDefinition `json:"definitions,omitempty"`
	Differences []difference                   `json:"differences,omitempty"`
	Cells       int                            `json:"cells"`
	// Empty are the cells that are null.
	Empty int `json:"empty"`
	// Retried are the cells that needed more than one attempt.
	Retried int `json:"retried"`
}

type difference struct {
	Object json.RawMessage `json:"object"`
	Type   string          `json:"type"`
	Path   string          `json:"path"`
	Ours   json.RawMessage `json:"ours"`
	// Theirs are all that upstream showed.
	Theirs []json.RawMessage `json:"theirs"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "column-judge: %v\n", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		given, err := asked.answer()
		if err != nil {
			return err
		}
		if err := encoder.Encode(given); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func (q *question) answer() (*answer, error) {
	given := &answer{}
	for _, path := range q.Paths {
		_, err := tableconvertor.New([]apiextensionsv1.CustomResourceColumnDefinition{{Name: "x", Type: "string", JSONPath: path}})
		given.Readable = append(given.Readable, err == nil)
	}
	if len(q.Columns) == 0 {
		return given, nil
	}
	list := &unstructured.UnstructuredList{Object: map[string]interface{}{}}
	for _, raw := range q.List.Items {
		object := map[string]interface{}{}
		if err := utiljson.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		list.Items = append(list.Items, unstructured.Unstructured{Object: object})
	}
	// A column that cannot be read ends the columns; kube-apiserver logs the error and goes on.
	convertor, _ := tableconvertor.New(q.Columns)
	// Templates with range show something else for the first object after the start of a server.
	table, err := convertor.ConvertToTable(context.Background(), list, nil)
	if err == nil {
		table, err = convertor.ConvertToTable(context.Background(), list, nil)
	}
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(q.Table.Definitions, table.ColumnDefinitions) {
		given.Definitions = table.ColumnDefinitions
		return given, nil
	}
	if len(table.Rows) != len(q.Table.Rows) {
		return nil, fmt.Errorf("%d rows, not %d", len(q.Table.Rows), len(table.Rows))
	}
	for row, shown := range table.Rows {
		if len(shown.Cells) != len(q.Table.Rows[row].Cells) {
			return nil, fmt.Errorf("%d cells, not %d", len(q.Table.Rows[row].Cells), len(shown.Cells))
		}
		for column, cell := range shown.Cells {
			given.Cells++
			if cell == nil {
				given.Empty++
			}
			ours := q.Table.Rows[row].Cells[column]
			if bytes.Equal(ours, marshal(cell)) {
				continue
			}
			given.Retried++
			theirs, err := q.again(column, &list.Items[row], ours)
			if err != nil {
				return nil, err
			}
			if theirs != nil {
				found := difference{Object: q.List.Items[row], Ours: ours, Theirs: theirs}
				if column > 0 {
					found.Type, found.Path = q.Columns[column-1].Type, q.Columns[column-1].JSONPath
				}
				given.Differences = append(given.Differences, found)
			}
		}
	}
	return given, nil
}

// again shows one cell until it is the expected one; otherwise it returns all that were shown.
func (q *question) again(column int, object runtime.Object, expected []byte) ([]json.RawMessage, error) {
	columns := []apiextensionsv1.CustomResourceColumnDefinition{}
	if column > 0 {
		columns = q.Columns[column-1 : column]
	}
	convertor, _ := tableconvertor.New(columns)
	seen := map[string]bool{}
	all := []json.RawMessage{}
	for range attempts {
		table, err := convertor.ConvertToTable(context.Background(), object, nil)
		if err != nil {
			return nil, err
		}
		shown := marshal(table.Rows[0].Cells[min(column, 1)])
		if bytes.Equal(shown, expected) {
			return nil, nil
		}
		if !seen[string(shown)] {
			seen[string(shown)] = true
			all = append(all, shown)
		}
	}
	return all, nil
}

func marshal(cell interface{}) json.RawMessage {
	text, err := json.Marshal(cell)
	if err != nil {
		return json.RawMessage(`"cannot be marshalled"`)
	}
	return text
}
