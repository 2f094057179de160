--- Opens a log to run it again: ponder resume, replay and fork.

local command = require "ponder.run.log.command"
local failures = require "ponder.run.task.failures"
local file = require "ponder.run.log.file"
local files = require "ponder.run.log.files"
local host = require "ponder.core.host"
local quote = require "ponder.quote"
local recording = require "ponder.run.log.recording"
local redact = require "ponder.base.redact"
local retention = require "ponder.run.log.retention"
local rows = require "ponder.run.log.rows"
local store = require "ponder.core.store"
local trust = require "ponder.run.log.trust"
local writer = require "ponder.run.log.writer"

local rerun = {}

local SERVERS = { serve = true, mcp = true }

---@class ponder.log.Rerun a log to be run again
---@field path string
---@field db ponder.store.Store
---@field run table row of the outermost run in `runs`, with arguments and options decoded
---@field inner integer? runs.id of the named inner run: a request to a server, or one to be edited
---@field files table<string, {absolute: string?, kind: string, hash: string, text: string}>
---  by path
local Rerun = {}
Rerun.__index = Rerun

local function read(db, path, number)
    local row, list = file.only(db:columns("SELECT * FROM runs WHERE id = ?", number)), {}
    if not row then
        return nil
    end
    file.decode("runs", file.check(path, "runs", row))
    if not row.arguments or not row.options then
        file.damaged(path, "its run cannot be read")
    end
    for one in db:columns("SELECT * FROM files WHERE run = ?", number) do
        file.check(path, "files", one)
        local is_masked = one.text:find(redact.MARK, 1, true)
        if not is_masked and store.sha256(one.text) ~= one.hash then
            file.damaged(path, "the text of %s does not match its hash",
                (tostring(one.path):gsub("%c", "?")))
        end
        list[one.path] = one
    end
    return row, list
end

local PARENT = "SELECT parent FROM runs WHERE id = ?"

---@param what? string a path or a kept run; default: the newest
---@param mode "read"|"write"
---@param sync? "normal"|"full"
---@return ponder.log.Rerun?
---@return string? message one line
---@return string? code as of reader.open
function rerun.open(what, mode, sync)
    local path, message, number = retention.find(what)
    if not path then
        return nil, message, "NOT_FOUND"
    end
    path = host.absolute(path) or path
    local db, problem, code = file.open(path, { mode = mode, sync = sync, look_up = true })
    if not db then
        return nil, problem, code
    end
    local outermost = number or db:row "SELECT min(id) FROM runs"
    local parent = db:row(PARENT, outermost)
    while math.type(parent) == "integer" and parent < outermost do
        outermost, parent = parent, db:row(PARENT, parent)
    end
    local ok, row, texts = pcall(read, db, path, outermost)
    if not ok or not row then
        db:close()
        failures.pass_stop(ok, row)
        return nil, not ok and file.line_of(path, row) or number
            and ("%s: holds no run %d"):format(path, number)
            or path .. ": holds no run; it was killed before it began", ok and "NOT_FOUND" or nil
    end
    return setmetatable({ path = path, db = db, run = row, files = texts,
        inner = number ~= outermost and number or nil }, Rerun)
end

---@class ponder.log.Request a logged request to a server
---@field id integer runs.id
---@field name string of the policy
---@field input any its fields, as JSON
---@field seed any

-- Returns the request that is named, if it is the log of a server, and the recording of the run: of
-- that request alone, if there is one.
local function recording_of(self, how)
    local request
    if self.inner and SERVERS[self.run.command] then
        local name, input, seed = self.db:row("SELECT name, input, seed FROM runs WHERE id = ?",
            self.inner)
        request = { id = self.inner, name = tostring(name), input = input, seed = seed }
        how.only = self.inner
    end
    how.path = self.path
    return request, recording.new(self.db, self.run.id, how)
end

---Returns why the log does not allow the run to be run again, or nil.
---@param to "resume"|"replay"|"fork"
---@param is_trusted boolean? also a log that someone else wrote
---@param edits boolean? a fork edits a call of the named run
function Rerun:refusal(to, is_trusted, edits)
    if not is_trusted and not trust.is_signed(self.db, self.run.id) then
        return ("%s: you did not write this log on this machine, or it was modified: %s; "
            .. "--trust runs it"):format(self.path, trust.describe(self.run, self.files))
    elseif self.inner and not SERVERS[self.run.command] and not edits then
        return ("%s#%d: this run is a part of run %d and is not run again alone: ponder %s %s "
            .. "runs all of it"):format(self.path, self.inner, self.run.id, to,
            quote.shell(self.path))
    elseif to == "fork" then
        return nil
    elseif self.run.incomplete == 1 then
        return ("%s: too much happened before its first call to be logged; ponder fork reruns it")
            :format(self.path)
    elseif SERVERS[self.run.command] and not self.inner then
        return ("%s: the log of a server: name one of its requests, such as %s#2"):format(
            self.path, self.path)
    end
    for _, argument in ipairs(to == "resume" and self.run.arguments or {}) do
        if argument:find(redact.MARK, 1, true) then
            return ("%s: its command line had a key, which a log does not store; give it "
                .. "again: ponder fork -o headers=... %s"):format(self.path, self.path)
        end
    end
