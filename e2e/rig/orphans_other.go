//go:build !linux

package rig

// AdoptOrphans does nothing: only Linux can hand orphans to an ancestor of choice.
func AdoptOrphans() error { return nil }

// Orphans finds nothing where AdoptOrphans does nothing.
func Orphans() []string { return nil }
