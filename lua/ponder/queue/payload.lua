--- What travels through a queue, as bytes: items, and what became of them.

local json = require "ponder.json"
local zlib = require "ponder.core.zlib"

local payload = {}

--- Of an item, or of a result with what was recorded of it.
payload.MAX_BYTES = 8 << 20

local WORTH_IT = 1024 -- bytes: less is not compressed
local LARGEST = 1 << 30
local LONGEST_MESSAGE = 1 << 16

local function mebibytes(n)
    return ("%.1f MiB"):format(n / (1 << 20))
end

-- Why json.encode has refused a value.
local function reason(message)
    return (message:gsub("^.-json%.encode: ", ""))
end

---@param item any of values that JSON has
---@return string? text JSON
---@return string? message
---@return string? code "BAD_ITEM", "TOO_LARGE"
function payload.item(item)
    local ok, text = pcall(json.encode, item == nil and json.null or item)
    if not ok then
        return nil, "cannot be sent to a worker: " .. reason(text), "BAD_ITEM"
    elseif #text > payload.MAX_BYTES then
        return nil, ("has %s, more than the %s that a queue takes: put it into a file or a store "
            .. "and send where it is"):format(mebibytes(#text), mebibytes(payload.MAX_BYTES)),
            "TOO_LARGE"
    end
    return text
end

---@param text string JSON
---@return any value null is nil
function payload.decode(text)
    local value = json.decode(text)
    if value ~= json.null then
        return value
    end
end

local function pack(text, rows)
    local squeezed = #text > WORTH_IT
    return string.pack("<Bs4s4", squeezed and 1 or 0, squeezed and zlib.compress(text) or text,
        rows)
end

---What a function returned, with what was recorded.
---@param value any
---@param rows string of ponder.log.carry, or ""
---@return string? bytes
---@return string? message
function payload.value(value, rows)
    local ok, text = pcall(json.encode, value == nil and json.null or value)
    if not ok then
        return nil, "the result cannot be sent: " .. reason(text)
    end
    local bytes = pack(text, rows)
    if #bytes > payload.MAX_BYTES and rows ~= "" then -- the result without its record
        bytes = pack(text, "")
    end
    if #bytes > payload.MAX_BYTES then
        return nil, ("the result has %s, more than the %s that a queue takes"):format(
            mebibytes(#bytes), mebibytes(payload.MAX_BYTES))
    end
    return bytes
end

---What a job failed with, with what was recorded.
---@param message any
---@param code any
---@param partial? any
---@param rows? string
---@return string bytes
function payload.failure(message, code, partial, rows)
    local what = { message = tostring(message):sub(1, LONGEST_MESSAGE),
        code = code and tostring(code), partial = partial }
    local ok, text = pcall(json.encode, what)
    local bytes = ok and pack(text, rows or "")
    if not ok or #bytes > payload.MAX_BYTES then
        what.partial = nil
        bytes = pack(json.encode(what), "")
    end
    return bytes
end

---What was stored of a job.
---@param bytes string
---@return any value; of a failure {message =, code =, partial =}
---@return string rows
function payload.read(bytes)
    local squeezed, text, rows = string.unpack("<Bs4s4", bytes)
    if squeezed == 1 then
        text = assert(zlib.decompress(text, LARGEST))
    end
    return payload.decode(text), rows
end

return payload
