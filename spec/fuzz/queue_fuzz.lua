-- Jobs and results of a queue, as anybody who may write to its Redis could make them: a job is
-- run with fields of the right types or is a dead letter, a result ends the wait for it, and rows
-- are what the log takes. The first byte of an input says what it is.

local carry = require "ponder.run.log.carry"
local exchange = require "ponder.serve.queue.exchange"
local json = require "ponder.json"
local log_file = require "ponder.run.log.file"
local moves = require "ponder.serve.queue.moves"
local payload = require "ponder.serve.queue.payload"
local sample_log = require "sample_log"
local store = require "ponder.core.store"
local zlib = require "ponder.core.zlib"

local PREFIX = "ponder:1:{q}:budget:"
local ID, MAP = ("a"):rep(32), ("b"):rep(16)

local HEAD = '{"process":1,"host":"host","started_at":1700000000.5,"seed":7,"run":5}\n'
local EVENTS = '["events",5,{"id":5,"at":1700000001.0,"name":"note","data":"{\\"a\\":1}"}]\n'
local TAPE = '["tape",5,{"seq":1,"round":1,"kind":"run","what":6}]\n'
local RUN = '["runs",6,{"uid":"00","command":"run","seed":3,"started_at":1.5,"parent":5}]\n'

local SPEC = json.encode { call = "f", name = "f[1]", seed = 7, index = 1, max_attempts = 3,
    timeout_ms = 1000, budgets = { { key = PREFIX .. "x", at_least = { 1, 2, 3 }, max_calls = 5,
    max_cost = 0.5, in_flight = "cancel" } } }

local function job(fields)
    return "j" .. json.encode(fields)
end

local SEEDS = {
    job { id = ID, map = MAP, spec = SPEC, item = '{"a":[1,"x"]}' },
    job { id = "a:b", map = "", spec = "5", item = "{" },
    "a" .. '{"host":"h","pid":1,"code":"c","seen_at":1,"lease_ms":60000,"problem":"p"}',
    "a" .. '{"map":"m","spec":"{}","item":"1","code":"c","error":"e","attempts":3,"at":1}',
    "r" .. payload.value({ a = 1 }, "rows"), "r" .. payload.failure("m", "CODE", { 1 }),
    "r" .. payload.value(("x"):rep(3000)), "r" .. ("<Bs4s4"):pack(1, "x", ""),
    "e" .. json.encode { { id = ID, status = "dead", value = payload.failure("m", "DEAD") },
        { id = ID, status = "again" }, { id = "other", status = "ok" }, { status = "purged" },
        { id = ID, status = "refused", value = "x" }, {} },
    "c" .. HEAD, "c" .. HEAD .. EVENTS .. TAPE, "c" .. HEAD .. RUN .. EVENTS .. TAPE,
}

local KINDS = { call = "string", name = "string", seed = "integer", max_attempts = "integer",
    index = "integer", timeout_ms = "integer" }

local path = os.tmpname()
local db

-- A tape whose rows go into a log, and are gone afterwards.
local function new_tape()
    if not db then
        os.remove(path)
        sample_log.write(path)
        db = assert(store.open(path, { mode = "write" }))
    end
    local last_run, last_seq = 100, 1000
    return { id = 50, session = 1, calls = 0, root = {}, writer = { calls = 0,
        next_run = function() last_run = last_run + 1 return last_run end,
        next_seq = function() last_seq = last_seq + 1 return last_seq end },
        write = function(_, sql, ...) assert(db:execute(sql, ...)) end }
end

-- The fields of a decoded object as Redis sends them.
local function as_list(object)
    local list = {}
    for name, value in pairs(type(object) == "table" and object or {}) do
        table.move({ name, value }, 1, 2, #list + 1, list)
    end
    return list
end

local function is_one_line(message)
    return type(message) == "string" and not message:find "traceback"
end

local TRY = {
    j = function(input)
        local spec, item = payload.job(moves.fields(as_list(json.decode(input))), PREFIX)
        if not spec then
            return assert(is_one_line(item))
        end
        for name, kind in pairs(KINDS) do
            local value = spec[name]
            assert(value == nil or (math.type(value) or type(value)) == kind, name)
        end
        for _, budget in ipairs(spec.budgets or {}) do
            assert(budget.key:sub(1, #PREFIX) == PREFIX and math.type(budget.at_least[3]))
        end
    end,
    a = function(input)
        for _, rules in ipairs { moves.WORKER, moves.LETTER, moves.VERSION } do
            for name, value in pairs(moves.read(input, rules)) do
                assert(rules[name] and (math.type(value) or type(value)) == rules[name].type, name)
            end
        end
    end,
    r = function(input)
        local ok, value, rows = payload.read(input)
        assert(type(rows) == "string" and (ok or value == nil))
    end,
    e = function(input) -- entries of the stream of results, and at last the right one
        local entries, sent = json.decode(input), false
        local reader = { timeout_ms = 0, send = function()
            local list = {}
            for i, fields in ipairs(type(entries) == "table" and not sent and entries or {}) do
                list[i] = { i .. "-0", as_list(fields) }
            end
            list[#list + 1] = sent and { "9-0", { "id", ID, "status", "ok", "value", "" } } or nil
            sent = true
            return { { "results", list } }
        end }
        local nothing = function() return {} end
        local one = exchange.new { name = "q", map = MAP, script = { path = "x.lua", code = "c" },
            reader = reader, client = { eval = nothing, call = nothing,
                patience_s = function() return 1 end } }
        local slot = { id = ID, item = "1", spec = {}, backings = {} }
        one:await(slot)
        assert(({ ok = 1, failed = 1, dead = 1, cancelled = 1 })[slot.status], slot.status)
        assert(slot.value == nil or payload.read(slot.value) ~= nil)
    end,
    c = function(input)
        local tape = new_tape()
        db:execute "BEGIN"
        local stored, message = carry.unpack(tape, zlib.compress("3\n" .. input))
        assert(stored or is_one_line(message))
        for name in pairs { calls = 1, events = 1, tape = 1, nodes = 1, effects = 1 } do
            for row in db:columns(("SELECT * FROM %s WHERE run >= 50"):format(name)) do
                local ok, damage = pcall(log_file.check, "log", name, row)
                assert(ok or damage:find "^log: damaged: [^\n]*$", damage)
                log_file.decode(name, row)
                assert(name ~= "events" or row.data == nil or type(row.data) == "table")
            end
        end
        db:execute "ROLLBACK"
    end,
}

local function try(input)
    local kind = TRY[input:sub(1, 1)] or TRY.r
    kind(input:sub(2))
end

local function finish()
    if db then
        db:close()
    end
    os.execute("rm -f " .. path .. "*")
end

return { seeds = SEEDS, try = try, finish = finish }
