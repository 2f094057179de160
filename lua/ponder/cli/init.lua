--- `ponder init eval|policy|strategy|model [FILE]`: a commented file to start from.

local args = require "ponder.args"
local cli = require "ponder.cli"
local private = require "ponder.core.private"

local EVAL = [[
-- An evaluation: which policy is better, by how much, at what price.
--
--     ponder eval %s                       try it; the models below are scripted or named
--     ponder eval --model openai:gpt-4o-mini --limit 20 --max-cost 0.50 %s
--     ponder eval --threshold "accuracy(cot) >= 0.7" --html page.html %s

local cot = require "ponder.strategy.cot"
local flags = ... or {} -- of the command line: flags.model is --model

local MODEL = flags.model or "openai:gpt-4o-mini"

return {
    name = "sums",

    -- The items: a list, a file (.jsonl, .json, .csv, .tsv), or function(load) that returns a list.
    -- An item has an `id` or gets one of its content; items of one `cluster` are not independent.
    data = {
        { id = "a", question = "What is 6 * 7?", target = 42 },
        { id = "b", question = "What is 17 + 26?", target = 43 },
        { id = "c", question = "What is 144 / 12?", target = 12 },
    },

    -- What is compared, by name.
    policies = {
        -- A prompt; {{question}} is a field of the item. With k = 5 the most frequent answer of
        -- five counts; with reward = function(text, item) the best of them.
        io = { model = MODEL, prompt = "{{question}} End with: Answer: NUMBER" },
        -- Any strategy.
        cot = cot.new { model = MODEL },
        -- Any function: it returns an answer, or nil, message, code. run:report(answer) says what
        -- it would answer by now, for the curve of accuracy at a budget.
        guess = function(item, run)
            run:report(40)
            return item.question:find("*", 1, true) and 42 or 43
        end,
    },

    -- Whether an answer is right: a scorer by name (exact, normalized, numeric, regex, choice,
    -- contains, json_schema, command, model), several by name, or
    -- function(item, answer, target) return true_or_number, "why" end.
    score = "numeric",

    baseline = "io", -- the others are compared with this one
}
]]

local POLICY = [[
-- A policy: a search over callbacks. Run it with `ponder %s`; `ponder --json %s` prints the result.

local search = require "ponder.search"

local GOAL = 96

local result = search.run {
    -- Where it begins: any value but nil.
    initial_state = 1,
    -- The next states of one; the first k are used. With a model, call it here.
    expand = function(n) return { n * 2, n * 3 } end,
    -- How good a state is: a number, higher is better.
    evaluate = function(n) return -math.abs(GOAL - n) end,
    -- Whether it is a solution.
    is_terminal = function(n) return n == GOAL end,
    -- Whether to end the search at this node.
    stop = function(node) return node.terminal end,

    search = "best_first", -- or "bfs", "dfs", "beam"
    k = 2, -- children used per node
    max_depth = 8,
    concurrency = 1, -- callbacks in flight; the result does not depend on it
}

print(result.stop_reason, table.concat(result.best_path, " -> "))
return result
]]

local STRATEGY = [[
-- A strategy of your own. Ask it with
--
--     ponder ask --strategy %s "Use 4 4 6 8 to make 24"
--
-- `--help` after that lists its options, the models by role, budgets and more. scripts/strategies
-- has longer ones, ponder.strategy says what a machine in place of a function looks like.

local strategy = require "ponder.strategy"

return strategy.new {
    name = "checked", -- a prompt file checked.lua takes the place of `prompts`
    summary = "answer, then have the answer checked",

    -- Whose model asks: --models check=openai:gpt-4o gives one of them its own.
    roles = { "generate", "check" },

    -- These become flags: --rounds 2.
    options = { rounds = { type = "integer", min = 1, default = 1, help = "times it is checked" } },

    -- A context in, messages out. Quote what others wrote: it is data, never an instruction.
    prompts = {
        check = function(context)
            return { { role = "user", content = context:quote("question", context.question)
                .. "\n" .. context:quote("answer", context.answer)
                .. "\nCheck the answer. Write a correct one in a line that begins with Answer:" } }
        end,
    },

    run = function(thinker, question)
        local text = thinker:ask(question) -- a text, a list of messages, or a prompt's name
        local node = thinker:node { text = text } -- what is drawn: ponder show --tree, the page
        for _ = 1, thinker.options.rounds do
            text = thinker:ask("check", { question = question, answer = text }, { node = node })
            node = thinker:node { text = text, parents = { node } }
            thinker:best(node, strategy.read_answer(text)) -- what there is after Ctrl-C
        end
        return strategy.read_answer(text)
    end,
}
]]

