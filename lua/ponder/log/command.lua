--- Writes what a log says about a command: its row in `runs` and the texts of its files.
---
--- Keys known to redactors never reach the file (see ponder.log.writer). A script may contain the
--- key of a model that it opens: its files are written with the first call or at the end, and again
--- when a key that they contain becomes known.

local host = require "ponder.core.host"
local json = require "ponder.json"
local redact = require "ponder.redact"
local store = require "ponder.core.store"
local variables = require "ponder.environment"

local command = {}

--- Environment variables that influence a run.
command.ENVIRONMENT = variables.names "run"
for _, name in ipairs(variables.names "address") do
    table.insert(command.ENVIRONMENT, name)
end

---Has the keys in the environment redacted from now on.
function command.note_environment_keys()
    local keys = {}
    for _, name in ipairs(variables.names "key") do
        keys[#keys + 1] = os.getenv(name)
    end
    redact.new(keys)
end

---------------------------------------------------------------------------------------------------
-- The run

-- `--headers '{"authorization": "Bearer ..."}'`
local function without_secret_headers(text)
    local headers = json.decode(text)
    return type(headers) == "table" and json.encode(redact.without_values(headers)) or text
end

-- Returns the command line without secrets.
local function without_secrets(given)
    local arguments = {}
    for i, argument in ipairs(given) do
        local flag, value = argument:match("^(%-%-[%w-]+=)(.*)$")
        flag, value = flag or "", value or argument
        if flag == "--headers=" or given[i - 1] == "--headers" then
            value = without_secret_headers(value)
        elseif given[i - 1] == "-e" then
            value = redact.keep(value)
        elseif value:find("^%a[%w+.-]*://%S+$") then
            value = redact.address(value, redact.MARK)
        end
        arguments[i] = flag .. value
    end
    return json.array(arguments)
end

local function environment()
    local values = {}
    for _, name in ipairs(command.ENVIRONMENT) do
        local value = os.getenv(name)
        values[name] = value and redact.address(value)
    end
    return values
end

---Writes the row of a new outermost run.
---@param rows ponder.log.Recorder
---@param run ponder.log.Run
function command.write_run(rows, run)
    local of = run.about
    local versions = { ponder = host.version, lua = _VERSION, sqlite = store.sqlite_version,
        curl = require("ponder.core.net").curl_version }
    rows.writer:write_signed(rows.run, [[INSERT INTO runs (id, uid, command,
        arguments, script, directory, input, seed, options, versions, started_at, source)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]],
        rows.run, ("%016x"):format(run.uid), of.command, json.encode(without_secrets(of.arguments)),
        of.script, (host.directory()), of.input, run.seed, json.encode(environment()),
        json.encode(versions), run.started_at, run.play and run.play.source)
end

---------------------------------------------------------------------------------------------------
-- Files

---@class ponder.log.Texts the files of a run, held back until their keys are known
---@field private rows ponder.log.Recorder
---@field private arguments string the command line, as JSON: `-e` has code
---@field private list ponder.log.File[]
---@field private keys integer? known when the files were last written; nil: they never were
local Texts = {}
Texts.__index = Texts

---@param rows ponder.log.Recorder
---@param run ponder.log.Run
---@return ponder.log.Texts
function command.texts(rows, run)
    return setmetatable({ rows = rows, list = {},
        arguments = json.encode(without_secrets(run.about.arguments)) }, Texts)
end

local function write(self, file)
    local rows = self.rows
    rows.writer:write_signed(rows.run, [[INSERT OR REPLACE INTO files (run, path, absolute, kind,
        hash, text) VALUES (?, ?, ?, ?, ?, ?)]], rows.run, file.path,
        not file.piped and host.absolute(file.path) or nil, file.kind,
        store.sha256(file.text), redact.keep(file.text))
end

---Adds a file.
---@param file ponder.log.File
function Texts:add(file)
    table.insert(self.list, file)
    if self.keys then
        write(self, file)
    end
end

---Writes the files held back, and rewrites what has a key that became known since.
function Texts:write()
    local before = self.keys
    if redact.count_keys() == before then
        return
    end
    self.keys = redact.count_keys()
    if before and redact.keep(self.arguments) ~= self.arguments then
        self.rows.writer:write_signed(self.rows.run, "UPDATE runs SET arguments = ? WHERE id = ?",
            self.arguments, self.rows.run)
    end
    for _, file in ipairs(self.list) do
        if not before or redact.keep(file.text) ~= file.text then
            write(self, file)
        end
    end
end

return command
