--- A tool call or log.record in the log: a row of `effects`.

local json = require "ponder.json"
local redact = require "ponder.base.redact"
local store = require "ponder.core.store"

local effect = {}

---@class ponder.log.Effect: ponder.log.Operation
local Effect = { kind = "effect" }
Effect.__index = Effect

local WHERE = { outside = "record", tool = "tool" } -- the function of ponder.log

-- Why json.encode refused a value.
local function reason(message)
    return (message:gsub("^.-json%.encode: ", ""))
end

---@param kind "tool"|"outside"
---@param key any JSON values that say what is asked
---@return ponder.log.Effect
function effect.new(kind, name, key)
    local ok, encoded = pcall(json.encode, key)
    if not ok then
        error(("log.%s: key: %s"):format(WHERE[kind], reason(encoded)), 0)
    end
    encoded = redact.keep(encoded) -- as the log stores it
    return setmetatable({ what = kind, name = name, key = encoded,
        identity = store.sha256(("%s\n%s\n%s"):format(kind, name, encoded)) }, Effect)
end

---The columns that tell it from other effects.
function Effect:columns()
    return self.what, self.name, self.key
end

---@return string
function Effect:describe()
    return ("%s %s"):format(self.what == "tool" and "the tool" or "outside", self.name)
end

function Effect:insert(tape)
    local asker = self.asker
    local search = asker and asker.tree and asker.tree:asks(tape, asker)
    tape:write([[INSERT INTO effects (run, id, session, kind, name, key, occurrence, within,
        search, asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)]], tape.id, self.id,
        tape.session, self.what, self.name, self.key, self.occurrence, self.within_id, search,
        tape.clock())
end

function Effect:ask_again(tape)
    tape:write("UPDATE effects SET session = ?, asked_at = ?, status = NULL "
        .. "WHERE run = ? AND id = ?", tape.session, tape.clock(), tape.id, self.id)
end

local function write_answer(self, tape, status, value, message)
    tape:write("UPDATE effects SET status = ?, answered_at = ?, value = ?, message = ? "
        .. "WHERE run = ? AND id = ?", status, tape.clock(), value, message, tape.id, self.id)
end

-- The results of pcall (true, values) from a JSON list of the values; nil for another text.
local function decode(text)
    local list = text and json.decode(text)
    if type(list) ~= "table" then
        return nil
    end
    local results = { true, n = #list + 1 }
    for i, value in ipairs(list) do
        if value ~= json.null then
            results[i + 1] = value
        end
    end
    return results
end

-- Stores what was raised: a text, or another JSON value as such.
local function write_error(self, tape, err)
    local is_value, text = pcall(json.encode, json.array { err == nil and json.null or err })
    if type(err) == "string" or not is_value then
        write_answer(self, tape, "error", nil, tostring(err))
    else
        write_answer(self, tape, "error", text, type(err) == "table"
            and type(err.message) == "string" and err.message or text:sub(2, -2))
    end
    return { false, err, n = 2 }
end

---@param results table true and values; or false and the error
---@return table results for the script
function Effect:answer(tape, results)
    if not results[1] then
        return write_error(self, tape, results[2])
    end
    local list = {}
    for i = 2, results.n do
        list[i - 1] = results[i] == nil and json.null or results[i]
    end
    local ok, values = pcall(json.encode, json.array(list))
    if not ok then
        return write_error(self, tape, ("log.%s: what the function returned: %s"):format(
            WHERE[self.what], reason(values)))
    end
    local stored = decode(values) -- what a later run will get, but for secrets
    if not stored then
        return write_error(self, tape, ("log.%s: what the function returned is too long for "
            .. "the log"):format(WHERE[self.what]))
    end
    write_answer(self, tape, "ok", values)
    return stored
end

function Effect:cancel(tape)
    write_answer(self, tape, "cancelled")
end

---@return table? results nil if they are damaged
function effect.results(db, run, id)
    local status, value, message = db:row("SELECT status, value, message FROM effects "
        .. "WHERE run = ? AND id = ?", run, id)
    if status == "ok" then
        return decode(value)
    end
    local raised = value and decode(value)
    return { false, raised and raised[2] or not value and message or nil, n = 2 }
end

Effect.copy = Effect.answer

return effect
