--- Items and results as bytes in a queue.

local json = require "ponder.json"
local zlib = require "ponder.core.zlib"

local payload = {}

--- Limit of an item, and of a result with its record.
payload.MAX_BYTES = 8 << 20

local WORTH_IT = 1024 -- bytes; shorter texts are not compressed
local MAX_PLAIN_BYTES = 1 << 30
local MAX_MESSAGE_BYTES = 1 << 16

local function mebibytes(n)
    return ("%.1f MiB"):format(n / (1 << 20))
end

-- The reason why json.encode refused a value.
local function reason(message)
    return (message:gsub("^.-json%.encode: ", ""))
end

---@param item any a JSON value
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
---@return any value nil for null
function payload.decode(text)
    local value = json.decode(text)
    if value ~= json.null then
        return value
    end
end

-- The record of a job: the rows of its run, and the files that it used, as JSON.
---@class ponder.queue.Record
---@field rows string from ponder.log.carry
---@field files string

local NO_RECORD = { rows = "", files = "" }

local function pack(text, record)
    local squeezed = #text > WORTH_IT
    return string.pack("<Bs4s4s4", squeezed and 1 or 0, squeezed and zlib.compress(text) or text,
        record.rows, record.files)
end

---Encodes the result of a function, with its record.
---@param value any
---@param record? ponder.queue.Record
---@return string? bytes
---@return string? message
function payload.value(value, record)
    local ok, text = pcall(json.encode, value == nil and json.null or value)
    if not ok then
        return nil, "the result cannot be sent: " .. reason(text)
    end
    if #text > payload.MAX_BYTES then
        return nil, ("the result has %s, more than the %s that a queue takes"):format(
            mebibytes(#text), mebibytes(payload.MAX_BYTES))
    end
    local bytes = pack(text, record or NO_RECORD)
    return #bytes <= payload.MAX_BYTES and bytes or pack(text, NO_RECORD)
end

---Converts an error value or a message to text.
---@param err any
---@return string
function payload.text(err)
    local is_plain = type(err) == "table" and getmetatable(err) == nil
    local ok, text = pcall(is_plain and json.encode or tostring, err)
    return ok and text or type(err)
end

---Encodes a job's failure, with its record.
---@param message any
---@param code any
---@param partial? any
---@param record? ponder.queue.Record
---@return string bytes
function payload.failure(message, code, partial, record)
    local what = { message = payload.text(message):sub(1, MAX_MESSAGE_BYTES),
        code = code and tostring(code), partial = partial }
    local ok, text = pcall(json.encode, what)
    local bytes = ok and pack(text, record or NO_RECORD)
    if not ok or #bytes > payload.MAX_BYTES then
        what.partial = nil
        bytes = pack(json.encode(what), NO_RECORD)
    end
    return bytes
end

---Decodes the stored outcome of a job.
---@param bytes string
---@return any value of a failure {message =, code =, partial =}
---@return ponder.queue.Record? record nil: damaged
function payload.read(bytes)
    local whole, squeezed, text, rows, files = pcall(string.unpack, "<Bs4s4s4", bytes)
    if whole and squeezed == 1 then
        text = zlib.decompress(text, MAX_PLAIN_BYTES)
    end
    if whole and text then
        return payload.decode(text), { rows = rows, files = files }
    end
end

return payload
