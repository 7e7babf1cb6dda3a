package e2e

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// testRoute is a route that a test adds before the ones of the bootstrap: requests with the header
// "x-test-route: NAME" take it.
type testRoute struct {
	name   string
	filter bool   // the filter is on
	client string // what the route says in x-mcp-client; empty: nothing
}

// withRoutes adds routes to the main listener.
func withRoutes(added ...testRoute) func(map[string]any) error {
	return func(bootstrap map[string]any) error {
		manager, err := mainManager(bootstrap)
		if err != nil {
			return err
		}
		hosts, err := at[[]any](manager, "route_config", "virtual_hosts")
		if err != nil {
			return err
		}
		host, ok := hosts[0].(map[string]any)
		if !ok {
			return errors.New("the first virtual host is no object")
		}
		old, err := at[[]any](host, "routes")
		if err != nil {
			return err
		}
		var all []any
		for _, route := range added {
			copied, err := route.from(old)
			if err != nil {
				return err
			}
			all = append(all, copied)
		}
		host["routes"] = append(all, old...)
		return nil
	}
}

// from makes the route out of the bootstrap's own first one with the filter on.
func (r testRoute) from(routes []any) (map[string]any, error) {
	for _, candidate := range routes {
		route, err := clone(candidate)
		if err != nil {
			return nil, err
		}
		filters, _ := route["typed_per_filter_config"].(map[string]any) // absent: nil
		for name := range filters {
			route["name"] = r.name
			route["match"] = map[string]any{"prefix": "/", "headers": []any{
				map[string]any{"name": "x-test-route", "string_match": map[string]any{"exact": r.name}},
			}}
			overrides := map[string]any{}
			if r.client != "" {
				overrides["grpc_initial_metadata"] = []any{map[string]any{"key": "x-mcp-client", "value": r.client}}
			}
			filters[name] = map[string]any{
				"@type":     "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
				"overrides": overrides,
			}
			if !r.filter {
				delete(route, "typed_per_filter_config")
			}
			return route, nil
		}
	}
	return nil, errors.New("no route of the bootstrap turns the filter on")
}

// mainManager finds the HTTP connection manager of the listener "main".
func mainManager(bootstrap map[string]any) (map[string]any, error) {
	listeners, err := at[[]any](bootstrap, "static_resources", "listeners")
	if err != nil {
		return nil, err
	}
	for _, listener := range listeners {
		object, ok := listener.(map[string]any)
		if !ok || object["name"] != "main" {
			continue
		}
		chains, err := at[[]any](object, "filter_chains")
		if err != nil {
			return nil, err
		}
		filters, err := at[[]any](chains[0], "filters")
		if err != nil {
			return nil, err
		}
		return at[map[string]any](filters[0], "typed_config")
	}
	return nil, errors.New("the bootstrap has no listener main")
}

// at returns the member at a path, or an error that names what is missing.
func at[T any](value any, path ...string) (T, error) {
	for _, name := range path {
		object, _ := value.(map[string]any) // anything else has no members
		value = object[name]
	}
	found, ok := value.(T)
	if !ok {
		return found, fmt.Errorf("the bootstrap has no %v of the wanted kind", path)
	}
	return found, nil
}

func clone(value any) (map[string]any, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return nil, err
	}
	var copied map[string]any
	return copied, yaml.Unmarshal(data, &copied)
}
