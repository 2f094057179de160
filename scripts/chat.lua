--- One question, one streamed answer.
---
---     ponder run scripts/chat.lua openai:gpt-4o-mini "Why is the sky blue?"

local model = require "ponder.model"

local name, question = ...
if not question then
    io.stderr:write("chat: expected a model and a question: chat.lua MODEL QUESTION\n")
    os.exit(2)
end

local reply, message, code = model.open(name):chat {
    messages = { { role = "user", content = question } },
    on_delta = function(text, kind)
        if kind == "text" then
            io.write(text)
            io.flush()
        end
    end,
}
if not reply then
    io.stderr:write(("\nchat: %s [%s]\n"):format(message, code))
    os.exit(1)
end
local usage = reply.usage or {}
io.stderr:write(("\n%s + %s tokens, %.1f s, first word after %.1f s\n"):format(
    usage.input_tokens or "?", usage.output_tokens or "?", reply.latency_ms / 1000,
    (reply.time_to_first_ms or 0) / 1000))
