--- Writes the prompt functions of a script as the text of a prompt file (`ponder prompts eject`):
--- copies the source of each function, with the values of the local variables that it uses.
---
---     prompts.check = (function()
---         local SYSTEM
---         SYSTEM = "Check the answer."
---         return function(context) ... end
---     end)()
---
--- Values that such a file cannot hold (a module, an open file, a table with a metatable) are
--- refused.

local files = require "ponder.log.files"
local options = require "ponder.options"

local source = {}

local INDENT = "    "
local MAX_DEPTH = 50
local LIBRARIES = { string = string, table = table, math = math, utf8 = utf8 }

local function refuse(what)
    error({ refused = what }, 0)
end

-- The expressions `function ... end` that begin on the first of these lines and end on the last.
local function candidates(lines)
    local list, text = {}, table.concat(lines, "\n")
    local last = #text - #lines[#lines]
    for at, after in text:gmatch "%f[%w_]()function%s*[%w_.:]*%s*()%(" do
        if at > #lines[1] then
            break
        end
        for ending in text:gmatch "%f[%w_]end%f[^%w_]()" do
            if ending > last and ending > after then
                list[#list + 1] = "function" .. text:sub(after, ending - 1)
            end
        end
    end
    return list
end

local function lines_of(path, first, last)
    local text = files.read(path, "script")
    local lines, number = {}, 0
    for line in ((text or "") .. "\n"):gmatch "(.-)\r?\n" do
        number = number + 1
        if number >= first and number <= last then
            lines[#lines + 1] = line
        end
    end
    return lines
end

-- The source of a function, reindented. It must be the only candidate on its lines.
local function text_of(f, indent)
    local info = debug.getinfo(f, "Su")
    local path = info.source:match "^@(.*)$"
    local found
    local lines = path and lines_of(path, info.linedefined, info.lastlinedefined) or {}
    for _, text in ipairs(lines[1] and candidates(lines) or {}) do
        local chunk = load("return " .. text, "=function", "t")
        local made = chunk and chunk()
        if made and debug.getinfo(made, "u").nparams == info.nparams then
            if found and found ~= text then
                refuse(("%s:%d: two functions on one line"):format(path, info.linedefined))
            end
            found = text
        end
    end
    if found and not found:find "%[=*%[" then -- long strings must keep their lines
        found = found:gsub("\n" .. lines[#lines]:match "^[ \t]*", "\n" .. indent)
    end
    return found or refuse(("%s:%d: cannot find the source of the function"):format(
        info.short_src, info.linedefined))
end

local write

local function write_table(value, indent, depth, name)
    if getmetatable(value) or depth > MAX_DEPTH then
        refuse(name .. " is a table that a prompt file cannot hold")
    end
    local keys, lines = {}, {}
    for key in pairs(value) do
        keys[#keys + 1] = key
    end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for i, key in ipairs(keys) do
        lines[i] = ("%s%s[%s] = %s,\n"):format(indent, INDENT, write(key, indent, depth + 1, name),
            write(value[key], indent .. INDENT, depth + 1, name))
    end
    return "{\n" .. table.concat(lines) .. indent .. "}"
end

-- The name of a function of Lua's library, or nil.
local function library_name(f)
    for name, value in pairs(_G) do
        if value == f then
            return name
        end
    end
    for library, functions in pairs(LIBRARIES) do
        for name, value in pairs(functions) do
            if value == f then
                return library .. "." .. name
            end
        end
    end
end

local function write_function(f, indent, depth, name)
    if debug.getinfo(f, "S").what == "C" then
        return library_name(f) or refuse(name .. " is a function of C")
    elseif depth > MAX_DEPTH then
        refuse(name .. " refers to itself through others")
    end
    local inner, names, assignments, at = indent .. INDENT, {}, {}, 1
    local variable, value = debug.getupvalue(f, at)
    while variable do
        if variable ~= "_ENV" then
            names[#names + 1] = variable
            assignments[#assignments + 1] = value ~= f and ("%s%s = %s\n"):format(inner, variable,
                write(value, inner, depth + 1, variable)) or nil
        end
        at = at + 1
        variable, value = debug.getupvalue(f, at)
    end
    if not names[1] then
        return text_of(f, indent)
    end
    return ("(function()\n%slocal %s\n%s%sreturn %s\n%send)()"):format(inner,
        table.concat(names, ", "), table.concat(assignments), inner, text_of(f, inner), indent)
end

-- The Lua expression for a value.
function write(value, indent, depth, name)
    local kind = type(value)
    if kind == "string" then
        return (("%q"):format(value):gsub("\\\n", "\\n"))
    elseif kind == "number" or kind == "boolean" or kind == "nil" then
        return tostring(value)
    elseif kind == "function" then
        return write_function(value, indent, depth, name)
    elseif kind ~= "table" then
        return refuse(name .. " is " .. options.show(value))
    end
    for library, functions in pairs(LIBRARIES) do
        if value == functions then
            return library
        end
    end
    for module, loaded in pairs(package.loaded) do
        if loaded == value then
            refuse(("%s is the module %s, which a prompt file cannot use"):format(name, module))
        end
    end
    return write_table(value, indent, depth, name)
end

---The text of a prompt file.
---@param name string of the strategy
---@param functions table<string, function>
---@return string? text
---@return string? problem why they cannot be copied
function source.of(name, functions)
    local parts = { ("--- Prompts of the strategy %s.\n\nlocal prompts = {}\n"):format(name) }
    for _, prompt in ipairs(options.names(functions)) do
        local ok, text = pcall(write, functions[prompt], "", 0, prompt)
        if not ok then
            return nil, ("%s.%s: %s"):format(name, prompt, type(text) == "table" and text.refused
                or tostring(text))
        end
        parts[#parts + 1] = ("prompts.%s = %s\n"):format(prompt, text)
    end
    parts[#parts + 1] = "return prompts\n"
    return table.concat(parts, "\n")
end

return source
