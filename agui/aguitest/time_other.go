//go:build !linux

package aguitest

import "time"

var start = time.Now()

// threadTime is the time that has passed: elsewhere there is no CPU time of a thread.
func threadTime() time.Duration { return time.Since(start) }
