//go:build !linux

package baton

import "time"

// now returns the time since the process started, which may stop during a suspend.
func now() time.Duration { return monotonic() }
