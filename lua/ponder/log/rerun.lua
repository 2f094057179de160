--- Opens a log to run it again: ponder resume, replay and fork.

local file = require "ponder.log.file"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local kept = require "ponder.log.kept"
local recording = require "ponder.log.recording"
local recorder = require "ponder.log.recorder"
local redact = require "ponder.redact"
local run = require "ponder.log.run"
local runs = require "ponder.run"
local session = require "ponder.log.session"
local store = require "ponder.core.store"
local trust = require "ponder.log.trust"
local version1 = require "ponder.log.version1"
local writer = require "ponder.log.writer"

local rerun = {}

local SERVERS = { serve = true, mcp = true }

---@class ponder.log.Rerun a log that is to be run again
---@field path string
---@field db ponder.store.Store
---@field mode "read"|"write"
---@field run table its row of `runs`, arguments and options decoded; the outermost run's
---@field only integer? runs.id of the run within it that was named: it goes on alone
---@field files table<string, {absolute: string?, kind: string, hash: string, text: string}>
---  by path
local Rerun = {}
Rerun.__index = Rerun

local function read(db, path, number)
    local row, list = file.row(db, "SELECT * FROM runs WHERE id = ?", number), {}
    if not row then
        return nil
    end
    file.decode("runs", file.check(path, "runs", row), "arguments", "options")
    if not row.arguments or not row.options then
        error(path .. ": damaged: its run cannot be read", 0)
    end
    for one in db:columns("SELECT * FROM files WHERE run = ?", number) do
        file.check(path, "files", one)
        local is_masked = one.text:find(redact.MARK, 1, true)
        if not is_masked and store.sha256(one.text) ~= one.hash then
            error(("%s: damaged: the text of %s is not the one of its hash"):format(path,
                tostring(one.path):gsub("%c", "?")), 0)
        end
        list[one.path] = one
    end
    return row, list
end

-- The run that a run began in, and so on outwards.
local function outermost_of(db, number)
    local parent = db:row("SELECT parent FROM runs WHERE id = ?", number)
    while math.type(parent) == "integer" and parent < number do
        number = parent
        parent = db:row("SELECT parent FROM runs WHERE id = ?", number)
    end
    return number
end

---@param what? string a path, or a run that is kept; nothing: the newest
---@param mode "read"|"write"
---@param sync? "normal"|"full"
---@return ponder.log.Rerun?
---@return string? message one line
function rerun.open(what, mode, sync)
    local path, message, number = kept.find(what)
    if not path then
        return nil, message
    end
    path = host.absolute(path) or path
    local db, problem = file.open(path, { mode = mode, sync = sync, look_up = true })
    if not db then
        return nil, problem
    end
    local outermost = number and outermost_of(db, number) or number or 1
    local ok, row, texts = pcall(read, db, path, outermost)
    if not ok or not row then
        db:close()
        return nil, not ok and file.line_of(path, row) or number
            and ("%s: holds no run %d"):format(path, number)
            or path .. ": holds no run; it was killed before it began"
    end
    return setmetatable({ path = path, db = db, mode = mode, run = row, files = texts,
        only = number ~= outermost and number or nil }, Rerun)
end

-- What a log has of the run; of a server, where one request is named, that request alone.
local function recording_of(self, how)
    if self.only and SERVERS[self.run.command] then
        local name, input, seed = self.db:row("SELECT name, input, seed FROM runs WHERE id = ?",
            self.only)
        self.asked, how.only = { name = tostring(name), input = input, seed = seed }, self.only
    end
    how.path = self.path
    return recording.new(self.db, self.run.id, how)
end

---Whether this user's ponder wrote what would be run.
---@return boolean
function Rerun:is_signed()
    return trust.is_signed(self.db, self.run.id)
end

---What would be run, and where it would ask, for people.
---@return string
function Rerun:describe()
    return trust.describe(self.run, self.files)
end

---Signs it: from now on it is this user's. A log that cannot be written, or is of version 1 and
---only read, stays as it is.
function Rerun:sign()
    local db, other = self.db, nil
    if self.mode == "read" then
        other = not version1.is(db) and file.open(self.path, { mode = "write" })
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

