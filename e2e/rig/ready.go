package rig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// FreePorts returns n TCP addresses on 127.0.0.1 that nobody listens on now.
func FreePorts(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // held until all are chosen, so that all differ
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// WaitReady polls url until it answers 200, the process ends or ctx ends.
func WaitReady(ctx context.Context, p *Process, url string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok(ctx, url) {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended with code %d before it was ready; it printed:\n%s", p.Name, p.ExitCode(), p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; it printed:\n%s", p.Name, ctx.Err(), p.Log())
		case <-tick.C:
		}
	}
}

func ok(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
