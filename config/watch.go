package config

import (
	"context"
	"maps"
	"os"
	"time"
)

// Watcher follows a configuration file and the files expanded into it. It polls
// their content, because that also works where a mount swaps symbolic links (a
// Kubernetes ConfigMap or Secret) or offers no notifications.
type Watcher struct {
	Path string
	// Interval between looks. A change counts once two looks agree, so that a
	// file half written is never loaded. Default 500ms: a change is in force well
	// within 2 s.
	Interval time.Duration
	// Changed gets every new valid snapshot. Runs in Run's goroutine.
	Changed func(*Config)
	// Refused gets the error of every new invalid content, once each.
	Refused func(error)
}

// Run watches until ctx ends; current is the snapshot in force.
func (w *Watcher) Run(ctx context.Context, current *Config) {
	interval := w.Interval
	if interval <= 0 {
		interval = 500 * time.Millisecond
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	inForce, loaded := current.Fingerprint(), current.files
	previous := loaded
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		seen := reread(loaded)
		settled := maps.Equal(seen, previous)
		previous = seen
		if !settled || maps.Equal(seen, loaded) {
			continue
		}
		next, files, err := load(w.Path)
		loaded, previous = files, files
		switch {
		case err != nil:
			w.Refused(err)
		case next.Fingerprint() != inForce:
			inForce = next.Fingerprint()
			w.Changed(next)
		}
	}
}

// reread gives the present content of the files; unreadable is empty.
func reread(files map[string]string) map[string]string {
	now := make(map[string]string, len(files))
	for path := range files {
		content, _ := os.ReadFile(path)
		now[path] = string(content)
	}
	return now
}
