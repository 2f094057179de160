--- What process.run, process.open and mcp.open share: the options for starting a child process, and
--- how the run log keeps its calls.

local json = require "ponder.json"
local options = require "ponder.base.options"
local redact = require "ponder.base.redact"

local command = {}

---@type OptionSchema
command.OPTIONS = {
    command = { type = { "table", "string" }, required = true },
    shell = { type = "boolean", default = false },
    env = { type = "table" },
    cwd = { type = "string" },
}

local function refuse(where, what, level)
    error(("%s: %s"):format(where, what), level)
end

-- The program and its arguments.
local function arguments_of(where, opts)
    local words = opts.command
    if opts.shell ~= (type(words) == "string") then
        refuse(where, opts.shell and "opts.command must be a string for the shell"
            or "opts.command must be a list (a string needs shell = true)", 5)
    elseif opts.shell then
        words = { "/bin/sh", "-c", words }
    end
    if not words[1] then
        refuse(where, "opts.command must name a program", 5)
    end
    for i = 1, #words do
        local argument = words[i]
        if type(argument) ~= "string" or argument:find("\0", 1, true) then
            refuse(where, ("opts.command[%d] must be a string without NUL (got %s)"):format(i,
                options.show(argument)), 5)
        end
    end
    return words
end

local function is_name(name)
    return type(name) == "string" and name ~= "" and not name:find("[=%z]")
end

---Checks options that include `OPTIONS`; errors name the line that called our caller.
---@param where string "process.run"
---@return table opts a copy, with `command` as a list
function command.check(where, opts, schema)
    opts = options.check(where, opts, schema, 3)
    opts.command = arguments_of(where, opts)
    if opts.cwd and opts.cwd:find("\0", 1, true) then
        refuse(where, "opts.cwd must be a path without NUL", 4)
    end
    for name, value in pairs(opts.env or {}) do
        local ok = math.type(name) == "integer" and is_name(value)
            or is_name(name) and type(value) == "string" and not value:find("\0", 1, true)
        if not ok then
            refuse(where, "opts.env must list variable names, and map names to strings", 4)
        end
    end
    return opts
end

---------------------------------------------------------------------------------------------------
-- Calls and results as JSON for the run log, without secrets

--- Bytes for JSON: valid UTF-8 unchanged; otherwise {bytes = ...} with a character for each byte.
---@param bytes any other values than texts are returned as they are
function command.text(bytes)
    if type(bytes) ~= "string" or utf8.len(bytes) then
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

--- The key of a call in the log: all options that its result depends on.
---@param opts table of process.run or process.open, checked
function command.key(opts)
    local words, env = {}, {}
    for i, argument in ipairs(opts.command) do
        words[i] = command.text(argument)
    end
    for name, value in pairs(opts.env or {}) do
        if math.type(name) == "integer" then
            env[value] = true
        else
            env[name] = redact.is_secret_name(name) and redact.MARK or command.text(value)
        end
    end
    return { command = json.array(words), env = next(env) and env, cwd = opts.cwd,
        isolate = opts.isolate or nil,
        input = opts.input and opts.input ~= "" and command.text(opts.input) or nil }
end

-- Results of ponder.run.process.child with each text replaced, also those in a table.
local function with_texts(f, value)
    if type(value) ~= "table" or value.bytes then
        return f(value)
    end
    local made = {}
    for name, field in pairs(value) do
        made[name] = f(field)
    end
    return made
end

--- Encodes the results of a function of ponder.run.process.child for the log.
function command.pack(value, message, code, partial)
    return with_texts(command.text, value), message, code, with_texts(command.text, partial)
end

--- Decodes them for the script.
function command.unpack(value, message, code, partial)
    if message == nil then
        return with_texts(bytes_of, value)
    elseif partial == nil then
        return nil, message, code
    end
    return nil, message, code, with_texts(bytes_of, partial)
end

return command
