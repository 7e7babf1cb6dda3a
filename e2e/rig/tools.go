package rig

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Tools finds what e2e/tools.sh has installed.
type Tools struct {
	root     string
	versions map[string]string
}

// FindTools looks for the repository's root from the working directory upwards and reads e2e/versions.env there.
func FindTools() (*Tools, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for ; ; dir = filepath.Dir(dir) {
		versions, err := readVersions(filepath.Join(dir, "e2e", "versions.env"))
		if err == nil {
			return &Tools{root: dir, versions: versions}, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("e2e/versions.env is in no folder above the working directory: run this inside the repository")
		}
	}
}

func readVersions(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	versions := map[string]string{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		name, value, found := strings.Cut(scanner.Text(), "=")
		if found && !strings.HasPrefix(name, "#") {
			versions[name] = strings.Trim(value, `"`)
		}
	}
	return versions, scanner.Err()
}

// Root is the repository's root folder.
func (t *Tools) Root() string { return t.root }

// DefaultEnvoy is the version that the demo and most tests use.
func (t *Tools) DefaultEnvoy() string { return t.versions["ENVOY_VERSION"] }

// OlderEnvoys are the other versions that the tests run.
func (t *Tools) OlderEnvoys() []string { return strings.Fields(t.versions["ENVOY_OLDER"]) }

// Envoy is the path of an Envoy binary.
func (t *Tools) Envoy(version string) string {
	return filepath.Join(t.root, ".tools", "envoy", version, "bin", "envoy")
}

// Python is the interpreter of the environment with the official Python SDK.
func (t *Tools) Python() string { return filepath.Join(t.root, ".tools", "py", "bin", "python") }

// NodeModules is the folder with the MCP servers and the official Node SDK.
func (t *Tools) NodeModules() string {
	return filepath.Join(t.root, ".tools", "node", "node_modules")
}

// Reference is the command of one of the reference servers: memory, sequential-thinking, time, git or sqlite.
func (t *Tools) Reference(name string, arguments ...string) []string {
	dir := filepath.Join(t.root, ".tools", "reference")
	command := []string{filepath.Join(dir, "py", "bin", "mcp-server-"+name)}
	switch name {
	case "memory", "sequential-thinking":
		command = []string{"node", filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")}
	case "sqlite":
		command = []string{filepath.Join(dir, "py1", "bin", "mcp-server-sqlite")}
	}
	return append(command, arguments...)
}

// NodeServer is the command of one of the npm MCP servers: filesystem or everything.
func (t *Tools) NodeServer(name string, arguments ...string) []string {
	script := filepath.Join(t.NodeModules(), "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	return append([]string{"node", script}, arguments...)
}

// Browser is a headless Chromium, and the folder with the modules that drive it.
func (t *Tools) Browser() (chromium, modules string) {
	dir := filepath.Join(t.root, ".tools", "browser")
	return filepath.Join(dir, "chromium"), filepath.Join(dir, "node_modules")
}

// Conformance is the MCP conformance suite: the Node.js that runs it, and its folder.
func (t *Tools) Conformance() (node, suite string) {
	dir := filepath.Join(t.root, ".tools", "conformance")
	return filepath.Join(dir, "node"), filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance")
}

// Part is the path of one of the programs of the tests of telemetry: collector, jaeger, prometheus or promtool.
func (t *Tools) Part(name string) string {
	return filepath.Join(t.root, ".tools", "telemetry", "bin", name)
}
