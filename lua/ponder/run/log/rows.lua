--- Writes the rows of a run that are not of its operations: its own in `runs`, those of its
--- processes and of its files.
---
--- Keys known to redactors never reach the file (see ponder.run.log.writer). A script may contain
--- the key of a model that it opens: its files are written with the first call or at the end, and
--- again when a key that they contain becomes known.

local files = require "ponder.run.log.files"
local host = require "ponder.core.host"
local json = require "ponder.json"
local net = require "ponder.core.net"
local random = require "ponder.core.random"
local redact = require "ponder.base.redact"
local retention = require "ponder.run.log.retention"
local store = require "ponder.core.store"
local variables = require "ponder.base.environment"
local writer = require "ponder.run.log.writer"

local rows = {}

local NONE = {}

--- Environment variables that influence a run.
rows.ENVIRONMENT = variables.names "run"
for _, name in ipairs(variables.names "address") do
    table.insert(rows.ENVIRONMENT, name)
end

---------------------------------------------------------------------------------------------------
-- The outermost run

-- Returns the command line without secrets.
local function without_secrets(given)
    local arguments = {}
    for i, argument in ipairs(given) do
        local flag, value = argument:match("^(%-%-[%w-]+=)(.*)$")
        flag, value = flag or "", value or argument
        if flag == "--headers=" or given[i - 1] == "--headers" then
            local headers = json.decode(value) -- '{"authorization": "Bearer ..."}'
            value = type(headers) == "table" and json.encode(redact.without_values(headers))
                or value
        elseif given[i - 1] == "-e" then
            value = redact.keep(value)
        elseif value:find("^%a[%w+.-]*://%S+$") then
            value = redact.address(value, redact.MARK)
        end
        arguments[i] = flag .. value
    end
    return json.array(arguments)
end

-- Writes the row of this process. The end of the run replaces it.
local function write_session(tape, ended_at)
    local pid, name = host.process()
    local by = tape.elsewhere or NONE
    tape:write("INSERT OR REPLACE INTO sessions (run, id, kind, pid, host, started_at, ended_at) "
        .. "VALUES (?, ?, ?, ?, ?, ?, ?)", tape.id, tape.session, tape.command.kind,
        by.pid or pid, by.host or name, by.started_at or tape.started_at, ended_at)
end

---@class ponder.log.Files the files of a run, written once their keys are known
---@field arguments string the command line, as JSON: `-e` has code
---@field list ponder.log.File[]
---@field keys integer? known when the files were last written; nil: they never were

local function write_file(tape, one)
    tape.writer:write_signed(tape.id, [[INSERT OR REPLACE INTO files (run, path, absolute, kind,
        hash, text) VALUES (?, ?, ?, ?, ?, ?)]], tape.id, one.path,
        not one.piped and host.absolute(one.path) or nil, one.kind, store.sha256(one.text),
        redact.keep(one.text))
end

---Writes the files so far, and again once a further key is known, which they may have.
function rows.write_files(tape)
    local of = tape.files
    if redact.keys == of.keys then
        return
    elseif of.keys then
        tape.writer:write_signed(tape.id, "UPDATE runs SET arguments = ? WHERE id = ?",
            of.arguments, tape.id)
    end
    of.keys = redact.keys
    for _, one in ipairs(of.list) do
        write_file(tape, one)
    end
end

-- Follows the files of a run.
local function follow_files(tape)
    local of = { list = {},
        arguments = json.encode(without_secrets(tape.command.about.arguments)) }
    tape.files = of
    files.listen(function(one)
        table.insert(of.list, one)
        if of.keys then
            write_file(tape, one)
        end
    end)
end

