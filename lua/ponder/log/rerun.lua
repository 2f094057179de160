--- Opens a log to run it again: ponder resume, replay and fork.

local command = require "ponder.log.command"
local failures = require "ponder.task.failures"
local file = require "ponder.log.file"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local kept = require "ponder.log.kept"
local quote = require "ponder.quote"
local recording = require "ponder.log.recording"
local recorder = require "ponder.log.recorder"
local redact = require "ponder.redact"
local run = require "ponder.log.run"
local runs = require "ponder.run"
local store = require "ponder.core.store"
local trust = require "ponder.log.trust"
local writer = require "ponder.log.writer"

local rerun = {}

local SERVERS = { serve = true, mcp = true }

---@class ponder.log.Rerun a log to be run again
---@field path string
---@field db ponder.store.Store
---@field mode "read"|"write"
---@field run table row of the outermost run in `runs`, with arguments and options decoded
---@field only integer? runs.id of the named inner run, which is to continue alone
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

-- Returns the outermost run around a run.
local function outermost_of(db, number)
    local parent = db:row("SELECT parent FROM runs WHERE id = ?", number)
    while math.type(parent) == "integer" and parent < number do
        number = parent
        parent = db:row("SELECT parent FROM runs WHERE id = ?", number)
    end
    return number
end

---@param what? string a path or a kept run; default: the newest
---@param mode "read"|"write"
---@param sync? "normal"|"full"
---@return ponder.log.Rerun?
---@return string? message one line
---@return string? code as of reader.open
function rerun.open(what, mode, sync)
    local path, message, number = kept.find(what)
    if not path then
        return nil, message, "NOT_FOUND"
    end
    path = host.absolute(path) or path
    local db, problem, code = file.open(path, { mode = mode, sync = sync, look_up = true })
    if not db then
        return nil, problem, code
    end
    local outermost = number and outermost_of(db, number) or db:row "SELECT min(id) FROM runs"
    local ok, row, texts = pcall(read, db, path, outermost)
    if not ok or not row then
        db:close()
        failures.pass_stop(ok, row)
        return nil, not ok and file.line_of(path, row) or number
            and ("%s: holds no run %d"):format(path, number)
            or path .. ": holds no run; it was killed before it began", ok and "NOT_FOUND" or nil
    end
    return setmetatable({ path = path, db = db, mode = mode, run = row, files = texts,
        only = number ~= outermost and number or nil }, Rerun)
end

-- Returns the recording of the run; if a request to a server is named, of that request alone.
local function recording_of(self, how)
    if self.only and SERVERS[self.run.command] then
        local name, input, seed = self.db:row("SELECT name, input, seed FROM runs WHERE id = ?",
            self.only)
        self.asked, how.only = { name = tostring(name), input = input, seed = seed }, self.only
    end
    how.path = self.path
    return recording.new(self.db, self.run.id, how)
end

---Whether this user's ponder wrote all that would be run.
---@return boolean
function Rerun:is_signed()
    return trust.is_signed(self.db, self.run.id)
end

---Describes what would be run and which servers it would call.
---@return string
function Rerun:describe()
    return trust.describe(self.run, self.files)
end

---Signs the run with this user's key. A log that is not writable stays as it is.
function Rerun:sign()
    local db, other = self.db, nil
    if self.mode == "read" then
        other = file.open(self.path, { mode = "write" })
        db = other
    end
    if db and db:begin() then
        trust.sign(db, self.run.id, true)
        db:commit()
    end
    if other then
        other:close()
    end
end

---Returns why the log does not allow the run to be resumed or replayed, or nil.
---@param plays_only boolean? no model is called
---@return string?
function Rerun:refusal(plays_only)
    if self.run.incomplete == 1 then
        return ("%s: too much happened before its first call to be logged; ponder fork reruns it")
            :format(self.path)
    elseif SERVERS[self.run.command] and not self.only then
        return ("%s: the log of a server: name one of its requests, such as %s#2"):format(
            self.path, self.path)
    end
    for _, argument in ipairs(not plays_only and self.run.arguments or {}) do
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
    for _, name in ipairs(command.ENVIRONMENT) do
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
    for _, name in ipairs(command.ENVIRONMENT) do
        local before = self.run.options[name]
        local is_whole = not before or not before:find(redact.MARK, 1, true)
        if is_whole and (all or (os.getenv(name) or "") == "") then
            host.set_environment(name, before)
        end
    end
end

-- Returns what the run had read from standard input and pipes, by path.
local function piped_files(self)
    local piped = {}
    for path, one in pairs(self.files) do
        piped[path] = not one.absolute and one or nil
    end
    return piped
end

-- Changes to the run's working directory, if it still exists.
local function go_to_directory(self)
    if self.run.directory then
        host.directory(self.run.directory)
    end
end

-- Runs the recorded command once more.
local function start(self, execute, play, arguments)
    play.seed, play.input, play.asked = self.run.seed, self.run.input, self.asked
    play.only = not (self.asked and play.kind == "fork") and self.only or nil
    run.prepare(play)
    return execute(self.run.command, arguments or self.run.arguments)
end

-- Runs the command until the named inner run has ended, which cancels the runs around it.
local function start_one(self, execute, play)
    local around = runs.new()
    local _, message = around:call(start, self, execute, play)
    local ended = around.log and around.log.session and around.log.session.ended
    run.finish(around, 0)
    if type(around.error) == "table" then -- the command has refused its arguments
        error(around.error, 0)
    elseif ended and ended.status == "completed" then
        return 0
    end
    io.stderr:write(("ponder %s: %s#%d: %s\n"):format(play.kind, self.path, self.only,
        tostring(ended and ended.message or message or "the script did not reach it")))
    return 1
end

---Resumes the run where the log ends.
---@param execute fun(command: string, arguments: string[]): integer?, string? runs a command
---@return integer? status
---@return string? message
function Rerun:resume(execute)
    restore_environment(self, false)
    go_to_directory(self)
    files.play(piped_files(self), false) -- files are read from disk: they still hold their keys
    if self.only then
        return start_one(self, execute, { kind = "resume",
            past = recording_of(self, { ordered = true }),
            rows = writer.continue(self.db, self.path, host.time) })
    end
    local before = recording.new(self.db, self.run.id, { path = self.path, ordered = true,
        retries = self.run.status ~= "completed" })
    local unanswered = before:unanswered()
    if unanswered > 0 then
        io.stderr:write(("ponder resume: %s had no reply when the run ended; calls asked again "
            .. "are sent again and count twice in the budget\n"):format(quote.count(unanswered,
            "call")))
    end
    return start(self, execute, { kind = "resume", past = before,
        recorder = recorder.continue(writer.continue(self.db, self.path, host.time),
            self.run.id) })
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
    return (self.only and start_one or start)(self, execute, { kind = "replay",
        past = recording_of(self, { ordered = true }) })
end

---Runs the command again, perhaps changed, with a new log.
---@param execute fun(command: string, arguments: string[]): integer?, string? runs a command
---@param arguments string[]
---@param path? string of the new log
---@param edit? ponder.log.Edit change to the recorded answers
---@return integer? status
---@return string? message
function Rerun:fork(execute, arguments, path, edit)
    restore_environment(self, false)
    path = path and path:sub(1, 1) ~= "/" and host.directory() .. "/" .. path or path
    go_to_directory(self)
    return start(self, execute, { kind = "fork",
        past = recording_of(self, { ordered = false, edit = edit }),
        source = self.path, path = path }, arguments)
end

return rerun
