-- The scripted model, parser and functions of the recorded graphs in
-- spec/fixtures/operations*.jsonl: replies are random numbers that depend on the seed, the prompt
-- and the reply's number alone.

local json = require "ponder.json"

local recorded = {}

local FIELDS = { "x", "a", "b", "c" }

local function hash(text)
    local h = 0xcbf29ce484222325
    for i = 1, #text do
        h = (h ~ text:byte(i)) * 0x100000001b3
    end
    return h
end

-- draw(n): the next number below n of a splitmix64 stream.
local function stream(seed, i, prompt)
    local s = hash(("%d|%d|%s"):format(seed, i, prompt))
    return function(n)
        s = s + 0x9E3779B97F4A7C15
        local z = s
        z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ~ (z >> 27)) * 0x94D049BB133111EB
        return ((z ~ (z >> 31)) >> 33) % n
    end
end

local function state_text(state)
    local parts = {}
    for _, name in ipairs(FIELDS) do
        if state[name] then
            parts[#parts + 1] = ('"%s":%d'):format(name, state[name])
        end
    end
    return "{" .. table.concat(parts, ",") .. "}"
end

local function prompt_text(op, n, states)
    local texts = {}
    for i, state in ipairs(states) do
        texts[i] = state_text(state)
    end
    return ('{"op":"%s",%s"states":[%s]}'):format(op, n and ('"n":%d,'):format(n) or "",
        table.concat(texts, ","))
end

local TOP = { generate = 1000, aggregate = 1000, improve = 1000, validate = 100, score = 7 }

local function how_many(op, d, n, k)
    if op == "generate" then
        return d < 80 and n or d < 88 and n - 1 or d < 94 and n + 1 or 0
    elseif op == "aggregate" then
        return d < 80 and 1 or d < 92 and 2 or 0
    elseif op == "score" then
        return (d < 85 or k < 2) and k or k - 1
    end
    return 1
end

---What the model replies to a prompt.
function recorded.ask(seed, prompt, n)
    local asked, texts = json.decode(prompt), {}
    for i = 1, n do
        local draw = stream(seed, i - 1, prompt)
        local numbers = {}
        for k = 1, how_many(asked.op, draw(100), asked.n, #asked.states) do
            numbers[k] = draw(TOP[asked.op])
        end
        texts[i] = numbers[1] and table.concat(numbers, " ") or "?"
    end
    return texts
end

local function numbers_in(replies)
    local list = {}
    for _, reply in ipairs(replies) do
        for digits in reply:gmatch "%d+" do
            list[#list + 1] = math.tointeger(digits)
        end
    end
    return list
end

local function tagged(v)
    return { x = v, [FIELDS[v % 3 + 2]] = v }
end

local function tagged_all(_, replies)
    local list = numbers_in(replies)
    for i, v in ipairs(list) do list[i] = tagged(v) end
    return list
end

local function means(_, replies)
    local sums, least = {}, math.huge
    for _, reply in ipairs(replies) do
        local list = numbers_in { reply }
        least = math.min(least, #list)
        for i, v in ipairs(list) do sums[i] = (sums[i] or 0) + v end
    end
    local list = {}
    for i = 1, least do list[i] = sums[i] / #replies end
    return list
end

local function majority(_, replies)
    local votes = 0
    for _, v in ipairs(numbers_in(replies)) do
        votes = votes + (v < 50 and 1 or 0)
    end
    return votes > #replies / 2
end

local function prompter(op)
    return function(state) return prompt_text(op, nil, { state }) end
end

local SCORES = {
    mod5 = function(s) return (7 * s.x + 3) % 5 end,
    half = function(s) return s.x % 9 / 2 - 2 end,
    all_mod5 = function(states)
        local list = {}
        for j, s in ipairs(states) do list[j] = (s.x + j - 1) % 5 end
        return list
    end,
    all_but_last = function(states)
        local list = {}
        for j = 1, #states - 1 do list[j] = (states[j].x + j - 1) % 5 end
        return list
    end,
    none_or_number = function(s)
        if s.x % 3 == 0 then return nil end
        return s.x % 3 == 1 and s.x % 10 * 1.0 or s.x % 10
    end,
}

local function filter(keep)
    return function(list)
        local kept = {}
        for i, t in ipairs(list) do
            if keep(t, i, #list) then kept[#kept + 1] = t end
        end
        return kept
    end
end

local function chooser(how)
    local name, value = table.unpack(how)
    if name == "reverse" then
        return function(list)
            local turned = {}
            for i, t in ipairs(list) do turned[#list + 1 - i] = t end
            return turned
        end
    elseif name == "twice" then
        return function(list)
            local twice = {}
            for _, t in ipairs(list) do
                twice[#twice + 1] = t
                twice[#twice + 1] = t
            end
            return twice
        end
    elseif name == "new" then
        return function(list)
            local state = {}
            for k, v in pairs(list[1].state) do state[k] = v end
            state.c = value
            return { { state = state } }
        end
    end
    return filter(({
        all = function() return true end,
        none = function() return false end,
        first = function(_, i) return i <= value end,
        last = function(_, i, n) return i > n - value end,
        even = function(t) return t.state.x % 2 == 0 end,
        best = function(t) return t.score >= value end,
        need_c = function(t) return t.state.c >= 0 end,
    })[name])
end

local BUILD = {
    generate = function(op)
        return "generate", { branches = op.n_prompt, responses = op.n_response,
            prompt = function(state, n) return prompt_text("generate", n, { state }) end,
            parse = tagged_all }
    end,
    score = function(op)
        if op.fn and op.fn ~= json.null then
            return "score", { score = SCORES[op.fn], combined = op.combined }
        end
        return "score", { samples = op.samples, combined = op.combined, parse = means,
            prompt = function(states) return prompt_text("score", nil, states) end }
    end,
    keep_best_n = function(op) return "keep_best", { n = op.n, higher = op.higher } end,
    keep_valid = function() return "keep_valid", {} end,
    validate_and_improve = function(op)
        local opts = { tries = op.tries, improve = op.improve, samples = op.samples,
            improve_prompt = prompter "improve",
            improve_parse = function(_, replies) return tagged(numbers_in(replies)[1]) end }
        if op.fn_mod and op.fn_mod ~= json.null then
            opts.validate = function(s) return s.x % op.fn_mod == 0 end
        else
            opts.prompt, opts.parse = prompter "validate", majority
        end
        return "validate_and_improve", opts
    end,
    improve = function()
        return "improve", { prompt = prompter "improve",
            parse = function(_, replies) return tagged(numbers_in(replies)[1]) end }
    end,
    aggregate = function(op)
        return "aggregate", { responses = op.responses,
            prompt = function(states) return prompt_text("aggregate", nil, states) end,
            parse = function(_, replies)
                local list = numbers_in(replies)
                for i, v in ipairs(list) do list[i] = { x = v } end
                return list
            end }
    end,
    ground_truth = function()
        return "ground_truth", { test = function(s)
            if s.x % 7 == 0 then error "no truth is known" end
            return s.x % 2 == 0
        end }
    end,
    selector = function(op) return "select", { choose = chooser(op.select) } end,
}

---Adds the operations of a recorded graph.
---@param g ponder.operations.Graph
---@param case table a line of the fixture
function recorded.build(g, case)
    for i, op in ipairs(case.ops) do
        local method, opts = BUILD[op.type](op)
        local after = {}
        for k, id in ipairs(case.results[i].after) do after[k] = id + 1 end
        opts.after = after
        g[method](g, opts)
    end
end

return recorded
