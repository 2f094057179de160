-- Token counts of any origin, and their sums.

local store = require "ponder.core.store"
local tally = require "ponder.base.tally"

local NOT_COUNTS = { -1, 0.5, 0 / 0, math.huge, -math.huge, (1 << 40) + 1, math.maxinteger,
    math.mininteger, 2.0 ^ 63, "7", true, {} }

describe("ponder.base.tally", function()
    it("accepts whole numbers from 0 to 2^40 as counts", function()
        for _, value in ipairs { 0, 1, 7.0, 1 << 40 } do
            assert.equal(value, tally.count(value))
            assert.equal("integer", math.type(tally.count(value)))
        end
        for _, value in ipairs(NOT_COUNTS) do
            assert.is_nil(tally.count(value))
        end
        assert.is_nil(tally.count(nil))
    end)

    it("adds up to 2^53, and does not wrap", function()
        local sum = {}
        for _ = 1, 10000 do
            tally.add(sum, { input_tokens = 1 << 40, output_tokens = 2 })
        end
        assert.same({ input_tokens = 1 << 53, output_tokens = 20000 }, sum)
        for _, value in ipairs(NOT_COUNTS) do
            tally.add(sum, { input_tokens = value, other_tokens = value, 1 })
        end
        assert.same({ input_tokens = 1 << 53, output_tokens = 20000 }, sum)
        assert.equal(1 << 53, tally.plus(1 << 53, 1 << 53))
    end)

    it("makes a total at least the sum of its parts", function()
        local function total(usage) return tally.clean(usage).total_tokens end
        assert.equal(12, total { input_tokens = 8, output_tokens = 4, total_tokens = 0 })
        assert.equal(15, total { input_tokens = 8, output_tokens = 4, total_tokens = 15 })
        assert.equal(15, total { total_tokens = 15, output_tokens = 4 })
        assert.is_nil(total { output_tokens = 4, input_tokens = -1 })
        local huge = tally.clean { input_tokens = 1 << 40, output_tokens = 1 << 40 }
        assert.same({ input_tokens = 1 << 40, output_tokens = 1 << 40, total_tokens = 1 << 41 },
            tally.clean(huge))
    end)

    it("recognizes usage that is too large", function()
        assert.is_true(tally.exceeds { input_tokens = math.maxinteger })
        assert.is_true(tally.exceeds { output_tokens = math.huge })
        assert.is_true(tally.exceeds(tally.clean { output_tokens = 2.0 ^ 70 }))
        assert.is_false(tally.exceeds { input_tokens = 1 << 40, output_tokens = -math.huge })
        assert.same({ input_tokens = 5 }, tally.clean { input_tokens = 5, output_tokens = -1, "a" })
        assert.is_nil(tally.clean "usage")
    end)

    it("accepts amounts and dollars that are numbers, and finite", function()
        for _, value in ipairs { 0, 0.5, 1 << 40 } do
            assert.equal(value, tally.amount(value))
            assert.equal(value, tally.usd(value))
        end
        for _, value in ipairs { -0.5, 0 / 0, math.huge, "7", false } do
            assert.is_nil(tally.amount(value))
            assert.is_nil(tally.usd(value))
        end
        assert.is_nil(tally.amount((1 << 40) + 1))
        assert.equal(2.0 ^ 70, tally.usd(2.0 ^ 70))
        assert.same({ 1.5, 1.7976931348623157e308, -1.7976931348623157e308 },
            { tally.finite(1.5), tally.finite(math.huge), tally.finite(-math.huge) })
    end)

    it("estimates a token for three bytes, and 1024 for a reply whose length is not limited",
        function()
            assert.same({ 1, 2048 }, { tally.estimate(2, nil, 2) })
            assert.same({ 3, 50 }, { tally.estimate(6, 50, 2) })
        end)

    it("knows which failed attempts may have been billed, in Lua and SQL", function()
        local cases = { { nil, nil, nil, true }, { nil, "TIMEOUT", "too late", true },
            { nil, "TIMEOUT", "m: no connection within connect_timeout_ms = 1", false },
            { 200, nil, nil, true }, { 200, "TIMEOUT", "x", true }, { 299, "PROTOCOL", nil, true },
            { 300, "PROTOCOL", nil, false }, { 199, nil, nil, false },
            { 500, "SERVER", nil, false }, { 200, "SERVER", nil, false },
            { 200, "CONNECT", nil, true }, { 200, "TLS", nil, true },
            { 404, "CONNECT", nil, false } }
        for _, code in ipairs { "AUTH", "BAD_REQUEST", "BUDGET", "CONNECT", "CONTEXT_LENGTH",
            "NO_PRICE", "NOT_FOUND", "POOL_EMPTY", "POOL_UNKNOWN", "QUOTA", "RATE_LIMITED",
            "SERVER", "TLS" } do
            table.insert(cases, { nil, code, nil, false })
        end
        local path = os.tmpname()
        os.remove(path)
        local db <close> = assert(store.open(path, { mode = "create",
            schema = "CREATE TABLE t (status, code, message)" }))
        os.remove(path)
        for i = 1, #cases do
            local status, code, message, expected = table.unpack(cases[i], 1, 4)
            local name = ("%s %s %s"):format(status, code, message)
            db:execute "DELETE FROM t"
            db:execute("INSERT INTO t VALUES (?, ?, ?)", status, code, message)
            local function sql(condition)
                return db:row(("SELECT %s FROM t"):format(condition)) == 1
            end
            assert.equal(expected, tally.is_billed(status, code, message), name)
            assert.equal(expected, sql(tally.sql_billed "status"), name)
            if not status then
                assert.equal(expected, sql(tally.sql_billed()), name)
            end
        end
    end)

    it("sums the same way in SQL", function()
        local path = os.tmpname()
        os.remove(path)
        local db <close> = assert(store.open(path, { mode = "create",
            schema = "CREATE TABLE t (v)" }))
        local function sum(...)
            db:execute "DELETE FROM t"
            for i = 1, select("#", ...) do
                db:execute("INSERT INTO t VALUES (?)", (select(i, ...)))
            end
            return (db:row(("SELECT %s FROM t"):format(tally.sql_sum("v", "v IS NOT 3"))))
        end
        assert.is_nil(sum())
        assert.is_nil(sum(nil, nil))
        assert.equal(7, sum(3, 2, 5))
        assert.equal("integer", math.type(sum(2, 5)))
        assert.equal(5, sum(math.maxinteger, 5, math.maxinteger, -1, "a", 1.5, math.huge))
        db:begin()
        for _ = 1, 9000 do
            db:execute("INSERT INTO t VALUES (?)", 1 << 40)
        end
        db:commit()
        assert.equal(1 << 53, (db:row(("SELECT %s FROM t"):format(tally.sql_sum "v"))))
        os.remove(path)
    end)
end)
