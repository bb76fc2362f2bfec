#!/usr/bin/env node
// Runs streams through the stages of the protocol's own client, on behalf of a test. Standard input has one stream per
// line, standard output one answer per line, in the same order; both are JSON.
//
//   {"messages": [...], "state": ..., "frames": ["...", ...]}
//
// messages and state are what the client has before, frames the data of the events of a response. An answer has the
// position of the frame at which the client gives up (-1: it doesn't), why, and what it has then:
//
//   {"at", "error", "messages", "state", "interrupts", "pending", "outcome"}
//
// The stages are those that runAgent puts together, in its order: framing, compatibility, enforcement, chunks,
// verification, and then apply. With {"whole": true} the stream goes through runAgent itself.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// The client is installed in a folder beside this one.
const require = createRequire(new URL('../agui-client/package.json', import.meta.url));
const {
  AbstractAgent, CompatibilityBoundary, defaultApplyEvents, enforceEvents, transformChunks, transformHttpEventStream, verifyEvents,
} = require('@ag-ui/client');
const { Subject, asapScheduler, from, scheduled } = require('rxjs');

// The client prints a warning for whatever it skips, and standard output is for answers.
console.log = console.warn = console.error = () => {};
process.env.SUPPRESS_TRANSFORMATION_WARNINGS = '1';
// The client clones what it holds for every event. Through JSON, which it falls back to, that takes half the time.
globalThis.structuredClone = undefined;

const encoder = new TextEncoder();
const headers = { type: 'headers', status: 200, headers: new Headers({ 'content-type': 'text/event-stream' }) };

/** Feeds frames one by one, and returns the expanded events that came through, and where it ended. */
function receive(frames) {
  const source = new Subject();
  const events = [];
  let error;
  verifyEvents()(
    transformChunks()(
      enforceEvents()(new CompatibilityBoundary().run({ messages: [] }, { run: () => transformHttpEventStream(source) })),
    ),
  ).subscribe({
    next: (event) => events.push(event),
    error: (problem) => {
      error = problem ?? new Error('nothing');
    },
  });
  source.next(headers);
  for (const [at, frame] of frames.entries()) {
    source.next({ type: 'data', data: encoder.encode(`data: ${frame}\n\n`) });
    if (error !== undefined) return { at, error: String(error.message ?? error).slice(0, 300), events };
  }
  return { at: -1, events };
}

const outcomes = () => {
  const state = { outcome: 'none', pending: [] };
  const subscriber = {
    onRunStartedEvent: () => {
      state.outcome = 'none';
      state.pending = [];
    },
    onRunFinishedEvent: ({ outcome, pendingToolCallIds }) => {
      state.outcome = outcome;
      state.pending = pendingToolCallIds ?? [];
    },
    onRunErrorEvent: () => {
      state.outcome = 'error';
    },
  };
  return { state, subscriber };
};

async function applied(stream) {
  const { at, error, events } = receive(stream.frames);
  const agent = { messages: stream.messages, state: stream.state, pendingInterrupts: [] };
  const { state, subscriber } = outcomes();
  await new Promise((resolve, reject) => {
    defaultApplyEvents({ state: stream.state }, from(events), agent, [subscriber]).subscribe({
      next: (mutation) => {
        if (mutation.messages !== undefined) agent.messages = mutation.messages;
        if (mutation.state !== undefined) agent.state = mutation.state;
      },
      error: reject,
      complete: resolve,
    });
  });
  return { at, error, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts, ...state };
}

class Agent extends AbstractAgent {
  constructor({ frames, messages, state }) {
    super({ threadId: 't', initialMessages: messages, initialState: state });
    this.frames = frames;
  }

  run() {
    const parts = [headers, ...this.frames.map((frame) => ({ type: 'data', data: encoder.encode(`data: ${frame}\n\n`) }))];
    return transformHttpEventStream(scheduled(parts, asapScheduler));
  }
}

/** The same through the client as applications use it. It does not say where it gives up. */
async function whole(stream) {
  const agent = new Agent(stream);
  const { state, subscriber } = outcomes();
  let error;
  await agent.runAgent({ runId: 'r' }, subscriber).catch((problem) => {
    error = String(problem.message ?? problem).slice(0, 300);
  });
  return { at: error === undefined ? -1 : 0, error, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts, ...state };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const stream = JSON.parse(line);
  let answer;
  try {
    answer = await (stream.whole ? whole : applied)(stream);
  } catch (problem) {
    answer = { at: -2, error: String(problem.stack) };
  }
  // A patch can leave a value that holds itself.
  for (const part of ['messages', 'state']) {
    try {
      JSON.stringify(answer[part]);
    } catch {
      answer[part] = 'endless';
    }
  }
  const text = JSON.stringify(answer);
  process.stdout.write(`${text}\n`);
}
