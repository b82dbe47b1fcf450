// Perfetto's trace processor, compiled to WebAssembly, as a session: its RPC on a Unix socket.
//
//     node serve.cjs FOLDER SOCKET     FOLDER has trace_processor.wasm and engine_bundle.node.js
//
// Prints a line when it listens, and ends with its standard input.
"use strict";
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const vm = require("node:vm");

const [folder, socket] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(folder, name));

// The bundle is made for a worker of a browser: here it is given its module, and leaves its bridge.
const edits = [
  ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: self.wasmBinary,"],
  ["print: (line) => console.log(line)", "print: (line) => console.error(line)"],
  ["const wasmBridge = new", "const wasmBridge = self.bridge = new"],
];
let bundle = read("engine_bundle.node.js").toString();
for (const [from, to] of edits) {
  if (!bundle.includes(from)) throw new Error(`engine_bundle.node.js has no ${from}`);
  bundle = bundle.replace(from, to);
}
Object.assign(globalThis, {
  self: globalThis,
  wasmBinary: new Uint8Array(read("trace_processor.wasm")),
  WorkerGlobalScope: function WorkerGlobalScope() {},
  location: { href: "file:///" },
});
vm.runInThisContext(bundle, { filename: "engine_bundle.node.js" });

let client = null;
const { bridge } = globalThis;
bridge.initialize({ postMessage: (bytes) => client.write(bytes) });
const server = net.createServer((connection) => {
  client = connection;
  connection.on("data", (bytes) => bridge.onMessage({ data: new Uint8Array(bytes) }));
  connection.on("error", (error) => console.error(error));
});
const untilReady = setInterval(() => {
  if (!bridge.reqBufferAddr) return; // the module is still being compiled
  clearInterval(untilReady);
  server.listen(socket, () => console.log("listening"));
}, 5);
process.stdin.resume().on("end", () => process.exit(0));
