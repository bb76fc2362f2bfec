#!/usr/bin/env node
// Drives the protocol's own client on behalf of a test. Standard input has one request per line, standard output one
// answer per line, in the order in which the requests end; both are JSON. Requests run at the same time.
//
//   {"id": 1, "url": "http://…/agents/x", "input": {RunAgentInput}}   runs it against a live endpoint with HttpAgent
//   {"id": 2, "events": [{…}, …], "input": {RunAgentInput}}           folds a recorded stream instead
//
// With {"binary": true} the first asks for protobuf. With {"session": "name"} the agent stays, as in an application: its next
// request goes on with the messages, the state and the open interrupts that it has, and {"say": {message}} adds to them.
//
// An answer has what an application would hold at the end:
//
//   {"id", "events", "messages", "state", "outcome", "pendingToolCallIds", "interrupts", "error": {message, code},
//    "failure": {message, status, body}}
//
// outcome is success, interrupt, cancelled, error, or none when the stream had no terminal event. failure is there when
// the client gave up: the request was refused, the connection broke, or the stream broke a rule of the protocol.
import { createInterface } from 'node:readline';
import { AbstractAgent, HttpAgent } from '@ag-ui/client';
import { from, tap } from 'rxjs';

// The client prints every rejected stream; standard output is for answers.
console.log = console.warn = console.error = (...parts) => process.stderr.write(`${parts.join(' ')}\n`);
// A connection that breaks leaves a rejected promise behind, beside the error that is reported.
process.on('unhandledRejection', () => {});

/** Keeps what was received, as the client parsed it. */
const recording = (Agent) =>
  class extends Agent {
    received = [];

    run(input) {
      return super.run(input).pipe(
        tap((event) => {
          // The client makes up an event of its own when a request fails.
          if (!(event.rawEvent instanceof Error)) this.received.push(event);
        }),
      );
    }
  };

class ReplayAgent extends AbstractAgent {
  constructor({ events, ...config }) {
    super(config);
    this.recorded = events;
  }

  run() {
    return from(this.recorded);
  }
}

/** Asks for protobuf, which HttpAgent by itself never does. */
class BinaryAgent extends HttpAgent {
  requestInit(input) {
    const init = super.requestInit(input);
    return { ...init, headers: { ...init.headers, Accept: 'application/vnd.ag-ui.event+proto' } };
  }
}

const Live = recording(HttpAgent);
const Binary = recording(BinaryAgent);
const Replay = recording(ReplayAgent);

const sessions = new Map();

function agentFor({ url, session, binary, events, input }) {
  const config = { threadId: input.threadId, initialMessages: input.messages ?? [], initialState: input.state ?? {} };
  if (url === undefined) return new Replay({ ...config, events });
  const agent = sessions.get(session) ?? new (binary ? Binary : Live)({ ...config, url });
  if (session !== undefined) sessions.set(session, agent);
  agent.url = url; // it may have moved to another gateway
  agent.received = [];
  return agent;
}

async function drive(request) {
  const { input, say } = request;
  const agent = agentFor(request);
  if (say !== undefined) agent.addMessage(say);
  const answer = { outcome: 'none', pendingToolCallIds: [] };
  const { runId, tools, context, forwardedProps, resume } = input;
  try {
    await agent.runAgent(
      { runId, tools, context, forwardedProps, resume },
      {
        onRunFinishedEvent: ({ outcome, pendingToolCallIds }) => {
          answer.outcome = outcome;
          answer.pendingToolCallIds = pendingToolCallIds ?? [];
        },
        onRunErrorEvent: ({ event }) => {
          answer.outcome = 'error';
          answer.error = { message: event.message, code: event.code };
        },
      },
    );
  } catch (error) {
    answer.failure = { message: error.message, status: error.status, body: error.payload };
  }
  return { ...answer, events: agent.received, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...request } = JSON.parse(line);
  drive(request)
    .catch((error) => ({ failure: { message: `drive: ${error.stack}` } }))
    .then((answer) => process.stdout.write(`${JSON.stringify({ id, ...answer })}\n`));
}
