--- Batches of model calls in the log: a row of `batches` for each, which is on disk before the
--- batch is sent, and its id before anybody waits for it. So a resumed run finds the lines of
--- batches that no call has used yet, and asks for none of them again.

local json = require "ponder.json"

local batches = {}

---@class ponder.log.Line a call in a batch of a previous process
---@field key string of the batch
---@field n integer its number in the batch
---@field tries integer how many batches have had this call
---@field batch ponder.log.Batch

---@class ponder.log.Batch
---@field key string
---@field id string? of the service; nil: it may not have been sent
---@field count integer lines
---@field asked_at number
---@field wanted table<integer, true> numbers of the lines that no call has used

local UNUSED = [[SELECT identity, (SELECT count(*) FROM attempts WHERE run = ?1 AND call = ?2)
    FROM calls WHERE run = ?1 AND id = ?2 AND status IS NOT 'ok']]

-- Calls f(batch, n, run, call) for each line of the batches of a run, in the order they were sent.
local function each(db, root, f)
    for key, id, at, text in db:rows("SELECT key, batch, asked_at, calls FROM batches "
        .. "WHERE run = ? ORDER BY asked_at, key", root) do
        local list = json.decode(text)
        local batch = { key = key, id = id, asked_at = at, wanted = {},
            count = type(list) == "table" and #list or 0 }
        for n = 1, batch.count do
            f(batch, n, table.unpack(type(list[n]) == "table" and list[n] or {}))
        end
    end
end

---The calls that are in batches.
---@param root integer runs.id of the outermost run
---@return table<string, true> names "RUN ID"
function batches.calls(db, root)
    local names = {}
    each(db, root, function(_, _, run, call) names[("%s %s"):format(run, call)] = true end)
    return names
end

-- The lines of the log's batches that no call has used, by the identity of their calls. A call that
-- failed has used one for each failed attempt.
local function load(db, root)
    local last, names, lines = {}, {}, {}
    each(db, root, function(batch, n, run, call)
        local name = ("%s %s"):format(run, call)
        local before = last[name]
        if not before then names[#names + 1] = name end
        last[name] = { key = batch.key, n = n, batch = batch, run = run, call = call,
            tries = before and before.tries + 1 or 1 }
    end)
    for _, name in ipairs(names) do
        local line = last[name]
        local identity, failed = db:row(UNUSED, line.run, line.call)
        if identity and failed < line.tries then
            line.batch.wanted[line.n] = true
            lines[identity] = lines[identity] or {}
            table.insert(lines[identity], line)
        end
    end
    return lines
end

---Takes a line for a call, which then belongs to it.
---@return ponder.log.Line? line nil: no batch has this call
function batches.take(tape, asked)
    local writer = tape.writer
    if not writer.db then return nil end
    writer.lines = writer.lines or load(writer.db, tape.id)
    local list = writer.lines[asked.hash]
    return list and table.remove(list, 1)
end

---Adds a batch that is about to be sent. It is on disk once the round has ended.
---@param calls ponder.log.Asked[] in the order of its lines
function batches.begin(tape, key, model, calls)
    local ids = {}
    for i, asked in ipairs(calls) do ids[i] = json.array { asked.run or 0, asked.id or 0 } end
    tape:write("INSERT INTO batches (run, key, model, calls, asked_at) VALUES (?, ?, ?, ?, ?)",
        tape.id, key, model, json.encode(json.array(ids)), tape.clock())
    tape.writer.has_asked = true
end

---Sets the service's id of a batch. Without one, deletes its row: the service does not have the
---batch, and nothing was paid.
function batches.set_id(tape, key, id)
    if id then
        tape:write("UPDATE batches SET batch = ? WHERE run = ? AND key = ?", id, tape.id, key)
    else
        tape:write("DELETE FROM batches WHERE run = ? AND key = ?", tape.id, key)
    end
    tape.writer.has_asked = true
end

return batches
