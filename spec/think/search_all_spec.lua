-- What holds for every search of search.run: how callbacks fail, what limits do, and that a run
-- that was killed is resumed, replayed and shown.

local json = require "ponder.json"
local search = require "ponder.search"
local searches = require "ponder.base.searches"
local shell = require "shell"
local task = require "ponder.task"

local IS_PATH = { astar = true, idastar = true }
local HAS_PRIOR = { uct = true, puct = true }
local SIMULATES = { uct = true, puct = true, ab_mcts = true, dvts = true, halving = true,
    particles = true }

-- A search with each callback that it calls. `changes` replaces options, false removes one.
local function options(name, changes)
    local opts = {
        search = name, initial_state = 1, k = 2, max_depth = 6, max_iterations = 12, batch = 3,
        expand = function(n) return { n * 2, n * 2 + 1, n * 3 } end,
        is_terminal = function(n) return n == 6 or n % 13 == 0 end,
        stop = function(node) return node.depth > 9 end,
        key = function(n) return n end,
        reflect = function(n) return n end,
        on_event = function() end,
    }
    if IS_PATH[name] then
        opts.cost = function(_, child) return child % 5 end
        opts.heuristic = function(n) return n % 3 end
    else
        opts.evaluate = function(n) return n % 101 / 101 end
    end
    if SIMULATES[name] then
        opts.simulate = function(n) return n % 17 / 17 end
    end
    if name == "halving" then
        opts.is_terminal = function(n) return n % 3 == 0 end
        opts.prior = function(states) return table.move({ 1, 2, 3 }, 1, #states, 1, {}) end
    elseif name == "particles" then
        opts.expand = function(n, _, node) return { n * 2 + node.expansions } end
    end
    if HAS_PRIOR[name] then
        opts.guide, opts.spent = 1, function() return 0.5 end
        opts.prior = function(states) return table.move({ 1, 2, 3 }, 1, #states, 1, {}) end
    elseif name == "evolve" then
        opts.features = function(n) return n % 7 end
    end
    for key, value in pairs(changes or {}) do
        opts[key] = value or nil
    end
    return opts
end

local function callbacks_of(opts)
    local names = {}
    for name, value in pairs(opts) do
        names[#names + 1] = type(value) == "function" and name or nil
    end
    table.sort(names)
    return names
end

local function tree_of(result)
    result.stats.duration_ms = nil
    return json.encode { result.tree:to_table(), result.stats, result.stop_reason, result.best_path,
        result.kept, result.islands, result.iterations }
end

-- `f` with its n-th call (default: the third) replaced by one of `instead`.
local function replace_call(f, instead, n)
    local calls = 0
    return function(...)
        calls = calls + 1
        if calls == (n or 3) then
            return instead(...)
        end
        return f(...)
    end
end

for _, name in ipairs(searches.NAMES) do
    describe(name, function()
        it("calls whatever is callable, alike", function()
            local opts = options(name)
            for _, callback in ipairs(callbacks_of(opts)) do
                local f = opts[callback]
                opts[callback] = setmetatable({}, { __call = function(_, ...) return f(...) end })
            end
            assert.equal(tree_of(search.run(options(name))), tree_of(search.run(opts)))
        end)

        it("makes the same tree, with the same events, for every concurrency", function()
            local function run(concurrency)
                local events = {}
                local result = task.run(search.run, options(name, { concurrency = concurrency,
                    on_event = function(event)
                        if event.type ~= "done" then
                            events[#events + 1] = json.encode(event)
                        end
                    end }))
                return tree_of(result), table.concat(events, "\n")
            end
            local tree, events = run(1)
            for _, concurrency in ipairs { 2, 5 } do
                local other, others = run(concurrency)
                assert.equal(tree, other)
                assert.equal(events, others)
            end
        end)

        it("passes on what a callback raises, and says which and where", function()
            for _, callback in ipairs(callbacks_of(options(name))) do
                for _, concurrency in ipairs { 1, 4 } do
                    local raised, opts = { code = "X" }, options(name)
                    opts.concurrency = concurrency
                    opts[callback] = replace_call(opts[callback], function() error(raised) end, 1)
                    local ok, err = pcall(task.run, search.run, opts)
                    assert.is_false(ok, callback)
                    assert.equal(raised, err, callback)
                    assert.equal(callback, search.raised_by(err).callback)
                end
            end
        end)

        it("ends with the nil, message, code of a callback, and what it has", function()
            for _, callback in ipairs(callbacks_of(options(name, { on_event = false }))) do
                for _, concurrency in ipairs { 1, 4 } do
                    local opts = options(name, { concurrency = concurrency })
                    opts[callback] = replace_call(opts[callback], function()
                        return nil, "no money left", "BUDGET"
                    end, callback == "reflect" and 1 or 2)
                    local result, message, code, partial = task.run(search.run, opts)
                    assert.same({ nil, "no money left", "BUDGET" }, { result, message, code },
                        callback)
                    assert.equal("failed", partial.stop_reason)
                    assert.equal(1, partial.best_path[1])
                end
            end
        end)

        it("heeds stop, key, max_nodes and max_duration_ms", function()
            local seen = 0
            local stopped = search.run(options(name, { stop = function()
                seen = seen + 1
                return seen == 2
            end }))
            assert.equal("stop", stopped.stop_reason)
            local states = {}
            for _, node in ipairs(search.run(options(name, { cost = false })).tree.nodes) do
                assert.is_nil(states[node.state])
                states[node.state] = true
            end
            local small = search.run(options(name, { max_nodes = 5, is_terminal = function()
                return false
            end }))
            assert.same({ 5, "max_nodes" }, { small.stats.nodes, small.stop_reason })
            local late = search.run(options(name, { max_duration_ms = 0 }))
            assert.equal("max_duration", late.stop_reason)
        end)

        if not IS_PATH[name] then
            it("makes the same tree with evaluate_all", function()
                assert.equal(tree_of(search.run(options(name))), tree_of(search.run(options(name, {
                    evaluate = false,
                    evaluate_all = function(states)
                        local scores = {}
                        for i, n in ipairs(states) do scores[i] = n % 101 / 101 end
                        return scores
                    end,
                }))))
            end)
        end
    end)
end

-- Random problems; each step and each score is a call. The process kills itself at the call whose
-- number is in the file `deadly`.
local SCRIPT = [[
local search = require "ponder.search"
local m = require("ponder.model").open "script:model.lua"
local problems, name = ...
local calls = 0
local deadly = io.open "deadly"
deadly = deadly and deadly:read "n"
local function ask(text, opts)
    calls = calls + 1
    if calls == deadly then
        os.execute("kill -9 " .. io.open("/proc/self/stat"):read("n"))
    end
    return m:complete(text, opts)
end
local state
local function random(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
end
local function any(...)
    return (select(random(select("#", ...)), ...))
end
local is_path = name == "astar" or name == "idastar"
local OWN = {
    best_first = function(o) o.beam_width = any(nil, 3) end,
    uct = function(o)
        o.rollout, o.backup, o.revisit = any("none", "greedy"), any("mean", "max"), any(false, true)
        o.guide = any(nil, 1)
        if random(3) == 1 then o.lazy, o.rollout = true, nil end
    end,
    ab_mcts = function(o)
        o.posterior, o.actions = any("gaussian", "mixed", "beta"), any(nil, { "a", "b" })
    end,
    astar = function(o) o.weight, o.cost = any(1, 2), function(a, b) return (a + b) % 5 end end,
    dvts = function(o) o.subtrees, o.beam_width = random(3), random(2) end,
    evolve = function(o)
        o.islands, o.migrate_every, o.population = random(3), any(nil, 4), any(nil, 5)
        o.select = any("weighted", "puct", "best")
        o.features = any(nil, function(n) return n % 7 end)
    end,
    halving = function(o) o.considered = random(4) end,
    particles = function(o)
        o.particles = random(3) + 1
        o.resample, o.weight = any("systematic", "multinomial", "balanced"), any("softmax", "logit")
        o.gibbs = o.resample == "balanced" and 1 or random(2)
    end,
}
OWN.puct, OWN.idastar = OWN.uct, OWN.astar
for problem = 1, tonumber(problems) do
    state = problem * 7919
    local root = random(50)
    local opts = { search = name, initial_state = root, k = random(3), max_depth = random(4) + 1,
        max_iterations = random(8) + 2, batch = random(4), concurrency = random(4),
        max_nodes = random(30) + 5, key = any(nil, function(n) return n end), seed = problem,
        stop = any(nil, "terminal", function(node) return node.terminal end),
        name = "problem " .. problem }
    function opts.expand(n, _, node)
        local text, message, code = ask("steps from " .. n, { seed = node.expansions })
        if not text then return nil, message, code end
        local list = {}
        for item in text:gmatch "%d+" do list[#list + 1] = tonumber(item) end
        return list
    end
    function opts.is_terminal(n) return n % 11 == 0 end
    opts[is_path and "heuristic" or "evaluate"] = function(n)
        local score = tonumber(assert(ask("score of " .. n)))
        return is_path and 1 - score or score
    end
    if OWN[name] then OWN[name](opts) end
    if name == "beam" then opts.beam_width = random(3) end
    local result = assert(search.run(opts))
    print(problem, result.stop_reason, result.best_node.state, result.score)
    for _, node in ipairs(result.tree.nodes) do
        print(node.id, node.parent_id, node.state, node.score, node.visits, node.value)
    end
end
io.open("calls", "w"):write(calls) -- some were in vain: how many depends on what came back first
]]

local MODEL = [[
return function(request)
    local text = request.messages[1].content
    local n = tonumber(text:match "%d+")
    if text:find "^score" then return ("%.3f"):format(n % 97 / 97) end
    local odd = (request.options.seed or 0) % 2
    return ("%d %d %d"):format(n * 2 + odd, n * 3 + odd, n + 5)
end
]]

local KILLS = tonumber(os.getenv "PONDER_KILLS") or 2

describe("random searches whose run is killed", function()
    for _, name in ipairs(searches.NAMES) do
        it("are resumed, replayed and shown: " .. name, function()
            local dir <close> = shell.directory { ["policy.lua"] = SCRIPT, ["model.lua"] = MODEL }
            local function ponder(...)
                return shell.ponder({ ... }, { cwd = dir.path })
            end
            local whole = ponder("run", "--log", "whole.db", "policy.lua", "60", name)
            assert.same({ "", 0 }, { whole.err, whole.status })
            local calls = tonumber(dir:read "calls")
            for kill = 1, KILLS do
                dir:write("deadly", tostring(calls * kill // (KILLS + 1)))
                assert.equal(137, shell.run( -- the braces: sh reports the kill to $ERR
                    ("cd %s && { XDG_STATE_HOME=%s %s %s; } >$OUT 2>$ERR"):format(
                        shell.quote(dir.path), shell.quote(shell.state_home()),
                        shell.quote(shell.executable), kill > 1 and "resume run.db" or
                        "run --log run.db policy.lua 60 " .. name)).status)
            end
            os.remove(dir.path .. "/deadly")
            local resumed = ponder("resume", "run.db")
            assert.same({ whole.out, 0 }, { resumed.out, resumed.status })
            assert.equal(whole.out, ponder("replay", "run.db").out)
            local tree = ponder("show", "--tree", "run.db").out
            assert.matches("search 1: " .. name .. ", ", tree)
            assert.equal((tree:gsub("[%d.]+ s\n", "")),
                (ponder("show", "--tree", "whole.db").out:gsub("[%d.]+ s\n", "")))
            assert.matches('"' .. name .. '"', ponder("export", "run.db", "--format", "html").out)
        end)
    end
end)

describe("ponder tot --search", function()
    for _, name in ipairs(searches.NAMES) do
        it("grows its tree by " .. name, function()
            local dir <close> = shell.directory {}
            local log = dir.path .. "/run.db"
            local r = shell.ponder { "tot", "--search", name, "--max-calls", "100", "--log", log,
                "--model", "script:scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24" }
            assert.equal(0, r.status, r.err)
            assert.matches("thoughts, best", r.err)
            assert.matches("search 1: tot, %d+ nodes", shell.ponder { "show", log, "--tree" }.out)
        end)
    end

    it("takes a policy from a file, and is resumed and replayed", function()
        local dir <close> = shell.directory { ["bad.lua"] = "return 5" }
        local function tot(policy, ...)
            return shell.ponder { "tot", "--search", policy, "--model",
                "script:scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24", ... }
        end
        local log = dir.path .. "/run.db"
        local r = tot("scripts/policies/oldest.lua", "--log", log)
        assert.same({ 0, tot("bfs").out }, { r.status, r.out }, r.err)
        for _, command in ipairs { "replay", "resume" } do
            local again = shell.ponder { command, log }
            assert.same({ r.out, 0 }, { again.out, again.status }, again.err)
        end
        assert.matches("bad.lua: must return a search policy", tot(dir.path .. "/bad.lua").err)
    end)

    it("reads the options of its search; those of the machine are an error", function()
        local tot = require "ponder.strategy.tot"
        for _, case in ipairs {
            { "traversal_strategy is not for opts.search", traversal_strategy = "bfs" },
            { "convergence_window is not for opts.search", convergence_window = 3 },
            { "^spec/%S+:%d+: .*opts.subtrees is for dvts, not for uct", subtrees = 3 },
            { "opts.beam_width is for beam, best_first, dvts, not for uct", beam_width = 2 },
            { "^spec/think/search_all_spec.lua:%d+: .*unknown option \"subtree\"", subtree = 3 },
        } do
            local opts = { model = "x:y", search = "uct" }
            for name, value in pairs(case) do
                opts[name] = name ~= 1 and value or nil
            end
            opts[1] = nil
            local _, message = pcall(function() return (tot.new(opts)) end)
            assert.matches(case[1], message)
        end
    end)

    it("makes the tree of search.run with the same thoughts and scores", function()
        local tot = require "ponder.strategy.tot"
        local function share(text) return #text:match "%S+" * 37 % 11 / 10 end
        local function reply_to(messages)
            local text = messages[#messages].content
            local lines = {}
            for id, thought in text:gmatch "<thought_(t%d+)>(.-)</thought" do
                lines[#lines + 1] = id .. ": " .. share(thought)
            end
            local last = text:match "%- ([^\n<]+)\n?</steps>" or "q"
            return lines[1] and table.concat(lines, "\n")
                or ('{"thoughts": ["%sx", "%syyy"]}'):format(last, last)
        end
        local chat = { name = "own", chat = function(_, opts)
            return { text = reply_to(opts.messages), usage = {} }
        end }
        for _, name in ipairs { "uct", "halving", "best_first", "beam" } do
            local s = tot.new { model = chat, search = name, branching_factor = 2, max_depth = 4,
                max_nodes = 40, max_iterations = 12, early_success_threshold = 2, beam_width = name
                == "beam" and 2 or nil }
            assert(task.run(s.run, s, "q"))
            local look, texts, states = s:look(), {}, {}
            for i = 2, look.count do
                texts[#texts + 1] = look.node(i).text
            end
            local result = search.run { search = name, initial_state = "q", k = 2, max_depth = 4,
                max_nodes = 40, max_iterations = 12, beam_width = name == "beam" and 2 or nil,
                expand = function(t)
                    return { t .. "x", t .. "yyy" }, { share(t .. "x"), share(t .. "yyy") }
                end }
            for i = 2, #result.tree.nodes do
                states[#states + 1] = result.tree.nodes[i].state
            end
            assert.same(states, texts)
        end
    end)
end)
