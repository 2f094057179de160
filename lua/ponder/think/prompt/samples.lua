--- Sample contexts, to render prompts without a model.
---
--- Each strategy, and ponder.ensemble, defines its own: see `samples` and `needs` of
--- ponder.strategy.new. For a machine they are recorded: the machine is played with prepared
--- replies, and every context that its prompts get is kept. So they have the fields of a real run.

local contexts = require "ponder.think.prompt.context"
local options = require "ponder.base.options"

local samples = {}

---The question of all samples.
samples.QUESTION = "How can a city cool its streets in summer at little cost?"
---Steps towards an answer.
samples.THOUGHTS = { "Plant trees along the widest streets first.",
    "Paint roofs and bus stops white.", "Open the courtyards of schools in the evening." }

local MAX_TEXT_BYTES = 16000

---@class ponder.prompt.Subject a module with prompts
---@field name string "tot"
---@field functions fun(): table<string, function> the built-in prompts
---@field samples fun(): table<string, table[]> contexts by prompt, in the order of a run
---@field needs table<string, string[]> by prompt: the fields of a context whose text the messages
---  must contain

-- Prompt functions that keep a copy of each context in `found`, by prompt.
local function recorders(names, found)
    local prompts = {}
    for prompt in pairs(names) do
        found[prompt] = found[prompt] or {}
        prompts[prompt] = function(context)
            local copy = setmetatable({}, getmetatable(context))
            options.merge(copy, context)
            table.insert(found[prompt], copy)
            return { { role = "user", content = "recorded" } }
        end
    end
    return prompts
end

---Plays a machine to its end and records the contexts that its prompts get.
---@param library table of the machine: new, prompt_names
---@param opts table of the machine
---@param answer fun(directive: table, at: integer, found: table): string, string? the reply to
---  directive number `at`, and the type of its message
---@param found table<string, table[]> contexts by prompt; filled
function samples.play(library, opts, answer, found)
    opts.prompts = recorders(library.prompt_names, found)
    local machine = library.new(opts)
    local queue, at = machine:update { type = "start", prompt = samples.QUESTION,
        call_id = "c0" }, 1
    while queue[at] and queue[at].context do
        local text, kind = answer(queue[at], at, found)
        local more = machine:update { type = kind or "llm_result", call_id = queue[at].call_id,
            ok = true, text = text }
        table.move(more, 1, #more, #queue + 1, queue)
        at = at + 1
    end
end

---Makes contexts from lists of fields, for prompts that no machine renders.
---@param functions table<string, any> the prompts
---@param fields table<string, table[]> by prompt
---@return table<string, table[]>
function samples.contexts(functions, fields)
    local all = {}
    for prompt in pairs(functions) do
        all[prompt] = {}
        for i, one in ipairs(fields[prompt] or {}) do
            all[prompt][i] = contexts.new(options.merge({ prompt = samples.QUESTION,
                instructions = false }, one), MAX_TEXT_BYTES)
        end
    end
    return all
end

return samples
