-- When a logged call was queued, sent, failed and answered.

local help = require "log_help"
local reader = require "ponder.run.log.reader"

describe("the times of a logged call", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    it("are those of each failed attempt, and of the last one's queue and flight", function()
        w:begin [[
            m = require("ponder.model").open(nil, { concurrency = 1, max_retries = 2 })
            task.all { function() say(ask "one" ~= nil) end, function() say(ask "two" ~= nil) end }
        ]]
        w.server:next("status=503&body={}&retry-after=0", "delay=120", "delay=60")
        assert.equal("true\ntrue\n", w:run().out)
        local asked, failed, queued, sent, answered = w:row "SELECT asked_at, at, queued_at, sent_at, answered_at FROM calls JOIN attempts ON call = id" -- luacheck: ignore 631
        assert.is_true(asked <= failed and failed <= queued and queued <= sent
            and sent < answered, table.concat({ asked, failed, queued, sent, answered }, " "))
        assert.equal(2, (w:row("SELECT count(*) FROM calls WHERE asked_at <= queued_at "
            .. "AND queued_at <= sent_at AND sent_at <= answered_at")))
        assert.equal(1, (w:row "SELECT sum(attempts - 1) FROM calls"))
    end)

    it("count a retry only if one was made", function()
        w:begin [[
            local model = require "ponder.model"
            m = model.open(nil, { max_retries = 2 })
            say(ask "fails twice, then answers")
            say(select(2, ask "fails for good"))
            say(select(2, ask "is not tried again"))
            local cancelled
            model.observe(function(event)
                if cancelled and event.attempt == 2 then cancelled:cancel() end
            end)
            cancelled = task.spawn(ask, "is cancelled when it is tried again")
            pcall(cancelled.join, cancelled)
            say(task.with_budget({ max_calls = 0 }, function() return select(2, ask "refused") end))
        ]]
        local fails = "status=503&body={}&retry-after=0"
        w.server:next(fails, fails, "", fails, fails, fails, "status=400&body={}", fails,
            "delay=60000")
        w:run()
        -- Sent, failed, retried.
        local rows = w:row "SELECT group_concat(printf('%d %d %d', attempts, (SELECT count(*) FROM attempts WHERE call = id), (SELECT count(*) FROM attempts WHERE call = id AND retry_in_ms IS NOT NULL)), ', ') FROM calls" -- luacheck: ignore 631
        assert.equal("3 2 2, 3 3 2, 1 1 0, 2 1 1, 0 0 0", rows)
        local log <close> = assert(reader.open(w.log))
        assert.equal(5, log:totals().retries)
    end)

    it("distinguish a call that waited for another from one that took long", function()
        w:begin [[
            m = require("ponder.model").open(nil, { concurrency = 1 })
            task.all { function() say(ask "one" ~= nil) end, function() say(ask "two" ~= nil) end }
        ]]
        w.server:next("delay=120", "delay=60")
        assert.equal("true\ntrue\n", w:run().out)
        assert.is_true((w:row "SELECT max(sent_at - queued_at) FROM calls") > 0.05)
        assert.is_true((w:row "SELECT min(sent_at) < max(sent_at) FROM calls") == 1)
    end)
end)
