--- Makes stubs for lua-language-server: each module's comments, and its functions without bodies.

local comments = require "comments"

-- Declares a function that has no `function OWNER.NAME` line in the code.
local function declaration(entry, variable)
    if entry.code:find("^[%w_.]+ = ") then
        return ("function %s(%s) end"):format(entry.code:match("^[%w_.]+"),
            comments.parameters(entry))
    elseif entry.exported then
        local params, field = entry.code:match("%b()") or "()", entry.name:match("([%w_]+)$")
        local shape = entry.code:find("^return") and "%s = function%s end"
            or "function %s." .. field .. "%s end"
        return shape:format(variable, params)
    end
end

-- The text of a stub: the module's table, its exports, and all classes.
local function text_of(module)
    local variable = module.variable or "module"
    local out = { "---@meta " .. module.module, "" }
    local function add(entry, code)
        for _, line in ipairs(entry.lines) do
            out[#out + 1] = "---" .. (line == "" and "" or " " .. line)
        end
        out[#out + 1] = code
        out[#out + 1] = ""
    end
    if module.header then
        add(module.header, "")
    end
    out[#out + 1] = ("local %s = {}\n"):format(variable)
    local declared = { [variable] = true }
    for _, entry in ipairs(module.entries) do
        local object = entry.code:match("^local ([%w_]+) = ")
        local owner = entry.code:match("^function ([%w_]+)[.:]")
        if entry.kind == "class" and object then
            declared[object] = true
            add(entry, ("local %s = {}"):format(object))
        elseif entry.kind == "class" or entry.kind == "alias" then
            add(entry, "")
        elseif entry.kind == "function" and owner and entry.exported then
            if not declared[owner] then
                declared[owner] = true
                out[#out + 1] = ("local %s = {}"):format(owner)
            end
            add(entry, entry.code:match("^function [%w_.:]+%b()") .. " end")
        elseif entry.kind == "function" and declaration(entry, variable) then
            add(entry, declaration(entry, variable))
        end
    end
    out[#out + 1] = "return " .. variable
    return table.concat(out, "\n") .. "\n"
end

---The stubs of all modules.
---@param modules table[] of comments.read
---@return table<string, string> text by path: "ponder/search.lua"
return function(modules)
    local stubs = {}
    for _, module in ipairs(modules) do
        stubs[module.module:gsub("%.", "/") .. ".lua"] = text_of(module)
    end
    return stubs
end
