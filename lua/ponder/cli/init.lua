--- `ponder init eval|policy|search|strategy|model|config [FILE]`: a commented file to start from.

local cli = require "ponder.cli.shared.main"
local exists = require("ponder.base.file").exists
local host = require "ponder.core.host"
local model = require "ponder.model"
local name = require "ponder.model.name"
local private = require "ponder.core.private"
local quote = require "ponder.quote"
local source = require "ponder.judge.import.source"

local EVAL = [[
-- An evaluation: which policy is better, by how much, at what cost.
--
--     ponder eval --model script:model.lua %s    offline; ponder init model writes model.lua
--     ponder eval --model openai:gpt-6-luna --limit 20 --max-cost 0.50 %s
--     ponder eval --threshold "accuracy(cot) >= 0.7" --html page.html %s

local cot = require "ponder.strategy.cot"
local flags = ... or {} -- of the command line: flags.model is --model

local MODEL = flags.model -- nil: $PONDER_MODEL

return {
    name = "sums",

    -- The items: a list, a file (.jsonl, .json, .csv, .tsv), or function(load) that returns a list.
    -- An item without an `id` gets one from its content; items of one `cluster` are not
    -- independent.
    data = {
        { id = "a", question = "What is 6 * 7?", target = 42 },
        { id = "b", question = "What is 17 + 26?", target = 43 },
        { id = "c", question = "What is 144 / 12?", target = 12 },
    },

    -- The policies to compare, by name.
    policies = {
        -- A prompt; {{question}} is a field of the item. n = 5 takes the most frequent of five
        -- answers; with reward = function(text, item), the best one.
        io = { model = MODEL, prompt = "{{question}} End with: Answer: NUMBER" },
        -- Any strategy.
        cot = cot.new { model = MODEL },
        -- Any function: it returns an answer, or nil, message, code. run:report(answer) records the
        -- answer so far, for the curve of accuracy at a budget.
        guess = function(item, run)
            run:report(40)
            return item.question:find("*", 1, true) and 42 or 43
        end,
    },

    -- Whether an answer is right: a scorer (exact, normalized, numeric, regex, choice, contains,
    -- json_schema, command, model), a table of several, or
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
    -- The root: any value but nil.
    initial_state = 1,
    -- The children of a state; the first k are used. With a model, call it here.
    expand = function(n) return { n * 2, n * 3 } end,
    -- How good a state is: a number, higher is better.
    evaluate = function(n) return -math.abs(GOAL - n) end,
    -- Whether a state is a solution.
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
-- Your own strategy. Run it with
--
--     ponder ask --strategy %s "Use 4 4 6 8 to make 24"
--
-- `ponder ask --strategy %s --help` lists its options, the models by role, budgets and more. See
-- scripts/strategies for longer ones, and ponder doc strategy.

local strategy = require "ponder.strategy"

return strategy.new {
    name = "checked", -- a prompt file checked.lua replaces `prompts`
    summary = "answer, then have the answer checked",

    -- Roles can have their own models: --models check=openai:gpt-6.2-sol.
    roles = { "generate", "check" },

    -- These become flags: --rounds 2.
    options = { rounds = { type = "integer", min = 1, default = 1, help = "number of checks" } },

    -- Functions from a context to messages. Quote text from others: it is data, not instructions.
    prompts = {
        check = function(context)
            return { { role = "user", content = context:quote("question", context.question)
                .. "\n" .. context:quote("answer", context.answer)
                .. "\nCheck the answer. Write a correct one in a line that begins with Answer:" } }
        end,
    },

    run = function(thinker, question)
        local text = thinker:ask(question) -- a text or a list of messages
        local node = thinker:node { text = text } -- for ponder show --tree and the page
        for _ = 1, thinker.options.rounds do
            text = thinker:prompt("check", { question = question, answer = text }, { node = node })
            node = thinker:node { text = text, parents = { node } }
            thinker:best(node, strategy.read_answer(text)) -- the result after Ctrl-C
        end
        return strategy.read_answer(text)
    end,
}
]]

local MODEL = [[
-- A scripted model, to try things offline. It does sums, sometimes wrongly, and answers in the form
-- that it is asked for: that of chat, cot, tot, got, trm, or a grade. Use it with
--
--     ponder chat --model script:%s "What is 6 * 7?"
--
-- It is a function from a request to a reply: see ponder doc model.script.

-- A pseudo-random number from 0 to 1 that depends only on the text.
local function share_of(text)
    local hash = 5381
    for i = 1, #text do hash = (hash * 33 + text:byte(i)) & 0xFFFFFFFF end
    return (hash ~ hash >> 15) * 2654435761 %% 1000 / 1000
end

local function solve(text)
    local a, op, b = text:match "(%%d+)%%s*([-+*/])%%s*(%%d+)"
    a, b = tonumber(a), tonumber(b)
    if not a or op == "/" and b == 0 then return nil end
    return op == "+" and a + b or op == "-" and a - b or op == "*" and a * b or a // b
end

local function grade(attempt, value)
    return value and attempt:find(tostring(value), 1, true) and "0.9" or "0.2"
end

-- The thoughts that tot and got show, graded: "t1": 0.9, "t2": 0.2. Also the id of the best one.
local function grade_thoughts(text, value)
    local list, best = {}, nil
    text = text:gsub("<thought>%%s*%%[(%%w+)%%]", "<thought_%%1>")
    for id, thought in text:gmatch "<thought_(%%w+)>(.-)</thought" do
        list[#list + 1] = ('"%%s": %%s'):format(id, grade(thought, value))
        best = (not best or list[#list]:find "0.9") and id or best
    end
    return table.concat(list, ", "), best
end

return function(request)
    local messages = request.messages
    local form, text = messages[1].content, messages[#messages].content
    local value = solve(text)
    local function attempt(n)
        if not value then return "I can only do sums, such as 6 times 7." end
        local key = ("%%s %%s %%d%%s"):format(text, request.options.seed, request.sample, n or "")
        local careful = text:find("step by step", 1, true) or text:find("Check", 1, true)
        local is_wrong = share_of(key) > (careful and 0.9 or 0.6)
        return ("Answer: %%d"):format(is_wrong and value + 1 or value)
    end
    local grades, best = grade_thoughts(text, value)
    local reply
    if form:find('"thoughts"', 1, true) then -- tot: the next steps
        local steps = {}
        for i = 1, tonumber(text:match "Propose (%%d+)") or 1 do
            steps[i] = ('"%%s"'):format(attempt(i))
        end
        reply = ('{"thoughts": [%%s]}'):format(table.concat(steps, ", "))
    elseif form:find('"scores"', 1, true) then -- tot, got
        reply = ('{"scores": {%%s}}'):format(grades)
    elseif form:find('"connections"', 1, true) then -- got
        reply = '{"connections": []}'
    elseif form:find('"vote"', 1, true) then -- got
        reply = ('{"reason": "It is right.", "vote": "%%s"}'):format(best)
    elseif form:find('"score"', 1, true) then -- trm
        reply = ('{"critique": {"issues": [], "strengths": [], "suggestions": []}, "score": %%s}')
            :format(grade(text:match "<current_answer>(.-)</current_answer>" or "", value))
    elseif form:find("<prompt>", 1, true) then -- ponder optimize
        local prompt = text:match "<current_prompt>\n(.-)\n</" or text:match "<version_b>\n(.-)\n</"
        local advice = { "Check it.", "Be quick.", "Work step by step.", "Be polite." }
        reply = ("<prompt>%%s %%s</prompt>"):format(prompt, advice[request.sample %% #advice + 1])
    elseif text:find("from 0 to 1", 1, true) then -- asked to judge the last line
        reply = grade(text:match "[^\n]*$", value)
    else
        reply = attempt()
    end
    return { text = reply, usage = { input_tokens = #text // 4, output_tokens = #reply // 4 } }
end
]]

local CONFIG = [[
-- Settings of all commands: a table, without functions. Each field may be left out.
-- `ponder doctor` checks it; a key is read from the variable that it names.

return {
    -- The model of commands without --model.
    -- default_model = "openai:gpt-6-luna",

    -- Short names: ponder chat --model fast
    aliases = {
        fast = "openai:gpt-6-luna",
        careful = { model = "openai:gpt-6.2-sol", reasoning_effort = "high" },
    },

    -- Options of all models.
    defaults = { max_retries = 3 },

    -- Options of one service, or a server of your own that speaks OpenAI's API: mine:NAME.
    providers = {
        mine = { base_url = "http://localhost:8080/v1", api_key = "$MINE_API_KEY" },
    },

    -- Dollars per million tokens, where the built-in list has none.
    prices = { ["http://localhost:8080/v1/*"] = { input = 0, output = 0 } },
}
]]

local SEARCH = "scripts/policies/oldest.lua"
local KINDS = { eval = EVAL, policy = POLICY, strategy = STRATEGY, model = MODEL, config = CONFIG,
    search = host.embedded(SEARCH):gsub("%%", "%%%%"):gsub(SEARCH, "%%s") }
-- What to type next. MODEL stands for the option of a scripted model if no model is named.
local TRY = { eval = "ponder eval MODELFILE", policy = "ponder FILE",
    search = 'ponder tot MODEL--search FILE "What is 6 * 7?"',
    strategy = 'ponder ask MODEL--strategy FILE "What is 6 * 7?"',
    model = 'ponder chat --model script:FILE "6 * 7"', config = "ponder doctor" }
local WORDS = { "eval", "policy", "search", "strategy", "model", "config" }

local init = cli.command({ words = WORDS, files = true, expects = { 0, 2, "one file" } }, {
    { "from", value = "FILE", files = true,
        help = "write the evaluation of a promptfooconfig.yaml, or of a data set" },
})

init.summary = "write a commented file to start from"

init.about = [[
ponder init [eval|policy|search|strategy|model|config] [FILE]
ponder init --from FILE [FILE]

Writes a commented Lua file: an evaluation (eval.lua, the default), a search over callbacks
(policy.lua), a search of your own (search.lua), a strategy (strategy.lua), or a scripted model
(model.lua) to try the others offline, or your settings (config.lua in ~/.config/ponder). An
existing file is not changed; - writes to standard output.

--from converts a configuration of promptfoo, or a data set as OpenAI's Evals (JSON Lines) and
inspect_ai (JSON, CSV) have it, to an evaluation; it says what it cannot carry over.]]

-- The command that tries a file.
local function try(kind, path)
    local is_readable, named = pcall(model.default_name) -- the config file may be broken
    local names_model = is_readable and named or not TRY[kind]:find "MODEL"
    local line = TRY[kind]:gsub("MODEL", names_model and "" or "--model script:model.lua ")
    return line:gsub("FILE", (path:gsub("%%", "%%%%")))
        .. (names_model and "" or " (ponder init model writes model.lua)")
end

-- Writes a new file, or to standard output; `words`: those of the command before the file.
local function write_new(path, text, words, try_it)
    if path == "-" then
        io.stdout:write(text)
        return 0
    end
    cli.need(not exists(path), ("%s already exists, and is not changed; to write another file: "
        .. "ponder init %s FILE"):format(path, words), "EXISTS")
    cli.need(private.write(path, text, true))
    print(("wrote %s; try: %s"):format(path, try_it))
    return 0
end

-- Writes the evaluation of another tool's file.
local function convert(from, path)
    path = path or "eval.lua"
    cli.expect_flag("--from", source.is_foreign(from),
        "expected a .yaml, .json, .jsonl, .csv or .tsv file (got " .. quote.line(from) .. ")")
    local is_near = not path:find "/"
    local lua, notes, code = source.convert(from, is_near and from or host.absolute(from))
    cli.need(lua, notes, code)
    for _, note in ipairs(notes) do
        io.stderr:write("ponder init: ", quote.terminal(note), "\n")
    end
    return write_new(path, lua, "--from " .. from, "ponder eval " .. path)
end

function init.run(given, operands)
    if given.from then
        cli.refuse(operands[2] and "expected one file: ponder init --from FILE [FILE]")
        return convert(given.from, operands[1])
    end
    local kind = operands[1] or "eval"
    if not KINDS[kind] then
        return nil, ("expected one of %s (got %s)"):format(table.concat(WORDS, ", "), kind)
    end
    local path = operands[2] or kind .. ".lua"
    if kind == "config" and not operands[2] then
        path = cli.need(name.config_path(os.getenv), "$HOME is not set: name a file")
        cli.need(private.make_directory(path:match "^(.*)/"))
    end
    local shown = path == "-" and kind .. ".lua" or path:gsub("%%", "%%%%")
    return write_new(path, KINDS[kind]:format(shown, shown, shown), kind, try(kind, path))
end

return init
