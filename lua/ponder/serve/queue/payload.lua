--- Jobs and results as texts in a queue. Whoever may write to its Redis may have made them.

local json = require "ponder.json"
local options = require "ponder.base.options"
local zlib = require "ponder.core.zlib"

local payload = {}

--- Limit of an item, and of a result as JSON.
payload.MAX_BYTES = 8 << 20

local WORTH_IT = 1024 -- bytes; shorter texts are not compressed
local MAX_MESSAGE_BYTES = 1 << 16

-- A value as JSON; or nil, what is wrong with it, and whether it is too large.
local function encode(value)
    local ok, text = pcall(json.encode, value == nil and json.null or value)
    if not ok then
        return nil, "cannot be sent: " .. text:gsub("^.-json%.encode: ", ""), false
    elseif #text > payload.MAX_BYTES then
        return nil, ("has %.1f MiB, more than the %.1f MiB that a queue takes"):format(
            #text / (1 << 20), payload.MAX_BYTES / (1 << 20)), true
    end
    return text
end

---Encodes an item.
---@return string? code "BAD_ITEM", "TOO_LARGE"
function payload.item(item)
    local text, problem, is_too_large = encode(item)
    if is_too_large then
        return nil, problem .. ": put it into a file or a store and send where it is", "TOO_LARGE"
    end
    return text, problem, problem and "BAD_ITEM"
end

---------------------------------------------------------------------------------------------------
-- Jobs

---@class ponder.queue.Spec
---@field call string the function
---@field name string of the run
---@field index integer? of the item in its map
---@field budgets table[]? the shared budgets around the job: see ponder.serve.queue.budget

local SPEC = {
    call = { type = "string", required = true }, name = { type = "string", required = true },
    seed = { type = "integer", required = true }, index = { type = "integer" },
    max_attempts = { type = "integer", min = 1, required = true },
    timeout_ms = { type = "integer", min = 1 }, budgets = { type = "table" },
}
local COUNT = { type = "integer", min = 0 }
local BUDGET = {
    key = { type = "string", required = true }, at_least = { type = "table", required = true },
    max_calls = COUNT, max_total_tokens = COUNT,
    max_cost = { type = "number", min = 0, finite = true },
    in_flight = { type = "string", enum = { "await", "cancel" } },
}
local MAX_BUDGETS = 100
local ID = "^[%w._-]+$" -- part of keys
local MAX_ID = 64 -- bytes

local function check_budgets(list, prefix)
    if #list > MAX_BUDGETS or #list == 0 and next(list) ~= nil then
        error("its budgets are not a list, or too many", 0)
    end
    for i, budget in ipairs(list) do
        budget = type(budget) == "table" and budget or {}
        list[i] = options.check("a budget", budget, BUDGET, 0)
        if budget.key:sub(1, #prefix) ~= prefix then
            error("a budget: key is not of this queue", 0)
        end
        for j = 1, 3 do
            if options.check_value(budget.at_least[j], COUNT) == nil then
                error("a budget: at_least must be three counts", 0)
            end
        end
    end
end

---Whether a text may be the id of a job or a map.
function payload.is_id(id)
    return type(id) == "string" and #id <= MAX_ID and id:find(ID) ~= nil
end

---Reads a job.
---@param fields table<string, string> of its entry in the stream
---@param prefix string of the keys of budgets of the queue
---@return any item nil for null; or why the job cannot be read
function payload.job(fields, prefix)
    if not payload.is_id(fields.id) or not payload.is_id(fields.map) then
        return nil, "its id or map is not one"
    end
    local item, spec = json.decode(fields.item or ""), json.decode(fields.spec or "")
    if item == nil then
        return nil, "its item is not JSON"
    elseif type(spec) ~= "table" then
        return nil, "its spec is not a JSON object"
    end
    local ok, checked = pcall(options.check, "its spec", spec, SPEC, 0)
    local problem = checked
    if ok then
        ok, problem = pcall(check_budgets, checked.budgets or {}, prefix)
    end
    if not ok then
        return nil, problem
    elseif item == json.null then
        item = nil
    end
    return checked, item
end

---------------------------------------------------------------------------------------------------
-- Results

local function pack(text, rows)
    local squeezed = #text > WORTH_IT
    return string.pack("<Bs4s4", squeezed and 1 or 0, squeezed and zlib.compress(text) or text,
        rows or "")
end

---Encodes the result of a function.
---@param rows? string of its run, from ponder.run.log.carry
function payload.value(value, rows)
    local text, problem = encode(value)
    if not text then
        return nil, "the result " .. problem
    end
    return pack(text, rows)
end

---Converts an error value or a message to text.
function payload.text(err)
    local is_plain = type(err) == "table" and getmetatable(err) == nil
    local ok, text = pcall(is_plain and json.encode or tostring, err)
    return ok and text or type(err)
end

---Encodes a job's failure.
---@param rows? string as for `value`
function payload.failure(message, code, partial, rows)
    local what = { message = payload.text(message):sub(1, MAX_MESSAGE_BYTES),
        code = code and tostring(code), partial = partial }
    local text = encode(what)
    if not text then
        what.partial = nil
        text = json.encode(what)
    end
    return pack(text, rows)
end

---Decodes the stored outcome of a job.
---@return boolean ok false: it is damaged, or larger than MAX_BYTES
---@return any value nil for null; of a failure {message =, code =, partial =}
---@return string rows of its run, or ""
function payload.read(bytes)
    local whole, squeezed, text, rows = pcall(string.unpack, "<Bs4s4", bytes)
    if whole and squeezed == 1 then
        text = zlib.decompress(text, payload.MAX_BYTES)
    end
    local value
    if whole and text then
        value = json.decode(text)
    end
    if value == nil then
        return false, nil, ""
    elseif value == json.null then
        return true, nil, rows
    end
    return true, value, rows
end

return payload
