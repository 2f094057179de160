--- Documents what a module exports from others, such as `stats.wilson` from
--- ponder.stats.proportions and `tot.parse_thoughts` from ponder.parse.

local comments = require "ponder.report.doc.comments"
local options = require "ponder.options"

local exports = {}

local function load(module)
    local ok, library = pcall(require, module.module)
    return ok and type(library) == "table" and library or {}
end

-- The entries of all exported functions, by function.
local function by_function(modules)
    local entries = {}
    for _, module in ipairs(modules) do
        local library = load(module)
        for _, entry in ipairs(module.entries) do
            local own = entry.exported and entry.name:sub(1, #module.name + 1) == module.name .. "."
            local f = own and library[entry.name:sub(#module.name + 2)]
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
---@param modules table[] of ponder.report.doc.comments
---@param names string[]
function exports.add(modules, names)
    local entries = by_function(modules)
    for _, module in ipairs(modules) do
        local known = {}
        for _, entry in ipairs(module.entries) do
            known[entry.name] = true
        end
        local library = options.has(names, module.name) and load(module) or {}
        for _, name in ipairs(options.names(library)) do
            local entry = entries[library[name]]
            if entry and not known[module.name .. "." .. name] then
                table.insert(module.entries, renamed(entry, module, name))
            end
        end
    end
end

return exports