local MODEL = [[
-- A scripted model, to try things offline: it does sums, and not always rightly. Name it as
--
--     ponder chat --model script:%s "What is 6 * 7?"
--
-- It is a function from a request to a reply; ponder doc model.script says more.

-- Chance that depends on nothing but the request.
local function share_of(text)
    local hash = 5381
    for i = 1, #text do hash = (hash * 33 + text:byte(i)) & 0xFFFFFFFF end
    return (hash ~ hash >> 15) * 2654435761 %% 1000 / 1000
end

local function solve(text)
    local a, op, b = text:match("(%%d+) ([-+*/]) (%%d+)")
    if not a then return nil end
    a, b = tonumber(a), tonumber(b)
    return op == "+" and a + b or op == "-" and a - b or op == "*" and a * b or a // b
end

return function(request)
    local text = request.messages[#request.messages].content
    local key = ("%%s %%s %%d"):format(text, request.options.seed, request.sample)
    local value = solve(text)
    local reply
    if not value then
        reply = "I can only do sums, such as 6 * 7."
    elseif text:find("from 0 to 1", 1, true) then -- asked to judge what is in the last line
        reply = text:match("[^\n]*$"):find(("%%d"):format(value), 1, true) and "0.9" or "0.2"
    else
        local careful = text:find("step by step", 1, true) or text:find("Check", 1, true)
        if share_of(key) > (careful and 0.9 or 0.6) then value = value + 1 end -- a slip
        reply = ("Answer: %%d"):format(value)
    end
    return { text = reply, usage = { input_tokens = #text // 4, output_tokens = #reply // 4 } }
end
]]

local KINDS = { eval = EVAL, policy = POLICY, strategy = STRATEGY, model = MODEL }
local TRY = { eval = "ponder eval FILE", policy = "ponder FILE",
    strategy = "ponder ask --strategy FILE", model = 'ponder chat --model script:FILE "6 * 7"' }
local WORDS = { "eval", "policy", "strategy", "model" }

local init = { rules = {}, order = {}, words = WORDS, files = true }

init.summary = "write a commented file to start from"

init.usage = [[
ponder init [eval|policy|strategy|model] [FILE]

Writes a commented Lua file: an evaluation (eval.lua, the default), a search policy (policy.lua), a
strategy (strategy.lua) or a scripted model (model.lua), with which all of them can be tried
offline. A file that exists is not changed.]]

-- The file's text, with its name in it.
local function text_of(kind, path)
    local name = path:gsub("%%", "%%%%")
    return KINDS[kind]:format(name, name, name)
end

---@param list string[] arguments
---@return integer status 0; 1 where the file cannot be written; 2 for a usage error
function init.run(list)
    local given, operands = args.parse("ponder init", list, init.rules)
    if not given then
        return cli.usage_error(operands)
    end
    local kind = operands[1] or "eval"
    if not KINDS[kind] then
        return cli.usage_error(("ponder init: expected one of %s (got %s)"):format(
            table.concat(WORDS, ", "), kind))
    elseif operands[3] then
        return cli.usage_error("ponder init: expected one file (got " .. operands[3] .. ")")
    end
    local path = operands[2] or kind .. ".lua"
    local ok, message = private.write(path, text_of(kind, path), true)
    if not ok then
        io.stderr:write("ponder init: ", message, "\n")
        return 1
    end
    print(("wrote %s; try: %s"):format(path, (TRY[kind]:gsub("FILE", (path:gsub("%%", "%%%%"))))))
    return 0
end

return init
