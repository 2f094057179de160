--- Finds the built-in prompt tables, and ponder's files that are not modules.
---
--- In a checkout the prompts are in prompts/, beside lua/; in an installed library, in
--- ponder/prompts/; in the executable they are the modules `prompts.NAME`. `ponder.prompt` finds
--- the files that a user puts in their place.

local builtin = {}

-- The built-in strategies: modules ponder.strategy.NAME, with machines ponder.NAME (cot has none).
-- The only list of them.
builtin.strategies = { "cot", "got", "tot", "trm" }

local module, file = ...

-- The checkout's directory, if `require` found this very file there; the working directory is not
-- searched.
local found = type(file) == "string" and package.searchpath(module, package.path) == file
local checkout = found and file:match("^(.*)lua[/\\]ponder[/\\]base[/\\]builtin%.lua$")
-- Where ponder's Lua files are, in a checkout or not.
local modules = found and file:match("^(.*)ponder[/\\]base[/\\]builtin%.lua$")
-- Where prompts/ and scripts/ are; nil in the executable.
local directory = checkout or modules and modules .. "ponder/" or nil

local loaded = {}

-- The text of a file below `base`, or of the embedded one.
local function text_of(base, path, embedded)
    local opened <close> = base and io.open(base .. path, "rb") or nil
    if opened then
        return opened:read "a"
    end
    local ok, host = pcall(require, "ponder.core.host")
    return ok and host.embedded(embedded or path) or nil
end

---The table of built-in prompt functions of one machine; the same table each time.
---@param name string `"tot"`, `"got"`, `"trm"`
---@return table<string, function>
function builtin.prompts(name)
    if loaded[name] == nil then
        local path = ("prompts/%s.lua"):format(name)
        local text = name:find "^[%a_]+$" and text_of(directory, path)
        if not text then
            error(("no built-in prompts named %q"):format(name), 0)
        end
        path = (directory or "") .. path
        loaded[name] = assert(load(text, "@" .. path, "t"))("prompts." .. name, path)
    end
    return loaded[name]
end

---The text of the file that holds the prompts.
function builtin.text(name)
    return text_of(directory, ("prompts/%s.lua"):format(name))
end

---A search policy of scripts/policies.
---@param name string `"pareto"`
function builtin.policy(name)
    local path = ("scripts/policies/%s.lua"):format(name)
    return assert(load(text_of(directory, path), "@" .. path, "t"))()
end

---The names of the executable's prompt files, sorted.
function builtin.prompt_names()
    local names = {}
    for _, path in ipairs(require("ponder.core.host").embedded_names()) do
        names[#names + 1] = path:match "^prompts/([%w_]+)%.lua$"
    end
    table.sort(names)
    return names
end

---The text of a file among ponder's Lua files that is not a module.
---@param name string such as `"ponder/show/page/page.css"`
function builtin.file(name)
    return text_of(modules, name, "lua/" .. name)
        or error(("no built-in file named %q"):format(name), 2)
end

return builtin
