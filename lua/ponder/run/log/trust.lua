--- Tells this user's logs from those of others. Resume, replay and fork run the script of a log
--- with its arguments, files, directory and server addresses. So each outermost run is signed as it
--- is written: HMAC-SHA256 (RFC 2104) over all of these, with a key from the state directory. A log
--- that somebody else wrote or changed has no valid signature.
---
--- Inputs of a run (replies, results of tools, clocks) are not signed: they are data.

local environment = require "ponder.base.environment"
local file = require "ponder.run.log.file"
local json = require "ponder.json"
local quote = require "ponder.quote"
local random = require "ponder.core.random"
local state = require "ponder.base.state"
local store = require "ponder.core.store"

local trust = {}

local KEY_FILE, KEY_BYTES, BLOCK = ".log.key", 32, 64

local RUN = { "uid", "parent", "command", "arguments", "script", "directory", "input", "seed",
    "options", "source" }
local FILE = { "path", "absolute", "kind", "hash", "text" }

local function bytes_of(hex)
    return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

local function read_key()
    local text = state.read(KEY_FILE)
    return text and #text == 2 * KEY_BYTES and not text:find "%X" and bytes_of(text) or nil
end

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

-- Adds the hash of each value with its type, so that different rows give different texts.
local function add(parts, row, fields)
    for _, field in ipairs(fields) do
        local value = row[field]
        parts[#parts + 1] = ("%s %s %s"):format(field, math.type(value) or type(value),
            store.sha256(tostring(value)))
    end
end

-- Returns the signature of a run as it is in the log, and the one that it has there.
local function signature(key, db, run)
    local row, parts = file.only(db:columns("SELECT * FROM runs WHERE id = ?", run)), {}
    if not row then
        return nil
    end
    add(parts, row, RUN)
    for one in db:columns("SELECT * FROM files WHERE run = ? ORDER BY path", run) do
        add(parts, one, FILE)
    end
    return hmac(key, table.concat(parts, "\n")), row.mac
end

---Signs a run, within the open transaction. Does nothing without a state directory.
function trust.sign(db, run)
    local key, words = read_key(), {}
    if not key then -- if two processes create one at once, both use the first
        for i = 1, KEY_BYTES // 8 do
            words[i] = ("%016x"):format(random.draw())
        end
        state.write(KEY_FILE, table.concat(words), true)
        key = read_key()
    end
    local mac = key and signature(key, db, run)
    if mac then
        db:execute("UPDATE runs SET mac = ? WHERE id = ?", mac, run)
    end
end

---Whether a run was signed with this user's key and is unchanged since.
function trust.is_signed(db, run)
    local key = read_key()
    if not key then
        return false
    end
    local mac, found = signature(key, db, run)
    return mac ~= nil and mac == found
end

---Describes what a run would execute and which servers it would call.
---@param run table row of `runs`, decoded
---@param files table<string, {kind: string}> by path
function trust.describe(run, files)
    local scripts, servers = {}, {}
    for path, one in pairs(files) do
        scripts[#scripts + 1] = ("%s (%s)"):format(path, one.kind)
    end
    table.sort(scripts)
    for _, name in ipairs(environment.names "address") do
        local value = run.options[name]
        servers[#servers + 1] = type(value) == "string" and ("%s (%s)"):format(value, name) or nil
    end
    for _, argument in ipairs(run.arguments) do
        servers[#servers + 1] = argument:match "%a[%w+.-]*://%S+"
    end
    local command = ("ponder %s %s"):format(run.command, table.concat(run.arguments, " "))
    return quote.terminal(("it runs %s%s%s%s"):format(json.encode(command),
        run.directory and " in " .. run.directory or "",
        scripts[1] and ", with " .. table.concat(scripts, ", ") or "",
        servers[1] and ", and asks " .. table.concat(servers, ", ") or ""):gsub("%c", "?"))
end

return trust
