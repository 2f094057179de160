-- The line at the end of each run that called a model, and the live one on a terminal.

local help = require "log_help"
local screen = require "screen"
local server = require "server"
local shell = require "shell"

local MODEL = [[
    return function(request)
        require("ponder.task").sleep(tonumber(os.getenv "WAIT") or 0)
        return { text = "fine", usage = { input_tokens = 1000, output_tokens = 200 } }
    end]]

local PRICES = 'return { ["script:*"] = { input = 1, output = 5 } }'

local ASK = [[
    local task, model = require "ponder.task", require "ponder.model"
    local m = model.open("script:" .. (os.getenv "AT" or "") .. "m.lua")
    task.map({ 1, 2, 3 }, function(i)
        return assert(m:chat { messages = { { role = "user", content = "q" .. i } } })
    end)
    print "done"
    return { 1 }]]

local EVALUATION = [[
    local m = require("ponder.model").open "script:m.lua"
    local function ask() return (assert(m:complete "q")) end
    return { name = "one", data = { { id = "a", question = "q", target = "fine" } },
        policies = { ask = ask, raises = function() error(ask()) end },
        score = function(_, answer) return answer == "fine" and 1 or 0 end }]]

describe("the end of a run", function()
    local dir

    setup(function()
        dir = shell.directory { ["m.lua"] = MODEL, ["ask.lua"] = ASK, ["none.lua"] = "print 'x'",
            ["config/ponder/prices.lua"] = PRICES, ["fails.lua"] = ASK:gsub("print", "error"),
            ["eval.lua"] = EVALUATION,
            ["bad.lua"] = "return function() return 'I cannot say.\\nSorry.' end" }
    end)
    teardown(function() dir:__close() end)

    local function ponder(...)
        return shell.ponder({ ... }, { cwd = dir.path,
            env = { XDG_CONFIG_HOME = dir.path .. "/config" } })
    end

    it("prints the cost of its calls, and where the log is", function()
        local r = ponder("ask.lua")
        assert.same({ "done\n", "" }, { r.out, r.err })
        assert.matches("^ponder run: 3 calls, 3%.6k tokens, $0%.0060, %d+%.%d s, log "
            .. "/%S+%.db\n$", r.closing)
        r = ponder("run", "--log", "a.db", "fails.lua")
        assert.matches("^ponder run: 3 calls, 3%.6k tokens, $0%.0060, %d+%.%d s, log a.db\n$",
            r.closing)
        assert.matches("^ponder: fails.lua:6: done", r.err)
        r = ponder("resume", "a.db")
        assert.matches("^ponder resume: 3 calls, 3%.6k tokens, $0%.0060", r.closing)
    end)

    it("does so for chats and evaluations too, and for those that fail", function()
        local r = ponder("chat", "--model", "script:m.lua", "Why?")
        assert.same({ "fine\n", "" }, { r.out, r.err })
        assert.matches("^ponder chat: 1 call, 1%.2k tokens, $0%.0020, %d+%.%d s, log /%S+%.db\n$",
            r.closing)
        r = ponder("chat", "--no-log", "--model", "script:m.lua", "--max-cost", "0.00001", "Why?")
        assert.equal(1, r.status)
        assert.is_nil(r.closing) -- it was refused
        r = ponder("eval", "--log", "e.db", "eval.lua")
        assert.equal(0, r.status, r.err)
        assert.matches("^ponder eval: 2 calls, 2%.4k tokens, $0%.0040, %d+%.%d s, log e.db\n$",
            r.closing)
        assert.matches("^ponder resume: 2 calls", ponder("resume", "e.db").closing)
        assert.is_nil(ponder("replay", "e.db").closing)
        r = ponder("eval", "--no-log", "--policy", "raises", "eval.lua")
        assert.equal(1, r.status)
        assert.matches("^ponder eval: 1 call, ", r.closing)
    end)

    it("prints nothing for runs without calls and for replays", function()
        assert.is_nil(ponder("none.lua").closing)
        ponder("run", "--log", "b.db", "ask.lua")
        assert.is_nil(ponder("replay", "b.db").closing)
    end)

    it("says how to resume an interrupted run", function()
        local r = shell.run(("cd %s && { env WAIT=9 %s run --log c.db ask.lua & pid=$!; "
            .. "until [ -s c.db ]; do sleep 0.02; done; sleep 0.3; kill -INT $pid; wait $pid; } "
            .. ">$OUT 2>$ERR"):format(shell.quote(dir.path), shell.quote(shell.executable)))
        assert.equal(130, r.status)
        assert.matches("^ponder run: 3 calls, .*, log c.db, to continue: ponder resume c.db\n$",
            r.closing)
    end)

    it("shows the cost of a strategy in its line and in --json", function()
        local r = ponder("cot", "--model", "script:m.lua", "--json", "Why?")
        assert.matches("success, 1 call, 1%.2k tokens, $0%.0020, .*, log /%S+%.db\n$", r.err)
        assert.equal(0.002, require("ponder.json").decode(r.out).spent.cost)
    end)

    it("names the call whose reply a strategy could not read, and how that began", function()
        local r = ponder("tot", "--model", "script:bad.lua", "Why?")
        assert.matches('strategy.tot: the model must propose steps as JSON, {"thoughts": ["...", '
            .. '"..."]}, or as a numbered list: the reply was "I cannot say." (ponder show --call '
            .. "2); try another model, or other instructions (ponder prompts show tot.generate) "
            .. "[BAD_REPLY]\n", r.err, 1, true)
        assert.equal(0, ponder("prompts", "show", "tot.generate").status)
        r = ponder("tot", "--log", "d.db", "--model", "script:bad.lua", "Why?")
        assert.matches("(ponder show d.db --call 2); try", r.err, 1, true)
        assert.matches("I cannot say.", ponder("show", "d.db", "--call", "2").out, 1, true)
    end)

    it("is preceded by a line on a terminal while calls are in flight", function()
        local s <close> = screen.open({ "run", "--no-log", dir.path .. "/ask.lua" }, {
            env = { WAIT = "0.4", AT = dir.path .. "/",
                XDG_CONFIG_HOME = dir.path .. "/config" } })
        s:wait "3 calls, 3 in flight, 0 tokens"
        local status, lines = s:finish()
        assert.equal(0, status)
        assert.equal("done", lines[1])
        assert.matches("^ponder run: 3 calls, 3%.6k tokens, $0%.0060", lines[2])
        assert.is_nil(lines[3])
    end)
end)

