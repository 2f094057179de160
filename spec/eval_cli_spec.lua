local json = require "ponder.json"
local screen = require "screen"
local shell = require "shell"
local store = require "ponder.core.store"

local MODEL = [[
return function(request)
    local n = tonumber(request.messages[1].content:match "%d+")
    if os.getenv "SLOW" then require("ponder.task").sleep(tonumber(os.getenv "SLOW")) end
    local file <close> = assert(io.open("asked", "a"))
    file:write(n, "\n")
    file:close()
    while os.getenv "WAITS" and not io.open "go" do require("ponder.task").sleep(0.02) end
    if n % 5 == 0 and os.getenv "BROKEN" then return nil, "overloaded", "BAD_REQUEST" end
    return { text = tostring(n <= (tonumber(os.getenv "SKILL") or 15) and n or 0),
        usage = { input_tokens = 10, output_tokens = 1 } }
end]]

local EVAL = [[
local flags = ...
local data = {}
for i = 1, 20 do data[i] = { id = "i" .. i, target = i } end
return { name = "sums", data = data, score = "numeric", baseline = "const", policies = {
    const = function(item, run) run:report(1) return 3 end,
    io = { model = flags.model or "script:model.lua", prompt = "Say {{target}}" },
} }]]

local ENV = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent" }

local function environment(more)
    local all = {}
    for _, list in ipairs { ENV, more or {} } do
        for name, value in pairs(list) do
            all[name] = value
        end
    end
    return all
end

