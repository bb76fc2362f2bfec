#!/usr/bin/env node
// Writes and reads events with the protocol's own protobuf form, on behalf of a test. Standard input has one request per
// line, standard output one answer per line; both are JSON, bytes are in hexadecimal.
//
//   {"event": {...}, "message": "…"}     an event, and the bytes that it is for agui
//   {"encoded": "…", "own": {...}, "decoded": {...}}
//
// encoded is the frame that the event is here, own the event that this frame is read as, decoded the one that the other
// message is read as. A failure is {"error"}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(new URL('../agui-client/package.json', import.meta.url));
const { AGUI_MEDIA_TYPE, decode } = require('@ag-ui/proto');
const { EventEncoder } = require('@ag-ui/encoder');

console.log = console.warn = console.error = () => {};

const encoder = new EventEncoder({ accept: AGUI_MEDIA_TYPE });

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { event, message } = JSON.parse(line);
  let answer;
  try {
    const frame = Buffer.from(encoder.encodeBinary(event));
    answer = {
      encoded: frame.toString('hex'),
      own: decode(new Uint8Array(frame.subarray(4))),
      decoded: decode(new Uint8Array(Buffer.from(message, 'hex'))),
    };
  } catch (problem) {
    answer = { error: String(problem.stack) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
