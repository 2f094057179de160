--- Finds and loads prompt files: Lua files that return prompt functions, one for each strategy.
---
---     local prompt = require "ponder.prompt"
---     local prompts = prompt.load("tot")                 -- the user's, or the built-in ones
---     local machine = tot.new { prompts = prompts }
---
--- A file `NAME.lua` in one of these directories overrides the built-in prompts; the first one
--- found counts. It is re-read on every run.
---
--- 1. the directories given to `prompt.add` (as `ponder --prompts DIR` does), the last one first;
--- 2. `$PONDER_PROMPTS`;
--- 3. `./prompts`, if the user trusts its current contents (`ponder trust ./prompts`).
---
--- Directory and file must belong to the caller or root, and only their owner may have write
--- permission. The file runs with Lua's pure library (ponder.base.pure); its arguments are its
--- module name and its path. A text in place of a function is a template (ponder.template) of one
--- message of the user, with the fields of the context. To change one function, a file can take the
--- others from `require "prompts.NAME"`. A notice on standard error names prompt files in use.
---
--- A prompt of the user's is sent as written, and its replies are read as prose or JSON. Models are
--- held to the schema of a reply only where the built-in prompt asks for it.

local builtin = require "ponder.base.builtin"
local files = require "ponder.run.log.files"
local directories = require "ponder.core.directory"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local pure = require "ponder.base.pure"
local read_file = require("ponder.base.file").read
local template = require "ponder.template"
local trust = require "ponder.think.prompt.trust"

local prompt = {}

local LOCAL_DIRECTORY = "./prompts"
local MAX_NAMES = 8 -- in a notice
local added = {}
local sources = setmetatable({}, { __mode = "k" }) -- by function: the template that it fills in

local function check_string(where, what, value)
    if type(value) ~= "string" or value == "" then
        error(("%s: %s must be a non-empty string (got %s)")
            :format(where, what, options.show(value)), 3)
    end
end

---Why the user's directory of prompt files cannot be used.
---@param directory string
---@return string? problem nil: it can, or the texts are those of a log
---@package
function prompt.problem(directory)
    local problem = not files.is_offline() and trust.problem(directory, "directory", true)
    return problem and ("%s; ponder prompts eject --to DIR makes one"):format(problem) or nil
end

---Searches `directory` for prompt files before all others.
---@param directory string
---@package
function prompt.add(directory)
    check_string("prompt.add", "directory", directory)
    table.insert(added, 1, directory)
end

---The directories that the user named, in search order.
---@return string[]
---@package
function prompt.directories()
    local list = table.move(added, 1, #added, 1, {})
    local from_environment = os.getenv("PONDER_PROMPTS")
    if from_environment and from_environment ~= "" then
        list[#list + 1] = from_environment
    end
    return list
end

-------------------------------------------------------------------------------
-- Which file

-- Whether the file equals the built-in one, as in ponder's own repository.
local function is_built_in(name, path)
    local ok, text = pcall(builtin.text, name)
    return ok and read_file(path) == text
end

---@class ponder.prompt.Found where prompts come from
---@field path string? the file; nil: they are built in
---@field problem string? why the file cannot be used
---@field unused string? why the file in ./prompts is not used
---@field hash string? SHA-256 of the trusted text

---Finds the file that overrides the built-in prompts of that name. Runs nothing.
---@param name string `"tot"`
---@return ponder.prompt.Found
function prompt.find(name)
    check_string("prompt.find", "name", name)
    if name:find("[^%w_-]") then
        return {}
    end
    for _, directory in ipairs(prompt.directories()) do
        local path = ("%s/%s.lua"):format(directory, name)
        local exists = files.exists(path)
        local problem = not files.is_recorded(path, "prompts") and not files.is_offline()
            and (trust.problem(directory, "directory", true)
                or exists and trust.problem(path, "file", true))
        if exists or problem then
            return { path = exists and path or directory, problem = problem or nil }
        end
    end
    local path = ("%s/%s.lua"):format(LOCAL_DIRECTORY, name)
    if files.is_recorded(path, "prompts") then
        return { path = path }
    elseif not files.exists(path) then
        return {}
    end
    local contents, why = trust.check(LOCAL_DIRECTORY)
    if not contents then
        return { unused = not is_built_in(name, path) and why or nil }
    end
    return { path = path, hash = contents.hashes[name .. ".lua"] }
end

-- Warns that a directory has no such file: one that was added for this run, or the one in the
-- environment if it has no Lua file at all.
local function warn_of_missing(name)
    for i, directory in ipairs(files.is_offline() and {} or prompt.directories()) do
        local names = {}
        for _, file in ipairs(directories.files(directory) or {}) do
            names[#names + 1] = file.name:match "^[^.].*%.lua$"
        end
        table.sort(names)
        if i <= #added or not names[1] then
            notice.once(("%s has no %s.lua (%s)"):format(directory, name, names[1]
                and "it has " .. table.concat(names, ", ", 1, math.min(#names, MAX_NAMES))
                or "nor any other Lua file"))
        end
    end
end

-------------------------------------------------------------------------------
-- Loading

-- A copy without metatable, which could run code whenever the table is read. A text becomes a
-- function that fills it in.
local function plain(prompts, path)
    local fields = {}
    for field, value in next, prompts do
        if type(field) == "string" and type(value) == "string" then
            local source, render = value, template.compile(value, ("%s: %s"):format(path, field))
            value = function(context)
                return { { role = "user", content = render(context) } }
            end
            sources[value] = source
        end
        if type(field) == "string" then
            fields[field] = value
        end
    end
    return fields
end

local function run(name, path, hash)
    local text, problem = files.read(path, "prompts", hash)
    if not text then
        return nil, problem
    end
    local chunk, message = pure.load(text, "@" .. path)
    if not chunk then
        return nil, message
    end
    local ok, prompts = pure.call(chunk, "prompts." .. name, path)
    if not ok then
        return nil, type(prompts) == "string" and prompts
            or ("%s: raised %s"):format(path, options.show(prompts))
    elseif type(prompts) ~= "table" then
        return nil, ("%s: must return a table of prompt functions (got %s)")
            :format(path, options.show(prompts))
    end
    local is_read, fields = pcall(plain, prompts, path)
    return is_read and fields or nil, not is_read and fields or nil
end

---The template of a prompt function that was a text in its file.
---@param f function
---@return string? nil: it was a function
---@package
function prompt.template_of(f)
    return sources[f]
end

---Loads the prompt functions of a strategy.
---@param name string `"tot"`, `"got"`, `"trm"`
---@param own? table<string, function> the prompts of a strategy that is not built in
---@return table<string, function>? prompts
---@return string? message why the file cannot be used; begins with file and line
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function prompt.load(name, own)
    check_string("prompt.load", "name", name)
    local found = prompt.find(name)
    if found.problem then
        return nil, found.problem, "BAD_PROMPT"
    elseif found.path then
        local prompts, problem = run(name, found.path, found.hash)
        if not prompts then
            return nil, problem, "BAD_PROMPT"
        end
        notice.once(found.path .. " overrides the built-in prompts")
        return prompts
    end
    local ok, prompts = own ~= nil, own
    if not own then
        ok, prompts = pcall(builtin.prompts, name)
    end
    if not ok then
        return nil, prompts, "NO_PROMPT"
    elseif found.unused then
        notice.once(("%s/%s.lua is not used (%s); to use it: ponder trust %s"):format(
            LOCAL_DIRECTORY, name, found.unused, LOCAL_DIRECTORY))
    end
    warn_of_missing(name)
    if not own then
        files.note_built_in(name)
    end
    return prompts
end

return prompt