describe("ponder eval", function()
    local dir

    before_each(function()
        dir = shell.directory()
        dir:write("model.lua", MODEL)
        dir:write("sums.lua", EVAL)
    end)

    after_each(function()
        dir:__close()
    end)

    local function ponder(arguments, env)
        table.insert(arguments, 1, "eval")
        return shell.ponder(arguments, { cwd = dir.path, env = environment(env) })
    end

    local function asked()
        local ok, text = pcall(dir.read, dir, "asked")
        return ok and text and select(2, text:gsub("\n", "")) or 0
    end

    it("prints a table and remarks", function()
        local result = ponder { "--no-log", "sums.lua" }
        assert.equal(0, result.status, result.err)
        assert.matches("\nio +20 +75%.0 %% +53%.%.89 +%+70%.0 %%.*\nconst +20 +5%.0 %% +1%.%.24 "
            .. "+baseline", result.out)
        assert.matches("\nio is better than const %(p <0%.001%)\n", result.out)
        assert.matches("20 items, 1 epoch, seed 0", result.out)
        assert.is_nil(result.out:find("\27", 1, true))
    end)

    it("prints only one object with --json", function()
        local result = ponder { "--no-log", "--json", "--limit", "5", "--epochs", "2", "sums.lua" }
        local object = assert(json.decode(result.out))
        assert.same({ 0, 20, 5, 2, 0, "" }, { result.status, #object.records, object.meta.items,
            object.meta.epochs, object.meta.seed, result.err })
    end)

    it("tests thresholds: 0 when met, 99 when missed, and says which", function()
        assert.equal(0, ponder({ "--no-log", "--threshold", "accuracy(io) >= 0.7", "--threshold",
            "lower(difference(io)) > 0", "sums.lua" }).status)
        local result = ponder { "--no-log", "--threshold", "accuracy(io) >= 80%", "--threshold",
            "calls(io) <= 1", "sums.lua" }
        assert.equal(99, result.status)
        assert.matches("missed: accuracy%(io%) >= 80%% %(0%.75%)", result.out)
        assert.matches("met: calls%(io%) <= 1 %(1%)", result.out)
    end)

    it("exits with 1 if nothing could be measured", function()
        local result = ponder({ "--no-log", "--policy", "io", "--limit", "5", "--model",
            "script:none.lua", "sums.lua" })
        assert.equal(1, result.status)
        dir:write("fails.lua", 'return { data = { "x" }, score = "exact", policies = {'
            .. ' p = function() error "no" end } }')
        result = ponder { "--no-log", "fails.lua" }
        assert.equal(1, result.status)
        assert.matches("nothing could be measured", result.err)
    end)

    it("writes JUnit, CSV and a page that only their owner can read", function()
        local result = ponder({ "--no-log", "--junit", "j.xml", "--csv", "c.csv", "--html",
            "p.html", "--threshold", "accuracy(io) >= 0.9", "sums.lua" }, { BROKEN = "1" })
        assert.equal(99, result.status)
        assert.matches("\nio: 4 failed, which count as wrong %(%-%-exclude%-errors excludes them%);"
            .. " the first: script:model.lua: overloaded", result.out)
        local junit, csv = dir:read "j.xml", dir:read "c.csv"
        assert.matches('<testsuite name="io" tests="20" failures="4" errors="4"', junit)
        assert.matches('<testsuite name="thresholds" tests="1" failures="1"', junit)
        assert.equal(41, select(2, csv:gsub("\r\n", "")))
        assert.matches("\r\nio,i5,1,failed,,,5,", csv)
        assert.matches("Content%-Security%-Policy", dir:read "p.html")
        local modes = shell.run(("cd %s && stat -c %%a j.xml c.csv p.html >$OUT"):format(
            shell.quote(dir.path)))
        assert.equal("600\n600\n600\n", modes.out)
    end)

    it("writes to standard output, to a link or a device, and in a replay not at all", function()
        local csv = ponder { "--no-log", "--csv", "-", "--limit", "2", "--threshold",
            "accuracy(io) > 2", "sums.lua" }
        assert.equal(99, csv.status)
        assert.matches("^policy,id,.*\r\nio,i2,1,[^\n]+\r\n$", csv.out)
        assert.matches("\nmissed: accuracy", "\n" .. csv.err)
        dir:write("there", "old")
        shell.run(("ln -s there %s/link; mkfifo %s/pipe"):format(dir.path, dir.path))
        local result = shell.run(([[cd %s; cat pipe >$OUT & %s eval --log a.db --html link \
            --junit pipe sums.lua >$ERR 2>&1; wait]]):format(shell.quote(dir.path),
            shell.quote(shell.executable)))
        assert.matches("^<%?xml", result.out)
        assert.matches("^<!DOCTYPE html>", dir:read "there")
        dir:write("there", "old")
        local again = shell.ponder({ "replay", "a.db" }, { cwd = dir.path, env = environment() })
        assert.equal(0, again.status, again.err)
        assert.matches("a replay writes no file: link", again.err)
        assert.equal("old", dir:read "there")
    end)

    it("prints JSON without raw controls and bidirectional marks", function()
        dir:write("marks.lua", [[return { data = { "x" }, score = "exact", policies = {
            p = function() return "a\u{202E}b\u{9B}c" end } }]])
        local result = ponder { "--no-log", "--json", "marks.lua" }
        assert.truthy(result.out:find([[a\u202eb\u009bc]], 1, true), result.out)
        assert.equal("a\u{202E}b\u{9B}c", json.decode(result.out).records[1].answer)
    end)

    it("says how many items a difference needs, from a guess or a pilot", function()
        local function rows(...)
            local result = ponder { "--power", ... }
            assert.equal(0, result.status, result.err)
            return json.decode(result.out).rows
        end
        assert.same({ { correlation = 0.5, items = 826 } }, rows("5% correlation=0.5", "--json"))
        local several = rows("0.05 accuracy=0.7", "--json")
        assert.is_true(several[1].items > several[2].items and #several == 5)
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        local pilot = rows("0.2", "a.db", "--json")
        assert.same({ "io", "const", 1 }, { pilot[1].first, pilot[1].second, #pilot })
        assert.is_true(pilot[1].items > 20)
        assert.matches("\nio and const +", ponder({ "--power", "0.2", "a.db" }).out)
        for words, message in pairs { ["0.05 acuracy=1"] = "expected a difference such as",
            ["1.5"] = "must be above 0 and below 1", ["0.1 correlation=2"] = "from %-1 to 1" } do
            local refused = ponder { "--power", words }
            assert.equal(2, refused.status)
            assert.matches(message, refused.err)
        end
    end)

    it("says what matters in ten lines, and leaves out empty columns", function()
        dir:write("many.lua", [[local data, policies = {}, {}
            for i = 1, 12 do data[i] = { id = "i" .. i, target = i } end
            for k = 1, 14 do policies["p" .. k] = function(item)
                return item.target <= k and item.target
            end end
            return { data = data, score = "numeric", policies = policies }]])
        local result = ponder { "--no-log", "--matrix", "many.lua" }
        local head, first, notes = result.out:match "^(.-)\n(.-)\n.-\n\n(.-\n12 items, [^\n]+)"
        assert.equal(10, select(2, notes:gsub("[^\n]+", "")))
        assert.is_nil(head:find("RUNS", 1, true))
        assert.matches("^p1[234] +12 +100%.0 %%", first)
        assert.matches("\nand %d+ more remarks", notes)
        assert.matches("\nintervals and p of 12 items are rough: 20 or more are better\n", notes)
        assert.matches("\np is adjusted for 91 comparisons %(Holm%), each policy with each", notes)
        assert.matches("\ni12 +%+ +%+ +%+ +%. ", result.out)
        local fewer = ponder { "--no-log", "--against", "baseline", "--baseline", "p2",
            "many.lua" }
        assert.matches("\np is adjusted for 13 comparisons %(Holm%), all with p2\n", fewer.out)
        local equal = ponder { "--no-log", "--policy", "p12,p13", "--margin", "0.5", "many.lua" }
        assert.matches("\np13 and p12 are equivalent: the interval of their difference, .*, lies "
            .. "within the margin\n", equal.out)
    end)

    it("scores recorded answers again without a call", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        local before = asked()
        dir:write("other.lua", (EVAL:gsub('score = "numeric"',
            "score = function(_, answer) return tonumber(answer) == 3 end")))
        local result = ponder { "--rescore", "a.db", "other.lua" }
        assert.equal(0, result.status, result.err)
        assert.matches("\nconst +20 +100%.0 %%", result.out)
        assert.matches("\nio +20 +5%.0 %%", result.out)
        assert.equal(before, asked())
        for flag, message in pairs { ["--baseline=oi"] = '--baseline: a.db has no policy "oi"',
            ["--threshold=accuracy(oi) > 1"] = 'unknown policy "oi"' } do
            result = ponder { "--rescore", "a.db", flag, "other.lua" }
            assert.equal(2, result.status)
            assert.truthy(result.err:find(message, 1, true), result.err)
        end
    end)

    it("scores the answers of curves again, and compares all with any baseline", function()
        dir:write("model.lua", [[return function(request)
            return { text = "Answer: " .. request.sample % 3, usage = { input_tokens = 1,
                output_tokens = 1 } } end]])
        dir:write("curves.lua", [[
            local flags = ...
            local target = flags.model and tonumber(flags.model) or 2
            return { data = { { id = "a", question = "?" } }, score = function(_, answer)
                return tonumber(answer) == target
            end, policies = { b = { model = "script:model.lua", k = 4 },
                z = function() return 1 end,
                a = function(_, run)
                    for answer = 1, 2 do
                        require("ponder.model").open("script:model.lua"):chat { messages = {
                            { role = "user", content = "?" .. answer } } }
                        run:report(answer)
                    end
                    return 2
                end } }]])
        local function curves(...)
            local result = ponder { "--json", ... }
            assert.equal(0, result.status, result.err)
            local object = json.decode(result.out)
            return object.curves and object.curves.samples, object.policies, result.err
        end
        local first = curves("--log", "c.db", "curves.lua")
        assert.same(first, (curves("--rescore", "c.db", "curves.lua")))
        local other, policies = curves("--rescore", "c.db", "--model", "1", "--baseline", "z",
            "curves.lua")
        assert.same({ "z", "a", "b" }, { policies[1].name, policies[2].name, policies[3].name })
        assert.is_number(policies[2].difference.value)
        assert.is_number(policies[3].difference.value)
        assert.same({ "a", 1, 0 }, { other[2].policy, other[2].points[1].value,
            other[2].points[2].value })
        local result = ponder { "--json", "--no-log", "curves.lua" }
        dir:write("c.json", result.out)
        local none, _, why = curves("--rescore", "c.json", "curves.lua")
        assert.is_nil(none)
        assert.matches("no curves: c.json does not have their answers", why)
        local old = json.decode(result.out) -- as version 0.2.0 wrote it
        for _, record in ipairs(old.records) do
            record.samples, record.drawn = record.drawn, nil
        end
        dir:write("old.json", json.encode(old))
        _, policies = curves("--rescore", "old.json", "curves.lua")
        assert.same(old.policies[1].calls, policies[1].samples)
    end)

    it("gives with --seed the same numbers again, but for times", function()
        dir:write("model.lua", [[
            local stats = require "ponder.stats"
            return function(request)
                local draw = stats.splitmix64_below(request.seed or os.time(), 3, 1)[1]
                return { text = "Answer: " .. draw, usage = { input_tokens = 9,
                    output_tokens = draw } }
            end]])
        dir:write("seeded.lua", [[
            local model, data = require "ponder.model", {}
            for i = 1, 12 do data[i] = { id = "i" .. i, question = "q" .. i % 3, target = "1" } end
            local m = model.open "script:model.lua"
            return { data = data, score = { exact = "numeric", judge = function(_, answer)
                return tonumber(m:complete("Rate " .. tostring(answer)):match "%d") / 2
            end }, policies = { io = { model = m }, sc = { model = m, k = 5 },
                steps = function(item, run)
                    local answer
                    for i = 1, 3 do
                        answer = m:complete(item.question .. i)
                        run:report(answer)
                    end
                    return answer
                end } }]])
        local TIMES = { seconds = true, critical_seconds = true, thresholds = true }
        local function without_times(value)
            for name, field in pairs(type(value) == "table" and value or {}) do
                value[name] = not TIMES[name] and without_times(field) or nil
            end
            return value
        end
        local function numbers(number, ...)
            local page, log = number .. ".html", number .. ".db"
            local result = ponder { "--json", "--html", page, "--log", log, "--epochs", "2", ...,
                "seeded.lua" }
            assert.equal(0, result.status, result.err)
            local data = dir:read(page):match '<script[^>]*id="data"[^>]*>(.-)</script>'
            data = json.decode(data)
            for i, field in ipairs(data.fields) do
                for _, record in ipairs(data.records) do
                    record[i] = not TIMES[field] and record[i]
                end
            end
            return without_times(json.decode(result.out)), without_times(data)
        end
        local first, page = numbers(1, "--seed=3")
        local second, page_again = numbers(2, "--seed=3")
        assert.same(first, second)
        assert.same(page, page_again)
        assert.not_same(first.policies, (numbers(3, "--seed=4")).policies)
    end)

    it("needs no model to score recorded answers", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        dir:write("none.lua", (EVAL:gsub('flags.model or "script:model.lua"', "nil")))
        local result = ponder { "--rescore", "a.db", "--no-log", "none.lua" }
        assert.equal(0, result.status, result.err)
        assert.matches("\nio +20 +75%.0 %%", result.out)
    end)

    it("counts a policy that is named twice once", function()
        local result = ponder { "--no-log", "--policy", "io,const,io", "--json", "sums.lua" }
        local object = json.decode(result.out)
        assert.same({ 2, 40, 20, 20 }, { #object.policies, #object.records, object.policies[1].n,
            asked() })
        object.meta.policies[3] = "io" -- as version 0.2.0 wrote it
        table.move(object.records, 1, 40, 41)
        dir:write("a.json", json.encode(object))
        result = ponder { "--compare", "--json", "a.json", "a.json" }
        local changes = json.decode(result.out).changes
        assert.same({ 2, 20 }, { #changes, changes[1].n })
    end)

    it("reruns only failures, and keeps the old log", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }, { BROKEN = "1" }).status)
        local before = asked()
        local result = ponder { "--retry-errors", "--log", "a.db", "sums.lua" }
        assert.equal(0, result.status, result.err)
        assert.equal(before + 4, asked())
        assert.matches("\nio +20 +75%.0 %%", result.out)
        assert.is_string(dir:read "a.db.1")
        assert.matches("\nio +20 +75%.0 %%", ponder({ "--rescore", "a.db", "sums.lua" }).out)
    end)

    it("reruns only what is missing after a kill, and loses no reply", function()
        local killed = shell.run(([[cd %s; SLOW=0.05 %s eval --concurrency 1 --log a.db sums.lua \
            >$OUT 2>$ERR & pid=$!; until [ "$(cat asked 2>/dev/null | wc -l)" -ge 9 ]; do
            sleep 0.02; done; kill -KILL $pid; wait $pid; ls a.db-wal >>$OUT]]):format(
            shell.quote(dir.path), shell.quote(shell.executable)))
        assert.matches("a.db%-wal", killed.out)
        local before = asked()
        do
            local reader <close> = assert(store.open(dir.path .. "/a.db", { mode = "read" }))
            assert.is_number(reader:row "SELECT count(*) FROM calls")
            local result = ponder { "--retry-errors", "--log", "a.db", "sums.lua" }
            assert.same({ 1, "ponder eval: a.db: another process is using it\n" },
                { result.status, result.err })
        end
        local result = ponder { "--retry-errors", "--log", "a.db", "sums.lua" }
        assert.equal(0, result.status, result.err)
        assert.is_true(before >= 9 and asked() <= 21, before .. " " .. asked()) -- one was in flight
        local db <close> = assert(store.open(dir.path .. "/a.db.1", { mode = "read" }))
        assert.is_true(db:row "SELECT count(*) FROM calls WHERE status = 'ok'" >= before - 1)
        assert.matches("\nio +20 +75%.0 %%", ponder({ "--rescore", "a.db", "sums.lua" }).out)
    end)

    it("measures only what a budget, a timeout or Ctrl-C left whole, and can go on", function()
        dir:write("sums.lua", (EVAL:gsub("\n} }%]?$", [[

    four = function(item)
        local m = require("ponder.model").open "script:model.lua"
        for i = 1, 4 do
            local ok, message, code = m:complete(item.target .. "+" .. i)
            if not ok then return nil, message, code end
        end
        return item.target
    end,
} }]])))
        local words = { "--log", "a.db", "sums.lua" }
        for flags, reason in pairs { ["4 --max-calls 24"] = "budget",
            ["1 --timeout 500ms"] = "timeout", ["1"] = "interrupted" } do
            dir:write("asked", "")
            os.remove(dir.path .. "/a.db")
            local stop = reason == "interrupted" and "until [ $(wc -l <asked) -ge 19 ]; do "
                .. "sleep 0.02; done; kill -INT $pid;" or ""
            local result = shell.run(("cd %s; SLOW=0.02 XDG_STATE_HOME=$PWD/state %s eval "
                .. "--concurrency %s %s >$OUT 2>$ERR & pid=$!; %s wait $pid; exit $?"):format(
                shell.quote(dir.path), shell.quote(shell.executable), flags,
                table.concat(words, " "), stop))
            assert.equal(reason == "interrupted" and 130 or 0, result.status, result.err)
            local n, accuracy = result.out:match "\nio +(%d+) +([%d.]+ %%)"
            assert.is_true(tonumber(n) >= 3 and tonumber(n) < 20, result.out)
            local rest = (" items of 20 unfinished: %s\n"):format(reason)
            assert.truthy(result.out:find(rest, 1, true), result.out)
            local again = ponder { "--rescore", "a.db", "sums.lua" }
            assert.same({ n, accuracy }, { again.out:match "\nio +(%d+) +([%d.]+ %%)" })
            assert.truthy(again.out:find(rest, 1, true), again.out)
            if reason == "interrupted" then
                again = shell.ponder({ "resume", "a.db" }, { cwd = dir.path, env = environment {
                    XDG_STATE_HOME = dir.path .. "/state" } })
            else
                again = shell.ponder({ "replay", "a.db" }, { cwd = dir.path, env = environment() })
                assert.same({ 0, result.out }, { again.status, again.out }, again.err)
                again = ponder { "--retry-errors", table.unpack(words) }
            end
            assert.matches("\nio +20 +75%.0 %%", again.out, again.err)
            assert.is_true(asked() <= 20 + 80 + 4 * 5, asked())
        end
    end)

    it("ends with --decide once it is decided, also in a replay", function()
        local result = ponder { "--decide", "--log", "a.db", "--json", "--threshold",
            "lower(difference(io)) > 0", "sums.lua" }
        assert.equal(0, result.status, result.err)
        local got = json.decode(result.out)
        local io_policy = got.policies[2]
        assert.same({ "higher", 0.05 }, { io_policy.decision.verdict, io_policy.decision.alpha })
        assert.is_true(io_policy.n < 20 and io_policy.n == got.policies[1].n)
        local again = shell.ponder({ "replay", "a.db" }, { cwd = dir.path, env = environment() })
        assert.same({ 0, result.out }, { again.status, again.out }, again.err)
        local text = ponder({ "--rescore", "a.db", "sums.lua" }).out
        assert.truthy(text:find(("\nio is better than const: decided after %d items\n"):format(
            io_policy.n), 1, true), text)
        for words, message in pairs { ["--decide=1"] = "--decide must be between 0 and 1",
            ["--margin=0"] = "--margin must be between 0 and 1" } do
            local refused = ponder(shell.lines((words .. " sums.lua"):gsub(" ", "\n") .. "\n"))
            assert.equal(2, refused.status)
            assert.truthy(refused.err:find(message, 1, true), refused.err)
        end
    end)

    it("leaves the log where it is if it cannot retry", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        dir:write("ask.lua", "require('ponder.model').open('script:model.lua'):complete('5')")
        shell.ponder({ "run", "--log", "b.db", "ask.lua" }, { cwd = dir.path })
        for _, case in ipairs { { "a.db", "sum.lua" }, { "a.db", "--policy=oi", "sums.lua" },
            { "a.db", "--threshold=accuracy(oi) > 1", "sums.lua" }, { "b.db", "sums.lua" } } do
            local result = ponder { "--retry-errors", "--log", table.unpack(case) }
            assert.not_equal(0, result.status)
            assert.is_nil(io.open(("%s/%s.1"):format(dir.path, case[1])), result.err)
        end
        local first = ponder { "--retry-errors", "--log", "a.db", "sums.lua" }
        assert.equal(0, first.status)
        local again = shell.ponder({ "replay", "a.db" }, { cwd = dir.path, env = environment() })
        assert.same({ 0, first.out }, { again.status, again.out }, again.err)
    end)

    it("does not take the log of a running evaluation away", function()
        local result = shell.run(([[cd %s; WAITS=1 %s eval --log a.db sums.lua >$OUT 2>&1 & pid=$!
            until [ -e asked ]; do sleep 0.02; done
            %s eval --retry-errors --log a.db sums.lua 2>$ERR; echo $? >>$ERR; touch go
            wait $pid]]):format(
            shell.quote(dir.path), shell.quote(shell.executable), shell.quote(shell.executable)))
        assert.matches("^ponder eval: a.db: another run is writing it\n1\n$", result.err)
        assert.matches("\nio +20 +75%.0 %%", result.out)
    end)

    it("reruns whenever its file changes, with --watch", function()
        local result = shell.run(([[cd %s; trap 'kill $pid 2>/dev/null' EXIT
            %s %s eval --watch --policy const sums.lua >$OUT 2>$ERR & pid=$!
            until grep -q waiting $ERR; do sleep 0.05; done
            sed -i 's/return 3/return 4/' sums.lua; touch -d '+2 seconds' sums.lua
            until [ $(grep -c waiting $ERR) -ge 2 ]; do sleep 0.05; done
            sed -i 's/return 4/syntax error/' sums.lua; touch -d '+4 seconds' sums.lua
            until [ $(grep -c waiting $ERR) -ge 3 ]; do sleep 0.05; done
            kill -INT $pid; wait $pid]]):format(shell.quote(dir.path),
            "env HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent", shell.quote(shell.executable)))
        assert.equal(130, result.status, result.err)
        assert.equal(2, select(2, result.out:gsub("\nconst ", "")))
        assert.matches("sums.lua:%d+: .-waiting for a change", result.err)
    end)

    it("compares two evaluations item by item", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        assert.equal(0, ponder({ "--log", "b.db", "sums.lua" }, { SKILL = "12" }).status)
        assert.equal(0, ponder({ "--log", "c.db", "sums.lua" }, { SKILL = "20" }).status)
        assert.equal(0, ponder({ "--log", "d.db", "sums.lua" }, { SKILL = "5" }).status)
        local function regressed(...)
            return ponder({ "--compare", "a.db", "d.db", "--fail-on-regression", ... }).status
        end
        assert.same({ 99, 99, 0 }, { regressed(), regressed("--margin", "0.2"),
            regressed("--margin", "0.3") }) -- the interval is -68..-26
        local worse = ponder { "--compare", "a.db", "b.db", "--fail-on-regression" }
        assert.equal(0, worse.status) -- not surely
        assert.matches("\nio +20 +75%.0 %% +60%.0 %% +%-15%.0 %% +%S+ +0%.250 +0 +3 +17", worse.out)
        assert.matches("io: broken i13, i14, i15", worse.out)
        local better = ponder { "--compare", "a.db", "c.db", "--fail-on-regression", "--threshold",
            "difference(io) > 0.2" }
        assert.equal(0, better.status)
        assert.matches("io: fixed i16, i17, i18, i19, i20", better.out)
        assert.equal(0, ponder({ "--compare", "a.db", "a.db", "--fail-on-regression" }).status)
        local object = assert(json.decode(ponder({ "--compare", "a.db", "b.db", "--json" }).out))
        assert.same({ "i13", "i14", "i15" }, object.changes[2].broken)
        local costs = object.changes[1].cost_difference -- of a policy that called no model
        assert.same({ 0, 0, 0 }, { costs.value, costs.lower, costs.upper })
        local unknown = ponder { "--compare", "a.db", "b.db", "--threshold", "accuracy(oi) > 0" }
        assert.equal(2, unknown.status)
        for _, case in ipairs {
            { "json_set(data, '$.score', 'x') WHERE name = 'eval.record'",
                "eval.record: score must be a finite number %(got \"x\"%)" },
            { "'5' WHERE name = 'eval.record'", "eval.record: epoch must be an integer" },
            { "json_set(data, '$.policies[0]', 7) WHERE name = 'eval.begin'",
                "eval.begin: policies must be a list of texts" },
            { "'[1]' WHERE name = 'eval.begin'", "eval.begin: policies must be a table" },
        } do
            do
                local db <close> = assert(store.open(dir.path .. "/c.db", { mode = "write" }))
                assert(db:execute("UPDATE events SET data = " .. case[1]))
            end
            local damaged = ponder { "--compare", "a.db", "c.db" }
            assert.same({ 1, "" }, { damaged.status, damaged.out })
            assert.matches("^ponder eval: c.db: damaged: event %d+, " .. case[2] .. "[^\n]*\n$",
                damaged.err)
        end
    end)

    it("has the recorded times in a replay", function()
        local r = ponder { "--json", "--log", "k.db", "sums.lua" }
        local again = shell.ponder({ "replay", "k.db" }, { cwd = dir.path, env = environment() })
        assert.same({ 0, 0 }, { r.status, again.status }, again.err)
        local first, second = json.decode(r.out).policies, json.decode(again.out).policies
        for i, policy in ipairs(first) do
            assert.same({ policy.seconds, policy.critical_seconds },
                { second[i].seconds, second[i].critical_seconds })
        end
    end)

    it("resumes after a kill, and sends no answered request again", function()
        local killed = shell.run(("cd %s && { %s %s eval --log k.db --concurrency 2 sums.lua & "
            .. "pid=$!; until [ -e asked ] && [ $(wc -l <asked) -ge 5 ]; do sleep 0.02; done; "
            .. "kill -9 $pid; wait $pid; } >$OUT 2>$ERR"):format(shell.quote(dir.path),
            "env HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent SLOW=0.05 "
            .. "XDG_STATE_HOME=" .. shell.quote(dir.path .. "/state"),
            shell.quote(shell.executable)))
        assert.equal(137, killed.status)
        local result = shell.ponder({ "resume", "k.db" }, { cwd = dir.path,
            env = environment { XDG_STATE_HOME = dir.path .. "/state" } })
        assert.equal(0, result.status, result.err)
        assert.matches("\nio +20 +75%.0 %%", result.out)
        assert.is_true(asked() <= 22, "at most those in flight are asked again: " .. asked())
        local waited = 0
        for _, record in ipairs(json.decode(ponder({ "--rescore", "k.db", "--json",
            "sums.lua" }).out).records) do
            waited = waited + (record.critical_seconds >= 0.05 and 1 or 0)
        end
        assert.is_true(waited >= 3, "those before the kill took the time of their calls")
        local replayed = asked()
        local again = shell.ponder({ "replay", "k.db" }, { cwd = dir.path, env = environment {
            XDG_STATE_HOME = dir.path .. "/state" } })
        assert.matches("\nio +20 +75%.0 %% +53%.%.89 +%+70%.0 %%", again.out, again.err)
        assert.equal(replayed, asked())
    end)

    for _, case in ipairs {
        { {}, "expected one file" },
        { { "--compare", "a.db" }, "--compare takes two evaluations" },
        { { "--compare", "a.db", "b.db", "--allow-read", "." },
            "--allow-read is for --untrusted" },
        { { "--fail-on-regression", "x.lua" }, "needs --compare" },
        { { "--retry-errors", "x.lua" }, "--retry-errors needs the log" },
        { { "--threshold", "accuracy(io)", "x.lua" }, "expected FIGURE OPERATOR NUMBER" },
        { { "--threshold", "acuracy(io) > 1", "x.lua" }, "did you mean accuracy" },
        { { "--threshold", "lower(calls(io)) > 1", "x.lua" }, "calls has no lower" },
        { { "--threshold", "accuracy(oi) > 1", "sums.lua" }, 'policy "oi" .did you mean io' },
        { { "--html", "none/p.html", "sums.lua" }, "--html: none/p.html cannot be written" },
        { { "--junit", ".", "sums.lua" }, "--junit: . is a directory" },
        { { "--csv", "x", "--html", "x", "sums.lua" }, "--html and --csv name the same file: x" },
        { { "--csv", "-", "--junit", "-", "sums.lua" }, "--csv and --junit name the same file" },
        { { "--csv", "-", "--json", "sums.lua" }, "--json and a file - are both standard output" },
        { { "--compare", "a.db", "b.db", "--html", "x" }, "--html has no effect with --compare" },
        { { "--compare", "a.db", "b.db", "--seed", "0" }, "--seed has no effect with --compare" },
        { { "--compare", "a.db", "b.db", "--log", "x" }, "--log has no effect with --compare" },
        { { "--rescore", "a.db", "--epochs", "2", "x.lua" }, "--epochs has no effect with --res" },
        { { "--rescore", "a.db", "--cache", "x", "x.lua" }, "--cache has no effect with --res" },
        { { "--rescore", "a.db", "--keep", "1", "x.lua" }, "--keep has no effect with --rescore" },
        { { "--watch", "--log", "a.db", "x.lua" }, "--log has no effect with --watch" },
        { { "--queue", "q", "x.lua" }, "--queue needs --workers" },
    } do
        it("refuses: " .. case[2], function()
            local result = ponder(case[1])
            assert.equal(0, asked(), "nothing is run")
            assert.equal(2, result.status, result.err)
            assert.matches(case[2]:gsub("%-", "%%-"), result.err)
            assert.equal(1, select(2, result.err:gsub("\n", "")))
        end)
    end

    it("shows the calls and the events of its runs", function()
        assert.equal(0, ponder({ "--log", "a.db", "--limit", "2", "sums.lua" }).status)
        local function show(...)
            return shell.ponder({ "show", ... }, { cwd = dir.path, env = environment() })
        end
        local calls = show("--calls", "a.db").out
        assert.matches("^RUN +# +ASKED.-\n#%d io i%d +1 +%+.-\n#%d io i%d +1 +%+[^\n]+\n$", calls)
        local runs = {}
        for line in show("--calls", "--json", "a.db").out:gmatch "[^\n]+" do
            runs[#runs + 1] = json.decode(line).run
            assert.matches("^# +ASKED[^\n]+\n1 +%+", show("--calls", "a.db#" .. runs[#runs]).out)
        end
        assert.equal(2, #runs)
        assert.matches("\n +%+%S+  #%d run%.report  answer=1 ", show("--events", "a.db").out)
        assert.matches("no node n1; 4 runs within it may", show("--node", "n1", "a.db").err)
        local empty = show("--events", "a.db#" .. runs[1])
        assert.same({ 1, "ponder show: a.db: there is no event\n" }, { empty.status, empty.err })
    end)

    for fields, message in pairs {
        ['policies = { io = { model = "openai:m", prompt = "x" } }']
            = 'policies["io"]: OPENAI_API_KEY is not set',
        ['policies = { best = { model = "openai:m", k = 3 } }']
            = 'policies["best"]: OPENAI_API_KEY is not set',
        ['policies = { cot = require("ponder.strategy.cot").new { model = "openai:m" } }']
            = 'policies["cot"]: OPENAI_API_KEY is not set',
        ['policies = { io = { model = M, prompt = "{{#id}}\\n{{qestion}}{{/id}}" } }']
            = 'policies["io"].prompt:2: {{qestion}}: no item has the field qestion '
            .. "(did you mean question?); there are id, question\n",
        ['policies = { io = { model = M, prompt = "{{question.text}}" } }']
            = 'policies["io"].prompt:1: {{question.text}} must be text (got nil)\n',
        ['policies = { io = { model = M } }, question = "{{quest}}"']
            = "question:1: {{quest}}: no item has the field quest",
        ['policies = { io = { model = M } }, data = { { query = "1" } }']
            = "question: no item has the field question; there are id, query\n",
    } do
        it("refuses before the first call: " .. fields, function()
            dir:write("wrong.lua", ([[local M = "script:model.lua"
                return { data = { "1", "2" }, score = "exact", %s }]]):format(fields))
            local result = ponder { "--no-log", "wrong.lua" }
            assert.same({ 1, "", 0 }, { result.status, result.out, asked() })
            assert.equal("ponder: eval: " .. message, result.err:sub(1, #message + 14))
        end)
    end

    it("reports errors in the file", function()
        dir:write("bad.lua", "return 3")
        local result = ponder { "--no-log", "bad.lua" }
        assert.equal(1, result.status)
        assert.matches("bad%.lua: must return an evaluation", result.err)
        result = ponder { "--no-log", "--policy", "oi", "sums.lua" }
        assert.equal(1, result.status)
        assert.matches('^ponder: eval: policy "oi" is not a policy %(did you mean "io"%?%); '
            .. "there are [^\n]+\n$", result.err)
    end)
end)

describe("ponder init", function()
    local dir

    before_each(function()
        dir = shell.directory()
    end)

    after_each(function()
        dir:__close()
    end)

    local function ponder(...)
        return shell.ponder({ ... }, { cwd = dir.path, env = environment {
            PONDER_MODEL = "script:model.lua" } })
    end

    it("writes files that run unchanged", function()
        dir:write("model.lua", [[return function(request)
            local text = request.messages[#request.messages].content
            return { text = text:find "6 %* 7" and "Answer: 42" or "Answer: 0" }
        end]])
        assert.equal("wrote eval.lua; try: ponder eval eval.lua\n", ponder("init").out)
        local result = ponder("eval", "--no-log", "--model", "script:model.lua", "eval.lua")
        assert.equal(0, result.status, result.err)
        assert.matches("\nguess +3 +66%.7 %%", result.out)
        assert.matches("\nio +3 +33%.3 %%", result.out)
        assert.equal(0, ponder("init", "policy", "p.lua").status)
        assert.matches("^stop\t1 %-> 3", ponder("p.lua").out)
        assert.equal(0, ponder("init", "search").status)
        result = ponder("tot", "--quiet", "--search", "search.lua", "--model", "script:"
            .. shell.root .. "/scripts/models/arithmetic.lua", "Use 4 4 6 8 to make 24")
        assert.equal(0, result.status, result.err)
        assert.equal(0, ponder("init", "strategy").status)
        result = ponder("ask", "--quiet", "--strategy", "strategy.lua", "What is 6 * 7?")
        assert.equal("42\n", result.out, result.err)
        local checked = shell.run(("cd %s && luacheck -q --std lua54 eval.lua p.lua search.lua "
            .. "strategy.lua >$OUT 2>&1"):format(shell.quote(dir.path)))
        assert.equal(0, checked.status, checked.out)
    end)

    it("says what to type so that it runs with or without a model in the environment", function()
        local function init(kind, ...)
            local r = shell.ponder({ "init", kind, ... }, { cwd = dir.path,
                env = environment { PONDER_MODEL = "", OPENAI_API_KEY = "sk-0123456789" } })
            assert.equal(0, r.status, r.err)
            return r.out
        end
        for _, kind in ipairs { "model", "eval", "search", "strategy", "policy" } do
            local words = init(kind):match "^wrote %S+; try: ponder (.-)\n$"
            words = words:gsub(" %(ponder init model writes model.lua%)$", "")
            local r = shell.run(("cd %s; XDG_STATE_HOME=$PWD %s %s 2>$ERR >$OUT"):format(
                dir.path, shell.quote(shell.executable), words))
            assert.equal(0, r.status, r.err)
            assert.not_equal("", r.out)
        end
        local r = shell.ponder({ "eval", "eval.lua" }, { cwd = dir.path,
            env = environment { PONDER_MODEL = "", OPENAI_API_KEY = "sk-0123456789" } })
        assert.equal(1, r.status) -- a key alone starts no calls
        assert.matches("no model is named", r.err)
        assert.equal(dir:read "eval.lua", init("eval", "-"))
    end)

    it("writes a model that every strategy can play", function()
        ponder("init", "model")
        for name, calls in pairs { cot = 1, tot = 6, got = 9, trm = 2 } do
            for question, answer in pairs { ["What is 6 * 7?"] = "4[23]", Who = "only do sums" } do
                local r = shell.ponder({ name, "--no-log", "--json", "--model", "script:model.lua",
                    question }, { cwd = dir.path, env = environment() })
                assert.equal(0, r.status, r.err)
                local outcome = json.decode(r.out)
                assert.matches(answer, outcome.answer)
                assert.is_true(outcome.calls >= calls)
                assert.same(name == "tot" and { generation = 0, evaluation = 0 } or nil,
                    name == "tot" and outcome.result.diagnostics.parse_retries or nil)
            end
        end
    end)

    it("works with a broken config file", function()
        dir:write("ponder/config.lua", "return {")
        local r = shell.ponder({ "init", "strategy" }, { cwd = dir.path,
            env = environment { PONDER_MODEL = "", XDG_CONFIG_HOME = dir.path } })
        assert.same({ 0, "" }, { r.status, r.err })
        assert.matches("^wrote strategy%.lua; try: ponder ask %-%-model script:model%.lua", r.out)
    end)

    it("changes no file that exists", function()
        dir:write("eval.lua", "mine")
        local result = ponder "init"
        assert.same({ 2, "ponder init: eval.lua already exists, and is not changed; to write "
            .. "another file: ponder init eval FILE\n" }, { result.status, result.err })
        assert.equal("mine", dir:read "eval.lua")
        assert.equal(2, ponder("init", "evil").status)
    end)
end)

describe("the evaluations in scripts/eval", function()
    for _, name in ipairs { "game24", "countdown", "sorting" } do
        it(name .. " runs offline", function()
            local result = shell.ponder({ "eval", "--no-log", "--json", "--limit", "2",
                "scripts/eval/" .. name .. ".lua" }, { env = environment() })
            assert.equal(0, result.status, result.err)
            local object = assert(json.decode(result.out))
            assert.equal(name, object.meta.name)
            for _, policy in ipairs(object.policies) do
                assert.same({ 2, 0 }, { policy.n, policy.outcomes.failed }, policy.name)
            end
        end)
    end

    it("draw the same 100 solvable puzzles each time", function()
        local code = [[package.loaded.expression = dofile "scripts/eval/expression.lua"
            local game = dofile "scripts/eval/game24.lua"
            local list, seen = game.data(), {}
            for _, item in ipairs(list) do
                assert(not seen[item.id])
                seen[item.id] = true
            end
            print(#list, list[1].id, list[100].id)]]
        local first = shell.ponder({ "-e", code }, { env = environment() })
        assert.matches("^100\t%d+%-%d+%-%d+%-%d+\t", first.out, first.err)
        assert.equal(first.out, shell.ponder({ "-e", code }, { env = environment() }).out)
    end)
end)

describe("the table of ponder eval in a terminal", function()
    local dir

    setup(function()
        dir = shell.directory()
        dir:write("model.lua", MODEL)
        dir:write("sums.lua", (EVAL:gsub('"script:model.lua"', ('"script:%s/model.lua"'):format(
            dir.path))))
    end)

    teardown(function()
        dir:__close()
        os.remove "asked"
    end)

    local function open(columns, more)
        return screen.open({ "eval", "--no-log", dir.path .. "/sums.lua" },
            { columns = columns, rows = 30, env = environment(more) })
    end

    for _, columns in ipairs { 80, 40 } do
        it(("fits %d columns"):format(columns), function()
            local s <close> = open(columns)
            local status, lines = s:finish()
            assert.equal(0, status)
            local head, widest = nil, 0
            for _, line in ipairs(lines) do
                head = head or line:match "^POLICY.*"
                widest = math.max(widest, utf8.len(line) or #line)
            end
            assert.is_true(widest <= columns, table.concat(lines, "\n"))
            assert.truthy(head:find("ACCURACY", 1, true))
            assert.equal(columns == 80, head:find("SAMPLES", 1, true) ~= nil, head)
        end)
    end

    it("has no colours if NO_COLOR is set", function()
        local colored <close> = open(80)
        colored:finish()
        local plain <close> = open(80, { NO_COLOR = "1" })
        plain:finish()
        assert.truthy(colored:colored():find("\27[1m", 1, true))
        assert.is_nil(plain:colored():find("\27[1m", 1, true))
    end)

    it("shows its progress, and removes that at the end", function()
        local s <close> = open(80, { SLOW = "0.25" })
        s:wait "POLICY +DONE"
        s:wait "of 40 runs"
        local _, lines = s:finish()
        assert.is_nil(table.concat(lines, "\n"):find("of 40 runs", 1, true))
    end)
end)
