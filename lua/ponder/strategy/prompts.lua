--- Which prompts a strategy renders with: what the options say, else the file that takes the place
--- of the built-in ones (ponder.prompt), else those.

local options = require "ponder.options"
local prompt = require "ponder.prompt"

local prompts = {}

local PROMPT = { type = { "function", "string" } }

-- What is wrong with a table of prompts by name, or nil. Only what is there is looked at.
local function problem_in(found, known)
    for name in pairs(known) do
        if found[name] ~= nil then
            local _, problem = options.check_value(found[name], PROMPT)
            if problem then
                return ("%s %s"):format(name, problem)
            end
        end
    end
end

local function unknown_name(by_name, known)
    local names = {}
    for name in pairs(known) do
        names[#names + 1] = name
    end
    table.sort(names)
    for name in pairs(by_name) do
        if known[name] == nil and name ~= "instructions" then
            local near = options.nearest(name, names)
            return ("unknown prompt %s%s; there are: %s"):format(options.show(name),
                near and (" (did you mean %q?)"):format(near) or "", table.concat(names, ", "))
        end
    end
end

---Checks the option `prompts`; raises. `instructions`, which prompt files have, is let be.
---@param where string `"strategy.tot.new"`
---@param kind ponder.strategy.Kind
---@param by_name table?
---@param level integer
function prompts.check(where, kind, by_name, level)
    local known = kind.machine.prompt_names
    local problem = by_name
        and (unknown_name(by_name, known) or problem_in(by_name, known))
    if problem then
        error(("%s: opts.prompts: %s"):format(where, problem), level + 1)
    end
end

---The prompts of a run. Files are read anew each time, so that an edited one counts from the next
---run on.
---@param kind ponder.strategy.Kind
---@param opts table
---@return table<string, function|string>? by_name
---@return string? message with the file, and the line if there is one
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function prompts.load(kind, opts)
    local found, message, code = prompt.load(kind.name)
    if not found then
        return nil, message, code
    end
    local problem = problem_in(found, kind.machine.prompt_names)
    if problem then
        return nil, ("%s: %s"):format(prompt.find(kind.name).path, problem), "BAD_PROMPT"
    end
    local by_name = {}
    for name, option in pairs(kind.machine.prompt_names) do
        local own = opts[option]
        if own == nil and opts.prompts then
            own = opts.prompts[name]
        end
        by_name[name] = own == nil and found[name] or own
    end
    return by_name
end

return prompts
