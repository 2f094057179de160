-- `ponder log` and `ponder show`: their output, and errors about logs that cannot be read.

local json = require "ponder.json"
local sample_log = require "sample_log"
local screen = require "screen"
local shell = require "shell"
local width = require("ponder.show.text").width

local dir, path
local ENV

local function ponder(arguments, opts)
    opts = opts or {}
    opts.env = ENV
    return shell.ponder(arguments, opts)
end

local function show(...)
    local r = ponder { "show", ... }
    assert.same({ 0, "" }, { r.status, r.err })
    return r.out
end

local function has(text, part)
    assert.is_truthy(text:find(part, 1, true), part .. " is not in\n" .. text)
end

setup(function()
    dir = shell.directory { ["state/ponder/history"] = "print(1)\n" }
    path = dir.path .. "/state/ponder/done.db"
    ENV = { XDG_STATE_HOME = dir.path .. "/state", TZ = "UTC", LC_ALL = "C.UTF-8" }
    sample_log.write(path)
    sample_log.write(dir.path .. "/state/ponder/dead.db", function(db)
        db:execute "UPDATE runs SET status = NULL, ended_at = NULL, exit_status = NULL"
        db:execute "UPDATE runs SET started_at = started_at - 60, command = 'tot', script = NULL"
        db:execute "INSERT INTO sessions VALUES (1, 2, 'resume', 1, 'ada', 1760000000, NULL)"
        db:execute("UPDATE runs SET arguments = ?", json.encode { "it's \27[31mred" })
    end)
end)
teardown(function() dir:__close() end)

