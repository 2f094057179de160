--- A run with its tape, and with its recorder if it writes a log.

local command = require "ponder.log.command"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local json = require "ponder.json"
local kept = require "ponder.log.kept"
local quote = require "ponder.quote"
local random = require "ponder.core.random"
local recorder = require "ponder.log.recorder"
local rotate = require "ponder.log.rotate"
local scheduler = require "ponder.task.scheduler"
local state = require "ponder.state"
local tape = require "ponder.log.tape"
local writer = require "ponder.log.writer"

local session = {}

local KEEP = 100
local NONE = {}

---@class ponder.log.Session
---@field run ponder.log.Run
---@field root ponder.log.Session session of the log's outermost run, which owns the file
---@field tape ponder.log.Tape
---@field recorder ponder.log.Recorder? nil if nothing is written
---@field wanted boolean the file is created or added to at the first call
---@field rows ponder.log.Writer? of the root: the writer
---@field what ponder.log.Inner? of an inner run: the operation of the outer one
---@field is_held boolean? its rows are not written yet
---@field has_inner boolean? it has inner runs
---@field elsewhere {pid: integer?, host: string?, started_at: number?, seed: integer?}? another
---  process has the run; its row in `sessions` is written at the end
---@field is_request boolean? it is the request to a server that is answered again
---@field private texts ponder.log.Texts? of the root, if it writes a log
local Session = {}
Session.__index = Session

---------------------------------------------------------------------------------------------------
-- The file

-- Writes the row of this process. The end of the run replaces it.
local function write_session(self, ended_at)
    local pid, name = host.process()
    local by = self.elsewhere or NONE
    self.recorder:write("INSERT OR REPLACE INTO sessions (run, id, kind, pid, host, started_at, "
        .. "ended_at) VALUES (?, ?, ?, ?, ?, ?, ?)", self.recorder.run, self.recorder.session,
        self.run.kind, by.pid or pid, by.host or name, by.started_at or self.run.started_at,
        ended_at)
end

-- Returns a name that sorts by time: 20261122-021033-game24-4f2a91c0.
local function name_of(run)
    local script = run.about.script or ""
    local what = script:match("([%w_-]+)%.%w+$") or script:match("^([%w_]+)$") or run.about.command
    return ("%s-%s-%08x"):format(os.date("!%Y%m%d-%H%M%S", run.started_at // 1 | 0), what,
        run.uid & 0xffffffff)
end

---Returns the path of a new log among the kept runs; prunes them.
---@param run ponder.log.Run
---@return string? path
---@return string? message
function session.new_path(run)
    local at, message = state.make()
    if not at then
        return nil, "cannot write the run log in " .. message
    end
    kept.prune(at, run.opts.keep or KEEP)
    return ("%s/%s.db"):format(at, name_of(run))
end

---Creates the file of the run, if it is to have one and has none yet, or adds to an existing one.
---@return boolean? ok
---@return string? message
---@return string? code of a store
function Session:open()
    if not self.wanted then
        return true
    end
    self.wanted = false
    local run = self.run
    local path, message = run.opts.path, nil
    if not path then
        path, message = session.new_path(run)
    end
    if not path then
        return nil, message
    end
    local rows = self.recorder.writer
    local ok, problem, code
    if rows.db then
        ok, problem = rows:commit()
    else
        ok, problem, code = rows:create(path, run.opts.sync)
    end
    if not ok then
        return nil, problem, code
    end
    if self.tape.incomplete or rows.incomplete then
        self.recorder:write("UPDATE runs SET incomplete = 1 WHERE id = ?", self.recorder.run)
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- Calls

-- Creates the file. If that fails, the run continues without a log, which was not asked for.
local function open_late(self)
    local ok, message = self:open()
    if not ok then
        io.stderr:write(("ponder: %s; this run is not logged\n"):format(message))
        self.recorder.writer:discard() -- the tape stays: tasks may wait for its entries
    end
end

---Creates the file, if there is to be one, and writes the files of the run.
function Session:prepare_call()
    if self.root.recorder then
        self.root.texts:write()
        open_late(self.root)
    end
end

---------------------------------------------------------------------------------------------------

-- Returns the recorder: of a new run, of the one to resume, or none.
local function open_recorder(self)
    local play = self.run.play
    if play and play.kind == "replay" then
        return nil
    elseif play and play.kind == "resume" then
        return play.recorder
    end
    self.wanted = true
    local rows = self.run.rows or writer.new(host.time)
    return recorder.new(rows, rows:next_run())
end

---Returns the uid of the run, which it keeps when resumed; nil if it writes no log.
---@return string?
function Session:uid()
    local rows = self.recorder
    if not rows then
        return nil
    end
    local db = not self.is_held and rows.writer.db
    return db and db:row("SELECT uid FROM runs WHERE id = ?", rows.run)
        or ("%016x"):format(self.run.uid)
end

-- Makes the tape of the run.
local function make_tape(self, past, opts)
    local sink = self.recorder or recorder.new(writer.new(host.time):discard(), 1)
    opts.offline = self.root.run.kind == "replay"
    self.tape = tape.new(self.run.group, sink, past, opts)
    self.tape.session, self.tape.recorder = self, self.recorder
end

local REOPEN = [[UPDATE runs SET ended_at = NULL, status = NULL, exit_status = NULL, answer = NULL,
    error = NULL WHERE id = ?]]

---Starts the session of a run, with its tape.
---@param run ponder.log.Run
---@param before? ponder.log.EarlyTape the tape recorded so far
---@return ponder.log.Session
function session.start(run, before)
    command.note_environment_keys()
    local self = setmetatable({ run = run, wanted = false }, Session)
    self.root, self.recorder = self, open_recorder(self)
    self.rows = self.recorder and self.recorder.writer or run.play and run.play.rows
    make_tape(self, run.play and run.play.past, { before = before,
        unordered = run.play and run.play.request ~= nil })
    if self.recorder then
        if run.kind ~= "resume" then
            command.write_run(self.recorder, run)
        else
            self.rows:write_signed(self.recorder.run, REOPEN, self.recorder.run)
        end
        write_session(self)
        self.texts = command.texts(self.recorder, run)
        files.listen(function(file)
            self.texts:add(file)
        end)
    end
    return self
end

---------------------------------------------------------------------------------------------------
-- Inner runs

local INNER_RUN = [[INSERT INTO runs (id, uid, parent, within, name, labels, command, arguments,
    script, input, seed, options, versions, started_at, ended_at, status, exit_status, answer,
    error) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?, ?, '{}', '{}', ?, ?, ?, ?, ?, ?)]]

