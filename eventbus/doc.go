// Package eventbus is the log of what clients were shown: the AG-UI events of every run, in one order for all who read
// them. It lies in one NATS JetStream stream. Activities append to it, gateways read it, and nothing else of Holdfast
// speaks to NATS.
//
//	bus, err := eventbus.Open(ctx, nc, eventbus.Options{})
//
//	lane, err := bus.OpenLane(ctx, eventbus.LaneConfig{Run: run, Lane: eventbus.MainLane, …})
//	err = lane.Append(ctx, &agui.TextMessageContent{MessageID: "m1", Delta: "Hello"})
//	err = lane.Close(ctx) // everything is in the log
//
//	r := bus.Follow(run, 0)
//	defer r.Close()
//	for {
//		entry, err := r.Next(ctx) // history, then live; io.EOF behind the terminal event
//		…
//	}
//
// The log is for showing, not for deciding: what a run needs in order to go on is in Temporal. Losing the log loses
// replay, never a run.
//
// # Entries, lanes, generations
//
// An entry is one message of the stream. It holds some events, one JSON line each, byte for byte as they were encoded; an
// entry without events opens or seals a lane. Its headers say who wrote it.
//
// A lane is the part of a run's log that one writer at a time may append to. Most runs have only their [MainLane]. While
// tools or subagents work in parallel there are further ones, and every entry written meanwhile, on the main lane too,
// must be marked with LaneConfig.Fanout, from a marked entry of the main lane before the first of a further lane on.
//
// Writers come and go: activities are tried again, workers die, workflows continue as new. The [Generation] of a writer
// orders all writers of a lane, and is known before the writer starts.
//
// # Order
//
// Events of a lane are in the order of the calls that appended them. Entries of a run, over all its lanes, are in the
// order of their stream sequences, and that is the order in which every reader gets them, whenever it comes, however often
// it reconnects, and through whatever gateway. There is no order between runs.
//
// An event has an [EventID], its SSE id. A reader that comes back with one (see [Bus.Resolve]) gets exactly the events
// behind it.
//
// # Fencing
//
// A process that was given up may still run: frozen, cut off, or only slow. Nothing can be done to it, so the log keeps it
// out. Every append names the lane's last entry, and the stream takes it only if that is still the last. A refusal or a
// time-out says nothing by itself; the last entry, read from the stream's leader, decides:
//
//   - the writer's own: the answer was lost, go on;
//   - of a higher generation: [ErrFenced], stop for good;
//   - of a lower generation: take over behind it, but only with a first append;
//   - none but what was there before: try again.
//
// So a writer whose successor has opened the lane appends nothing more, even if it was stopped before it had read
// anything and wakes when its successor has ended. A retry (Attempt above 1), and a writer with LaneConfig.Claim, put
// their entry there before [Bus.OpenLane] returns; [Lane.Seal] does it for a lane that gets no further writer.
//
// The first entry of a run makes its execution the owner: another execution gets [ErrNotOwner]. A terminal event closes
// the run: whoever comes later gets [ErrClosed].
//
// # What a writer may rely on
//
//   - What [Lane.Flush] or [Lane.Close] confirmed is in the log, once. What was appended and not confirmed is there or not,
//     but never without what was appended before it, and never twice.
//   - An outbox event has an ordinal and is appended once, however many writers carry it ([Lane.AppendOutbox]).
//   - [Lane.Previous] tells what the last writer left open, so that it can be closed.
//   - Append doesn't wait for the log. While one publish is in flight events gather and leave together; nothing is timed.
//   - While NATS is away events wait, up to a limit above which Append blocks. [ErrLaneLost] means that the log came back
//     without entries that had been confirmed. They are restated first ([Bus.Heal]); then the lane can be opened again.
//   - Events up to [MaxEvent] are taken whole, whatever the payload limit of the server is. Larger ones are a
//     [TooLargeError] and change nothing.
//
// # What a reader may rely on
//
//   - It gets every entry once and in order, or an error. [ErrGone] says that entries it should have got were deleted, or
//     that the stream is another one; it is never answered by going on behind a gap.
//   - It is told the end: io.EOF behind the terminal event, at once if the run is over. A run that nobody ends doesn't end
//     by itself; see [Bus.CloseRun].
//   - While NATS is away it waits.
//   - It may be slow: it costs nobody else anything but its own reads.
//
// A reader may not assume that entries correspond to appends, turns or writers: how events share entries depended on the
// timing when they were written. Nor are the sequences of a run adjacent: other runs lie between.
//
// Readers use no JetStream consumers, which cost the server far more than they give here. The stream republishes each
// entry; a process holds one core subscription for each run that it follows, for all readers of it. A live entry that
// names the last one as its predecessor is passed on. Any other, and any in a fan-out, is a doorbell: the log is read, and
// says what comes next. Live entries may be lost, so the log is looked into after a reconnect and from time to time, too.
//
// # What must not be done to the stream
//
// No limit on bytes, messages or messages per subject may delete entries, and no age limit may be below the longest run;
// [Open] refuses what it can see. Only closed runs may be purged: a purge of an open one takes the fence away.
//
// The subject of a run's entries is "holdfast.log", the tokens of tenant, thread and run (package subject) and the lane.
// They are republished under "holdfast.live", so that this shows what happens on a thread:
//
//	nats sub 'holdfast.live.default.<thread>.>'
//
// # Agents
//
// Workers say which agents they serve with [Bus.Announce]; gateways know them from a [Directory]. Announcements expire, so
// that a dead worker's agents are not served any more.
package eventbus
