package e2e

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
)

// pick returns the value at a path of member names and array indexes.
func pick(t *testing.T, data []byte, path ...string) []byte {
	t.Helper()
	for _, step := range path {
		data = child(t, data, step)
	}
	return data
}

func child(t *testing.T, data []byte, step string) []byte {
	t.Helper()
	var list []json.RawMessage
	if i, err := strconv.Atoi(step); err == nil && json.Unmarshal(data, &list) == nil && i < len(list) {
		return list[i]
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) == nil && object[step] != nil {
		return object[step]
	}
	t.Fatalf("no %q in %s", step, data)
	return nil
}

// wantJSON compares values, not their spelling.
func wantJSON(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Errorf("%s is not JSON: %v: %s", what, err, got)
		return
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("the test's own JSON: %v", err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}
