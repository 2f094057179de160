--- Documents the options of the built-in strategies from their tables of options, as the flags of
--- `ponder tot` are; no doc comment repeats them.

local comments = require "ponder.report.doc.comments"
local strategy = require "ponder.strategy"

local strategies = {}

local function type_of(option)
    if option.enum then
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

---Adds `new` and its options to the modules of the strategies.
---@param modules table[] of ponder.report.doc.comments
function strategies.add(modules)
    local by_name = {}
    for _, module in ipairs(modules) do
        by_name[module.name] = module
    end
    for _, name in ipairs(strategy.names) do
        local module = by_name["strategy." .. name]
        local class = ("ponder.strategy.%s.Options"):format(name)
        local lines = { "@class " .. class }
        for _, option in ipairs(require("ponder.strategy." .. name).options()) do
            lines[#lines + 1] = ("@field %s? %s %s"):format(option.alias or option.name,
                type_of(option),
                about(option))
        end
        module.variable = name
        comments.add(module, lines, "")
        comments.add(module, { "A strategy, which `strategy:run(question)` runs.",
            "@param opts? " .. class .. " mistakes raise an error",
            "@return ponder.strategy.Strategy strategy" }, ("function %s.new(opts)"):format(name))
    end
end

return strategies
