local evaluation = require "evaluation"
local json = require "ponder.json"
local screen = require "screen"
local shell = require "shell"

local environment = evaluation.environment

describe("ponder eval", function()
    local dir, ponder, asked

    before_each(function()
        dir, ponder, asked = evaluation.directory()
    end)

    after_each(function()
        dir:__close()
    end)

    it("prints a table and remarks", function()
        local result = ponder { "--no-log", "sums.lua" }
        assert.equal(0, result.status, result.err)
        assert.matches("\nio +20 +75%.0 %% +53%.%.89 +%+70%.0 %%.*\nconst +20 +5%.0 %% +1%.%.24 "
            .. "+baseline", result.out)
        assert.matches("\nio is better than const %(p <0%.001%)\n", result.out)
        assert.matches("20 items, 1 epoch, seed 0", result.out)
        assert.is_nil(result.out:find("\27", 1, true))
        for _, paid in ipairs { "20 requests, 220 tokens, %?", "0 requests, 0 tokens, %$0.00" } do
            local cached = ponder { "--no-log", "--cache", "c.db", "sums.lua" }
            assert.equal(paid:sub(1, 1) == "0", cached.out:find("\nio: asked 20 requests, 220 "
                .. "tokens, %S+, and paid for " .. paid .. "\n") ~= nil, cached.out)
        end
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

    it("asks the model of --model where a policy or a strategy names none", function()
        dir:write("none.lua", [[return { data = { { question = "1 + 1", target = 2 } },
            score = "numeric", policies = { io = { prompt = "{{question}}" },
                cot = require("ponder.strategy.cot").new {} } }]])
        dir:write("two.lua", "return function() return 'Answer: 2' end")
        for _, variable in ipairs { "", "script:gone.lua" } do
            local result = ponder({ "--no-log", "--json", "--model", "script:two.lua", "none.lua" },
                { PONDER_MODEL = variable })
            local object = assert(json.decode(result.out), result.err)
            assert.same({ 1, 1 }, { object.policies[1].accuracy.value,
                object.policies[2].accuracy.value })
        end
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
        local result = shell.run(([[cd %s; export XDG_STATE_HOME=$PWD/state
            cat pipe >$OUT & %s eval --log a.db --html link \
            --junit pipe sums.lua >$ERR 2>&1; wait]]):format(shell.quote(dir.path),
            shell.quote(shell.executable)))
        assert.matches("^<%?xml", result.out)
        assert.matches("^<!DOCTYPE html>", dir:read "there")
        dir:write("there", "old")
        local again = shell.ponder({ "replay", "a.db" }, { cwd = dir.path, env = environment {
            XDG_STATE_HOME = dir.path .. "/state" } })
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
            ["1.5"] = "must be above 0 and below 1", ["0.1 correlation=2"] = "from %-1 to 1",
            ["0.6 accuracy=0.5"] = "no accuracy differs from this one by as much" } do
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
            end }, policies = { io = { model = m }, sc = { model = m, n = 5 },
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
            data.table = nil -- has the policies' figures as texts
            return without_times(json.decode(result.out)), without_times(data)
        end
        local first, page = numbers(1, "--seed=3")
        local second, page_again = numbers(2, "--seed=3")
        assert.same(first, second)
        assert.same(page, page_again)
        assert.not_same(first.policies, (numbers(3, "--seed=4")).policies)
    end)

    it("reruns with --watch for its file and what that read, and for nothing else", function()
        dir:write("w.lua", [[local n = require "helper"
            return { data = "d.csv", score = "exact",
                policies = { f = function() return n end } }]])
        dir:write("helper.lua", "return 1")
        local result = shell.run(([[cd %s; trap 'kill $pid 2>/dev/null' EXIT
            at() { until [ $(grep -c waiting $ERR) -ge $1 ]; do sleep 0.05; done; }
            %s %s eval --watch --html w.html w.lua >$OUT 2>$ERR & pid=$!
            at 1; printf x >other.csv; printf 'q,target\n1,2\n' >d.csv
            at 2; printf 'return 2' >helper.lua
            at 3; printf 'return (' >helper.lua
            at 4; printf 'return 2 + 0' >helper.lua
            at 5; sed -i 's/return n/return n + 1/' w.lua
            at 6; kill -INT $pid; wait $pid; status=$?; grep -c waiting $ERR >>$OUT
            exit $status]]):format(
            shell.quote(dir.path),
            "env HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent XDG_STATE_HOME=$PWD/state",
            shell.quote(shell.executable)))
        assert.matches("d.csv: No such file.-helper.lua:1: .-waiting", result.err)
        assert.equal(130, result.status)
        assert.matches("^POLICY.-\nf +1 +0%.0 %%.-\nf +1 +100%.0 %%.-\nf +1 +100%.0 %%.-"
            .. "\nf +1 +0%.0 %%.-\n6\n$", result.out)
    end)

    it("says what is missing, and does not wait for it, if there is no file", function()
        local result = ponder { "--watch", "none.lua" }
        assert.same({ 2, "ponder eval: none.lua: No such file or directory\n" }, { result.status,
            result.err })
    end)

    it("shows pass@k and pass^k of several epochs", function()
        dir:write("p.lua", [[local n = 0
            return { data = { { q = 1, target = 1 }, { q = 2, target = 1 } }, score = "exact",
                policies = { f = function(item) n = n + 1 return item.q == 1 and n % 2 end } }]])
        local result = ponder { "--no-log", "--epochs", "2", "--concurrency", "1", "p.lua" }
        assert.matches("ACCURACY +95 %% +PASS@2 +PASS^2 ", result.out)
        assert.matches("\nf +2 +4 +25%.0 %% +%S+ +50%.0 %% +0%.0 %% ", result.out)
        assert.is_nil(ponder({ "--no-log", "p.lua" }).out:find "PASS")
    end)

    for _, case in ipairs {
        { {}, "expected one file" },
        { { "--compare", "a.db" }, "--compare takes two evaluations" },
        { { "--compare", "a.db", "b.db", "--allow-read", "." },
            "--allow-read is for --untrusted" },
        { { "--fail-on-regression", "x.lua" }, "needs --compare" },
        { { "--retry-errors", "x.lua" }, "--retry-errors needs the log" },
        { { "--threshold", "accuracy(io)", "x.lua" }, "expected FIGURE OPERATOR NUMBER" },
        { { "--threshold", "accuracy(oi) > 1", "sums.lua" }, 'policy "oi" .did you mean io' },
        { { "--html", "none/p.html", "sums.lua" }, "--html: none/p.html cannot be written" },
        { { "--junit", ".", "sums.lua" }, "--junit: . is a directory" },
        { { "--csv", "x", "--html", "x", "sums.lua" }, "--html and --csv name the same file: x" },
        { { "--csv", "-", "--junit", "-", "sums.lua" }, "--csv and --junit name the same file" },
        { { "--csv", "-", "--json", "sums.lua" }, "--json and a file - are both standard output" },
        { { "--compare", "a.db", "b.db", "--html", "x" }, "--html has no effect with --compare" },
        { { "--rescore", "a.db", "--epochs", "2", "x.lua" }, "--epochs has no effect with --res" },
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
        ['policies = { best = { model = "openai:m", n = 3 } }']
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
        dir = evaluation.directory()
        dir:write("sums.lua", (dir:read("sums.lua"):gsub("script:", "script:" .. dir.path .. "/")))
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