describe("ponder log", function()
    it("lists stored runs, newest first", function()
        local lines = shell.lines(ponder({ "log" }).out)
        assert.equal(3, #lines)
        assert.matches("^# +WHEN +STATUS +CALLS +TOKENS +COST +TIME +COMMAND +LOG$", lines[1])
        assert.matches("^1 +2025%-10%-09 08:53 +completed +40 +4.7k +%$0.0027%+%? +12 s +"
            .. "run policy.lua '4 4 6 8' +" .. path:gsub("%p", "%%%0") .. "$", lines[2])
        assert.matches("^2 +2025%-10%-09 08:52 +killed +40 .* tot 'it'\\''s %?%[31mred' ", lines[3])
    end)

    it("prints lines of JSON", function()
        local lines = shell.lines(ponder({ "log", "--json", "--limit", "1" }).out)
        assert.equal(1, #lines)
        local run = json.decode(lines[1])
        assert.same({ "completed", 40, 1, path, 12.5 }, { run.status, run.calls,
            run.unpriced_calls, run.path, run.duration_s })
    end)

    it("says so if there are none", function()
        local r = shell.ponder({ "log" }, { env = { XDG_STATE_HOME = dir.path .. "/none" } })
        assert.same({ 0, "", "ponder log: no runs in " .. dir.path
            .. "/none/ponder yet\n" }, { r.status, r.out, r.err })
    end)

    it("checks its options", function()
        assert.equal(2, ponder({ "log", "--limit", "0" }).status)
        assert.equal(2, ponder({ "log", "x" }).status)
    end)
end)

describe("ponder show", function()
    it("summarizes a run", function()
        local out = show(path)
        for _, part in ipairs { "run       ponder run policy.lua '4 4 6 8'\n",
            "status    completed in 12 s, 2025-10-09 08:53:20\n",
            "answer    (6 - 4) * (8 + 4) = 24\n",
            "calls     40: 37 answered, 1 failed, 1 cancelled, 1 without an answer; 2 retries; "
                .. "1 not sent (log or cache)\n",
            "cost      $0.0027+?\n", "tools     2 calls, 1 raised",
            "seed 42, PONDER_MODEL=openai:gpt-4o-mini", "log       " .. path,
            "SEARCH  KIND  NODES  BEST  ENDED      QUESTION\n" } do
            has(out, part)
        end
        assert.matches("\nopenai:mystery%-1 +1 +124 +26 +%?\n", out)
        assert.matches("\nollama:qwen3:8b +8 +948 +185 +%$0.00\n", out)
    end)

    it("lists the errors of calls, once for each kind", function()
        local other = dir.path .. "/failed.db"
        sample_log.write(other, function(db)
            db:execute "UPDATE calls SET status = 'error', code = 'BUDGET', message = 'spent'"
            db:execute "UPDATE calls SET code = 'X', message = 'y' || id WHERE id > 36"
        end)
        has(show(other), "\nfailed    36 calls: spent [BUDGET]\n          1 call: y37 [X]\n"
            .. "          1 call: y38 [X]\n          2 more calls\n")
        other = dir.path .. "/told.db"
        sample_log.write(other, function(db)
            db:execute "UPDATE calls SET status = 'error', code = 'BUDGET', message = 'spent'"
            db:execute "UPDATE runs SET error = 'script: spent'"
        end)
        assert.is_nil(show(other):find("\nfailed ", 1, true))
    end)

    it("shows a call's retries, and the time that they took", function()
        local other = dir.path .. "/retried.db"
        sample_log.write(other, function(db)
            db:execute "UPDATE calls SET attempts = 3, latency_ms = 10 WHERE id = 1"
            db:execute "UPDATE calls SET answered_at = asked_at + 7.5 WHERE id = 1"
        end)
        assert.matches("^1 +%+[%d.]+ +7.50  ok, 3 tries  ", shell.lines(show("--calls", other))[2]
            :gsub("^ +", ""))
    end)

    it("shows the text of the only reply", function()
        local other = dir.path .. "/chat.db"
        sample_log.write(other, function(db)
            db:execute("UPDATE runs SET answer = ?",
                json.encode { text = "It scatters.", texts = { "It scatters." }, raw = {} })
        end)
        has(show(other), "\nanswer    It scatters.\n")
    end)

    it("accepts a name or a number; the default is the newest", function()
        assert.equal(show(path), show())
        assert.equal(show(path), show("1"))
        assert.equal(show(path), show("done"))
        has(show("2"), "status    killed after ")
        has(show("2"), ", 2025-10-09 08:52:20, resumed 1 time\n")
    end)

    it("prints JSON", function()
        local map = json.decode(show("--json", path))
        assert.same({ "completed", 40, 30, "policy.lua" }, { map.state, map.totals.calls,
            map.searches[1].nodes, map.files[1].path })
    end)

    it("shows a line for each call", function()
        local lines = shell.lines(show("--calls", path))
        assert.equal(41, #lines)
        assert.matches("^ 1 +%+0.040 +0.34 +ok +91 +21 +%$0.000026 +live +expand 1 +"
            .. "openai:gpt%-4o%-mini$", lines[2])
        assert.matches("^36 .* RATE_LIMITED ", lines[37])
        assert.matches("^38 .* no answer ", lines[39])
        assert.matches(" %? +live +in tool 1 +openai:mystery%-1$", lines[35])
        lines = shell.lines(show("--calls", "--json", path))
        assert.equal(40, #lines)
        assert.equal("cancelled", json.decode(lines[37]).status)
        assert.is_nil(json.decode(lines[1]).request)
    end)

    it("shows a line for each call of a tool", function()
        local lines = shell.lines(show("--tools", path))
        assert.equal(3, #lines)
        assert.matches("^ +1 +%+%d+%.%d%d%d +0.60 +ok +lookup +{\"word\":\"heat\"} +"
            .. "high temperature$", lines[2])
        assert.matches(" error +lookup +{\"word\":\"nothing\"} +no such word: nothing$", lines[3])
        lines = shell.lines(show("--tools", "--json", path))
        assert.same({ "high temperature" }, json.decode(lines[1]).value)
        assert.equal(2, #lines)
    end)

    it("shows all of one call", function()
        local out = show("--call", "33", path)
        for _, part in ipairs { "call 33: openai:gpt-4o-mini, ok, 0.52 s", "\n[user]\nLook it up\n",
            "\ntemperature: 0.7\n", '\ntool calls: [{"arguments":{"word":"heat"}',
            "\nended: tool_calls\n", "REPLY  gpt-4o-mini-2025, reply-33\n" } do
            has(out, part)
        end
        out = show("--call", "35", path)
        has(out, "  attempt 1 failed: RATE_LIMITED slow down, retried after 0.5 s\n")
        has(show("--call", "2", path), "\n[system]\nYou are terse.\n[user]\nScore the children")
        has(show("--call", "37", path), "\nNO REPLY\n")
        local call = json.decode(show("--call", "1", "--json", path))
        assert.equal("Answer 1", call.reply.samples[1].text)
    end)

    it("draws the trees", function()
        local out = show("--tree", path)
        for _, part in ipairs { "search 1: beam, 30 nodes, best 1.00, stop, 2.9 s\n",
            "\n0.10* #1 4 4 6 8\n├─ 0.47* #2 step 2", "[merged from n2, n3, n4]\n",
            "│  └─ 1.00* #n6 8 + 4 = 12 (left: 2 12)\n", "\n> Trees, light roofs" } do
            has(out, part)
        end
        assert.equal(out:match("search 2.-\n\n"), show("--tree", "--search", "2", path) .. "\n")
        local search = json.decode(shell.lines(show("--tree", "--json", path))[3])
        assert.same({ 6, 3 }, { #search.nodes, #search.edges })
    end)

    it("draws thoughts without a parent or with a missing one", function()
        local file = dir.path .. "/orphans.db"
        sample_log.write(file, function(db)
            db:execute "UPDATE nodes SET parent = NULL WHERE search = 3 AND id = 'n5'"
            db:execute "UPDATE nodes SET parent = 'n99' WHERE search = 3 AND id = 'n6'"
        end)
        local out = show("--tree", "--search", "3", file)
        for _, part in ipairs { "\nHow do cities reduce heat?\n", "├─ #n1 How do cities",
            "├─ 0.80* #n5 Trees along streams, light roofs [merged from n3, n4]\n",
            "└─ 0.90* #n6 " } do
            has(out, part)
        end
    end)

    it("shows a node with its calls", function()
        local out = show("--node", "7", path)
        for _, part in ipairs { "node 7 of search 1, score 0.6333, depth 2",
            "on the best path", "  path: 1 > 2 > 7\n", "  call 11: expand 7, openai:gpt-4o-mini\n",
            "\n\nstep 7 of 2" } do
            has(out, part)
        end
        assert.equal(2, select(2, show("--node", "n3", path):gsub("node n3 of search", "")))
        assert.equal(1, select(2, show("--node", "n3", "--search", "3", path):gsub("node n3", "")))
    end)

    it("shows the events", function()
        local lines = shell.lines(show("--events", path))
        assert.equal(16, #lines)
        assert.matches('^  %+0.080  %[1%] expanded  created=3 node_id=1$', lines[1])
        assert.matches("%[2%] tot.step  node_count=4 node_id=n1$", table.concat(lines, "\n"):match(
            "[^\n]* tot.step[^\n]*"))
        assert.equal("expanded", json.decode(shell.lines(show("--events", "--json", path))[1]).name)
    end)

    it("lets no text steer the terminal", function()
        for _, view in ipairs { {}, { "--calls" }, { "--tree" }, { "--events" }, { "--call", "40" },
            { "--call", "36" }, { "--node", "5" } } do
            local out = show(path, table.unpack(view))
            assert.is_nil(out:find("[%z\1-\8\11-\31\127]"), view[1])
            assert.is_nil(out:find("\u{202E}", 1, true), view[1])
        end
        has(show("--call", "40", path), "red ?[31mtext?[0m \"quoted\" <b>bold</b> </script>")
    end)

    it("fits terminals, wide and narrow", function()
        for _, columns in ipairs { 80, 40 } do
            for view, count in pairs { ["--calls"] = 41, ["--tree"] = 50, ["--events"] = 16 } do
                local s <close> = screen.open({ "show", view, path }, { columns = columns,
                    rows = 60, env = ENV })
                local status, lines = s:finish()
                assert.equal(0, status)
                assert.equal(count, #lines, view .. "\n" .. table.concat(lines, "\n"))
                for _, line in ipairs(lines) do
                    assert.is_true(width(line) < columns)
                end
            end
        end
    end)

    it("ends quietly if its output is closed", function()
        local r = shell.run(("%s show --calls %s 2>$ERR | head -n 1 >$OUT"):format(
            shell.quote(shell.executable), shell.quote(path)))
        assert.same({ 0, "" }, { r.status, r.err })
        assert.equal(1, #shell.lines(r.out))
    end)

    it("reports errors in one line", function()
        dir:write("text.db", "no log")
        for message, words in pairs {
            [dir.path .. "/text.db: not a run log"] = { dir.path .. "/text.db" },
            ["nope: neither a file nor a run in " .. dir.path .. "/state/ponder"] = { "nope" },
            [path .. ": there is no call 99; there are 40"] = { "--call", "99", path },
            [path .. ": there is no node x"] = { "--node", "x", path },
            [path .. ": there is no search 9"] = { "--tree", "--search", "9", path } } do
            local r = ponder { "show", table.unpack(words) }
            assert.same({ 2, "", "ponder show: " .. message .. "\n" }, { r.status, r.out, r.err })
        end
        for _, words in ipairs { { "--calls", "--tree" }, { "--search", "1" }, { "a", "b" },
            { "--call", "0" }, { "--cals" } } do
            local r = ponder { "show", table.unpack(words) }
            assert.same({ 2, "" }, { r.status, r.out })
            assert.matches("^ponder show: [^\n]+\n$", r.err)
        end
    end)

    it("names the cost of the calls of inner runs as such", function()
        dir:write("m.lua", "return function() return 'a' end")
        dir:write("r.lua", [[
            require("ponder.run").new():call(function()
                assert(require("ponder.model").open("script:m.lua"):complete "q")
            end)]])
        local r = shell.run(("cd %s; %s run --log inner.db r.lua >$OUT 2>$ERR"):format(dir.path,
            shell.quote(shell.executable)))
        assert.equal(0, r.status, r.err)
        assert.matches("\nruns      1 within it: 1 call, ? in, ? out, cost $0.00 (",
            ponder({ "show", dir.path .. "/inner.db" }).out, 1, true)
    end)

    it("shows the accuracies of an evaluation, and where its calls are", function()
        dir:write("m.lua", "return function() return 'Answer: 42' end")
        dir:write("e.lua", [[return { data = { { question = "a", target = 42 } }, score = "numeric",
            policies = { io = { model = "script:m.lua", prompt = "{{question}}" },
                none = function() return 1 end } }]])
        local log = dir.path .. "/eval.db"
        local r = shell.run(("cd %s; %s eval --log eval.db e.lua >$OUT 2>$ERR"):format(dir.path,
            shell.quote(shell.executable)))
        assert.equal(0, r.status, r.err)
        local lines = ponder({ "show", log }).out
        assert.matches("\nanswer    io 100.0 %, none 0.0 %\ncalls     none\n"
            .. "runs      2 within it: 1 call, ", lines, 1, true)
        local hint = "; 2 runs within it may have some: ponder log FILE lists them, "
            .. "FILE#2 names one\n"
        for what, words in pairs { ["call 1; there are 0"] = { "--call", "1" },
            search = { "--tree" } } do
            r = ponder { "show", log, table.unpack(words) }
            assert.same({ words[2] and 2 or 1,
                ("ponder show: %s: there is no %s%s"):format(log, what, hint) },
                { r.status, r.err })
        end
    end)

    it("reports in one line that a log is damaged further on", function()
        local file = dir.path .. "/torn.db"
        sample_log.fill(file, 2000)
        local whole = dir:read("torn.db")
        local from = #whole // 3
        dir:write("torn.db", whole:sub(1, from) .. ("\255"):rep(#whole - from))
        local r = ponder { "show", "--calls", file }
        assert.equal(1, r.status)
        assert.equal(("ponder show: %s: "):format(file), r.err:sub(1, #file + 15), r.err)
        assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
    end)

    it("reports in one line that a table of the log is another one", function()
        local file = dir.path .. "/renamed.db"
        sample_log.write(file, function(db) db:script "ALTER TABLE calls RENAME node TO nodf" end)
        local r = ponder { "show", "--calls", file }
        assert.same({ 1, ("ponder show: %s: damaged: its tables are not those of "
            .. "a run log\n"):format(file) }, { r.status, r.err })
    end)
end)
