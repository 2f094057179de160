--- Tells this user's logs from those of others. Resuming and forking run the scripts of a log with
--- its arguments, working directory and server addresses. So each run is signed as it is written:
--- HMAC-SHA256 (RFC 2104) over all that decides what is run, with a key from the state directory. A
--- log that somebody else wrote or changed has no valid signature.
---
--- Inputs of a run (replies, results of tools, clocks) are not signed: they are data.

local environment = require "ponder.environment"
local file = require "ponder.log.file"
local json = require "ponder.json"
local quote = require "ponder.quote"
local random = require "ponder.core.random"
local redact = require "ponder.redact"
local state = require "ponder.state"
local store = require "ponder.core.store"

local trust = {}

local KEY_FILE, KEY_BYTES, BLOCK = ".log.key", 32, 64

local RUN = { "uid", "parent", "command", "arguments", "script", "directory", "input", "seed",
    "options", "source" }
local FILE = { "path", "absolute", "kind", "text" }

---------------------------------------------------------------------------------------------------
-- The key

local function bytes_of(hex)
    return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function read_key()
    local text = state.read(KEY_FILE)
    return text and #text == 2 * KEY_BYTES and not text:find "%X" and bytes_of(text) or nil
end

-- If two processes create a key at once, both use the first.
local function make_key()
    local words = {}
    for i = 1, KEY_BYTES // 8 do
        words[i] = ("%016x"):format(random.draw())
    end
    state.create(KEY_FILE, table.concat(words))
    return read_key()
end

---------------------------------------------------------------------------------------------------
-- Signatures

local function xor(key, byte)
    return (key .. ("\0"):rep(BLOCK - #key)):gsub(".", function(c)
        return string.char(c:byte() ~ byte)
    end)
end

-- HMAC-SHA256 in hexadecimal; the key is shorter than a block.
local function hmac(key, text)
    return store.sha256(xor(key, 0x5c) .. bytes_of(store.sha256(xor(key, 0x36) .. text)))
end
trust.hmac = hmac

-- Joins values with their types and lengths, so that different lists give different texts.
local function joined(kind, uid, row, fields)
    local parts = { kind, uid }
    for _, field in ipairs(fields) do
        local value = row[field]
        local text = value == nil and "-" or tostring(value)
        parts[#parts + 1] = ("%s %s %d:%s"):format(field, math.type(value) or type(value), #text,
            text)
    end
    return table.concat(parts, "\n")
end

local function mac_of_run(key, row)
    return hmac(key, joined("ponder run", row.uid, row, RUN))
end

local function mac_of_file(key, uid, row)
    return hmac(key, joined("ponder file", uid, row, FILE))
end

local SELECT_RUN = "SELECT " .. table.concat(RUN, ", ") .. ", mac FROM runs WHERE id = ?"
local SELECT_FILES = "SELECT " .. table.concat(FILE, ", ") .. ", mac FROM files WHERE run = ?"

---Signs the unsigned rows of a run, within the open transaction. Does nothing without a state
---directory.
---@param db ponder.store.Store
---@param run integer runs.id
---@param all boolean? replace other signatures, too
function trust.sign(db, run, all)
    local key = read_key() or make_key()
    local row = key and file.only(db:columns(SELECT_RUN, run))
    if not row then
        return
    end
    if all or not row.mac then
        db:execute("UPDATE runs SET mac = ? WHERE id = ?", mac_of_run(key, row), run)
    end
    local files = {}
    for one in db:columns(SELECT_FILES, run) do
        files[#files + 1] = (all or not one.mac) and one or nil
    end
    for _, one in ipairs(files) do
        db:execute("UPDATE files SET mac = ? WHERE run = ? AND path = ?",
            mac_of_file(key, row.uid, one), run, one.path)
    end
end

---Whether a run was signed with this user's key and is unchanged since.
---@param db ponder.store.Store
---@param run integer runs.id
---@return boolean
function trust.is_signed(db, run)
    local key = read_key()
    local row = file.only(db:columns(SELECT_RUN, run))
    if not key or not row or row.mac ~= mac_of_run(key, row) then
        return false
    end
    for one in db:columns(SELECT_FILES, run) do
        if one.mac ~= mac_of_file(key, row.uid, one) then
            return false
        end
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- What a log would run

---Returns the server addresses that the log of a run names.
---@param run table row of `runs`, decoded
---@return string[]
function trust.servers(run)
    local list = {}
    for _, name in ipairs(environment.names "address") do
        local value = run.options[name]
        list[#list + 1] = type(value) == "string" and ("%s (%s)"):format(value, name) or nil
    end
    for _, argument in ipairs(run.arguments) do
        list[#list + 1] = argument:match "%a[%w+.-]*://%S+"
    end
    return list
end

---Returns the servers that a command line names: the values of `--base-url`.
---@param arguments string[]
---@return string[]
function trust.base_urls(arguments)
    local list = {}
    for i, argument in ipairs(arguments) do
        list[#list + 1] = argument:match "^%-%-base[-_]url=(.+)$"
            or argument:find "^%-%-base[-_]url$" and arguments[i + 1] or nil
    end
    return list
end

---Returns the command that resumes a run, with the servers that ponder.cli.shared.consent requires.
---@param arguments string[]
---@param path? string of the log; nil: the newest kept one
---@return string command for a shell
function trust.resume_command(arguments, path)
    local words = { "ponder resume" }
    for _, url in ipairs(trust.base_urls(arguments)) do
        words[#words + 1] = "--base-url " .. quote.shell(redact.address(url, redact.MARK))
    end
    words[#words + 1] = path and quote.shell(path)
    return quote.line(table.concat(words, " "), 2000)
end

---Describes what a run would execute and which servers it would call.
---@param run table row of `runs`, decoded
---@param files table<string, {kind: string}> by path
---@return string
function trust.describe(run, files)
    local scripts = {}
    for path, one in pairs(files) do
        scripts[#scripts + 1] = ("%s (%s)"):format(path, one.kind)
    end
    table.sort(scripts)
    local command = ("ponder %s %s"):format(run.command, table.concat(run.arguments, " "))
    local servers = trust.servers(run)
    return quote.terminal(("it runs %s%s%s%s"):format(json.encode(command),
        run.directory and " in " .. run.directory or "",
        scripts[1] and ", with " .. table.concat(scripts, ", ") or "",
        servers[1] and ", and asks " .. table.concat(servers, ", ") or ""):gsub("%c", "?"))
end

return trust
