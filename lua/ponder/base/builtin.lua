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

-- Opens one of the files there.
local function open(path)
    return directory and io.open(directory .. path, "rb") or nil
end

-- The text of one of them.
local function text_of(path)
    local opened <close> = open(path)
    return opened and opened:read "a" or require("ponder.core.host").embedded(path)
end

local function find_loader(name)
    local path = ("prompts/%s.lua"):format(name)
    local opened = open(path)
    if opened then
        opened:close()
        return assert(loadfile(directory .. path, "t")), directory .. path
    end
    local wanted = "prompts." .. name
    for _, searcher in ipairs(package.searchers) do
        local loader, place = searcher(wanted)
        if type(loader) == "function" then
            return loader, place
        end
    end
    error(("no built-in prompts named %q"):format(name), 0)
end

---The table of built-in prompt functions of one machine; the same table each time.
---@param name string `"tot"`, `"got"`, `"trm"`
---@return table<string, function>
function builtin.prompts(name)
    if loaded[name] == nil then
        if not name:find("^[%a_]+$") then
            error(("no built-in prompts named %q"):format(name), 0)
        end
        local loader, place = find_loader(name)
        loaded[name] = loader("prompts." .. name, place)
    end
    return loaded[name]
end

---The text of the file that holds the prompts.
function builtin.text(name)
    return text_of(("prompts/%s.lua"):format(name))
end

---A search policy of scripts/policies.
---@param name string `"pareto"`
function builtin.policy(name)
    local path = ("scripts/policies/%s.lua"):format(name)
    return assert(load(text_of(path), "@" .. path, "t"))()
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
    local opened <close> = modules and io.open(modules .. name, "rb") or nil
    local text = opened and opened:read("a")
    if not text then
        local ok, host = pcall(require, "ponder.core.host")
        text = ok and host.embedded("lua/" .. name)
    end
    return text or error(("no built-in file named %q"):format(name), 2)
end

return builtin
