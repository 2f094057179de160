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
---@param opts any
---@param schema OptionSchema
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

return command