---Writes the rows of a new inner run, with its end if it has ended: see Writer:hold.
function Session:write_held()
    local run, what, about, ended = self.run, self.what, self.about, self.end_of_run or NONE
    local by = self.elsewhere or NONE
    self.is_held = false
    self.recorder:write(INNER_RUN, what.id, ("%016x"):format(run.uid), what.parent,
        what.within_id, about.name, next(about.labels) and json.encode(about.labels) or nil,
        run.about.command, run.about.script, about.input, by.seed or run.seed,
        by.started_at or run.started_at, ended.at, ended.status, ended.exit_status, ended.answer,
        ended.message)
    if ended.at or not self.elsewhere then
        write_session(self, ended.at)
    end
end

-- Makes the recorder of an inner run: with new rows, or those in the log.
local function open_inner_rows(self, rows, about)
    local what = self.what
    what.parent = self.outer.recorder and self.outer.recorder.run
    if what.id then
        self.recorder = recorder.continue(rows, what.id)
    else
        what.id = rows:next_run()
        self.recorder, self.about = recorder.new(rows, what.id), about
        self.is_held, self.recorder.begun = true, self
        rows:hold(self)
    end
    if not self.keeps_row and not self.is_held then
        self.recorder:write(REOPEN, what.id)
        write_session(self)
    end
end

---Makes the session of an inner run. Looks up its recording; a resumed or replayed run takes the
---seed from it.
---@param about {name: string?, labels: table, seed: integer}
---@return ponder.log.Session
function Session:within(about)
    local what, run = self.tape:look_up_run(about), self.run
    local root, known, ordered = self.root, what.known, self.tape.past.ordered
    self.has_inner = true
    local request = root.run.play and root.run.play.request
    local is_request = known ~= nil and request ~= nil and request.id == known.id
    local inner = setmetatable({ root = root, outer = self, what = what,
        is_request = is_request, -- room for the others:
        past = nil, keeps_row = nil, run = nil, recorder = nil, about = nil, is_held = nil,
        tape = nil, end_of_run = nil, elsewhere = nil }, Session)
    inner.past = known and self.tape.past:within(known, is_request and root.rows ~= nil)
    inner.keeps_row = known ~= nil and known.answered and ordered and not is_request
    inner.run = { kind = run.kind, uid = random.draw(), about = run.about,
        started_at = host.time(), seed = known and ordered and known.seed or about.seed }
    if root.rows then
        open_inner_rows(inner, root.rows, about)
    end
    return inner
end

---Whether an inner run must run in this process: the log holds all of it, or is replayed.
---@return boolean
function Session:is_known()
    local known = self.what.known
    return known ~= nil and known.answered or self.root.run.kind == "replay"
end

---Leaves an inner run to another process: plays nothing of it.
function Session:delegate()
    self.past, self.elsewhere = nil, {}
end

---Makes the tape of an inner run.
---@param group ponder.task.Group of its tasks
function Session:attach(group)
    self.run.group = group
    make_tape(self, self.past, { outer = self.outer.tape })
    self.what.tape = self.tape
    scheduler.set_tape(group, self.tape)
