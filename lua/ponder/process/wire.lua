--- Encodes the calls of child processes and their results for the run log: as JSON, without
--- secrets.

local json = require "ponder.json"
local redact = require "ponder.redact"

local wire = {}

--- Bytes for JSON: valid UTF-8 unchanged; otherwise {bytes = ...} with a character for each byte.
---@param bytes string
---@return string|table
function wire.text(bytes)
    if utf8.len(bytes) then
        return bytes
    end
    return { bytes = bytes:gsub("[\x80-\xFF]", function(byte)
        return utf8.char(byte:byte())
    end) }
end

local function bytes_of(text)
    if type(text) ~= "table" then
        return text
    end
    return (text.bytes:gsub(utf8.charpattern, function(character)
        return string.char(utf8.codepoint(character))
    end))
end

-- The variables without secret values.
local function shown_env(env)
    local shown = {}
    for name, value in pairs(env or {}) do
        if math.type(name) == "integer" then
            shown[value] = true
        else
            shown[name] = redact.is_secret_name(name) and redact.MARK or wire.text(value)
        end
    end
    return next(shown) and shown
end

--- The key of a call in the log: all options that its result depends on.
---@param opts table of process.run or process.open, checked
---@return table
function wire.key(opts)
    local command = {}
    for i, argument in ipairs(opts.command) do
        command[i] = wire.text(argument)
    end
    return { command = json.array(command), env = shown_env(opts.env), cwd = opts.cwd,
        isolate = opts.isolate or nil,
        input = opts.input and opts.input ~= "" and wire.text(opts.input) or nil }
end

local STREAMS = { "stdout", "stderr" }

local function packed(value)
    if type(value) == "string" then
        return wire.text(value)
    elseif type(value) ~= "table" then
        return value
    end
    local done = { done = true, status = value.status, signal = value.signal }
    for _, name in ipairs(STREAMS) do
        done[name] = value[name] and wire.text(value[name])
    end
    return done
end

local function unpacked(value)
    if type(value) ~= "table" or not value.done then
        return bytes_of(value)
    end
    local done = { status = value.status, signal = value.signal }
    for _, name in ipairs(STREAMS) do
        done[name] = bytes_of(value[name])
    end
    return done
end

--- Encodes the results of a function of ponder.process.child for the log.
---@return any ...
function wire.pack(value, message, code, partial)
    return packed(value), message, code, packed(partial)
end

--- Decodes them for the script.
---@return any ...
function wire.unpack(value, message, code, partial)
    if message == nil then
        return unpacked(value)
    end
    if partial == nil then
        return nil, message, code
    end
    return nil, message, code, unpacked(partial)
end

return wire
