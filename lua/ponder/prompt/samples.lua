--- Sample data for prompts: contexts such as their callers make, to render them without a model.
---
--- Those of the machines come out of the machines: each is played through with ready replies while
--- every context that its prompts get is kept. So they hold what a run will hold.

local builtin = require "ponder.builtin"
local machine_run = require "ponder.machine.run"

local samples = {}

local QUESTION = "How can a city cool its streets in summer at little cost?"
local THOUGHTS = { "Plant trees along the widest streets first.",
    "Paint roofs and bus stops white.", "Open the courtyards of schools in the evening." }

---The fields of a context whose text must come up in the messages, by prompt: a prompt without them
---cannot do its work.
---@type table<string, table<string, string[]>>
samples.NEEDS = {
    tot = { generate = { "prompt", "steps" }, evaluate = { "prompt", "thoughts" },
        repair = { "reply" } },
    got = { generate = { "prompt", "path" }, score = { "prompt", "thoughts" },
        connect = { "thoughts" }, aggregate = { "prompt", "thoughts" },
        vote = { "prompt", "thoughts" }, refine = { "prompt", "thought" } },
    trm = { reason = { "question", "answer" }, supervise = { "question", "answer" },
        improve = { "question", "answer" } },
    cot = { generate = { "prompt" } },
    ensemble = { judge = { "prompt", "candidates" }, debate = { "others" } },
}

-- Prompt functions that keep a copy of each context in `found`, by prompt.
local function recorders(name, found)
    local prompts = {}
    for prompt in pairs(samples.NEEDS[name]) do
        found[prompt] = found[prompt] or {}
        prompts[prompt] = function(context)
            local copy = setmetatable({}, getmetatable(context))
            for field, value in pairs(context) do
                copy[field] = value
            end
            table.insert(found[prompt], copy)
            return { { role = "user", content = "recorded" } }
        end
    end
    return prompts
end

-- Plays a machine to its end; `answer` gives the text, and the message's type, for a directive.
local function play(machine, answer)
    local queue, at = machine:update { type = "start", prompt = QUESTION, call_id = "c0" }, 1
    while queue[at] and queue[at].context do
        local text, kind = answer(queue[at], at)
        local more = machine:update { type = kind or "llm_result", call_id = queue[at].call_id,
            ok = true, text = text }
        table.move(more, 1, #more, #queue + 1, queue)
        at = at + 1
    end
end

local function as_json(thoughts)
    return '{"thoughts": ["' .. table.concat(thoughts, '", "') .. '"]}'
end

-- Both kinds of reply cannot be read at first, so that the repair comes up for each.
local function tot()
    local found, is_repaired = {}, {}
    play(require("ponder.tot").new { prompts = recorders("tot", found), max_depth = 2,
        branching_factor = 2, max_nodes = 5 },
        function(directive)
            local wanted = directive.type == "generate_thoughts" and "thoughts" or "scores"
            if directive.type == "call_llm_stream" then
                wanted = found.repair[#found.repair].wanted
            elseif not is_repaired[wanted] then
                is_repaired[wanted] = true
                return "?"
            end
            return wanted == "thoughts" and as_json(THOUGHTS)
                or '{"scores": {"t1": 0.8, "t2": 0.4}}'
        end)
    return found
end

local function scores_of(thoughts)
    local lines = {}
    for i, thought in ipairs(thoughts) do
        lines[i] = ("%s: %.1f"):format(thought.id, 1 - i / 10)
    end
    return table.concat(lines, "\n")
end

local function got()
    local found = {}
    local answers = {
        generate_thought = function(_, at) return THOUGHTS[(at - 1) % #THOUGHTS + 1] end,
        score_thoughts = function(directive) return scores_of(directive.thoughts) end,
        find_connections = function()
            local thoughts = found.connect[#found.connect].thoughts
            return ("CONNECTION: [%s] -> [%s] : shade and colour add up"):format(
                thoughts[1].id, thoughts[#thoughts].id)
        end,
        aggregate = function() return "Trees, white roofs and open courtyards." end,
        vote = function(directive) return "VOTE: " .. directive.node_ids[1] end,
        refine = function() return "Trees first, then white roofs." end,
    }
    for _, aggregation in ipairs { "weighted", "voting" } do
        play(require("ponder.got").new { prompts = recorders("got", found), max_depth = 3,
            branching_factor = 2, aggregation_strategy = aggregation },
            function(directive, at) return answers[directive.type](directive, at) end)
    end
    return found
end

-- The first critique has no grade, so that it is asked for once more.
local function trm()
    local found, is_graded = {}, false
    local answers = {
        reason = { "<answer>\nPlant trees.\n</answer>", "reasoning_result" },
        supervise = { "STRENGTH: cheap\nISSUE: slow\nSUGGESTION: add white roofs\nSCORE: 0.6",
            "supervision_result" },
        improve = { "Plant trees, and paint roofs white.", "improvement_result" },
    }
    play(require("ponder.trm").new { prompts = recorders("trm", found),
        max_supervision_steps = 3 },
        function(directive)
            if directive.type == "supervise" and not is_graded then
                is_graded = true
                return "STRENGTH: cheap", "supervision_result"
            end
            return table.unpack(answers[directive.type])
        end)
    return found
end

-- A context that nobody's machine makes.
local function context(fields)
    return (machine_run.context(fields, 16000))
end

local function cot()
    return { generate = { context { prompt = QUESTION, instructions = false } } }
end

local function ensemble()
    return {
        judge = { context { prompt = QUESTION, candidates = { { id = "c1", content = THOUGHTS[1] },
            { id = "c2", content = THOUGHTS[2] } } } },
        debate = { context { prompt = QUESTION, others = { { name = "Ada", content = THOUGHTS[1] },
            { name = "Ben", content = THOUGHTS[3] } }, round = 2, n_rounds = 3,
            has_answer = true } },
    }
end

local MAKERS = { tot = tot, got = got, trm = trm, cot = cot, ensemble = ensemble }

local own = {} -- the prompt functions of strategies that are not built in, by name

---Adds a strategy that is not built in.
---@param name string
---@param functions table<string, function>
---@param fields table<string, table[]> by prompt: the fields of contexts
function samples.add(name, functions, fields)
    own[name], samples.NEEDS[name] = functions, {}
    for prompt in pairs(functions) do
        samples.NEEDS[name][prompt] = {}
    end
    MAKERS[name] = function()
        local contexts = {}
        for prompt in pairs(functions) do
            contexts[prompt] = {}
            for i, one in ipairs(fields[prompt] or {}) do
                local copy = { prompt = QUESTION, instructions = false }
                for field, value in pairs(one) do
                    copy[field] = value
                end
                contexts[prompt][i] = context(copy)
            end
        end
        return contexts
    end
end

---The prompt functions that are there when no file takes their place.
---@param name string
---@return table<string, function> functions raises for a name that nobody knows
function samples.functions(name)
    return own[name] or builtin.prompts(name)
end

---Contexts for each prompt of a file, in the order in which a run would need them.
---@param name string "tot"
---@return table<string, table[]>? by prompt; nil for a file that ponder does not know
function samples.of(name)
    return MAKERS[name] and MAKERS[name]()
end

return samples
