--- Logs of version 1, which held one run: presented as the current version to readers, and upgraded
--- when they are resumed.

local schema = require "ponder.log.schema"

local version1 = {}

--- Suffix of the backup copy of an upgraded log.
version1.BACKUP = ".version1"

-- The columns of each table, in the current order; `run` is 1.
local COLUMNS = {
    runs = "1 AS id, id AS uid, command, arguments, script, directory, input, seed, options, "
        .. "versions, started_at, ended_at, status, exit_status, answer, error, source, "
        .. "saved_calls, saved_cost, incomplete",
    sessions = "id, kind, pid, host, started_at, ended_at",
    files = "path, absolute, kind, hash, text",
    calls = "id, session, identity, occurrence, provider, model, sample, samples, request, "
        .. "metadata, within, search, node, purpose, origin, asked_at, answered_at, status, reply, "
        .. "code, message, latency_ms, time_to_first_ms, attempts, input_tokens, output_tokens, "
        .. "total_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost",
    attempts = "call, attempt, at, status, code, message, queue_ms, total_ms, retry_in_ms",
    effects = "id, session, kind, name, key, occurrence, within, search, asked_at, answered_at, "
        .. "status, value, message",
    tape = "seq, round, kind, what",
    readings = "clock, seq, readings",
    searches = "id, kind, question, options, model, started_at, ended_at, status, reason, best, "
        .. "score, answer, stats",
    nodes = "search, id, parent, depth, score, terminal, status, text, best",
    edges = "search, source, target, kind, score",
    events = "id, at, search, name, data",
}

-- Columns that readers need and version 1 did not have.
local MISSING = {
    runs = "NULL AS parent, NULL AS within, NULL AS name, NULL AS labels, NULL AS mac",
    files = "NULL AS mac",
    calls = "NULL AS queued_at, NULL AS sent_at",
}

local OLD_NAME = { runs = "run" }

local function select_from(name)
    local missing = MISSING[name] and ", " .. MISSING[name] or ""
    local run = name == "runs" and "" or "1 AS run, "
    return ("SELECT %s%s%s FROM main.%s"):format(run, COLUMNS[name], missing,
        OLD_NAME[name] or name)
end

-- Columns took values of any type. Values that a strict table rejects are converted or become NULL.
local function strict_columns(name)
    local list = {}
    for column in COLUMNS[name]:gmatch "[^,]+" do
        local from, as = column:match "^%s*([%w_]+) AS ([%w_]+)$"
        from = from or column:match "[%w_]+"
        local kind = schema.COLUMNS[name][as or from].kind
        if kind == "INTEGER" and from ~= "1" then
            from = ("iif(typeof(%s) = 'real', CAST(%s AS INTEGER), iif(typeof(%s) = 'integer', "
                .. "%s, NULL))"):format(from, from, from, from)
        elseif kind == "REAL" then
            from = ("iif(typeof(%s) IN ('real', 'integer'), %s, NULL)"):format(from, from)
        elseif kind == "TEXT" then
            from = ("iif(typeof(%s) = 'blob', hex(%s), %s)"):format(from, from, from)
        end
        list[#list + 1] = from
    end
    return table.concat(list, ", ")
end

local VIEWS, TABLES, UPGRADE = {}, {}, {}
for i, name in ipairs(schema.TABLES) do
    VIEWS[i] = ("CREATE TEMP VIEW %s AS %s;"):format(name, select_from(name))
    TABLES[i] = ("DROP VIEW temp.%s; CREATE TEMP TABLE %s AS %s;"):format(name, name,
        select_from(name))
    UPGRADE[i] = ("INSERT INTO %s (%s) SELECT %s FROM version1_%s;\nDROP TABLE version1_%s;")
        :format(name, (COLUMNS[name]:gsub("[%w_]+ AS ", "")), strict_columns(name),
            OLD_NAME[name] or name, OLD_NAME[name] or name)
end

-- For the lookups of a replayed run.
local INDEXES = [[
CREATE UNIQUE INDEX temp.calls_by_id ON calls (run, id);
CREATE INDEX temp.calls_by_identity ON calls (run, identity, within, occurrence);
CREATE UNIQUE INDEX temp.effects_by_id ON effects (run, id);
CREATE INDEX temp.effects_by_key ON effects (run, kind, name, key, within, occurrence);
CREATE UNIQUE INDEX temp.tape_by_seq ON tape (run, seq);
CREATE UNIQUE INDEX temp.readings_by_seq ON readings (run, clock, seq);
]]

local COPIED = { calls = true, effects = true, tape = true, readings = true }

---Whether a store is a log of version 1.
---@param db ponder.store.Store
---@return boolean
function version1.is(db)
    return db:row("PRAGMA user_version") == 1
end

local function script(db, sql)
    local ok, message = db:script(sql)
    if not ok then
        error(message, 0)
    end
end

---Presents a log of version 1 as the current version; raises what is wrong with it.
---@param db ponder.store.Store open for reading
---@param look_up boolean? copy and index the tables in which a replayed run looks up rows
function version1.present(db, look_up)
    local sql = { "PRAGMA query_only=OFF;" }
    for i, name in ipairs(schema.TABLES) do
        sql[#sql + 1] = VIEWS[i]
        if look_up and COPIED[name] then
            sql[#sql + 1] = TABLES[i]
        end
    end
    sql[#sql + 1] = (look_up and INDEXES or "") .. "PRAGMA query_only=ON;"
    script(db, table.concat(sql, "\n"))
end

-- The columns of the old tables need no check: statements that name missing ones fail.
local function upgrade_in(db)
    local ok, message = db:begin()
    if not ok then
        return nil, message
    end
    for _, name in ipairs(schema.TABLES) do
        name = OLD_NAME[name] or name
        script(db, ("ALTER TABLE %s RENAME TO version1_%s;"):format(name, name))
    end
    script(db, schema.SQL .. table.concat(UPGRADE, "\n")
        .. ("PRAGMA user_version=%d;"):format(schema.VERSION))
    return db:commit()
end

---Upgrades a log of version 1, of which there is a backup copy.
---@param db ponder.store.Store open for writing
---@return boolean? ok
---@return string? message
function version1.upgrade(db)
    local ok, done, message = pcall(upgrade_in, db)
    if not ok or not done then
        db:rollback()
        return nil, ok and message or done
    end
    return true
end

return version1
