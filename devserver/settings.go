package main

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// retention is how long finished workflows are kept. The server's own default of a day would make a developer's
// runs vanish over a weekend.
const retention = 30 * 24 * time.Hour

// shards is the number of history shards. It is fixed for the life of a database file. With four, throughput is
// a tenth to a quarter above that with one.
const shards = 4

// settings is the server's dynamic configuration: what pays on one machine, overridden by what the caller gave.
func settings(given map[string]any) dynamicconfig.StaticClient {
	values := dynamicconfig.StaticClient{
		// Queues are polled at most 20 times a second by default, which delays every first activity by up to 50 ms.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   1000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      1000,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 1000,

		// One process serves all partitions, so more than one only means more polling.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// The history notifier drops what a waiting client should hear when two changes follow each other closely;
		// the client then hears of the end of its workflow only when its long poll expires (20 s by default).
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 2 * time.Second,

		// Push the cancellation of an activity to its worker: 20 to 30 ms, not the next heartbeat.
		dynamicconfig.WorkerCommandsEnabled.Key():             true,
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,

		// A worker that leaves ends its polls first. Otherwise one in six takes a last task with it, and the run waits
		// for the task's time-out.
		dynamicconfig.EnableCancelWorkerPollsOnShutdown.Key(): true,

		// Both are this version's defaults. They are named because latency stands on them.
		dynamicconfig.EnableActivityEagerExecution.Key(): true,
		dynamicconfig.EnableEagerWorkflowStart.Key():     true,

		// A new search attribute is usable at once, not when a cache expires.
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,

		// As the official development server has them: a smaller cache, more queries.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                 8096,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
	for key, value := range given {
		values[dynamicconfig.MakeKey(key)] = value
	}
	return values
}
