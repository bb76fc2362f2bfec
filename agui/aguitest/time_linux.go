package aguitest

import (
	"syscall"
	"time"
)

// threadTime is the CPU time of the calling thread. It stands still while others have the processor.
func threadTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err) // it is this process's own
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