describe("an amount", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    local REPLY = '{"choices":[{"message":{"content":"fine"}}]%s}'
    local BARE = "body=" .. server.encode(REPLY:format "")
    local USAGE = "body=" .. server.encode(REPLY:format(
        ',"usage":{"prompt_tokens":1000,"completion_tokens":200}'))
    local FAILS, CUT = "status=503&body={}&retry-after=0", "cut=20"

    -- What the server answers, and what that comes to: in the closing line; in the columns of
    -- `ponder log`; in the tokens of `ponder show`; in the columns of `ponder show --calls`.
    local CASES = {
        { "that replies report", { FAILS, FAILS, USAGE }, "1 call, 1.2k tokens, $0.0020",
            "1.2k $0.0020", "1.0k in, 200 out", "1.0k 200 $0.0020" },
        { "that no reply reports", { BARE }, "1 call, ~%d.%dk tokens, ~$0.00%d%d", "? ?",
            "? in, ? out", "? ? ?" },
        { "of an attempt that was cut off", { CUT, USAGE }, "1 call, ~2.%dk tokens, ~$0.00%d%d",
            "1.2k+? $0.0020+?", "1.0k+? in, 200+? out", "1.0k 200 $0.0020" },
        { "of a call whose attempts were all cut off", { CUT, CUT, CUT },
            "1 call, 1 failed, ~3.%dk tokens, ~$0.01%d", "? ?", "? in, ? out", "? ? ?" },
        { "of a call that is not billed", { "status=400&body={}" },
            "1 call, 1 failed, 0 tokens", "0 $0.00", "0 in, 0 out", "- - -" },
    }

    for _, case in ipairs(CASES) do
        it(case[1] .. " is the same everywhere", function()
            w:begin [[ say(ask "a") ]]
            w.dir:write("config/ponder/prices.lua",
                ('return { ["%s/*"] = { input = 1, output = 5 } }'):format(w.server.url))
            w.server:next(table.unpack(case[2]))
            local opts = { env = { XDG_CONFIG_HOME = w.dir.path .. "/config" } }
            local function pattern(text)
                return (text:gsub("%%d", "\1"):gsub("[%?%$+]", "%%%0"):gsub("\1", "%%d"):gsub(" ",
                    " +"))
            end
            local r = w:ponder({ "run", "--log", w.log, w.script }, opts)
            assert.matches("^ponder run: " .. pattern(case[3]) .. "[%d]*, %d.%d s", r.closing)
            assert.matches(" +1 +" .. pattern(case[4]) .. " ", w:ponder({ "log", w.log }).out)
            assert.matches("\ntokens    " .. pattern(case[5]) .. "\ncost      "
                .. pattern(case[4]:match "%S+$") .. "\n", w:ponder({ "show", w.log }).out)
            assert.matches(" " .. pattern(case[6]) .. " +live ",
                w:ponder({ "show", "--calls", w.log }).out)
        end)
    end
end)
