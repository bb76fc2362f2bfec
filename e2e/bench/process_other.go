//go:build !linux

package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"
)

// The program compiles everywhere and says at its start where it runs.

var errLinux = errors.New("only measured on Linux")

func attributes() *syscall.SysProcAttr { return nil }

func cpuTime(int) (time.Duration, error) { return 0, errLinux }

func residentSize(int) (int64, error) { return 0, errLinux }

func processor() string { return runtime.GOARCH }

func kernel() string { return runtime.GOOS }

func busy() string { return "unknown" }