end

---Describes changes since the run: of scripts, prompts and environment variables.
---@return string? changes "game24.lua has changed, PONDER_MODEL is ... now"
---@return boolean gone whether a file is missing
function Rerun:changes()
    local list, gone = {}, false
    for path, one in pairs(self.files) do
        local change, is_gone = files.change(path, one.hash, one.absolute)
        list[#list + 1] = change
        gone = gone or is_gone or false
    end
    for _, name in ipairs(rows.ENVIRONMENT) do
        local before, now = self.run.options[name], os.getenv(name)
        now = now ~= "" and now or nil
        now = now and redact.address(now)
        if now and now ~= before then
            list[#list + 1] = ("%s is %s (it was %s)"):format(name, now, before or "not set")
        end
    end
    table.sort(list)
    return list[1] and table.concat(list, "; ") or nil, gone
end

-- Restores environment variables that are not set now; `all`: the others, too.
local function restore_environment(self, all)
    for _, name in ipairs(rows.ENVIRONMENT) do
        local before = self.run.options[name]
        local is_whole = not before or not before:find(redact.MARK, 1, true)
        if is_whole and (all or (os.getenv(name) or "") == "") then
            host.set_environment(name, before)
        end
    end
end

-- Changes to the run's working directory, if it still exists.
local function go_to_directory(self)
    if self.run.directory then
        host.directory(self.run.directory)
    end
end

-- Runs the recorded command once more.
local function start(self, execute, play, arguments)
    play.seed, play.uid, play.input = self.run.seed, self.run.uid, self.run.input
    command.prepare(play)
    return execute(self.run.command, arguments or self.run.arguments)
end

---Resumes the run where the log ends.
---@param execute fun(command: string, arguments: string[]): integer?, string? runs a command
---@return integer? status
---@return string? message
function Rerun:resume(execute)
    restore_environment(self, false)
    go_to_directory(self)
    local piped = {} -- files are read from disk: they still hold their keys
    for path, one in pairs(self.files) do
        piped[path] = not one.absolute and one or nil
    end
    files.play(piped, false)
    local request, before = recording_of(self, { ordered = true,
        retries = not self.inner and self.run.status ~= "completed" })
    local play = { kind = "resume", past = before, request = request,
        writer = writer.continue(self.db, self.path, host.time) }
    if request then
        return start(self, execute, play)
    end
    local unanswered = before:unanswered()
    if unanswered > 0 then
        io.stderr:write(("ponder resume: %s had no reply when the run ended; those that were sent "
            .. "are sent again and count twice in the budget\n"):format(quote.count(unanswered,
            "call")))
    end
    return start(self, execute, play)
end

-- No model is called, but providers require a key.
local PLACEHOLDER = "not-needed"
local KEYS = { "OPENAI_API_KEY", "ANTHROPIC_API_KEY" }

---Replays the run from the log alone.
---@param execute fun(command: string, arguments: string[]): integer?, string? runs a command
---@return integer? status
---@return string? message
function Rerun:replay(execute)
    restore_environment(self, true)
    for _, name in ipairs(KEYS) do
        if (os.getenv(name) or "") == "" then
            host.set_environment(name, PLACEHOLDER)
        end
    end
    files.play(self.files, true, self.run.script)
    host.begin_replay()
    self.db:begin() -- lock the file once rather than for each row; may fail
    local request, past = recording_of(self, { ordered = true })
    return start(self, execute, { kind = "replay", past = past, request = request })
end

---Runs the command again, perhaps changed, with a new log.
---@param execute fun(command: string, arguments: string[]): integer?, string? runs a command
---@param path? string of the new log
---@param edit? ponder.log.Edit change to the recorded answers
---@return integer? status
---@return string? message
function Rerun:fork(execute, arguments, path, edit)
    restore_environment(self, false)
    path = path and path:sub(1, 1) ~= "/" and host.directory() .. "/" .. path or path
    go_to_directory(self)
    local request, past = recording_of(self, { ordered = false, edit = edit })
    return start(self, execute, { kind = "fork", past = past, request = request,
        source = self.path, path = path }, arguments)
end

return rerun