---Why the run cannot go on, or be played, from what the log holds.
---@param plays_only boolean? no model is called
---@return string?
function Rerun:obstacle(plays_only)
    if self.run.incomplete == 1 then
        return ("%s: more came in before its first call than a log takes; ponder fork reruns it")
            :format(self.path)
    elseif SERVERS[self.run.command] and not self.only then
        return ("%s: the log of a server: name one of its requests, such as %s#2"):format(
            self.path, self.path)
    end
    for _, argument in ipairs(not plays_only and self.run.arguments or {}) do
        if argument:find(redact.MARK, 1, true) then
            return ("%s: it was given a key on its command line, which a log does not keep; give "
                .. "it again: ponder fork -o headers=... %s"):format(self.path, self.path)
        end
    end
end

---What is no longer as it was: scripts, prompts, the environment.
---@return string? changes "game24.lua has changed, PONDER_MODEL is ... now"
---@return boolean gone a file is not there
function Rerun:changes()
    local list, gone = {}, false
    for path, one in pairs(self.files) do
        local change, is_gone = files.change(path, one.hash, one.absolute)
        list[#list + 1] = change
        gone = gone or is_gone or false
    end
    for _, name in ipairs(session.ENVIRONMENT) do
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

-- What is not set now is as it was then. `all`: what is set is too.
local function restore_environment(self, all)
    for _, name in ipairs(session.ENVIRONMENT) do
        local before = self.run.options[name]
        local is_whole = not before or not before:find(redact.MARK, 1, true)
        if is_whole and (all or (os.getenv(name) or "") == "") then
            host.set_environment(name, before)
        end
    end
end

-- `piped`: only of what is not a file.
local function texts_of(self, piped)
    local texts = {}
    for path, one in pairs(self.files) do
        texts[path] = (not piped or not one.absolute) and one.text or nil
    end
    return texts
end

-- To where the command was typed, if it is there.
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

-- The same, until the run that was named has ended. It takes what is around that run with it.
local function start_one(self, execute, play)
    local around = runs.new()
    local _, message = around:call(start, self, execute, play)
    local ended = around.log and around.log.session and around.log.session.ended
    run.finish(around, 0)
    if ended and ended.status == "completed" then
        return 0
    end
    io.stderr:write(("ponder %s: %s#%d: %s\n"):format(play.kind, self.path, self.only,
        tostring(ended and ended.message or message or "the script did not come to it")))
    return 1
end

---Runs on from where the log ends.
---@param execute fun(command: string, arguments: string[]): integer runs a command
---@return integer status
function Rerun:resume(execute)
    restore_environment(self, false)
    go_to_directory(self)
    files.play(texts_of(self, true), false) -- files are as they were, and hold their keys
    if self.only then
        return start_one(self, execute, { kind = "resume",
            past = recording_of(self, { ordered = true }),
            rows = writer.continue(self.db, self.path, host.time) })
    end
    local before = recording.new(self.db, self.run.id, { path = self.path, ordered = true,
        retries = self.run.status ~= "completed" })
    local unanswered = before:unanswered()
    if unanswered > 0 then
        io.stderr:write(("ponder resume: %d call%s had no reply yet when the run ended; what is "
            .. "asked again is sent again, and counts twice in its budget\n"):format(unanswered,
            unanswered == 1 and "" or "s"))
    end
    return start(self, execute, { kind = "resume", past = before,
        recorder = recorder.continue(writer.continue(self.db, self.path, host.time),
            self.run.id) })
end

-- A model that is never called needs no key, but a provider asks for one.
local STAND_IN = "not-needed"
local KEYS = { "OPENAI_API_KEY", "ANTHROPIC_API_KEY" }

---Runs it from the log alone.
---@param execute fun(command: string, arguments: string[]): integer runs a command
---@return integer status
function Rerun:replay(execute)
    restore_environment(self, true)
    for _, name in ipairs(KEYS) do
        if (os.getenv(name) or "") == "" then
            host.set_environment(name, STAND_IN)
        end
    end
    files.play(texts_of(self), true)
    host.begin_replay()
    self.db:begin() -- SQLite locks the file once, not for each row; where it cannot, it does
    return (self.only and start_one or start)(self, execute, { kind = "replay",
        past = recording_of(self, { ordered = true }) })
end

---Runs it, perhaps changed, into a new log.
---@param execute fun(command: string, arguments: string[]): integer runs a command
---@param arguments string[]
---@param path? string of the new log
---@param edit? ponder.log.Edit what is changed of what the log answers
---@return integer status
function Rerun:fork(execute, arguments, path, edit)
    restore_environment(self, false)
    path = path and path:sub(1, 1) ~= "/" and host.directory() .. "/" .. path or path
    go_to_directory(self)
    return start(self, execute, { kind = "fork",
        past = recording_of(self, { ordered = false, edit = edit }),
        source = self.path, path = path }, arguments)
end

return rerun