---Has the keys in the environment redacted from now on.
function rows.note_environment_keys()
    local keys = {}
    for _, name in ipairs(variables.names "key") do
        keys[#keys + 1] = os.getenv(name)
    end
    redact.new(keys)
end

-- Writes the rows of a new outermost run.
local function begin(tape)
    local command, run = tape.command, tape.run
    local of, variables_now = command.about, {}
    for _, name in ipairs(rows.ENVIRONMENT) do
        local value = os.getenv(name)
        variables_now[name] = value and redact.address(value)
    end
    local versions = { ponder = host.version, lua = _VERSION, sqlite = store.sqlite_version,
        curl = net.curl_version }
    tape.writer:write_signed(tape.id, [[INSERT INTO runs (id, uid, command,
        arguments, script, directory, input, seed, options, versions, started_at, source)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]], tape.id, tape.uid, of.command,
        json.encode(without_secrets(of.arguments)), of.script, (host.directory()), of.input,
        run.seed, json.encode(variables_now), json.encode(versions), tape.started_at,
        command.play and command.play.source)
    write_session(tape)
    follow_files(tape)
end

---Creates the file of a log, if it is to have one and has none yet, or adds to an existing one.
---@return boolean? ok
---@return string? message
---@return string? code of a store
function rows.open(root)
    if not root.wanted then
        return true
    end
    root.wanted = false
    local opts, to = root.command.opts, root.writer
    local path, message, code = opts.path, nil, nil
    if not path then
        path, message = retention.new_path(root.command)
    end
    local ok = path ~= nil
    if ok and to.db then
        begin(root)
        ok, message = to:commit()
    elseif ok then
        ok, message, code = to:create(path, opts.sync, function() begin(root) end)
    end
    if ok and to.incomplete then
        root:write("UPDATE runs SET incomplete = 1 WHERE id = ?", root.id)
    end
    return ok, message, code
end

---The same with the first call, and writes the files of the run. If that fails, the run continues
---without a log, which was not asked for.
function rows.open_late(root)
    local ok, message = rows.open(root)
    if not ok then
        io.stderr:write(("ponder: %s; this run is not logged\n"):format(message))
        root.writer:discard()
    elseif root.files then
        rows.write_files(root)
    end
end

---------------------------------------------------------------------------------------------------
-- Runs that continue

local REOPEN = [[UPDATE runs SET ended_at = NULL, status = NULL, exit_status = NULL, answer = NULL,
    error = NULL WHERE id = ?]]

-- Continues the rows of a run. Deletes the derived ones, but for their times: trees and events are
-- made again when the run is replayed.
local function continue(tape)
    local db, events, searches = tape.writer.db, {}, {}
    local function last(of)
        return db:row(("SELECT max(id) FROM %s WHERE run = ?"):format(of), tape.id) or 0
    end
    tape.session, tape.calls, tape.effects = last "sessions" + 1, last "calls", last "effects"
    for name, at in db:rows("SELECT name, at FROM events WHERE run = ? ORDER BY id", tape.id) do
        events[#events + 1] = { name = name, at = at }
    end
    for id, began, ended, status in db:rows(
        "SELECT id, started_at, ended_at, status FROM searches WHERE run = ?", tape.id) do
        searches[id] = { began = began, ended = status == "completed" and ended or nil }
    end
    tape.before = { events = events, searches = searches }
    for _, name in ipairs { "searches", "nodes", "edges", "events" } do
        tape:write(("DELETE FROM %s WHERE run = ?"):format(name), tape.id)
    end
end

---Continues an outermost run.
function rows.resume(tape)
    continue(tape)
    tape.writer:write_signed(tape.id, REOPEN, tape.id)
    write_session(tape)
    follow_files(tape)
end

---------------------------------------------------------------------------------------------------
-- Inner runs

local INNER_RUN = [[INSERT INTO runs (id, uid, parent, within, name, labels, command, arguments,
    script, input, seed, options, versions, started_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?, ?, '{}', '{}', ?)]]

---Begins an inner run, or continues it.
---@param known ponder.log.Answered? its recording in the log of the same run
---@param is_request boolean it is the request to a server that is answered again
function rows.begin_inner(tape, known, is_request)
    local run, about = tape.run, tape.command.about
    tape.started_at = host.time()
    if known then
        tape.id, tape.uid, run.seed = known.id, known.uid, known.seed or run.seed
        tape.keeps_row = known.answered and not is_request
    else
        tape.id, tape.uid = tape.writer:next_run(), ("%016x"):format(random.draw())
    end
    if tape.writer.discards then
        tape.uid = nil
        return
    elseif known then
        continue(tape)
        if tape.keeps_row then
            return
        end
        tape:write(REOPEN, tape.id)
    else
        tape:write(INNER_RUN, tape.id, tape.uid, tape.outer.id, tape.within_id, run.name,
            next(run.labels) and json.encode(run.labels) or nil, about.command, about.script,
            run.input, run.seed, tape.started_at)
    end
    write_session(tape)
end

---------------------------------------------------------------------------------------------------
-- The end

-- Writes how a run ended. An answer that JSON cannot hold is not kept.
local function write_end(tape, status, exit_status, answer, message)
    local by, at = tape.elsewhere or NONE, host.time()
    local is_json, text = pcall(json.encode, answer)
    tape:write("UPDATE runs SET seed = coalesce(?, seed), started_at = coalesce(?, started_at), "
        .. "ended_at = ?, status = ?, exit_status = ?, answer = ?, error = ? WHERE id = ?",
        by.seed, by.started_at, at, status, exit_status, answer ~= nil and is_json and text or nil,
        message, tape.id)
    write_session(tape, at)
end

---Ends an inner run.
---@param status "completed"|"failed"|"cancelled"
---@param answer any of JSON values; others are not kept
---@param message string? why it failed
function rows.end_inner(tape, status, answer, message, exit_status)
    local to = tape.writer
    if not to.discards then
        tape:write_readings()
        if not tape.keeps_row then
            write_end(tape, status, exit_status, answer, message)
        end
        to.pending[tape] = nil
    end
    tape.writer = writer.NOTHING
    if tape.outer == tape.root then
        retention.note_end(tape.root)
    end
end

-- Sums what this process and those before it saved. If one was killed, its savings are unknown, and
-- so is the sum.
local SAVED = [[UPDATE runs SET saved_calls = reused, saved_cost = CASE
    WHEN coalesce(saved_calls, 0) + now = reused AND (saved_calls IS NULL OR saved_cost IS NOT NULL)
    THEN coalesce(saved_cost, 0) + worth END
    FROM (SELECT count(*) AS reused FROM calls WHERE run = ?1 AND origin <> 'live'),
    (SELECT ?2 AS now, ?3 AS worth) WHERE id = ?1]]

---Ends an outermost run, whose log has a file.
---@param status "completed"|"failed"|"interrupted"
---@return string? problem what could not be written
function rows.finish(tape, status, exit_status)
    if tape.broken then
        return tape.broken
    end
    local saved, command = tape.saved or { calls = 0, cost = 0.0, unpriced = 0 }, tape.command
    rows.write_files(tape)
    tape:write(SAVED, tape.id, saved.calls, saved.unpriced == 0 and saved.cost or nil)
    write_end(tape, status, exit_status, command.answer, command.error)
    return select(2, tape.writer:commit())
end

return rows
