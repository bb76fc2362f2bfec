#!/usr/bin/env node
// Runs one program of Node many times in one process, which would otherwise spend nearly all of its time on loading what
// it imports. It is for command line programs that are done when their module is, or when they exit.
//
//   judge.mjs PROGRAM.mjs
//
// Standard input has one request per line, {"id": 1, "args": ["file", "--strict"]}; standard output has one answer per
// line, {"id": 1, "status": 0, "output": "…"}, in the order of the requests.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { format } from 'node:util';

const program = pathToFileURL(process.argv[2]).href;

class Exit {
  constructor(status) {
    this.status = status;
  }
}
process.exit = (status = 0) => {
  throw new Exit(status);
};

let output;
const say = (...parts) => {
  output += `${format(...parts)}\n`;
};
Object.assign(console, { log: say, warn: say, error: say });

for await (const line of createInterface({ input: process.stdin })) {
  const { id, args } = JSON.parse(line);
  output = '';
  let status = 0;
  process.argv = [process.argv[0], process.argv[1], ...args];
  try {
    await import(`${program}?${id}`); // a query makes it another module, which is run again
  } catch (error) {
    if (!(error instanceof Exit)) say(error);
    status = error instanceof Exit ? error.status : 70;
  }
  process.stdout.write(`${JSON.stringify({ id, status, output })}\n`);
}
