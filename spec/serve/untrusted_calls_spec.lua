-- --untrusted for many calls: servers, evaluations, strategies (ponder.serve.untrusted).

local json = require "ponder.json"
local proxies = require "ponder.serve.untrusted.proxies"
local served = require "served"
local shell = require "shell"

local MODEL = [[return function(request)
    require("ponder.task").sleep(0.002)
    return "a-" .. request.messages[1].content
end]]

describe("the process of several calls", function()
    local ROUNDS = [[
        local task, asked = require "ponder.task", 0
        return {
            draw = function(n)
                local m = require("ponder.model").open()
                local texts = task.map({ 1, 2, 3 }, function(i)
                    task.sleep(0.001 * (4 - i))
                    return (assert(m:complete(n .. "." .. i)))
                end)
                asked = asked + 1
                return { table.concat(texts, ","), math.random(1 << 30) }, asked
            end,
            loop = function() while true do end end,
            chatter = function() while true do print(("x"):rep(1000)) end end,
            fail = function() error "oh" end,
            wait = function()
                local _ <close> = setmetatable({}, { __close = function() print "cancelled" end })
                task.sleep(1000)
            end,
            text = function(mib) return ("x"):rep((mib << 20) - 4) end, -- with [""] a list of it
        }]]

    -- Opens a script of functions in the executable as `box`, and runs code with it.
    local function with_box(code, opts)
        local dir <close> = shell.directory { ["m.lua"] = MODEL, ["s.lua"] = ROUNDS, ["p.lua"] = [[
            local task, run = require "ponder.task", require "ponder.run"
            local file <close> = io.open "s.lua"
            local untrusted = require "ponder.serve.untrusted"
            local box <close> = assert(untrusted.open({ text = file:read "a",
                name = "@s.lua", form = "functions" }, { models = { "script:m.lua" },
                ]] .. (opts or "") .. " }))\n" .. code }
        return dir:printed { "run", "--no-log", "p.lua" }
    end

    it("runs many calls, each as if it were alone", function()
        assert.equal("same\t40\n", with_box [[
            local json = require "ponder.json"
            local function draw(i)
                return json.encode((run.new { seed = i }:call(box.call, box, "call draw", { i })))
            end
            local alone, numbers = {}, {}
            for i = 1, 20 do alone[i], numbers[i] = draw(i), i end
            local together = task.map(numbers, draw, { concurrency = 20 })
            for i = 1, 20 do assert(alone[i] == together[i], together[i]) end
            print("same", (select(2, box:call("call draw", { 1 }))) - 1)]])
    end)

    it("is killed if it computes for too long; the next call starts another", function()
        assert.equal("SANDBOX\tSANDBOX\n1\nERROR\n", with_box([[
            local waits = task.spawn(function() return select(3, box:call("call wait", {})) end)
            task.sleep(0)
            local _, _, code = box:call("call loop", {})
            waits:cancel()
            print(code, select(3, box:call("call loop", {})))
            print((select(2, box:call("call draw", { 1 }))))
            print((select(3, box:call("call fail", {}))))]], "patience = 0.5"))
    end)

    it("is named with the signal that killed it", function()
        assert.equal("SANDBOX\tthe policy's process was ended by signal 9\n", with_box [[
            local waits = task.spawn(function() return box:call("call wait", {}) end)
            task.sleep(0)
            assert(os.execute "kill -KILL $(pgrep -P $PPID -f '[-]-confined')")
            local _, message, code = box:call("call draw", { 1 })
            waits:cancel()
            print(code, message)]])
    end)

    it("is killed if it prints for too long", function()
        assert.equal("SANDBOX\n", with_box([[
            print((select(3, box:call("call chatter", {}))))]], "patience = 0.5"))
    end)

    it("is killed if it prints too much", function()
        assert.equal("SANDBOX\tthe policy's output, requests and answers exceed 1 MiB\n",
            with_box([[
            local _, message, code = box:call("call chatter", {})
            print(code, message)]], "exchange_mb = 1"))
    end)

    it("may return 24 MiB of JSON", function()
        assert.equal("25165820\ncannot send what the policy returned: more than 24 MiB\n",
            with_box [[
            print(#box:call("call text", { 24 }))
            print((select(2, box:call("call text", { 25 }))))]])
    end)

    it("is killed if it does not read its messages", function()
        local r = shell.ponder { "-e", [[
            local confine, json = require "ponder.core.confine", require "ponder.json"
            local child = assert(confine.spawn())
            assert(child:send(json.encode { name = "=x", form = "functions", models = {},
                text = "return { f = function() while true do end end }", memory_mb = 64,
                cpu_seconds = 60 }))
            local function begin(id, name, ...)
                assert(child:send(json.encode { call = id, now = 0, time = 0, begin = {
                    name = name, seed = 1, arguments = json.encode(json.array { ... }) } }))
            end
            begin(1, "load", {})
            assert(child:receive(60))
            begin(2, "call f")
            print(child:send(("x"):rep(8 << 20), 0.2))
            print(child:why(), pcall(child.receive, child))]] }
        assert.matches("^nil\tTIMEOUT\nnil\tfalse\t[^\n]*\n$", r.out .. r.err)
    end)

    it("ends when its box is closed", function()
        assert.equal("0 1\n", with_box [[
            local confined = "pgrep -P $PPID -f '[-]-confined' >/dev/null"
            local _, _, before = os.execute(confined)
            box:close()
            print(before .. " " .. select(3, os.execute(confined)))]])
    end)

    it("continues after a cancelled call", function()
        assert.equal("cancelled\nnil\n1\n", with_box([[
            print((task.timeout(0.01, box.call, box, "call wait", {})))
            print((select(2, box:call("call draw", { 1 }))))]], "write = io.write"))
    end)

    it("is another one after a call that was stopped while it computed", function()
        assert.equal("TIMEOUT\n1\n", with_box([[
            print((select(3, task.timeout(0.05, box.call, box, "call loop", {}))))
            print((select(2, box:call("call draw", { 1 }))))]], "patience = 10"))
    end)

    it("runs an evaluation, which can be resumed and replayed", function()
        local dir <close> = shell.directory { ["m.lua"] = MODEL, ["e.lua"] = [[
            local eval, data = require "ponder.eval", {}
            for i = 1, 6 do data[i] = { id = "i" .. i, question = i, target = 2 * i } end
            local score = { eval.score.numeric, function() return 1 end }
            return { data = data, score = score, policies = {
                bad = function(item, run) if run.question == 3 then error "oh" end return 1 end,
                good = function(item, run)
                    require("ponder.model").open():complete("q" .. item.id)
                    run:report(0)
                    return item.question * 2, math.random()
                end } }]] }
        local function accuracy(...)
            local result = json.decode(dir:printed { ... })
            local policies = result.policies
            assert.equal("all", result.meta.against) -- none is named as the baseline
            return { policies[1].accuracy.value, policies[2].accuracy.value, policies[2].name }
        end
        local first = accuracy("eval", "--json", "--untrusted", "--allow-model", "script:m.lua",
            "--max-cost", "1", "--log", "e.db", "e.lua")
        assert.same({ 0.0, 1.0, "good" }, first)
        assert.same(first, accuracy("replay", "e.db"))
        assert.same(first, accuracy("resume", "e.db"))
    end)

    it("runs the policies of a server", function()
        local dir <close> = shell.directory { ["m.lua"] = MODEL, ["s.lua"] = [[
            return {
                up = { description = "shouts", run = function(request)
                    request:think "hm"
                    return request.prompt:upper()
                end },
                ask = function(request)
                    request:write((assert(require("ponder.model").open():complete(request.prompt))))
                end,
                out = function() return tostring(io) .. tostring(os.getenv) end,
                own = function() return nil, "no such city", "NOT_FOUND" end,
                raised = function() error "a secret" end,
                silent = function() end,
            }]] }
        local server <close>, ask = served.start(dir, { "--untrusted", "--allow-model",
            "script:m.lua", "--max-calls-per-request", "2", "--log", "a.db", "s.lua" })
        for _, case in ipairs { { "ask", "a-hi" }, { "up", "HI" }, { "out", "nilnil" },
            { "own", "failed: no such city" }, { "raised", "the server's log has the reason" },
            { "silent", "it returned nothing, and wrote nothing" } } do
            assert.matches(case[2] .. "$", (ask(case[1], "hi")))
        end
        assert.equal(0, server:stop())
        os.remove(dir.path .. "/m.lua")
        assert.equal("a-hi\n", dir:ponder { "replay", "a.db#2" }.out)
    end)

    it("serves strategies, built in and of the file, with an allowed model", function()
        local dir <close> = shell.directory { ["s.lua"] = [[
            local strategy, all = require "ponder.strategy", {}
            for _, name in ipairs { "cot", "tot", "got", "trm" } do
                all[name] = require("ponder.strategy." .. name)
            end
            all.own = strategy.new { name = "own", roles = { "generate" },
                run = function(thinker, question)
                    local text = strategy.read_answer((thinker:ask(question)))
                    thinker:best(thinker:node { text = text }, text)
                    return text
                end }
            return all]] }
        local model = "script:" .. shell.root .. "/scripts/models/arithmetic.lua"
        local server <close>, ask = served.start(dir, { "--untrusted", "--allow-model", model,
            "--max-cost", "1", "--model", model, "s.lua" })
        assert.matches("^ponder serve: cot, got, own, tot, trm at unix:", server.line)
        for _, name in ipairs { "own", "cot", "tot", "got", "trm" } do
            assert.matches("^[(0-9]", (ask(name, "Use 4 4 6 8 to make 24")), name)
        end
        assert.equal(0, server:stop())
        assert.matches('^ponder serve: policy cot: "script:no.lua" is not allowed here: name it in '
            .. "%-%-allow%-model", dir:ponder({ "serve", "--untrusted", "--model", "script:no.lua",
            "s.lua" }).err)
    end)

    it("needs a budget for each command that calls models", function()
        for _, command in ipairs { "serve", "eval" } do
            local r = shell.ponder { command, "--untrusted", "--allow-model", "a:b", "x.lua" }
            assert.equal(2, r.status)
            assert.matches("%-%-allow%-model needs a budget: %-%-max%-cost", r.err)
        end
    end)
end)

describe("what the process says about its functions", function()
    -- A box that describes itself so, and whose calls send all events.
    local function box_of(about)
        return { about = about, call = function(_, name, arguments, on_event)
            for _, event in ipairs { "think", "write", "progress", "log", "report", "samples",
                "sink", "__index" } do
                if on_event then
                    on_event(event, name)
                end
            end
            return name, arguments
        end }
    end

    local function listener(names)
        local heard = {}
        for name in names:gmatch "%S+" do
            heard[name] = function(_, text)
                heard[#heard + 1] = name .. ":" .. text
                error "a listener's own mistake"
            end
        end
        return heard
    end

    local ALL = "think write progress log report samples sink __index"

    it("may be nothing; and it is asked again when its tasks have waited, not before", function()
        local expected = "512\t600\nnil\tSANDBOX\n7\ttrue\n9\n7\n"
        assert.equal(expected, shell.printed { "run", "--no-log", "-e", [[
            local confine, task = require "ponder.core.confine", require "ponder.task"
            local untrusted, first = require "ponder.serve.untrusted", nil
            local function open(...)
                local messages = { ... }
                function confine.spawn()
                    return { kill = function() end, send = function(_, text)
                        first = first or text
                        return true
                    end, receive = function() return table.remove(messages, 1) end }
                end
                return untrusted.open({ text = "", name = "=x", form = "functions" }, {})
            end
            local none, message, code = open '{"done":true,"results":"[]"}'
            print(first:match '"memory_mb":(%d+)', first:match '"cpu_seconds":(%d+)')
            print(none, message and code)
            local box = assert(open('{"done":true,"results":"[{}]"}', '{"wait":0.3}',
                '{"done":true,"results":"[7]"}'))
            local began = task.now()
            print(box:call("call f", {}), task.now() - began >= 0.3)
            box = assert(open('{"done":true,"results":"[{}]"}', '{"done":true,"results":"[7]",'
                .. '"events":[{"name":"x","what":"[1,2,3,4,5,6,7,8,9]"}]}'))
            print(box:call("call f", {}, function(...) print(select("#", ...)) end))]] })
    end)

    it("may ask 100,000 things at once, and no more", function()
        assert.equal("7\t2\n", shell.printed { "run", "--no-log", "-e", [[
            local confine = require "ponder.core.confine"
            local many, refused, long = {}, 0, ("x"):rep(100)
            for i = 1, 100002 do
                many[i] = ('{"id":%d,"kind":"x","what":"%s"}'):format(i, long)
            end
            local messages = { '{"done":true,"results":"[{}]"}', '{"requests":['
                .. table.concat(many, ",") .. "]}", '{"done":true,"results":"[7]"}' }
            function confine.spawn()
                return { kill = function() end, send = function(_, text)
                    refused = refused + select(2, text:gsub("too many requests at once", ""))
                    return true
                end, receive = function() return table.remove(messages, 1) end }
            end
            local box = assert(require("ponder.serve.untrusted").open({ text = "", name = "=x",
                form = "functions" }, {}))
            print((box:call("call f", {})), refused)]] })
    end)

    it("has no more than 32 MiB of answers waiting for it, and one more", function()
        local dir <close> = shell.directory { ["x.txt"] = ("x"):rep(17 << 20) }
        assert.equal("2\t3\n", dir:printed { "run", "--no-log", "-e", [[
            local confine, log = require "ponder.core.confine", require "ponder.log"
            local read, sent, peak, list, record = 0, 0, 0, {}, log.record
            for i = 1, 3 do
                list[i] = { id = i, kind = "read", what = '{"path":"x.txt"}' }
            end
            local messages = { '{"done":true,"results":"[{}]"}',
                require("ponder.json").encode { requests = list } }
            function log.record(...)
                read = read + 1
                peak = math.max(peak, read - sent)
                return record(...)
            end
            function confine.spawn()
                return { kill = function() end, send = function(_, text)
                    sent = sent + select(2, text:gsub('"text":"x', ""))
                    return true
                end, receive = function()
                    return table.remove(messages, 1) or sent < 3 and "{}"
                        or '{"done":true,"results":"[7]"}'
                end }
            end
            local box = assert(require("ponder.serve.untrusted").open({ text = "", name = "=x",
                form = "functions" }, { directories = { "." } }))
            box:call("call f", {})
            print(peak, sent)]] })
    end)

    it("is taken where it has the right type, and its events where they are known", function()
        local made = proxies.policies(box_of { policies = { { name = "p", accepts = { "tools", 1 },
            description = 5, parameters = "x", returns = { type = "object" } }, { name = 1 },
            "x" } })
        local request = listener(ALL)
        local run = made.p.run
        made.p.run = nil
        assert.same({ p = { accepts = { "tools" }, returns = { type = "object" } } }, made)
        request.prompt, request.secret = "hi", "not an input"
        assert.same({ "call p", { { prompt = "hi" } } }, { run(request) })
        assert.same({ "think:call p", "write:call p", "progress:call p", "log:call p" },
            table.move(request, 1, 9, 1, {}))
        made = proxies.evaluation(box_of { name = 1, items = { { id = "a" }, { id = 2 }, "x" },
            policies = { "q", {} }, scorers = { "s" }, curves = false })
        request = listener(ALL)
        request.policy, request.epoch, request.secret = "q", 2, "not an input"
        assert.same({ "call q", { "a", { policy = "q", epoch = 2 } } },
            { made.policies.q({ id = "a" }, request) })
        assert.same({ "report:call q", "samples:call q" }, table.move(request, 1, 9, 1, {}))
        assert.same({ "score s", { "a", 7 } }, { made.score[1].measure({ id = "a" }, 7) })
        assert.same({ "s", 1, false }, { made.score[1].name, #made.data, made.curves })
        assert.is_nil(made.name)
        local functions = proxies.functions(box_of { functions = { "f", 1 } })
        assert.same({ "call f", { 1, json.null, 3 } }, { functions.f(1, nil, 3) })
        assert.same({}, proxies.functions(box_of "x"))
    end)
end)
