-- ponder tot, got, trm and cot as a person uses them: in a pipe, and what a terminal shows.

local flags = require "ponder.cli.shared.flags"
local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local screen = require "screen"
local shell = require "shell"

local STEPS = "script:" .. shell.root .. "/spec/fixtures/models/steps.lua"
local GAME = "script:" .. shell.root .. "/scripts/models/arithmetic.lua"
local WIDE = "a wide one: " .. ("中文"):rep(12)

local function ponder(arguments, input, env)
    return shell.ponder(arguments, { input = input, env = shell.bare(env) })
end

-- Without the duration.
local function timeless(text) return (text:gsub("%d+%.%d s", "T s")) end

describe("a strategy's command in a pipe", function()
    it("prints the answer alone, and a line for each step on standard error", function()
        local r = ponder { "tot", "--model", STEPS, "--max-depth", "2", "Why?" }
        assert.same({ 0, WIDE .. "\n" }, { r.status, r.out })
        assert.matches(", log /[^\n]*%.db\n$", r.err)
        assert.equal([[
ponder tot: 3 thoughts, best 0.60, 2 calls, 200 tokens, T s
ponder tot: 6 thoughts, best 0.70, 4 calls, 400 tokens, T s
ponder tot: 9 thoughts, best 0.80, 6 calls, 600 tokens, T s
ponder tot: 12 thoughts, best 0.90, 8 calls, 800 tokens, T s
ponder tot: max depth, 12 thoughts, best 0.90, 8 calls, 800 tokens, T s, ]] .. STEPS
            .. ", scripted\n", (timeless(r.err):gsub(", log [^\n]*", "")))
    end)

    it("answers with every strategy", function()
        for _, name in ipairs { "tot", "got", "trm", "cot" } do
            local r = ponder { name, "--model", GAME, "--quiet", "Use 4 4 6 8 to make 24" }
            assert.same({ 0, "" }, { r.status, r.err }, name)
            assert.truthy(r.out:find("^[%d%s()*/+-]+= 24\n$"), name .. ": " .. r.out)
        end
    end)

    it("reads the question from standard input, before the arguments", function()
        for _, words in ipairs { {}, { "-" }, { "4", "4", "6", "8", "to make 24" } } do
            local r = ponder({ "cot", "--model", GAME, "--quiet", table.unpack(words) },
                words[2] and "Play this game.\n" or "Use 4 4 6 8 to make 24\n")
            assert.truthy(r.out:find("= 24\n$"), r.err)
        end
    end)

    it("refuses a blank question", function()
        for _, words in ipairs { {}, { "" }, { " ", "\t" } } do
            local r = ponder({ "cot", "--model", GAME, table.unpack(words) }, " \n")
            assert.same({ 2, "", 'ponder cot: expected a question: ponder cot "QUESTION"\n' },
                { r.status, r.out, r.err })
        end
    end)

    it("takes the question as several words, and words after -- literally", function()
        local dir <close> = shell.directory { ["echo.lua"] = [[
            return function(request)
                return request.messages[#request.messages].content:match("\n(%-%-why not)\n") or "?"
            end]] }
        local r = ponder { "cot", "--quiet", "--model", "script:" .. dir.path .. "/echo.lua",
            "--", "--why", "not" }
        assert.equal("--why not\n", r.out)
    end)

    it("--json prints one object, whatever happens", function()
        local r = ponder { "tot", "--json", "--quiet", "--model", GAME, "Use 4 4 6 8 to make 24" }
        local object = json.decode(r.out)
        assert.equal(0, r.status)
        assert.equal(1, select(2, r.out:gsub("\n", "")))
        for _, field in ipairs { "answer", "score", "result", "spent", "duration_ms", "model" } do
            assert.is_not_nil(object[field], field)
        end
        assert.same({ "completed", GAME, true }, { object.status, object.model, object.scripted })

        r = ponder { "tot", "--json", "Why?" }
        object = json.decode(r.out)
        assert.same({ 1, "error", "NO_MODEL" }, { r.status, object.status, object.error.code })
    end)

    it("--jsonl prints events as they happen and the object last", function()
        local r = ponder { "tot", "--jsonl", "--model", STEPS, "--max-depth", "2", "Why?" }
        local names = {}
        local lines = shell.lines(r.out)
        for i = 1, #lines - 1 do
            local event = json.decode(lines[i])
            assert.equal("event", event.type)
            names[event.name] = (names[event.name] or 0) + 1
        end
        local last = json.decode(lines[#lines])
        assert.same({ "result", "completed", WIDE, 8 },
            { last.type, last.status, last.answer, last.spent.calls })
        assert.same({ 8, 8 }, { names["call.start"], names["call.complete"] })
        assert.same({ 0, "" }, { r.status, r.err })
        assert.equal(2, ponder({ "tot", "--json", "--jsonl", "Why?" }).status)
    end)

    it("keeps control characters from the terminal, and in JSON exactly", function()
        local dir <close> = shell.directory { ["evil.lua"] = [[return function()
            return { text = "a\27]0;title\7\r\nb\u{9B}31m\u{202E}c\xFF" } end]] }
        local evil = "script:" .. dir.path .. "/evil.lua"
        assert.equal("a?]0;title?\nb?31mc\u{FFFD}\n",
            ponder({ "cot", "--quiet", "--model", evil, "Why?" }).out)
        local object = json.decode(ponder({ "cot", "--json", "--model", evil, "Why?" }).out)
        assert.equal("a\27]0;title\7\r\nb\u{9B}31m\u{202E}c\u{FFFD}", object.answer)
    end)

    it("--tools takes tools from a file", function()
        local dir <close> = shell.directory {
            ["tools.lua"] = [[return { { name = "add", description = "adds", parameters = {
                type = "object", properties = { a = { type = "number" } } },
                run = function(args) return tostring(args.a + 1) end } }]],
            ["model.lua"] = [[local asked
                return function(request)
                    local last = request.messages[#request.messages]
                    if last.role == "tool" then return "got " .. last.content end
                    return { text = "", tool_calls = { { id = "x", name = "add",
                        arguments = { a = 41 } } } }
                end]] }
        local model = "script:" .. dir.path .. "/model.lua"
        local r = ponder { "cot", "--quiet", "--tools", dir.path .. "/tools.lua", "--model",
            model, "Why?" }
        assert.same({ 0, "got 42\n" }, { r.status, r.out }, r.err)
    end)

    it("shows requests with --verbose, and refuses a missing --prompts directory", function()
        local r = ponder { "cot", "--verbose", "--model", GAME, "Use 4 4 6 8 to make 24" }
        assert.equal(0, r.status)
        assert.truthy(("\n" .. r.err):find("\n> 1 script:", 1, true), r.err)
        local missing = shell.root .. "/no-such-directory"
        r = ponder { "cot", "--prompts", missing, "--model", GAME, "Use 4 4 6 8 to make 24" }
        assert.same({ 2, ("ponder cot: --prompts: %s: No such file or directory; ponder prompts "
            .. "eject --to DIR makes one"):format(missing) }, { r.status, shell.lines(r.err)[1] })
    end)
end)

describe("a model that cannot be used", function()
    it("is explained in two lines if no server answers", function()
        local r = ponder { "tot", "--model", "ollama:qwen3:8b", "--max-retries", "0", "Why?" }
        local lines = shell.lines(r.err)
        assert.same({ 1, "", 2 }, { r.status, r.out, #lines }, r.err)
        assert.truthy(lines[1]:find("127.0.0.1:1.*%[CONNECT%]$"))
    end)

    it("is named with file and line if it is a script", function()
        local dir <close> = shell.directory { ["broken.lua"] = "return function(" }
        local r = ponder { "cot", "--model", "script:" .. dir.path .. "/broken.lua", "Why?" }
        assert.equal(1, r.status)
        assert.truthy(r.err:find("broken.lua:1:", 1, true), r.err)
    end)
end)

describe("a run that ends early", function()
    it("prints the best so far and fails", function()
        local r = ponder { "tot", "--model", STEPS, "--max-calls", "3", "Why?" }
        assert.same({ 1, WIDE .. "\n" }, { r.status, r.out })
        assert.truthy(r.err:find("budget", 1, true), r.err)
        assert.truthy(r.err:find("[BUDGET]", 1, true), r.err)
    end)

    it("prints the best so far after Ctrl-C", function()
        local r = shell.run(([[
            LC_ALL=C.UTF-8 LATER=30 %s tot --model %s Why? >$OUT 2>$ERR & pid=$!
            until grep -q '3 thoughts' $ERR; do sleep 0.01; done
            kill -INT $pid; wait $pid]]):format(shell.quote(shell.executable), STEPS))
        assert.same({ 130, WIDE .. "\n" }, { r.status, r.out }, r.err)
        assert.truthy(r.err:find("ponder tot: the best so far:\n$"), r.err)
    end)

    it("says so in JSON too", function()
        local r = shell.run(([[
            LATER=30 %s tot --jsonl --model %s Why? >$OUT 2>$ERR & pid=$!
            until grep -q '"name":"step"\|tot.step' $OUT; do sleep 0.01; done
            kill -INT $pid; wait $pid]]):format(shell.quote(shell.executable), STEPS))
        local lines = shell.lines(r.out)
        local last = json.decode(lines[#lines])
        assert.same({ 130, "error", "interrupted", WIDE },
            { r.status, last.status, last.stop_reason, last.answer }, r.err)
    end)

    it("prints nothing if there is no answer yet", function()
        local r = shell.run(([[
            WAIT=30 %s tot --model %s Why? >$OUT 2>$ERR & pid=$!
            sleep 0.3; kill -INT $pid; wait $pid]]):format(shell.quote(shell.executable), STEPS))
        assert.same({ 130, "", "ponder tot: interrupted\n" }, { r.status, r.out, r.err })
    end)
end)

describe("the flags", function()
    it("of a strategy are all its options except functions and the key", function()
        for _, name in ipairs { "tot", "got", "trm", "cot" } do
            local list = require("ponder.strategy." .. name).options()
            local rules, sections = flags.of(list)
            local covered = { api_key = true, prompts = true, tools = true, budget = true }
            for _, rule in pairs(rules) do
                covered[(rule.option or {}).name or "budget"] = true
                assert.truthy(rule.help ~= "")
            end
            for _, option in ipairs(list) do
                assert.is_true(covered[option.name] or option.type == "function",
                    name .. " " .. option.name)
            end
            local listed = 0
            for _, section in ipairs(sections) do listed = listed + #section.names end
            local count = 0
            for _ in pairs(rules) do count = count + 1 end
            assert.equal(count, listed)
        end
    end)

    it("become options", function()
        local rules = flags.of(require("ponder.strategy.got").options())
        assert.same({ connect = false, max_nodes = 7, cache = false, extra = { a = 1 },
            models = { generate = "a:b", evaluate = "c:d=e" } }, flags.options({ no_connect = true,
            max_nodes = 7, no_cache = true, extra = '{"a":1}',
            models = "generate=a:b,evaluate=c:d=e" }, rules))
        assert.same({}, flags.options({}, rules))
        assert.same({ budget = { max_calls = 5, timeout_ms = 1500, in_flight = "cancel" } },
            flags.options({ max_calls = 5, timeout = 1.5, in_flight = "cancel" }, rules))
        for _, bad in ipairs { "generate", "", "=a", "a:b,c=d" } do
            local opts, message = flags.options({ models = bad }, rules)
            assert.is_nil(opts)
            assert.truthy(message:find("^%-%-models must be ROLE=NAME"))
        end
        for _, bad in ipairs { "{", "7", "" } do
            local opts, message = flags.options({ extra = bad }, rules)
            assert.is_nil(opts)
            assert.truthy(message:find("^%-%-extra must be a JSON object"))
        end
    end)

    it("reach the machine", function()
        local r = ponder { "tot", "--model", STEPS, "--max-depth", "1", "--branching-factor", "2",
            "--json", "--quiet", "Why?" }
        local tree = json.decode(r.out).result.tree
        assert.same({ 1, 2, 3 }, { tree.max_depth, tree.branching_factor, tree.node_count })
    end)

    it("that are wrong are usage errors, with a suggestion", function()
        for message, words in pairs {
            ["ponder tot: unknown option --max-deep (did you mean --max-depth?)"] =
                { "--max-deep" },
            ["ponder tot: --max-depth must be an integer from 1 to 1000000000 (got \"0\")"] =
                { "--max-depth", "0" },
            ["ponder tot: --traversal-strategy must be one of best_first, bfs, dfs (got \"x\")"] =
                { "--traversal-strategy", "x" },
            ["ponder tot: --temperature must be a number >= 0 (got \"1e999\")"] =
                { "--temperature", "1e999" },
        } do
            words[#words + 1] = "Why?"
            local r = ponder { "tot", "--model", STEPS, table.unpack(words) }
            assert.same({ 2, "", message .. "\n" }, { r.status, r.out, r.err })
        end
        local r = ponder { "tot", "--model", STEPS, "--models", "judge=x:y", "Why?" }
        assert.equal(2, r.status)
        assert.truthy(r.err:find("no role", 1, true), r.err)
    end)
end)

---------------------------------------------------------------------------------------------------

local QUICK = { "tot", "--model", STEPS, "--max-depth", "2", "--max-nodes", "7", "Why?" }
local SLOW = { "tot", "--model", STEPS, "--round-size", "2", "Why?" }

-- Three thoughts, then calls that stay in flight.
local STILL = { WAIT = "0.1", LATER = "30" }

local function env(more)
    local all = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent", WAIT = "0",
        XDG_STATE_HOME = shell.state_home() }
    return merge(all, more)
end

-- The screen without what differs from run to run: the time, the model's directory.
local function steady(lines)
    return (table.concat(lines, "\n"):gsub("%d+%.%d s", "T s"))
end

-- Lines of the summary wrap depending on the directory's name: only what is above it counts.
local function drawing(lines)
    local text = steady(lines)
    return (text:gsub("\nponder tot: .*$", "")), text:match("\nponder tot: (.*)$")
end

describe("the tree of thoughts", function()
    it("is drawn at 80 columns, the answer last", function()
        local s <close> = screen.open(QUICK, { columns = 80, env = env() })
        local status, lines = s:finish()
        local tree, rest = drawing(lines)
        assert.equal(0, status)
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文中文中文中文中文中文中文中文中文
│  ├─ 0.40  plain step
│  ├─ 0.70* a wide one: 中文中文中文中文中文中文中文中文中文中文中文中文
│  └─ 0.10  red ?[31mtext? and a title ?]0;pwned?
└─ 0.10  red ?[31mtext? and a title ?]0;pwned?]], tree)
        assert.truthy(rest:find("max nodes, 6 thoughts, best 0.70, 4 calls, 400 tokens, T s", 1,
            true), rest)
        assert.truthy(rest:find("scripted", 1, true))
        assert.equal("a wide one: " .. ("中文"):rep(12), lines[#lines])
    end)

    it("is drawn at 40 columns, wide characters whole", function()
        local s <close> = screen.open(QUICK, { columns = 40, env = env() })
        local _, lines = s:finish()
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文…
│  ├─ 0.40  plain step
│  ├─ 0.70* a wide one: 中文中文中文中…
│  └─ 0.10  red ?[31mtext? and a title…
└─ 0.10  red ?[31mtext? and a title ?]…]], (drawing(lines)))
    end)

    it("is drawn without Unicode and colours if they are not wanted", function()
        local s <close> = screen.open(QUICK, { columns = 40, env = env { LC_ALL = "C",
            NO_COLOR = "1" } })
        local _, lines = s:finish()
        assert.equal("|- 0.40  plain step", lines[2])
        assert.equal("`- 0.10  red ?[31mtext? and a title ...", lines[7])
        assert.is_nil(s:colored():find("\27[", 1, true))
    end)

    it("is coloured by default", function()
        local s <close> = screen.open(QUICK, { columns = 80, env = env() })
        s:finish()
        assert.truthy(s:colored():find("\27[31m0.10", 1, true))
    end)

    it("is not written to a file", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open(QUICK, { env = env(), out = dir.path .. "/out" })
        local status, lines = s:finish()
        assert.equal(0, status)
        assert.equal("Why?", lines[1])
        assert.equal("a wide one: " .. ("中文"):rep(12) .. "\n", dir:read("out"))
    end)

    it("becomes plain lines in a file and on a dumb terminal", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open(QUICK, { env = env(), err = dir.path .. "/err" })
        local _, lines = s:finish()
        assert.same({ "a wide one: " .. ("中文"):rep(12) }, lines)
        assert.truthy(dir:read("err"):find("^ponder tot: 3 thoughts"))
        assert.is_nil(dir:read("err"):find("\27", 1, true))
        local dumb <close> = screen.open(QUICK, { env = env { TERM = "dumb" } })
        local _, plain = dumb:finish()
        assert.truthy(plain[1]:find("^ponder tot: 3 thoughts"))
    end)
end)

describe("the live view", function()
    it("shows the calls in flight and leaves no trace", function()
        local dir <close> = shell.directory()
        local s <close> = screen.open(SLOW, { rows = 40, env = env { GO = dir.path .. "/go" } })
        local lines = s:wait("2 in flight: generate %d%.%d s, generate")
        assert.equal("tot generating, 3 thoughts, best 0.60, N calls, 200 tokens, T s",
            (steady(lines):match("^[^\n]*"):gsub("%d calls", "N calls")))
        assert.equal("> a wide one: " .. ("中文"):rep(12), lines[#lines])
        assert.is_true(#lines <= 4)
        dir:write("go", "")
        local status, final = s:finish()
        assert.equal(0, status)
        assert.equal("Why?", final[1])
        assert.is_nil(steady(final):find("in flight", 1, true))
        assert.is_nil(steady(final):find("tot generating", 1, true))
    end)

    it("fits 40 columns", function()
        local s <close> = screen.open(SLOW, { columns = 40, env = env(STILL) })
        local lines = s:wait("2 in flight: generate")
        assert.equal("tot generating, 3 thoughts, best 0.60", lines[1])
        assert.equal("> a wide one: 中文中文中文中文中文中…", lines[#lines])
        assert.is_true(#lines <= 5)
    end)

    it("keeps its place when the window is resized", function()
        local s <close> = screen.open(SLOW, { columns = 80, env = env(STILL) })
        s:wait("2 in flight: generate")
        for _, columns in ipairs { 37, 100, 24, 60 } do
            s:resize(columns, 24)
            s:wait("in flight")
            os.execute("sleep 0.25")
            local text = table.concat(s:lines(), "\n")
            local _, views = text:gsub("%f[%a]tot %a+ing", "")
            assert.equal(1, views, text)
        end
    end)

    it("continues below what a shell writes while it is stopped", function()
        local s <close> = screen.open(SLOW, { columns = 80, env = env(STILL) })
        s:wait("2 in flight: generate")
        s:suspend "\r\n[1]+  Stopped\r\n$ fg\r\nponder tot\r\n"
        s:wait("ponder tot\ntot generating")
        os.execute("sleep 0.3") -- it is drawn again, in its place
        local text = table.concat(s:lines(), "\n")
        assert.truthy(text:find("[1]+  Stopped\n$ fg\nponder tot\ntot generating", 1, true), text)
        local _, views = text:gsub("\nponder tot\ntot generating", "")
        assert.equal(1, views, text)
    end)

    it("ends with the best so far at Ctrl-C", function()
        local s <close> = screen.open(SLOW, { columns = 60, env = env { LATER = "30" } })
        s:wait("3 thoughts, best 0.60")
        s:press("C-c")
        local status, lines = s:finish()
        local tree, rest = drawing(lines)
        assert.equal(130, status)
        assert.equal([[
Why?
├─ 0.40  plain step
├─ 0.60* a wide one: 中文中文中文中文中文中文中文中文中文…
└─ 0.10  red ?[31mtext? and a title ?]0;pwned?]], tree)
        assert.truthy(rest:find("^interrupted, 3 thoughts"), rest)
        assert.truthy(rest:find("the best so far:\n"), rest)
    end)
end)