end

-- How a run ends now. An answer that JSON cannot hold is not kept.
local function end_now(status, exit_status, answer, message)
    local readable, text = pcall(json.encode, answer)
    return { at = host.time(), status = status, exit_status = exit_status,
        answer = answer ~= nil and readable and text or nil, message = message }
end

local function write_end(self, ended)
    local rows, by = self.recorder, self.elsewhere or NONE
    rows:write("UPDATE runs SET seed = coalesce(?, seed), started_at = coalesce(?, started_at), "
        .. "ended_at = ?, status = ?, exit_status = ?, answer = ?, error = ? WHERE id = ?",
        by.seed, by.started_at, ended.at, ended.status, ended.exit_status, ended.answer,
        ended.message, rows.run)
    write_session(self, ended.at)
end

---Ends an inner run.
---@param status "completed"|"failed"|"cancelled"
---@param answer any of JSON values; others are not kept
---@param message any why it failed; kept as text
---@param exit_status integer?
function Session:finish_within(status, answer, message, exit_status)
    message = message ~= nil and tostring(message) or nil
    if self.recorder and not self.keeps_row then
        self.end_of_run = end_now(status, exit_status, answer, message)
        if not self.is_held then
            write_end(self, self.end_of_run)
        end
    end
    if self.tape then -- else it was done elsewhere
        self.tape.recorder = nil
    end
    self.outer.tape:end_run(self.what)
    local root, known = self.root, self.what.known
    if status == "failed" and self.past and self.past.ordered and known.completed then
        root.tape.diverged = root.tape.diverged or ("run %d had completed, and failed now: %s")
            :format(known.id, quote.line(message or "?"))
    end
    if self.outer == root then
        rotate.note_end(root)
    end
end

---------------------------------------------------------------------------------------------------
-- The end

local STATUS = { [0] = "completed", [129] = "interrupted", [130] = "interrupted",
    [143] = "interrupted" }

local REMARK = {}

function REMARK.fork(self)
    local rows = self.recorder.writer
    local saved = rows.saved
    local worth = ""
    if saved.unpriced > 0 and saved.unpriced == saved.calls then
        worth = ", at unknown prices"
    elseif saved.cost > 0 or saved.unpriced > 0 then
        worth = (", which saved $%.4f%s"):format(saved.cost, saved.unpriced > 0 and "+?" or "")
    end
    return rows.path and ("%d of %s answered from %s%s; the log is %s"):format(saved.calls,
        quote.count(rows.calls, "call was", "calls were"), self.run.play.source, worth, rows.path)
end

function REMARK.resume(self)
    local failed, diverged = self.run.error or "", self.tape.diverged
    if failed:find(self.tape.past.path .. ": damaged: ", 1, true) then
        return nil -- the script could not do what it did before
    end
    local left, first = self.tape:left()
    if left > 0 and not diverged then
        diverged = ("it left %s%s unused"):format(first,
            left > 1 and (" and %d more"):format(left - 1) or "")
    end
    return diverged and ("the script did not do what it did before: %s"):format(diverged)
end

REMARK.replay = REMARK.resume

-- Returns a remark on how the run used the log it played, or nil.
local function remark(self, status)
    local of_kind = REMARK[self.run.kind]
    return of_kind and STATUS[status] ~= "interrupted" and of_kind(self) or nil
end

-- Sums what this process and those before it saved. If one was killed, its savings are unknown, and
-- so is the sum.
local SAVED = [[UPDATE runs SET saved_calls = reused, saved_cost = CASE
    WHEN coalesce(saved_calls, 0) + now = reused AND (saved_calls IS NULL OR saved_cost IS NOT NULL)
    THEN coalesce(saved_cost, 0) + worth END
    FROM (SELECT count(*) AS reused FROM calls WHERE run = ?1 AND origin <> 'live'),
    (SELECT ?2 AS now, ?3 AS worth) WHERE id = ?1]]

---Ends the run.
---@param status integer exit status of the process
---@return string? problem what could not be written
---@return string? remark
function Session:finish(status)
    local run, rows = self.run, self.recorder
    self.tape.recorder = nil
    if not rows and self.rows then -- a request to a server was answered again
        local _, problem = self.rows:commit()
        local note = remark(self, status)
        self.rows:close()
        return problem, note
    elseif not rows or not rows.writer.db then
        return nil, remark(self, status)
    end
    self.texts:write()
    local saved = rows.saved or writer.nothing_saved()
    rows:write(SAVED, rows.run, saved.calls, saved.unpriced == 0 and saved.cost or nil)
    write_end(self, end_now(STATUS[status] or "failed", status, run.answer, run.error))
    local _, problem = self.tape:commit()
    local note = remark(self, status)
    rows.writer:close()
    return problem, note
end

return session
