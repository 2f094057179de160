local evaluation = require "evaluation"
local json = require "ponder.json"
local shell = require "shell"
local store = require "ponder.core.store"

local environment = evaluation.environment

describe("the log of an evaluation", function()
    local dir, ponder, asked

    before_each(function()
        dir, ponder, asked = evaluation.directory()
    end)

    after_each(function()
        dir:__close()
    end)

    it("scores recorded answers again without a call", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        local before = asked()
        dir:write("other.lua", (evaluation.EVAL:gsub('score = "numeric"',
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
            end, policies = { b = { model = "script:model.lua", n = 4 },
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
    end)

    it("needs no model to score recorded answers", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }).status)
        dir:write("none.lua", (evaluation.EVAL:gsub('flags.model or "script:model.lua"', "nil")))
        local result = ponder { "--rescore", "a.db", "--no-log", "none.lua" }
        assert.equal(0, result.status, result.err)
        assert.matches("\nio +20 +75%.0 %%", result.out)
    end)

    it("counts a policy that is named twice once", function()
        local result = ponder { "--no-log", "--policy", "io,const,io", "--json", "sums.lua" }
        local object = json.decode(result.out)
        assert.same({ 2, 40, 20, 20 }, { #object.policies, #object.records, object.policies[1].n,
            asked() })
        object.meta.policies[3] = "io"
        table.move(object.records, 1, 40, 41)
        dir:write("a.json", json.encode(object))
        result = ponder { "--compare", "--json", "a.json", "a.json" }
        local changes = json.decode(result.out).changes
        assert.same({ 2, 20 }, { #changes, changes[1].n })
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
        dir:write("sums.lua", (evaluation.EVAL:gsub("\n} }%]?$", [[

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
            ["1 --timeout 1s"] = "timeout", ["1"] = "interrupted" } do
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
            assert.is_true(tonumber(n) >= 1 and tonumber(n) < 20, result.out)
            local rest = (" items of 20 unfinished: %s\n"):format(reason)
            assert.truthy(result.out:find(rest, 1, true), result.out)
            local again = ponder { "--rescore", "a.db", "sums.lua" }
            assert.same({ n, accuracy }, { again.out:match "\nio +(%d+) +([%d.]+ %%)" })
            assert.truthy(again.out:find(rest, 1, true), again.out)
            again = shell.ponder({ reason == "interrupted" and "resume" or "replay", "a.db" },
                { cwd = dir.path, env = environment { XDG_STATE_HOME = dir.path .. "/state" } })
            if reason ~= "interrupted" then
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

    it("reruns only failures, and leaves the log where it is if it cannot", function()
        assert.equal(0, ponder({ "--log", "a.db", "sums.lua" }, { BROKEN = "1" }).status)
        dir:write("ask.lua", "require('ponder.model').open('script:model.lua'):complete('5')")
        dir:ponder { "run", "--log", "b.db", "ask.lua" }
        for _, case in ipairs { { "a.db", "sum.lua" }, { "a.db", "--policy=oi", "sums.lua" },
            { "a.db", "--threshold=accuracy(oi) > 1", "sums.lua" }, { "b.db", "sums.lua" } } do
            local result = ponder { "--retry-errors", "--log", table.unpack(case) }
            assert.not_equal(0, result.status)
            assert.is_nil(io.open(("%s/%s.1"):format(dir.path, case[1])), result.err)
        end
        local before = asked()
        local first = ponder { "--retry-errors", "--log", "a.db", "sums.lua" }
        assert.same({ 0, before + 4 }, { first.status, asked() }, first.err)
        assert.matches("\nio +20 +75%.0 %%", first.out)
        assert.is_string(dir:read "a.db.1")
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
            { "json_set(data, '$.epoch', 1000000000000) WHERE name = 'eval.record'",
                "a record of epoch 1000000000000 of 1" },
            { "json_set(data, '$.epoch', 0) WHERE name = 'eval.record'",
                "eval.record: epoch must be an integer >= 1" },
            { "json_set(data, '$.epoch', 1, '$.score', 'x') WHERE name = 'eval.record'",
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
            assert.matches("^ponder eval: c.db: damaged: [^\n]*" .. case[2] .. "[^\n]*\n$",
                damaged.err)
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
end)
