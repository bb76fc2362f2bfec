package main

import (
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logLevel is the lowest level that is logged. It changes when the server stops.
type logLevel struct{ level atomic.Int32 }

func newLogLevel(name string) *logLevel {
	l := &logLevel{}
	level, err := zapcore.ParseLevel(name)
	if err != nil { // "never"; parseFlags lets nothing else through.
		level = zapcore.InvalidLevel
	}
	l.level.Store(int32(level))
	return l
}

// Enabled makes it a zapcore.LevelEnabler.
func (l *logLevel) Enabled(level zapcore.Level) bool { return level >= zapcore.Level(l.level.Load()) }

// quiet lets only a panic through: in an orderly stop the services lose each other one by one, and each complains.
func (l *logLevel) quiet() {
	l.level.Store(int32(max(zapcore.PanicLevel, zapcore.Level(l.level.Load()))))
}

// newLogger writes to standard error. Standard output is the caller's.
func newLogger(opts options, level *logLevel) log.Logger {
	format := "console"
	if opts.logFormat == "json" {
		format = "json"
	}
	logger := log.BuildZapLogger(log.Config{Level: "debug", Format: format})
	return log.NewZapLogger(logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return leveled{core, level}
	})))
}

// leveled is a core whose level is decided with each entry.
type leveled struct {
	zapcore.Core
	level *logLevel
}

func (c leveled) Enabled(level zapcore.Level) bool { return c.level.Enabled(level) }

func (c leveled) With(fields []zapcore.Field) zapcore.Core {
	return leveled{c.Core.With(fields), c.level}
}

func (c leveled) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return c.Core.Check(entry, checked)
}
