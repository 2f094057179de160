// A server made with version 2 of the SDK that refuses every client older than 2026-07-28: over
// standard input and output, or with the argument "http", printing its URL.

import { createServer } from "node:http";
import { McpServer, createMcpHandler, fromJsonSchema } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const inputSchema = fromJsonSchema({ type: "object", required: ["a", "b"], properties: {
  a: { type: "integer", "x-mcp-header": "First" }, b: { type: "integer" } } });

function factory() {
  const server = new McpServer({ name: "modern", version: "1" });
  server.registerTool("add", { description: "adds", inputSchema }, async ({ a, b }) =>
    ({ content: [{ type: "text", text: String(a + b) }] }));
  return server;
}

async function answer(handler, req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const response = await handler.fetch(new Request("http://" + req.headers.host + req.url, {
    method: req.method, headers: req.headers,
    body: chunks.length ? Buffer.concat(chunks) : undefined }));
  res.writeHead(response.status, Object.fromEntries(response.headers));
  for await (const chunk of response.body ?? []) res.write(chunk);
  res.end();
}

if (process.argv[2] === "http") {
  const handler = createMcpHandler(factory, { legacy: "reject" });
  createServer((req, res) => answer(handler, req, res)).listen(0, "127.0.0.1", function () {
    console.log(`http://127.0.0.1:${this.address().port}/mcp`);
  });
} else {
  serveStdio(factory, { legacy: "reject" });
}
