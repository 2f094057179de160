--- The options for starting a child process that process.run, process.open and mcp.open share.

local options = require "ponder.options"

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
    for i, argument in ipairs(words) do
        if type(argument) ~= "string" or argument:find("\0", 1, true) then
            refuse(where, ("opts.command[%d] must be a string without NUL (got %s)"):format(i,
                options.show(argument)), 5)
        end
    end
    return words
end

---Checks options that include `OPTIONS`; errors name the line that called our caller.
---@param where string "process.run"
---@param opts any
---@param schema OptionSchema
---@return table opts a copy, with `command` as a list
function command.check(where, opts, schema)
    opts = options.check(where, opts, schema, 3)
    opts.command = arguments_of(where, opts)
    for name, value in pairs(opts.env or {}) do
        local ok = type(value) == "string" and (math.type(name) == "integer"
            or type(name) == "string" and name ~= "" and not name:find("[=%z]"))
        if not ok or value:find("\0", 1, true) then
            refuse(where, "opts.env must list variable names, and map names to strings", 4)
        end
    end
    return opts
end

return command
