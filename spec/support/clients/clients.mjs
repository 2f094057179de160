// The clients that people have, against `ponder serve` and `ponder mcp`: one line of JSON for each
// thing that is tried, [name, result] or [name, "failed", error, status, code].
//
//     node clients.mjs http://127.0.0.1:PORT PONDER POLICIES.lua

import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, streamText } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as v2 from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioV2 } from "@modelcontextprotocol/client/stdio";

const [base, ponder, policies] = process.argv.slice(2);
const messages = [{ role: "user", content: "hi" }];

async function attempt(name, run) {
  let line;
  try {
    line = [name, await run()];
  } catch (e) {
    line = [name, "failed", e.constructor.name, e.status ?? null, e.code ?? null];
  }
  console.log(JSON.stringify(line));
}

async function joined(stream, text) {
  let all = "";
  for await (const piece of stream) all += text(piece) ?? "";
  return all;
}

const openai = new OpenAI({ apiKey: "any", baseURL: base + "/v1" });
const chat = (model, more) => openai.chat.completions.create({ model, messages, ...more });
await attempt("openai models", async () => (await openai.models.list()).data.map((m) => m.id));
await attempt("openai model", async () => (await openai.models.retrieve("echo")).id);
await attempt("openai chat", async () => (await chat("echo")).choices[0].message.content);
await attempt("openai stream", async () =>
  joined(await chat("echo", { stream: true }), (c) => c.choices[0]?.delta?.content));
await attempt("openai responses", async () =>
  (await openai.responses.create({ model: "echo", input: "hi" })).output_text);
await attempt("openai responses stream", async () =>
  (await openai.responses.stream({ model: "echo", input: "hi" }).finalResponse()).output_text);
await attempt("openai responses, next turn", async () => {
  const first = await openai.responses.create({ model: "turns", input: "one" });
  const kept = await openai.responses.retrieve(first.id);
  const second = await openai.responses.create({ model: "turns", input: "two",
    previous_response_id: first.id, include: ["reasoning.encrypted_content"] });
  return [kept.output_text ?? kept.output[0].content[0].text, second.output_text];
});
await attempt("openai failed policy", () => chat("fail"));
await attempt("openai unknown model", () => chat("nosuch"));

const anthropic = new Anthropic({ apiKey: "any", baseURL: base });
const ask = { model: "echo", max_tokens: 10, messages };
await attempt("anthropic", async () => (await anthropic.messages.create(ask)).content[1].text);
await attempt("anthropic stream", async () =>
  (await anthropic.messages.stream(ask).finalMessage()).content.map((c) => c.thinking ?? c.text));

const compatible = createOpenAICompatible({ name: "ponder", baseURL: base + "/v1" });
await attempt("ai sdk", async () => {
  const { text, reasoningText } = await generateText({ model: compatible("echo"), prompt: "hi" });
  return [reasoningText, text];
});
await attempt("ai sdk stream", async () => {
  const result = streamText({ model: compatible("echo"), prompt: "hi" });
  return [await result.reasoningText, await joined(result.textStream, (t) => t)];
});

// Its default provider names earlier answers by their ids (item_reference).
const standard = createOpenAI({ apiKey: "any", baseURL: base + "/v1" });
async function twoTurns(ask) {
  const turns = [{ role: "user", content: "one" }];
  const first = await ask({ model: standard("turns"), messages: turns });
  turns.push(...first.messages, { role: "user", content: "two" });
  return [first.text, (await ask({ model: standard("turns"), messages: turns })).text];
}
await attempt("ai sdk, next turn", () => twoTurns(async (options) => {
  const { text, response } = await generateText(options);
  return { text, messages: response.messages };
}));
await attempt("ai sdk stream, next turn", () => twoTurns(async (options) => {
  const result = streamText(options);
  const text = await joined(result.textStream, (t) => t);
  return { text, messages: (await result.response).messages };
}));

const langchain = new ChatOpenAI({
  model: "echo", apiKey: "any", configuration: { baseURL: base + "/v1" } });
await attempt("langchain", async () => (await langchain.invoke("hi")).content);
await attempt("langchain stream", async () =>
  joined(await langchain.stream("hi"), (c) => c.content));

async function tools(transport) {
  const client = new Client({ name: "spec", version: "1" });
  await client.connect(transport);
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  const sum = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } });
  await client.ping();
  await client.close();
  return [names, sum.structuredContent];
}
await attempt("mcp over stdio", () => tools(new StdioClientTransport({
  command: ponder, args: ["mcp", policies], stderr: "ignore" })));
await attempt("mcp over http", () => tools(new StreamableHTTPClientTransport(
  new URL(base + "/mcp"))));

// Version 2 of the SDK: what it agrees upon by default, where it may choose, and where it must not.
async function versions(transport) {
  const found = [];
  for (const mode of ["legacy", "auto", { pin: "2026-07-28" }]) {
    const client = new v2.Client({ name: "spec", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(transport());
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    const sum = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } });
    const prompt = await client.getPrompt({ name: "cot.generate", arguments: { prompt: "hi" } });
    found.push([client.getNegotiatedProtocolVersion(), [names, sum.structuredContent],
      prompt.messages.map((message) => message.role)]);
    await client.close();
  }
  return found;
}
await attempt("mcp v2 over stdio", () => versions(() => new StdioV2({
  command: ponder, args: ["mcp", policies], stderr: "ignore" })));
await attempt("mcp v2 over http", () => versions(() => new v2.StreamableHTTPClientTransport(
  new URL(base + "/mcp"))));
