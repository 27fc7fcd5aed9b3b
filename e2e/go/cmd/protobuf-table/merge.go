package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
)

// merged is a table of several minor versions: which of them have a line.
type merged struct {
	all      []int
	kinds    map[string][]int
	messages map[string]*mergedMessage
}

type mergedMessage struct {
	minors []int
	fields map[string][]int
}

func merge(arguments []string, out io.Writer) error {
	tables := merged{kinds: map[string][]int{}, messages: map[string]*mergedMessage{}}
	for _, argument := range arguments {
		minor, path, found := strings.Cut(argument, "=")
		number, err := strconv.Atoi(minor)
		if err != nil || !found {
			return fmt.Errorf("%q: write MINOR=FILE", argument)
		}
		tables.all = append(tables.all, number)
		if err := tables.read(number, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	sort.Ints(tables.all)
	fmt.Fprintf(out, "minors %s\n", ranges(tables.all))
	for _, kind := range sorted(tables.kinds) {
		fmt.Fprintln(out, kind+tables.suffix(tables.kinds[kind], tables.all))
	}
	for _, name := range sorted(tables.messages) {
		message := tables.messages[name]
		fmt.Fprintln(out, name+tables.suffix(message.minors, tables.all))
		lines := sorted(message.fields)
		sort.SliceStable(lines, func(left, right int) bool { return fieldNumber(lines[left]) < fieldNumber(lines[right]) })
		for _, line := range lines {
			fmt.Fprintln(out, line+tables.suffix(message.fields[line], message.minors))
		}
	}
	return nil
}

func (m *merged) read(minor int, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	message := ""
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "kind "):
			m.kinds[line] = append(m.kinds[line], minor)
		case strings.HasPrefix(line, "message "):
			message = line
			if m.messages[message] == nil {
				m.messages[message] = &mergedMessage{fields: map[string][]int{}}
			}
			m.messages[message].minors = append(m.messages[message].minors, minor)
		case message == "":
			return fmt.Errorf("%q stands before any message", line)
		default:
			fields := m.messages[message].fields
			fields[line] = append(fields[line], minor)
		}
	}
	return scanner.Err()
}

func fieldNumber(line string) int {
	text, _, _ := strings.Cut(line, " ")
	number, _ := strconv.Atoi(text)
	return number
}

// suffix names the minor versions, unless they are all those that what is around has.
func (m *merged) suffix(minors, around []int) string {
	if len(minors) == len(around) {
		return ""
	}
	return " @" + ranges(minors)
}

func ranges(minors []int) string {
	sort.Ints(minors)
	texts := []string{}
	for start := 0; start < len(minors); {
		end := start
		for end+1 < len(minors) && minors[end+1] == minors[end]+1 {
			end++
		}
		text := strconv.Itoa(minors[start])
		if end > start {
			text += "-" + strconv.Itoa(minors[end])
		}
		texts = append(texts, text)
		start = end + 1
	}
	return strings.Join(texts, ",")
}
