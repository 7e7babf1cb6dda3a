package main

import "testing"

// The service says once in a configuration which rules do nothing, and doubts what
// a new one says.
func TestServeDoubtsRules(t *testing.T) {
	path := writeConfig(t, policyConfig("http://127.0.0.1:1", "", "clients: {default: {tools: {deny: [calc__wiat]}}}\n"))
	s := start(t, path)
	want := `matches nothing that the MCP servers offer, so it does nothing; did you mean "calc__wait"?`
	if line := s.wait(t, "a rule over tools does nothing"); line["key"] != "clients.default.tools.deny[0]" || line["line"] != 4.0 || line["problem"] != want || line["level"] != "WARN" {
		t.Errorf("%v", line)
	}
	put(t, path, policyConfig("http://127.0.0.1:1", "", "clients: {defautl: {}}\n"))
	if line := s.wait(t, "the configuration is valid, and may not be what is meant"); line["key"] != "clients.defautl" || line["line"] != 4.0 {
		t.Errorf("%v", line)
	}
	if line := s.wait(t, "the new configuration is in force"); line == nil {
		t.Error("it is not in force")
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
