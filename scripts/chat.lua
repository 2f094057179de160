--- One question, one streamed answer.
---
---     ponder run scripts/chat.lua --model openai:gpt-6-luna "Why is the sky blue?"

local args = require "ponder.args"
local model = require "ponder.model"

local opts, operands = args.script("chat", { ... }, {
    model = { value = "NAME", help = "such as openai:gpt-6-luna; default: $PONDER_MODEL" },
}, { usage = "chat [--model NAME] QUESTION", about = "Streams the answer to a question.",
    operands = 2 }) -- a model may also come before the question
local question = table.remove(operands)

local function fail(message, status)
    io.stderr:write("chat: ", message, "\n")
    os.exit(status or 1)
end

if not question then
    fail("expected a model and a question: chat [--model NAME] QUESTION", 2)
end
local m, problem = model.try_open(opts.model or operands[1])
if not m then fail(problem) end

local reply, message, code = m:chat {
    messages = { { role = "user", content = question } },
    on_delta = function(text, kind)
        if kind == "text" then
            io.write(text)
            io.flush()
        end
    end,
}
if not reply then fail(("%s [%s]"):format(message, code)) end
local usage = reply.usage or {}
io.stderr:write(("\n%s + %s tokens, %.1f s, first word after %.1f s\n"):format(
    usage.input_tokens or "?", usage.output_tokens or "?", reply.latency_ms / 1000,
    (reply.time_to_first_ms or 0) / 1000))
