--- Documents what no doc comment repeats: the options of the built-in strategies, from their
--- tables, as the flags of `ponder tot` are; what `machine.class` gives each machine; and what a
--- module exports from others, such as `stats.wilson` from ponder.base.stats.proportions.

local comments = require "comments"
local options = require "ponder.base.options"
local strategy = require "ponder.strategy"

local generated = {}

local function type_of(option)
    if option.takes then
        return option.takes
    elseif option.enum then
        local values = {}
        for i, value in ipairs(option.enum) do
            values[i] = ("%q"):format(value)
        end
        return table.concat(values, "|")
    end
    local kinds = type(option.type) == "table" and option.type or { option.type }
    return (table.concat(kinds, "|"):gsub("callable", "function"))
end

-- An option's help, range and default.
local function about(option)
    local parts = { option.help }
    if option.min or option.max then
        parts[#parts + 1] = option.max and ("%s to %s"):format(option.min or "", option.max)
            or ">= " .. option.min
    end
    if option.default ~= nil then
        parts[#parts + 1] = "default " .. tostring(option.default)
    end
    return table.concat(parts, "; ")
end

-- What the library of each machine has; %s: the class of its options.
local LIBRARY = {
    new = { "(opts)", "An idle machine; mistakes in the options raise an error.",
        "@param opts? %s", "@return ponder.Machine machine" },
    from_map = { "(map, opts)", "The machine that `to_map` saved, in any state; an invalid field "
        .. "raises an error.", "@param map table", "@param opts? %s override those of the map, "
        .. "which has no functions", "@return ponder.Machine machine" },
    generate_call_id = { "()", "A call id, unique in this process.", "@return string" },
}

local MACHINE = { "@class ponder.Machine a handle, whose fields are read-only: those below, the "
    .. "options, and those that the module of the machine names", "@field status string",
    "@field prompt? string the question", "@field result? table once it is completed",
    "@field error? string why it failed, one line", "@field termination_reason? string",
    "@field current_call_id? string", "@field streaming_text? string of the current call",
    "@field usage table<string, number> sums of the token counts of replies",
    "@field started_at? number milliseconds of `env.now_ms`", "@field duration_ms? number" }

local METHODS = {
    { "update(msg, env)", "Handles a message, and returns what to do next. Mistakes raise an "
        .. "error; a reply to an unknown call is ignored.", "@param msg MachineMessage",
        "@param env? MachineEnv", "@return MachineDirective[] directives",
        "@return MachineEvent[] events" },
    { "clone()", "A copy in the same state.", "@return ponder.Machine copy" },
    { "to_map()", "The state as a plain table, without functions and prompts.",
        "@return table map" },
}

-- The lines of a class of options.
local function class_of(class, list)
    local lines = { "@class " .. class }
    for _, option in ipairs(list) do
        lines[#lines + 1] = ("@field %s%s %s %s"):format(option.name, option.required and ""
            or "?", type_of(option), about(option))
    end
    return lines
end

-- A table of rules as a list.
local function list_of(rules)
    local list = {}
    for i, option in ipairs(options.names(rules)) do
        list[i] = options.merge({ name = option }, rules[option])
    end
    return list
end

local function add_machines(by_name)
    local base = by_name.machine
    local classes = {}
    comments.add(base, MACHINE, "local Machine = {}", classes)
    for _, method in ipairs(METHODS) do
        comments.add(base, table.move(method, 2, #method, 1, {}), "function Machine:" .. method[1],
            classes)
    end
    for _, name in ipairs(strategy.names) do
        local class = name:gsub("^%l", string.upper) .. "Options"
        local list = list_of(by_name[name] and require("ponder." .. name).option_rules or {})
        if list[1] then
            comments.add(by_name[name], class_of(class, list), "", classes)
        end
        for _, key in ipairs(by_name[name] and options.names(LIBRARY) or {}) do
            local lines = {}
            for i = 2, #LIBRARY[key] do
                lines[i - 1] = LIBRARY[key][i]:gsub("%%s", class)
            end
            comments.add(by_name[name], lines, ("function %s.%s%s"):format(name, key,
                LIBRARY[key][1]))
        end
    end
end

---Adds `new` and its options to the modules of the strategies and machines, and those of servers.
---@param modules table[] of comments.read
function generated.strategies(modules)
    local by_name = {}
    for _, module in ipairs(modules) do
        by_name[module.name] = module
    end
    add_machines(by_name)
    comments.add(by_name.serve, class_of("ponder.serve.Options",
        list_of(require("ponder.serve").option_rules)), "")
    for _, name in ipairs(strategy.names) do
        local module = by_name["strategy." .. name]
        local class = ("ponder.strategy.%s.Options"):format(name)
        module.variable = name
        comments.add(module, class_of(class, require("ponder.strategy." .. name).options()), "")
        comments.add(module, { "A strategy, which `strategy:run(question)` runs.",
            "@param opts? " .. class .. " mistakes raise an error",
            "@return ponder.strategy.Strategy strategy" }, ("function %s.new(opts)"):format(name))
    end
end

---------------------------------------------------------------------------------------------------
-- Exports

local function load(module)
    local ok, library = pcall(require, module.module)
    return ok and (type(library) == "table" or type(library) == "function") and library or {}
end

-- The entries of all exported functions, by function.
local function by_function(modules)
    local entries = {}
    for _, module in ipairs(modules) do
        local library = load(module)
        for _, entry in ipairs(module.entries) do
            local own = entry.exported and entry.name:sub(1, #module.name + 1) == module.name .. "."
            local f = library
            if type(library) == "table" then
                f = own and library[entry.name:sub(#module.name + 2)]
            elseif entry.name ~= module.name then -- the module is a function
                f = nil
            end
            if type(f) == "function" then
                entries[f] = entry
            end
        end
    end
    return entries
end

-- The entry of a function under another name.
local function renamed(entry, module, name)
    return setmetatable({ name = module.name .. "." .. name, owner = module.name,
        module = module.module, exported = true, code = ("function %s.%s(%s)"):format(
            module.variable or "module", name, comments.parameters(entry)) }, { __index = entry })
end

---Adds the exports to the modules with these names.
---@param modules table[] of comments.read
---@param names string[]
function generated.exports(modules, names)
    local entries = by_function(modules)
    for _, module in ipairs(modules) do
        local known = {}
        for _, entry in ipairs(module.entries) do
            known[entry.name] = true
        end
        local library = options.has(names, module.name) and load(module) or {}
        for _, name in ipairs(type(library) == "table" and options.names(library) or {}) do
            local entry = entries[library[name]]
            if entry and not known[module.name .. "." .. name] then
                table.insert(module.entries, renamed(entry, module, name))
            end
        end
    end
end

return generated
