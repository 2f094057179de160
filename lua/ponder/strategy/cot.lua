--- The chain-of-thought strategy (Wei et al. 2022): one call that thinks step by step and answers.
--- It is the baseline whose accuracy per cost the other strategies must beat.
---
---     local cot = require "ponder.strategy.cot"
---     local outcome, message, code = cot.new { model = "openai:gpt-4o-mini" }:run("...")
---
--- The answer is the marked section of the reply, or the whole reply if nothing is marked.
--- ponder.strategy.class documents what all strategies share.
---
--- A machine makes this one call, so that the baseline runs by the same rules as the strategies
--- it is compared with:
---
--- | from      | to        | on                                            |
--- |-----------|-----------|-----------------------------------------------|
--- | idle      | answering | start                                         |
--- | answering | completed | llm_result                                    |
--- | answering | error     | llm_result that failed or holds nothing       |

local answers = require "ponder.parse.answer"
local machine = require "ponder.machine"
local machine_core = require "ponder.machine.core"
local strategy = require "ponder.strategy"

local function begin(run, turn, msg)
    run.core:start(msg.call_id, turn.now)
    run:add_event(turn, "start", {}, { call_id = msg.call_id,
        prompt_length = utf8.len(run.prompt) })
    run:add_directive(turn, { type = "answer", call_id = msg.call_id,
        context = run:render(turn, "generate", { prompt = run.prompt }) })
end

local function accept(run, turn, call, text)
    run.reply, run.result = text, answers.show(text)
    run:complete(turn, "success", call.id)
end

local class = machine.class {
    name = "cot",
    core = machine_core.class {
        name = "cot",
        statuses = { "answering" },
        calls = { "answer" },
        transitions = { { "idle", "answering", "start" }, { "answering", "completed", "answer" },
            { "answering", "error", "error" } },
    },
    options = {},
    prompts = { generate = "generation_prompt" },
    replies = { llm_result = { "answer" } },
    fields = {
        reply = "reply", -- all that the model wrote
        result = "result", -- the answer in it
    },
    methods = {},
    create = function() end,
    begin = begin,
    parse = function(_, _, text) return text:find "%S" and text or nil end,
    accept = accept,
    unreadable = function(run, turn, call) run:fail(turn, call.id, "there is no answer") end,
    complete_event = function() return {}, {} end,
    save = function(run, map) map.reply, map.result = run.reply, run.result end,
    load = function(run, reader)
        local map = reader.map
        run.reply = map.reply and reader:text("reply", map.reply)
        run.result = map.result and reader:text("result", map.result)
    end,
}

return strategy.new {
    name = "cot",
    machine = class,
    roles = { answer = "generate" },
    first_role = "generate",
    summary = "answer a question in one call, step by step",
    about = [[
Asks once for reasoning and an answer (Wei et al. 2022): the baseline for the other strategies.]],
    samples = { generate = { {} } },
    needs = { generate = { "prompt" } },

    look = strategy.look.nothing,
}
