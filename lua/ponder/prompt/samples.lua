--- Sample data for prompts: contexts such as their callers make, to render them without a model.
---
--- Each strategy, and ponder.ensemble, brings its own: see `samples` and `needs` of
--- ponder.strategy.new. Those of a machine come out of the machine: it is played through with ready
--- replies while every context that its prompts get is kept. So they hold what a run will hold.

local machine_run = require "ponder.machine.run"
local options = require "ponder.options"

local samples = {}

---What they are about.
samples.QUESTION = "How can a city cool its streets in summer at little cost?"
---Steps towards an answer.
samples.THOUGHTS = { "Plant trees along the widest streets first.",
    "Paint roofs and bus stops white.", "Open the courtyards of schools in the evening." }

local MAX_TEXT_BYTES = 16000

---@class ponder.prompt.Subject what has prompts
---@field name string "tot"
---@field functions fun(): table<string, function> the prompts when no file takes their place
---@field samples fun(): table<string, table[]> contexts by prompt, in the order of a run
---@field needs table<string, string[]> by prompt: the fields of a context whose text must come up
---  in the messages

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

---Plays a machine to its end, and keeps the contexts that its prompts get.
---@param library table of the machine: new, prompt_names
---@param opts table of the machine
---@param answer fun(directive: table, at: integer, found: table): string, string? a reply to the
---  directive `at`, and the type of its message
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

---Contexts that no machine makes: of each prompt, from lists of fields.
---@param functions table<string, any> the prompts
---@param fields table<string, table[]> by prompt
---@return table<string, table[]>
function samples.contexts(functions, fields)
    local contexts = {}
    for prompt in pairs(functions) do
        contexts[prompt] = {}
        for i, one in ipairs(fields[prompt] or {}) do
            local copy = { prompt = samples.QUESTION, instructions = false }
            options.merge(copy, one)
            contexts[prompt][i] = machine_run.context(copy, MAX_TEXT_BYTES)
        end
    end
    return contexts
end

return samples
